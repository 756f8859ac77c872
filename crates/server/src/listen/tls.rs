//! TLS: the serving certificate, its renewal without a restart, and the rules for client certificates.
//!
//! The certificate is issued by the server's own CA ([`crate::identity::authority`]) or read from files. It is
//! behind an `ArcSwap`, so a handshake never waits for a renewal and open connections keep the one they began with. A
//! renewal that fails keeps the last valid certificate.
//!
//! Client certificates are accepted here without verifying who signed them, as in kube-apiserver: authentication
//! (`auth/x509.rs`) verifies the chain, so that a certificate of an unknown CA ends in a 401 rather than in a failed
//! handshake. Possession of the key is verified here.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use jiff::Timestamp;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::identity::authority::{Authority, Issued, RENEW_BEFORE, VALIDITY};
use crate::{Error, files};

/// The interval at which files are read again and the age of a certificate is checked.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// The TLS acceptor of a listener. Clones share the certificate: [`Tls::renew`] runs with one clone while connections
/// use another.
#[derive(Clone)]
pub(crate) struct Tls {
    pub(crate) acceptor: TlsAcceptor,
    /// The certificate that handshakes resolve to, shared with the renewal.
    shown: Arc<CurrentCertificate>,
}

/// The source of the serving certificate. It is read again by [`Tls::renew`]: on age for issued ones, every
/// [`LOOK_EVERY`] for files.
#[derive(Debug)]
pub(crate) enum CertificateSource {
    /// Issued by our own CA for these names.
    Issued(Authority, Vec<String>),
    /// Files that an external program renews.
    Files {
        /// The chain, the server's own first.
        certificate: PathBuf,
        /// Its key.
        key: PathBuf,
    },
}

impl CertificateSource {
    /// Issues a certificate, or reads the files as they are now.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, or a CA that cannot sign.
    fn get(&self) -> Result<Issued, Error> {
        match self {
            Self::Issued(authority, names) => authority.serving(names),
            Self::Files { certificate, key } => {
                Ok(Issued { certificate: files::read(certificate)?, key: files::read(key)? })
            }
        }
    }
}

/// The certificate that handshakes present, replaced when it is renewed.
#[derive(Debug)]
struct CurrentCertificate(ArcSwap<CertifiedKey>);

impl ResolvesServerCert for CurrentCertificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load_full())
    }
}

/// Accepts any client certificate or none. The authenticator verifies the chain, so that one of an unknown CA ends in
/// a 401 instead of a failed handshake; possession of the key is verified here.
#[derive(Debug)]
struct AnyClientCertificate(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for AnyClientCertificate {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn verify_client_cert(
        &self,
        _own: &CertificateDer<'_>,
        _rest: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

impl Tls {
    /// Shows the certificate that the source has now; [`Tls::renew`] replaces it. `clients` names the CAs that clients choose
    /// their certificate by, and verifies handshake signatures.
    pub(crate) fn new(
        source: &CertificateSource,
        clients: Arc<dyn ClientCertVerifier>,
    ) -> Result<Self, Error> {
        let shown = Arc::new(CurrentCertificate(ArcSwap::from_pointee(certified(&source.get()?)?)));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(tls)?
            .with_client_cert_verifier(Arc::new(AnyClientCertificate(clients)))
            .with_cert_resolver(Arc::<CurrentCertificate>::clone(&shown));
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), shown })
    }

    /// Renews the certificate before it ends, or reads files again that changed, without a restart.
    pub(crate) async fn renew(self, source: CertificateSource, stop: CancellationToken) {
        let due = VALIDITY.saturating_sub(RENEW_BEFORE);
        // Both clocks: only the wall clock advances while a machine is suspended, and only the other one is monotonic.
        let mut issued = (Timestamp::now(), Instant::now());
        let mut last = None;
        loop {
            tokio::select! {
                () = tokio::time::sleep(LOOK_EVERY) => {}
                () = stop.cancelled() => return,
            }
            let age = Timestamp::now().duration_since(issued.0).unsigned_abs().max(issued.1.elapsed());
            if matches!(source, CertificateSource::Issued(..)) && age < due {
                continue;
            }
            match source.get().and_then(|next| Ok((certified(&next)?, next.certificate))) {
                Ok((next, text)) if last.as_ref() != Some(&text) => {
                    self.shown.0.store(Arc::new(next));
                    (last, issued) = (Some(text), (Timestamp::now(), Instant::now()));
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(%error, "the serving certificate cannot be renewed; the last one stays in use")
                }
            }
        }
    }
}

