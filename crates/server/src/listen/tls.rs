//! TLS material: a CA and a serving certificate made at the first start, or given files.

use std::fs;
use std::io::Write;
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::{Error, Security};

/// What a server with TLS needs.
#[derive(Debug)]
pub(crate) struct Material {
    pub(crate) config: Arc<ServerConfig>,
    pub(crate) ca_pem: String,
}

/// Loads or makes the material; `None` for plain HTTP.
pub(crate) fn material(security: &Security, ip: IpAddr) -> Result<Option<Material>, Error> {
    match security {
        Security::InsecureHttp => Ok(None),
        Security::Files { certificate, key, ca } => {
            let (chain, key, ca_pem) = (read(certificate)?, read(key)?, read(ca)?);
            Ok(Some(Material { config: config(&chain, &key)?, ca_pem }))
        }
        Security::SelfMade { dir } => {
            let authority = Authority::load_or_make(dir.as_deref())?;
            let (chain, key) = authority.issue(ip)?;
            Ok(Some(Material { config: config(&chain, &key)?, ca_pem: authority.certificate }))
        }
    }
}

/// The CA lives on between starts so that kubeconfigs stay valid. Serving certificates are made at each start, for the
/// address served now.
struct Authority {
    certificate: String,
    key: String,
}

impl Authority {
    fn load_or_make(dir: Option<&Path>) -> Result<Self, Error> {
        let Some(dir) = dir else { return Self::make() };
        let (certificate, key) = (dir.join("ca.crt"), dir.join("ca.key"));
        if certificate.exists() && key.exists() {
            return Ok(Self { certificate: read(&certificate)?, key: read(&key)? });
        }
        let made = Self::make()?;
        write_private(&key, &made.key)?;
        write_private(&certificate, &made.certificate)?;
        Ok(made)
    }

    fn make() -> Result<Self, Error> {
        let key = KeyPair::generate().map_err(tls)?;
        let certificate = ca_params().self_signed(&key).map_err(tls)?;
        Ok(Self { certificate: certificate.pem(), key: key.serialize_pem() })
    }

    fn issue(&self, ip: IpAddr) -> Result<(String, String), Error> {
        let ca_key = KeyPair::from_pem(&self.key).map_err(tls)?;
        // The parameters name the issuer; they are the same at each start, only the key differs between authorities.
        let issuer = Issuer::new(ca_params(), ca_key);
        let key = KeyPair::generate().map_err(tls)?;
        let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
        names.extend(["kubernetes", "kubernetes.default", "kubernetes.default.svc"].map(str::to_owned));
        if !ip.is_loopback() && !ip.is_unspecified() {
            names.push(ip.to_string());
        }
        let mut params = CertificateParams::new(names).map_err(tls)?;
        params.distinguished_name.push(DnType::CommonName, "listwatch");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&key, &issuer).map_err(tls)?;
        Ok((certificate.pem(), key.serialize_pem()))
    }
}

fn ca_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "listwatch-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages =
        vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    params
}

fn config(chain_pem: &str, key_pem: &str) -> Result<Arc<ServerConfig>, Error> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain_pem.as_bytes()).collect();
    let key = PrivateKeyDer::from_pem_slice(key_pem.as_bytes()).map_err(tls)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(tls)?
        .with_no_client_auth()
        .with_single_cert(chain.map_err(tls)?, key)
        .map_err(tls)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn tls(error: impl std::fmt::Display) -> Error {
    Error::Tls(error.to_string())
}

pub(crate) fn read(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(|source| Error::File { path: path.to_owned(), source })
}

/// Writes a file that only its owner may read, in place at once or not at all.
pub(crate) fn write_private(path: &Path, content: &str) -> Result<(), Error> {
    let failed = |source| Error::File { path: path.to_owned(), source };
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(failed)?;
    }
    let mut draft = PathBuf::from(path);
    draft.as_mut_os_string().push(".new");
    let mut options = fs::OpenOptions::new();
    let mut file =
        options.write(true).create(true).truncate(true).mode(0o600).open(&draft).map_err(failed)?;
    file.write_all(content.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
    fs::rename(&draft, path).map_err(failed)
}
