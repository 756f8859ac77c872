//! [`Authority`]: the CA of a cluster, and the certificates it issues: serving, administrator, front proxy.
//!
//! There are two CAs. The second signs only the front-proxy client certificate, so that no holder of an ordinary
//! client certificate can claim identities towards extension API servers. Issued certificates are valid for a year
//! and replaced 30 days before their end; the CA is valid for ten years and never replaced by itself, because every
//! client that trusts it would need the new one. Keys are kept by [`super::secrets`];
//! CertificateSigningRequests of users are not signed here.

use std::time::Duration;

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use crate::Error;
use crate::identity::secrets::SecretStore;

/// Unit of the periods of validity.
const DAY: Duration = Duration::from_secs(24 * 3600);
/// The validity of the CA. It is renewed by hand, because every client that trusts it needs the new one.
const CA_VALIDITY: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
/// The validity of the certificates it issues, as in kubeadm.
pub(crate) const VALIDITY: Duration = Duration::from_secs(365 * 24 * 3600);
/// The time before its end at which a certificate is replaced.
pub(crate) const RENEW_BEFORE: Duration = Duration::from_secs(30 * 24 * 3600);

/// A CA: its certificate and its private key, both in PEM. `Debug` shows neither, because options and errors end up
/// in logs.
pub(crate) struct Authority {
    /// Its certificate, in PEM.
    pub(crate) certificate: String,
    key: String,
    /// Its common name.
    name: &'static str,
}

/// A certificate and its key, in PEM.
pub(crate) struct Issued {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl std::fmt::Debug for Issued {
    /// Without the key, which has no place in logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Issued").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

impl Authority {
    /// The CA of servers and clients that is kept, or a new one.
    pub(crate) async fn load_or_make(keep: &SecretStore) -> Result<Self, Error> {
        Self::named(keep, "ca", "listwatch-ca").await
    }

    /// The CA of the front-proxy client certificate. It signs nothing else, so that no certificate of the other CA is
    /// accepted as a front proxy.
    pub(crate) async fn front_proxy(keep: &SecretStore) -> Result<Self, Error> {
        Self::named(keep, "front-proxy-ca", "front-proxy-ca").await
    }

    /// A CA of this name, made at the first start and stored by `keep`.
    async fn named(keep: &SecretStore, file: &str, name: &'static str) -> Result<Self, Error> {
        let make = || KeyPair::generate().map(|key| key.serialize_pem()).map_err(tls);
        let key = keep.secret(&format!("{file}.key"), make).await?;
        let certificate = keep
            .secret(&format!("{file}.crt"), || {
                let pair = KeyPair::from_pem(&key).map_err(tls)?;
                ca_params(name).self_signed(&pair).map(|certificate| certificate.pem()).map_err(tls)
            })
            .await?;
        Ok(Self { certificate, key, name })
    }

    /// A certificate for a server of these names and addresses.
    pub(crate) fn serving(&self, names: &[String]) -> Result<Issued, Error> {
        let mut params = CertificateParams::new(names).map_err(tls)?;
        params.distinguished_name.push(DnType::CommonName, "listwatch");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.issue(params)
    }

    /// A certificate for a client that is this user in this group.
    pub(crate) fn client(&self, user: &str, group: &str) -> Result<Issued, Error> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, user);
        params.distinguished_name.push(DnType::OrganizationName, group);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(params)
    }

    /// Signs a certificate. Its private key is new each time and never stored.
    fn issue(&self, mut params: CertificateParams) -> Result<Issued, Error> {
        let ca_key = KeyPair::from_pem(&self.key).map_err(tls)?;
        // The parameters name the issuer; they are the same at each start, only the key differs between authorities.
        let issuer = Issuer::new(ca_params(self.name), ca_key);
        let key = KeyPair::generate().map_err(tls)?;
        hold(&mut params, VALIDITY);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&key, &issuer).map_err(tls)?;
        Ok(Issued { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

/// From a day ago, for clocks that are behind.
fn hold(params: &mut CertificateParams, validity: Duration) {
    let now = Timestamp::now();
    let (year, month, day) = date(now - DAY);
    params.not_before = rcgen::date_time_ymd(year, month, day);
    let (year, month, day) = date(now + validity);
    params.not_after = rcgen::date_time_ymd(year, month, day);
}

/// Year, month and day, which is what the library takes.
fn date(time: Timestamp) -> (i32, u8, u8) {
    let zoned = time.to_zoned(jiff::tz::TimeZone::UTC);
    let part = |number: i8| u8::try_from(number).unwrap_or(1);
    (i32::from(zoned.year()), part(zoned.month()), part(zoned.day()))
}

/// A CA that may sign certificates and no further CAs.
fn ca_params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages =
        vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    hold(&mut params, CA_VALIDITY);
    params
}

fn tls(error: impl std::fmt::Display) -> Error {
    Error::Tls(error.to_string())
}
