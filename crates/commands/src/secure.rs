//! Flags of TLS, authentication, authorization, audit and encryption, with kube-apiserver's names where it has them.
//!
//! Files are read once before anything is created, so that a typo fails the start and leaves nothing behind. Where keys
//! are kept depends on the store: servers that share an etcd share CA and signing key through it, a server with a data
//! directory keeps them there, and one in memory creates new ones at each start. Plain HTTP beyond loopback needs two
//! flags.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::{ArgAction, Args};
use listwatch_server::encryption::{Encrypted, EncryptionConfig};
use listwatch_server::{
    AuditOptions, AuditRotation, IdentityOptions, KeepKeys, Options, Security, ServingOptions, WatchLimits,
};
use listwatch_storage::Engine;

use crate::authorization::AuthorizationArguments;
use crate::store::{StoreArguments, duration};
use crate::token_issuers::TokenIssuerArguments;

#[derive(Args, Debug)]
#[command(next_help_heading = "Security")]
pub(crate) struct Secure {
    /// Serve plain HTTP, for tests on loopback; on other addresses the flag must be given twice, because tokens are
    /// sent in plain text
    #[arg(long, action = ArgAction::Count)]
    insecure_http: u8,

    /// Serving certificate with its chain, in PEM; read again when it changes
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    tls_cert_file: Option<PathBuf>,

    /// Private key of the serving certificate
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_private_key_file: Option<PathBuf>,

    /// Additional names and addresses of the server's own certificate
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    tls_san: Vec<String>,

    /// Address for clients, in the `kubernetes` Service and the admin kubeconfig
    #[arg(long, value_name = "ADDRESS")]
    advertise_address: Option<IpAddr>,

    /// CAs of client certificates, besides the server's own
    #[arg(long, value_name = "FILE")]
    client_ca_file: Option<PathBuf>,

    /// Directives of the Strict-Transport-Security header: max-age=SECONDS, includeSubDomains, preload
    #[arg(long, value_name = "DIRECTIVES", value_delimiter = ',')]
    strict_transport_security_directives: Vec<String>,

    /// Static tokens, one per line: token,user,uid,"group1,group2"
    #[arg(long, value_name = "FILE")]
    pub(crate) token_auth_file: Option<PathBuf>,

    #[command(flatten)]
    authorization: AuthorizationArguments,

    /// Serve requests without credentials as system:anonymous, with the rights of system:unauthenticated; false answers 401
    #[arg(long, value_name = "BOOL", default_value_t = Options::default().anonymous, action = ArgAction::Set)]
    pub(crate) anonymous_auth: bool,

    /// Accept tokens in Secrets of kube-system, by which nodes join a cluster
    #[arg(long, value_name = "BOOL", default_value_t = false, default_missing_value = "true", num_args = 0..=1, require_equals = true, action = ArgAction::Set)]
    enable_bootstrap_token_auth: bool,

    #[command(flatten)]
    token_issuers: TokenIssuerArguments,

    /// Private key that signs service account tokens; by default one is generated and stored
    #[arg(long, value_name = "FILE")]
    service_account_signing_key_file: Option<PathBuf>,

    /// Key whose service account tokens are accepted too; may be repeated
    #[arg(long, value_name = "FILE")]
    service_account_key_file: Vec<PathBuf>,

    /// Longest lifetime of a service account token [24h, 8760h, …]
    #[arg(long, value_name = "TIME", default_value = "8760h", value_parser = duration)]
    service_account_max_token_expiration: Duration,

    /// Interval at which open watches are authorized again; 0s for never, as in kube-apiserver
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    watch_recheck_interval: Duration,

    /// Audit policy, in kube-apiserver's format
    #[arg(long, value_name = "FILE", requires = "audit_log_path")]
    audit_policy_file: Option<PathBuf>,

    /// File that audit events are appended to, one JSON object per line
    #[arg(long, value_name = "FILE", requires = "audit_policy_file")]
    audit_log_path: Option<PathBuf>,

    /// Size of the audit log, in megabytes, at which a new file is started
    #[arg(long, value_name = "MB", default_value = "100", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    audit_log_maxsize: u64,

