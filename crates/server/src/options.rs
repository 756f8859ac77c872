//! [`Options`]: everything that can be chosen about a server; every bound with its name, default and reason.
//!
//! One struct per component, so that a component takes only its own limits. Defaults are a server for development: a
//! free loopback port, TLS with a CA in memory, the controllers of a small cluster. `listwatch serve` maps flags to
//! these fields; nothing here reads files or the environment. Values are checked where they are used, at the start
//! ([`crate::Server::start`]).
//!
//! Bounds are in [`limits`], the controllers inside the server in [`lifecycle`], connections to nodes in [`nodes`]. To
//! add a bound: a field with its unit and reason there, its default in the `Default` implementation beside it, a flag
//! in `crates/commands` if users should set it.

mod lifecycle;
mod limits;
mod nodes;

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

pub use lifecycle::{LifecycleOptions, NamespaceObjects};
pub use limits::{CacheLimits, HttpLimits, RequestLimits, StreamLimits, WatchLimits};
pub use nodes::NodeOptions;

use crate::admission::AdmissionOptions;
use crate::auth::{AuthorizationMode, OidcIssuer, TokenWebhookOptions};

/// The configuration of a server. `Options::default()` is a server on a free loopback port with TLS and a CA that
/// is kept in memory; it still needs an engine, which [`crate::Server::start`] takes beside the options.
///
/// Options are checked at the start, and a server never changes them.
///
/// ```
/// use listwatch_server::{LifecycleOptions, Options, Security};
///
/// let options = Options {
///     bind: "127.0.0.1:0".parse().unwrap(),
///     security: Security::InsecureHttp,
///     lifecycle: LifecycleOptions::off(),
///     ..Options::default()
/// };
/// assert!(options.token_file.is_none());
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    /// The address to listen on. Port 0 takes any free one.
    pub bind: SocketAddr,
    /// The protection of connections.
    pub security: Security,
    /// A CSV of static tokens in the form of kube-apiserver: `token,user,uid,"group1,group2"`. Tokens never expire;
    /// use it for tests and for the first administrator.
    pub token_file: Option<PathBuf>,
    /// The place for CA and signing keys, unless [`Security::SelfMade`] names a directory.
    pub keys: KeepKeys,
    /// The names and addresses under which clients reach the server.
    pub serving: ServingOptions,
    /// Keys and CAs that credentials are verified with.
    pub identity: IdentityOptions,
    /// The authorizers, in the order they are called. A request that none allows is refused. With `Node`, kubelets are
    /// limited to what their Pods need, as in clusters made by kubeadm; kube-apiserver's own default allows everything.
    pub authorization: Vec<AuthorizationMode>,
    /// The AuthorizationConfiguration that the authorizers come from, to be read again when it changes; none if they are fixed.
    pub authorization_config: Option<PathBuf>,
    /// The audit log; none if there is nothing here.
    pub audit: Option<AuditOptions>,
    /// Serves requests without credentials as `system:anonymous`. Default true, as in kube-apiserver: health checks
    /// and discovery by unauthenticated clients depend on it, and authorization decides about everything else.
    pub anonymous: bool,
    /// Serves the web console under `/console/`. Default true: it has only the permissions of the token that a user
    /// enters.
    pub console: bool,
    /// Bounds on connections.
    pub http: HttpLimits,
    /// Bounds on requests.
    pub requests: RequestLimits,
    /// Bounds on the watch cache.
    pub cache: CacheLimits,
    /// Timeouts and bounds of watches.
    pub watch: WatchLimits,
    /// Bounds of streams of many watches.
    pub stream: StreamLimits,
    /// Connections to kubelets, Pods and Services.
    pub nodes: NodeOptions,
    /// The controllers that run inside the server.
    pub lifecycle: LifecycleOptions,
    /// Admission plugins that are switched on and off.
    pub admission: AdmissionOptions,
    /// The program that `/version` names.
    pub build: BuildInfo,
    /// Names and values of the flags that the program was started with, for `/flagz`. Values must not be secrets.
    pub flags: Vec<(String, String)>,
}

/// The source that the program was built from, set by the program because a library does not know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildInfo {
    /// The commit, in hexadecimal.
    pub commit: Cow<'static, str>,
    /// The time of the commit or of the build, as in RFC 3339.
    pub date: Cow<'static, str>,
}

impl Default for BuildInfo {
    fn default() -> Self {
        Self { commit: "unknown".into(), date: "unknown".into() }
    }
}

/// The place for the CA keys, the administrator's token and the token-signing key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum KeepKeys {
    /// In the process: they are lost with it.
    #[default]
    Process,
    /// In a directory, one file each (mode 0600).
    Directory(PathBuf),
    /// In the store, where all servers on it find the same ones.
    Store,
}

/// The names and addresses under which clients reach the server. A client that uses another one rejects the
/// certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServingOptions {
    /// Names and addresses that the serving certificate covers besides those that are known.
    pub names: Vec<String>,
    /// The address that kubeconfigs and the certificate name, if it differs from the one listened on.
    pub advertise: Option<IpAddr>,
    /// The directives of the header `Strict-Transport-Security` of every response; none for no such header.
    pub strict_transport_security: Vec<String>,
}

