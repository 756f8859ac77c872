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
use x509_parser::der_parser::{Oid, oid};
use x509_parser::prelude::{FromDer, X509Certificate, X509Name};

use crate::Error;
use crate::auth::User;

/// The part of a subject that is the uid of a user (`AllowParsingUserUIDFromCertAuth` in kube-apiserver).
const UID: Oid<'static> = oid!(1.3.6.1.4.1.57683.2);

/// The most certificates that a client may send with its own. Paths are searched among them, in a time that grows with the product of
/// those that could be at each step: a hundred cost seconds, before anybody is authenticated. Real clients send one or two.
const INTERMEDIATES: usize = 10;

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
    /// A CA that is not a certificate. No CA at all is an error of the verifier, too.
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
        if rest.len() > INTERMEDIATES {
            tracing::debug!(sent = rest.len(), "a client sent too many certificates");
            return CertificateUser::None;
        }
        match self.verifier.verify_client_cert(own, rest, UnixTime::now()) {
            Ok(_) => user(own).unwrap_or(CertificateUser::None),
            Err(error) => {
                tracing::debug!(%error, "a client's certificate was not accepted");
                CertificateUser::None
            }
        }
    }
}

/// Reads user, groups and uid from the subject; `None` if there is no common name or the text is not readable.
///
/// The last of several common names counts, as in Go: the approvers and signers of certificate requests read that one, and a
/// request could otherwise show them the name of a node and be a certificate of another user. A name or group that is not text
/// rejects the certificate, because a user with fewer groups than in its certificate might be refused or admitted
/// wrongly. The digest becomes the credential ID in `extra`.
fn user(certificate: &CertificateDer<'_>) -> Option<CertificateUser> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let subject = parsed.subject();
    let names: Result<Vec<&str>, _> = subject.iter_common_name().map(|part| part.as_str()).collect();
    let name = names.ok()?.pop().filter(|name| !name.is_empty())?.to_owned();
    let groups: Result<Vec<String>, _> =
        subject.iter_organization().map(|part| part.as_str().map(str::to_owned)).collect();
    let mut groups = groups.ok()?;
    groups.push("system:authenticated".to_owned());
    let digest = ring::digest::digest(&ring::digest::SHA256, certificate);
    let digest: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let credential = format!("X509SHA256={digest}");
    let extra = [("authentication.kubernetes.io/credential-id".to_owned(), vec![credential])].into();
    let user = User { name, groups, uid: uid(subject)?, extra };
    Some(CertificateUser::User(Arc::new(user), parsed.validity().not_after.timestamp()))
}

/// The uid in the subject, or an empty one; `None` if there are several, or one that is empty.
fn uid(subject: &X509Name<'_>) -> Option<String> {
    let uids: Result<Vec<&str>, _> = subject.iter_by_oid(&UID).map(|part| part.as_str()).collect();
    match *uids.ok()? {
        [] => Some(String::new()),
        [uid] if !uid.is_empty() => Some(uid.to_owned()),
        _ => None,
    }
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
    async fn a_certificate_maps_to_user_and_groups() {
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

    /// Twenty handshakes with eighty certificates each, four levels of twenty, kept both processors busy for half a minute.
    #[tokio::test]
    async fn a_path_is_searched_among_a_few_certificates() {
        let ours = authority().await;
        let clients = ClientCertificates::new(&[&ours.certificate]).unwrap();
        let own = chain(&ours.client("jane", "devs").unwrap().certificate);
        let others = chain(&authority().await.certificate);
        let with = |number: usize| {
            let sent: Vec<_> = own.iter().chain(others.iter().cycle().take(number)).cloned().collect();
            clients.check(&sent).user(Timestamp::now()).is_some()
        };
        assert!(with(INTERMEDIATES) && !with(INTERMEDIATES + 1));
    }

    /// The user of a certificate whose subject has these parts, in this order.
    fn certified(subject: &[(&[u64], &str)]) -> Option<User> {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        // The same type twice is one entry for the library, so each is given in another of its forms.
        for (number, (kind, value)) in subject.iter().enumerate() {
            let kind = match (number, *kind) {
                (0, COMMON_NAME) => rcgen::DnType::CommonName,
                (_, kind) => rcgen::DnType::CustomDnType(kind.to_vec()),
            };
            params.distinguished_name.push(kind, *value);
        }
        let proof = user(params.self_signed(&key).unwrap().der())?;
        proof.user(Timestamp::now()).map(|user| User::clone(user))
    }

    const COMMON_NAME: &[u64] = &[2, 5, 4, 3];
    const USER_ID: &[u64] = &[1, 3, 6, 1, 4, 1, 57683, 2];

    /// The first name counted. A kubelet's request for a certificate with two names was approved and signed for the last one,
    /// `system:node:…`, and the certificate was that of the first, `system:kube-controller-manager`.
    #[test]
    fn of_several_names_the_last_counts() {
        let two = [(COMMON_NAME, "system:kube-controller-manager"), (COMMON_NAME, "system:node:a")];
        assert_eq!(certified(&two).unwrap().name, "system:node:a");
        assert_eq!(certified(&[(COMMON_NAME, "a"), (COMMON_NAME, "")]), None, "a user has a name");
        assert_eq!(certified(&[(COMMON_NAME, "")]), None);
    }

    #[test]
    fn a_subject_may_have_one_uid() {
        let of = |uids: &[&str]| {
            let parts = uids.iter().map(|uid| (USER_ID, *uid));
            certified(&std::iter::once((COMMON_NAME, "a")).chain(parts).collect::<Vec<_>>())
                .map(|user| user.uid)
        };
        assert_eq!(of(&[]).as_deref(), Some(""));
        assert_eq!(of(&["7"]).as_deref(), Some("7"));
        assert_eq!(of(&[""]), None);
    }

    #[tokio::test]
    async fn certificates_of_other_cas_and_serving_certificates_do_not_authenticate() {
        let (ours, other) = (authority().await, authority().await);
        let clients = ClientCertificates::new(&[&ours.certificate]).unwrap();
        let stranger = other.client("admin", "system:masters").unwrap();
        let server = ours.serving(&["localhost".to_owned()]).unwrap();
        for pem in [stranger.certificate, server.certificate, String::new(), ours.certificate] {
            assert!(clients.check(&chain(&pem)).user(Timestamp::now()).is_none());
        }
    }
}