    /// Rotated files of the audit log that are kept
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u16))]
    audit_log_maxbackup: u16,

    /// EncryptionConfiguration: which resources are stored encrypted, and with which keys
    #[arg(long, value_name = "FILE")]
    encryption_provider_config: Option<PathBuf>,
}

impl Secure {
    /// Checks what can be checked before anything is created.
    pub(crate) fn check(&self, bind: SocketAddr) -> anyhow::Result<()> {
        if self.insecure_http == 1 && !bind.ip().is_loopback() {
            anyhow::bail!(
                "--insecure-http on {bind} lets everybody on the way read tokens and secrets; say it twice if that is wanted"
            );
        }
        self.serving().check().map_err(anyhow::Error::msg)?;
        let files = [
            &self.tls_cert_file,
            &self.tls_private_key_file,
            &self.client_ca_file,
            &self.token_auth_file,
            &self.service_account_signing_key_file,
            &self.audit_policy_file,
            &self.encryption_provider_config,
        ];
        for file in files.into_iter().flatten().chain(&self.service_account_key_file) {
            read(file)?;
        }
        Ok(())
    }

    /// The protection of connections, and the place of keys: servers that share a store share those, too.
    pub(crate) fn protection(&self, store: &StoreArguments) -> (Security, KeepKeys) {
        let keys = match store.directory() {
            _ if store.is_shared() => KeepKeys::Store,
            Some(directory) => KeepKeys::Directory(directory.to_owned()),
            None => KeepKeys::Process,
        };
        let security = match (&self.tls_cert_file, &self.tls_private_key_file) {
            _ if self.insecure_http > 0 => Security::InsecureHttp,
            (Some(certificate), Some(key)) => Security::Files {
                certificate: certificate.clone(),
                key: key.clone(),
                ca: certificate.clone(),
            },
            _ => Security::SelfMade { dir: None },
        };
        (security, keys)
    }

    pub(crate) fn serving(&self) -> ServingOptions {
        ServingOptions {
            names: self.tls_san.clone(),
            advertise: self.advertise_address,
            strict_transport_security: self.strict_transport_security_directives.clone(),
        }
    }

    /// The options of authentication.
    pub(crate) fn identity(&self) -> anyhow::Result<IdentityOptions> {
        Ok(IdentityOptions {
            client_ca_file: self.client_ca_file.clone(),
            signing_key_file: self.service_account_signing_key_file.clone(),
            key_files: self.service_account_key_file.clone(),
            oidc: self.token_issuers.issuers()?,
            bootstrap_tokens: self.enable_bootstrap_token_auth,
            token_webhook: self.token_issuers.webhook(),
            max_token_age: self.service_account_max_token_expiration,
        })
    }

    /// The flags of authorization.
    pub(crate) fn authorization(&self) -> &AuthorizationArguments {
        &self.authorization
    }

    /// Both flags are needed, which the parser of flags has checked.
    pub(crate) fn audit(&self) -> Option<AuditOptions> {
        let (policy_file, log_file) = (self.audit_policy_file.clone()?, self.audit_log_path.clone()?);
        let (max_bytes, max_backups) = (self.audit_log_maxsize << 20, usize::from(self.audit_log_maxbackup));
        Some(AuditOptions { policy_file, log_file, rotation: AuditRotation { max_bytes, max_backups } })
    }

    /// An interval of zero means never, which is kube-apiserver's behaviour.
    pub(crate) fn watch(&self) -> WatchLimits {
        let every = self.watch_recheck_interval;
        WatchLimits { recheck_every: (!every.is_zero()).then_some(every), ..WatchLimits::default() }
    }

    /// The store with encryption in front of it, if it is configured.
    ///
    /// Before the server starts: the CA and signing keys that it keeps in a store are then encrypted as well.
    ///
    /// # Errors
    ///
    /// The file cannot be read or is no EncryptionConfiguration. Messages contain no secret.
    pub(crate) fn encrypted(&self, engine: Arc<dyn Engine>) -> anyhow::Result<Arc<dyn Engine>> {
        let Some(file) = &self.encryption_provider_config else { return Ok(engine) };
        let config = EncryptionConfig::parse(&read(file)?);
        let config = config.map_err(|problem| anyhow::anyhow!("{}: {problem}", file.display()))?;
        Ok(Arc::new(Encrypted::new(engine, config)))
    }
}

fn read(file: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}
