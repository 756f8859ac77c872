//! Verification of the certificates of webhooks, issuers and extension API servers, and the client certificate shown
//! to the latter.
//!
//! A `caBundle` replaces the system's roots, as in kube-apiserver. Beyond the usual verification a certificate that
//! is itself in the bundle is accepted, by whomever it is signed, even if it is a CA certificate: webhooks under test
//! often serve a self-signed one, envtest puts the certificate of its server into the bundle in place of its CA, and Go
//! accepts both. Its name and its dates are still verified. `insecureSkipTLSVerify` of an APIService accepts any
//! certificate; webhooks have no such option. The peer's possession of its key is always verified. The server side of
//! TLS is `listen/tls.rs`.

use std::sync::{Arc, Weak};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

/// The configuration with the system's roots, while something uses it. There may be tens of thousands of webhooks, and the roots
/// take 300 KB and milliseconds to read.
static SYSTEM: Mutex<Weak<ClientConfig>> = Mutex::new(Weak::new());

/// TLS sessions that a webhook's configuration keeps: one server's.
const SESSIONS: usize = 8;

/// Returns the configuration that trusts a bundle of PEM certificates, or the system's if it is empty.
///
/// # Errors
/// If the bundle has no certificate that can be used.
pub(crate) fn client_config(bundle: &[u8]) -> Result<Arc<ClientConfig>, String> {
    if !bundle.is_empty() {
        return small_config(bundle);
    }
    let mut system = SYSTEM.lock();
    if let Some(shared) = system.upgrade() {
        return Ok(shared);
    }
    let shared = small_config(bundle)?;
    *system = Arc::downgrade(&shared);
    Ok(shared)
}

/// A configuration with room for the sessions of one server, as there is one for each webhook.
fn small_config(bundle: &[u8]) -> Result<Arc<ClientConfig>, String> {
    let mut config = config(verified(bundle)?, None)?;
    if let Some(config) = Arc::get_mut(&mut config) {
        config.resumption = Resumption::in_memory_sessions(SESSIONS);
    }
    Ok(config)
}

/// Returns a configuration that also shows a client certificate: its chain and its key, in PEM.
///
/// # Errors
/// The bundle, the chain or the key cannot be used.
pub(crate) fn client_config_as(
    bundle: &[u8],
    identity: Option<(&str, &str)>,
) -> Result<Arc<ClientConfig>, String> {
    let identity = identity.map(|(chain, key)| FrontProxyIdentity::read(chain, key)).transpose()?;
    config(verified(bundle)?, identity.as_ref())
}

/// Returns a configuration that accepts any certificate, and may show one: its chain and its key, in PEM.
///
/// # Errors
/// The chain or the key cannot be used.
pub(crate) fn unverified_config(identity: Option<(&str, &str)>) -> Result<Arc<ClientConfig>, String> {
    let identity = identity.map(|(chain, key)| FrontProxyIdentity::read(chain, key)).transpose()?;
    config(Accepted::Any, identity.as_ref())
}

/// The certificate and key that this server shows to extension API servers. They trust the `X-Remote-*` headers of
/// its holder.
#[derive(Debug)]
pub(crate) struct FrontProxyIdentity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl FrontProxyIdentity {
    /// Reads a certificate and its key from PEM.
    ///
    /// # Errors
    /// If they cannot be read.
    pub(crate) fn read(certificate: &str, key: &str) -> Result<Self, String> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate.as_bytes()).collect();
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|error| error.to_string())?;
        Ok(Self { chain: chain.map_err(|error| error.to_string())?, key })
    }
}

/// The verification of an extension API server, and the certificate it is shown.
#[derive(Debug)]
pub(crate) struct Trust<'a> {
    /// The CA bundle in PEM and base64; the system's if empty.
    pub(crate) bundle: &'a str,
    /// Any certificate is accepted.
    pub(crate) insecure: bool,
    pub(crate) identity: Option<&'a FrontProxyIdentity>,
}

impl Trust<'_> {
    /// Returns the configuration.
    ///
    /// # Errors
    /// If the bundle has no certificate that can be used.
    pub(crate) fn config(&self) -> Result<Arc<ClientConfig>, String> {
        let pem = STANDARD.decode(self.bundle).map_err(|error| error.to_string())?;
        let accepted = if self.insecure { Accepted::Any } else { verified(&pem)? };
        config(accepted, self.identity)
    }
}

/// `ring`, explicitly, so that no default of the process decides.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Protocol versions are TLS 1.2 and 1.3.
fn config(accepted: Accepted, identity: Option<&FrontProxyIdentity>) -> Result<Arc<ClientConfig>, String> {
    let provider = provider();
    let verifier = Arc::new(Verifier { accepted, provider: Arc::clone(&provider) });
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let config = match identity {
        None => config.with_no_client_auth(),
        Some(own) => config
            .with_client_auth_cert(own.chain.clone(), own.key.clone_key())
            .map_err(|error| error.to_string())?,
    };
    Ok(Arc::new(config))
}