/// Parses certificate and key into the form that handshakes use.
///
/// # Errors
///
/// PEM that cannot be parsed, a key that does not fit the certificate, or no certificate at all.
fn certified(issued: &Issued) -> Result<CertifiedKey, Error> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(issued.certificate.as_bytes()).collect();
    let key = PrivateKeyDer::from_pem_slice(issued.key.as_bytes()).map_err(tls)?;
    let provider = rustls::crypto::ring::default_provider();
    let certified = CertifiedKey::from_der(chain.map_err(tls)?, key, &provider).map_err(tls)?;
    if certified.cert.is_empty() {
        return Err(Error::Tls("there is no certificate in the file".to_owned()));
    }
    Ok(certified)
}

fn tls(error: impl std::fmt::Display) -> Error {
    Error::Tls(error.to_string())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rustls::server::WebPkiClientVerifier;

    use super::*;
    use crate::identity::secrets::SecretStore;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    async fn authority() -> Authority {
        Authority::load_or_make(&SecretStore::Process).await.unwrap()
    }

    fn shown(tls: &Tls) -> CertificateDer<'static> {
        tls.shown.0.load().cert.first().unwrap().clone()
    }

    fn tls(source: &CertificateSource) -> Tls {
        Tls::new(source, WebPkiClientVerifier::no_client_auth()).unwrap()
    }

    /// Advances the paused clock, and lets the renewing task run.
    async fn pass(time: Duration) {
        tokio::time::advance(time).await;
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    }

    /// A server that ran for a year showed a certificate that had ended.
    #[tokio::test(start_paused = true)]
    async fn a_certificate_is_renewed_before_it_ends() {
        let ours = authority().await;
        let source = CertificateSource::Issued(ours, vec!["localhost".to_owned()]);
        let tls = tls(&source);
        let first = shown(&tls);
        let stop = CancellationToken::new();
        let task = tokio::spawn(tls.clone().renew(source, stop.clone()));
        pass(LOOK_EVERY).await;
        pass(334 * DAY).await;
        assert_eq!(shown(&tls), first, "more than thirty days are left");
        pass(DAY).await;
        let second = shown(&tls);
        assert_ne!(second, first);
        pass(334 * DAY).await;
        assert_eq!(shown(&tls), second);
        stop.cancel();
        task.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn files_that_change_are_read_again_and_broken_ones_are_not_shown() {
        let directory = tempfile::tempdir().unwrap();
        let (certificate, key) = (directory.path().join("tls.crt"), directory.path().join("tls.key"));
        let ours = authority().await;
        let write = |issued: &Issued| {
            fs::write(&certificate, &issued.certificate).unwrap();
            fs::write(&key, &issued.key).unwrap();
        };
        write(&ours.serving(&["one".to_owned()]).unwrap());
        let source = CertificateSource::Files { certificate: certificate.clone(), key: key.clone() };
        let tls = tls(&source);
        let first = shown(&tls);
        let task = tokio::spawn(tls.clone().renew(source, CancellationToken::new()));
        pass(LOOK_EVERY).await;
        assert_eq!(shown(&tls), first);
        write(&ours.serving(&["two".to_owned()]).unwrap());
        pass(LOOK_EVERY).await;
        let second = shown(&tls);
        assert_ne!(second, first);
        // An incomplete or invalid change leaves the previous certificate in use.
        fs::write(&key, ours.serving(&["three".to_owned()]).unwrap().key).unwrap();
        pass(LOOK_EVERY).await;
        fs::write(&certificate, "nonsense").unwrap();
        pass(LOOK_EVERY).await;
        fs::remove_file(&key).unwrap();
        pass(LOOK_EVERY).await;
        assert_eq!(shown(&tls), second, "the last good one stays");
        task.abort();
    }
}
