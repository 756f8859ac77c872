//! [`ServerCredentials`]: the certificates, keys and tokens of a server, read from files or made and kept by it.
//!
//! They are loaded once, before anything is served. What each of them is for is said where it is used: [`crate::listen::tls`],
//! [`crate::auth`], [`crate::outbound`]. Where the server keeps its own is [`crate::identity::secrets`].

use std::net::SocketAddr;
use std::sync::Arc;

use listwatch_storage::Engine;

use super::nodes;
use super::parts::{admin_token, token_keys};
use crate::allocate::services::KUBERNETES_ADDRESS;
use crate::api::NodeConnections;
use crate::auth::x509::ClientCertificates;
use crate::auth::{MASTERS, SigningKey, Token, VerifyingKey};
use crate::identity::addresses;
use crate::identity::authority::{Authority, Issued};
use crate::identity::secrets::SecretStore;
use crate::lifecycle::first_objects;
use crate::listen::tls::CertificateSource;
use crate::options::{Options, Security};
use crate::outbound::tls::FrontProxyIdentity;
use crate::{Error, files};

/// The name of the administrator that a server makes.
pub(super) const ADMIN: &str = "kubernetes-admin";

/// The credentials of a server.
pub(super) struct ServerCredentials {
    /// The administrator's token, and a client certificate that is issued at each start.
    pub(super) admin: (Token, Issued),
    /// The client of kubelets.
    pub(super) nodes: NodeConnections,
    /// The client of extension API servers.
    pub(super) front_proxy: FrontProxyIdentity,
    /// The CAs that extension API servers trust.
    pub(super) trusted: first_objects::Authorities,
    /// The CAs of client certificates.
    pub(super) clients: ClientCertificates,
    /// The serving certificate and its CA; `None` for plain HTTP.
    pub(super) serving: Option<(CertificateSource, String)>,
    /// The key that signs tokens of service accounts, and those that signed before.
    pub(super) token_keys: (SigningKey, Vec<VerifyingKey>),
}

impl ServerCredentials {
    /// Loads the credentials of a server that listens on `address`.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or used, or a store that cannot keep what was made.
    pub(super) async fn load(
        options: &Options,
        engine: &Arc<dyn Engine>,
        address: SocketAddr,
    ) -> Result<Self, Error> {
        let secrets = SecretStore::new(options, engine);
        let authority = Authority::load_or_make(&secrets).await?;
        let admin = (admin_token(&secrets).await?, authority.client(ADMIN, MASTERS)?);
        let front_proxy = Authority::front_proxy(&secrets).await?;
        Ok(Self {
            admin,
            nodes: nodes::connections(&options.nodes, &authority)?,
            front_proxy: forwarding_client(&front_proxy)?,
            trusted: first_objects::Authorities {
                clients: authority.certificate.clone(),
                front_proxy: front_proxy.certificate,
            },
            clients: client_certificates(options, &authority)?,
            serving: serving(options, authority, address)?,
            token_keys: token_keys(options, &secrets).await?,
        })
    }
}

/// The client certificate by which extension API servers know that a request was forwarded by this server.
fn forwarding_client(front_proxy: &Authority) -> Result<FrontProxyIdentity, Error> {
    let issued = front_proxy.client(first_objects::FRONT_PROXY, "")?;
    FrontProxyIdentity::read(&issued.certificate, &issued.key).map_err(Error::Tls)
}

/// Clients are known by certificates of the server's own CA, and of the one in the options.
fn client_certificates(options: &Options, authority: &Authority) -> Result<ClientCertificates, Error> {
    let other = options.identity.client_ca_file.as_deref().map(files::read).transpose()?;
    let roots: Vec<&str> =
        std::iter::once(&authority.certificate).chain(&other).map(String::as_str).collect();
    ClientCertificates::new(&roots)
}

/// The source of the serving certificate, with the CA that clients verify it by.
fn serving(
    options: &Options,
    authority: Authority,
    address: SocketAddr,
) -> Result<Option<(CertificateSource, String)>, Error> {
    Ok(match &options.security {
        Security::InsecureHttp => None,
        Security::Files { certificate, key, ca } => {
            let source = CertificateSource::Files { certificate: certificate.clone(), key: key.clone() };
            Some((source, files::read(ca)?))
        }
        Security::SelfMade { .. } => {
            let serving = &options.serving;
            let names =
                addresses::names(address, serving.advertise, KUBERNETES_ADDRESS.into(), &serving.names);
            let ca = authority.certificate.clone();
            Some((CertificateSource::Issued(authority, names), ca))
        }
    })
}
