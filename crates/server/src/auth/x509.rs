//! [`ClientCertificates`]: authentication by client certificate.
//!
//! The user name is the common name and each organization is a group, as in kube-apiserver's x509 authenticator. TLS
//! accepts any certificate (`listen/tls.rs`); the chain is verified here once per connection, and its expiry again at
//! each request, since connections live for days. There are no revocation lists, as in kube-apiserver: a certificate
//! is valid until its end.

use std::sync::Arc;

use jiff::Timestamp;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::Error;
use crate::auth::User;

/// The CAs that client certificates are verified against.
#[derive(Debug)]
#[doc(alias = "x509.Authenticator")]
pub(crate) struct ClientCertificates {
    verifier: Arc<dyn ClientCertVerifier>,
}

/// The result of verifying the certificate of a connection, kept for all of its requests.
#[derive(Clone, Debug)]
pub(crate) enum CertificateUser {
    /// The user, until the certificate expires at this second.
    User(Arc<User>, i64),
    /// Not a user: signed by an unknown CA, or outside of its validity.
    None,
}

impl CertificateUser {
    /// The user, as long as the certificate holds.
    pub(crate) fn user(&self, now: Timestamp) -> Option<&Arc<User>> {
        match self {
            Self::User(user, until) if now.as_second() <= *until => Some(user),
            _ => None,
        }
    }
}

impl ClientCertificates {
    /// Accepts certificates that these CAs (in PEM) have signed.
    ///
    /// # Errors
    ///
    /// A CA that is no certificate. No CA at all is an error of the verifier, too.
    pub(crate) fn new(authorities: &[&str]) -> Result<Self, Error> {
        let mut roots = RootCertStore::empty();
        for pem in authorities {
            for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
                roots.add(certificate.map_err(tls)?).map_err(tls)?;
            }
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        Ok(Self { verifier: verifier.allow_unauthenticated().build().map_err(tls)? })
    }

    /// The verifier of TLS handshakes. It names the CAs, by which clients choose among several certificates.
    pub(crate) fn verifier(&self) -> &Arc<dyn ClientCertVerifier> {
        &self.verifier
    }

    /// Verifies a chain of certificates, the client's own first, at the present time.
    pub(crate) fn check(&self, chain: &[CertificateDer<'_>]) -> CertificateUser {
        let Some((own, rest)) = chain.split_first() else { return CertificateUser::None };
        match self.verifier.verify_client_cert(own, rest, UnixTime::now()) {
            Ok(_) => user(own).unwrap_or(CertificateUser::None),
            Err(error) => {
                tracing::debug!(%error, "a client's certificate was not accepted");
                CertificateUser::None
            }
        }
    }
}

/// Reads user and groups from the subject; `None` if there is no common name or the text is not readable.
///
/// A name or group that is not text rejects the certificate, because a user with fewer groups than its certificate
/// says might be refused or admitted wrongly. The digest becomes the credential ID in `extra`.
fn user(certificate: &CertificateDer<'_>) -> Option<CertificateUser> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let subject = parsed.subject();
    let name = subject.iter_common_name().next()?.as_str().ok()?.to_owned();
    let groups: Result<Vec<String>, _> =
        subject.iter_organization().map(|part| part.as_str().map(str::to_owned)).collect();
    let mut groups = groups.ok()?;
    groups.push("system:authenticated".to_owned());
    let digest = ring::digest::digest(&ring::digest::SHA256, certificate);
    let digest: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let credential = format!("X509SHA256={digest}");
    let extra = [("authentication.kubernetes.io/credential-id".to_owned(), vec![credential])].into();
    let user = User { name, groups, extra, ..User::default() };
    Some(CertificateUser::User(Arc::new(user), parsed.validity().not_after.timestamp()))
}

fn tls(error: impl std::fmt::Display) -> Error {
    Error::Tls(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::authority::Authority;
    use crate::identity::secrets::SecretStore;

    async fn authority() -> Authority {
        Authority::load_or_make(&SecretStore::Process).await.unwrap()
    }

    fn chain(pem: &str) -> Vec<CertificateDer<'static>> {
        CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<_, _>>().unwrap()
    }

    #[tokio::test]
    async fn a_certificate_is_its_common_name_in_its_organizations() {
        let ours = authority().await;
        let clients = ClientCertificates::new(&[&ours.certificate]).unwrap();
        let issued = ours.client("jané", "devs").unwrap();
        let proof = clients.check(&chain(&issued.certificate));
        let user = proof.user(Timestamp::now()).unwrap();
        assert_eq!(
            (user.name.as_str(), user.groups.join(",")),
            ("jané", "devs,system:authenticated".to_owned())
        );
        assert!(proof.user(Timestamp::MAX).is_none(), "it does not hold for ever");
    }

    #[tokio::test]
    async fn strangers_and_servers_are_nobody() {
        let (ours, other) = (authority().await, authority().await);
        let clients = ClientCertificates::new(&[&ours.certificate]).unwrap();
        let stranger = other.client("admin", "system:masters").unwrap();
        let server = ours.serving(&["localhost".to_owned()]).unwrap();
        for pem in [stranger.certificate, server.certificate, String::new(), ours.certificate] {
            assert!(clients.check(&chain(&pem)).user(Timestamp::now()).is_none());
        }
    }
}