impl ServingOptions {
    /// Checks the directives of `Strict-Transport-Security`.
    ///
    /// ```
    /// use listwatch_server::ServingOptions;
    ///
    /// let options = |directives: &[&str]| ServingOptions {
    ///     strict_transport_security: directives.iter().map(|&directive| directive.to_owned()).collect(),
    ///     ..ServingOptions::default()
    /// };
    /// assert!(options(&["max-age=31536000", "includeSubDomains", "preload"]).check().is_ok());
    /// assert!(options(&["max-age=1\r\nx: y"]).check().is_err() && options(&["always"]).check().is_err());
    /// ```
    ///
    /// # Errors
    /// The first directive that there is not, in kube-apiserver's words.
    pub fn check(&self) -> Result<(), String> {
        for directive in &self.strict_transport_security {
            let has_age = directive.strip_prefix("max-age=").is_some_and(|age| !age.contains('='));
            let is_plain = directive.bytes().all(|byte| byte.is_ascii_graphic() && byte != b';');
            if directive.trim().is_empty() {
                return Err("empty value in strict-transport-security-directives".to_owned());
            }
            if !is_plain || (!has_age && !["includeSubDomains", "preload"].contains(&directive.as_str())) {
                return Err("--strict-transport-security-directives invalid, allowed values: max-age=expireTime, includeSubDomains, preload. see https://tools.ietf.org/html/rfc6797#section-6.1 for more information".to_owned());
            }
        }
        Ok(())
    }

    /// The value of the header, if there is one.
    pub(crate) fn transport_security(&self) -> Option<http::HeaderValue> {
        let directives = &self.strict_transport_security;
        http::HeaderValue::try_from(directives.join("; ")).ok().filter(|value| !value.is_empty())
    }
}

/// Keys and CAs that credentials are verified with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityOptions {
    /// CAs whose client certificates are accepted, besides the server's own.
    pub client_ca_file: Option<PathBuf>,
    /// The private key that signs tokens of service accounts; without one it is made and kept.
    pub signing_key_file: Option<PathBuf>,
    /// Keys, private or public, whose service account tokens are accepted as well: those that signed before a
    /// rotation.
    pub key_files: Vec<PathBuf>,
    /// Issuers of OpenID Connect tokens that are accepted.
    pub oidc: Vec<OidcIssuer>,
    /// Accepts bootstrap tokens: those in Secrets of `kube-system`, by which nodes join a cluster. Off, as in kube-apiserver.
    pub bootstrap_tokens: bool,
    /// A webhook for tokens that no other authenticator accepts.
    pub token_webhook: Option<TokenWebhookOptions>,
    /// The longest lifetime of a service account token. kube-apiserver has no bound but 2^32 seconds; a token that is
    /// still valid after years is mostly a risk.
    pub max_token_age: Duration,
}

impl Default for IdentityOptions {
    fn default() -> Self {
        Self {
            client_ca_file: None,
            signing_key_file: None,
            key_files: Vec::new(),
            oidc: Vec::new(),
            bootstrap_tokens: false,
            token_webhook: None,
            max_token_age: Duration::from_secs(365 * 24 * 3600),
        }
    }
}

/// The audit log: which requests are recorded, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditOptions {
    /// The audit policy, in kube-apiserver's format.
    pub policy_file: PathBuf,
    /// The file that events are appended to, one line of JSON each. It is opened again when another program moved it.
    pub log_file: PathBuf,
    /// The space that it may take.
    pub rotation: AuditRotation,
}

/// The rotation of the audit log. Together with the present file it takes at most `max_bytes` times one more than
/// `max_backups`, and a file is longer only if a single event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditRotation {
    /// The size at which a new file is begun.
    pub max_bytes: u64,
    /// Rotated files that are kept; older ones are removed.
    pub max_backups: usize,
}

impl Default for AuditRotation {
    /// 100 MiB as in kube-apiserver, and ten rotated files. kube-apiserver keeps all of them.
    fn default() -> Self {
        Self { max_bytes: 100 << 20, max_backups: 10 }
    }
}

/// TLS or none, and where the serving certificate comes from.
#[derive(Clone, Debug)]
pub enum Security {
    /// TLS with a CA and a serving certificate made at the first start. With a directory they are kept there (mode
    /// 0600) and found again; without one they live as long as the process.
    SelfMade {
        /// The directory for the CA, the administrator's token and the token-signing key.
        dir: Option<PathBuf>,
    },
    /// TLS with given PEM files.
    Files {
        /// The certificate chain, leaf first.
        certificate: PathBuf,
        /// The private key.
        key: PathBuf,
        /// The CA to hand to clients.
        ca: PathBuf,
    },
    /// Plain HTTP: loopback and tests only, tokens travel in the clear.
    InsecureHttp,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            bind: SocketAddr::from(([127, 0, 0, 1], 0)),
            security: Security::SelfMade { dir: None },
            token_file: None,
            keys: KeepKeys::default(),
            serving: ServingOptions::default(),
            identity: IdentityOptions::default(),
            authorization: vec![AuthorizationMode::Node, AuthorizationMode::Rbac],
            authorization_config: None,
            audit: None,
            anonymous: true,
            console: true,
            http: HttpLimits::default(),
            requests: RequestLimits::default(),
            cache: CacheLimits::default(),
            watch: WatchLimits::default(),
            stream: StreamLimits::default(),
            nodes: NodeOptions::default(),
            lifecycle: LifecycleOptions::default(),
            admission: AdmissionOptions::default(),
            build: BuildInfo::default(),
            flags: Vec::new(),
        }
    }
}