/// Returns the reason why nothing can be verified by a `caBundle`, as sent in base64; an empty one means the system's roots.
pub(crate) fn bundle_problem(encoded: &str) -> Option<String> {
    if encoded.is_empty() {
        return None;
    }
    match STANDARD.decode(encoded) {
        Ok(pem) if !pem.is_empty() => verified(&pem).err(),
        _ => None,
    }
}

/// Trusts the certificates of a bundle, or the system's.
///
/// # Errors
/// There is no certificate that can be used.
fn verified(bundle: &[u8]) -> Result<Accepted, String> {
    let certificates: Vec<CertificateDer<'static>> = if bundle.is_empty() {
        rustls_native_certs::load_native_certs().certs
    } else {
        CertificateDer::pem_slice_iter(bundle).filter_map(Result::ok).collect()
    };
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates.iter().cloned());
    if roots.is_empty() {
        return Err("unable to load root certificates: unable to parse bytes as PEM block".to_owned());
    }
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider()).build();
    let verifier = verifier.map_err(|error| error.to_string())?;
    Ok(Accepted::Verified { verifier, bundle: certificates })
}

/// The most certificates that a server may send with its own: the search for a path among a hundred takes seconds.
const INTERMEDIATES: usize = 10;

/// The certificates that are accepted.
#[derive(Debug)]
enum Accepted {
    /// Any, where an APIService asks for that, and of kubelets without a CA.
    Any,
    /// Certificates that verify as usual, and those that are in the bundle themselves.
    Verified { verifier: Arc<WebPkiServerVerifier>, bundle: Vec<CertificateDer<'static>> },
}

/// Decides about the certificate by [`Accepted`]. That the peer has its key is always verified.
#[derive(Debug)]
struct Verifier {
    accepted: Accepted,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    /// A certificate of the bundle itself is accepted after its name was verified, see the head of this file.
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Accepted::Verified { verifier, bundle } = &self.accepted else {
            return Ok(ServerCertVerified::assertion());
        };
        if intermediates.len() > INTERMEDIATES {
            return Err(Error::InvalidCertificate(CertificateError::UnknownIssuer));
        }
        match verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            Err(_) if bundle.iter().any(|trusted| trusted.as_ref() == end_entity.as_ref()) => {
                verify_dates(end_entity, now)?;
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Fails if a certificate is not valid now.
fn verify_dates(certificate: &CertificateDer<'_>, now: UnixTime) -> Result<(), Error> {
    let (_, parsed) = X509Certificate::from_der(certificate)
        .map_err(|_| Error::InvalidCertificate(CertificateError::BadEncoding))?;
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    let validity = parsed.validity();
    if now < validity.not_before.timestamp() {
        return Err(Error::InvalidCertificate(CertificateError::NotValidYet));
    }
    if now > validity.not_after.timestamp() {
        return Err(Error::InvalidCertificate(CertificateError::Expired));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};

    use super::*;

    /// A certificate for 127.0.0.1, signed by a CA that is in no bundle.
    fn signed(until: i32) -> rcgen::Certificate {
        let mut ca = CertificateParams::default();
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = Issuer::new(ca, KeyPair::generate().unwrap());
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        params.not_after = date_time_ymd(until, 1, 1);
        params.signed_by(&KeyPair::generate().unwrap(), &issuer).unwrap()
    }

    fn verify(bundle: &rcgen::Certificate, shown: &rcgen::Certificate, name: &str) -> Result<(), Error> {
        let accepted = verified(bundle.pem().as_bytes()).unwrap();
        let verifier = Verifier { accepted, provider: provider() };
        let name = ServerName::try_from(name.to_owned()).unwrap();
        verifier.verify_server_cert(shown.der(), &[], &name, &[], UnixTime::now()).map(drop)
    }

    /// A webhook could keep a processor busy for seconds at each call.
    /// 9,000 webhooks took 2.5 GB and 19 s of a processor.
    #[test]
    fn webhooks_without_a_bundle_share_the_roots_of_the_system() {
        let (Ok(one), Ok(other)) = (client_config(b""), client_config(b"")) else { return };
        assert!(Arc::ptr_eq(&one, &other));
    }

    #[test]
    fn a_path_is_searched_among_a_few_certificates() {
        let own = signed(2999);
        let verifier = Verifier { accepted: verified(own.pem().as_bytes()).unwrap(), provider: provider() };
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let with = |number: usize| {
            let others = vec![signed(2999).der().clone(); number];
            verifier.verify_server_cert(own.der(), &others, &name, &[], UnixTime::now()).is_ok()
        };
        assert!(with(INTERMEDIATES) && !with(INTERMEDIATES + 1));
    }

    /// envtest's bundle is the certificate of its webhook server, without the CA: no operator could be tested with it.
    #[test]
    fn a_certificate_in_the_bundle_needs_no_issuer_but_a_name_and_dates() {
        let (good, other, old) = (signed(2999), signed(2999), signed(2001));
        assert_eq!(verify(&good, &good, "127.0.0.1"), Ok(()));
        assert!(verify(&good, &good, "127.0.0.2").is_err());
        assert!(verify(&good, &other, "127.0.0.1").is_err());
        assert!(verify(&old, &old, "127.0.0.1").is_err());
    }
}
