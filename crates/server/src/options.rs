//! [`Options`]: everything that can be chosen about a server; every bound with its name, default and reason.
//!
//! One struct per component, so that a component takes only its own limits. Defaults are a server for development: a
//! free loopback port, TLS with a CA in memory, the controllers of a small cluster. `listwatch serve` maps flags to
//! these fields; nothing here reads files or the environment. Values are checked where they are used, at the start
//! ([`crate::Server::start`]).
//!
//! To add a bound: a field with its unit and reason here, its default in the `Default` implementation below, a flag
//! in `crates/cli` if users should set it.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use crate::admission::AdmissionOptions;
use crate::auth::{AuthorizationMode, OidcIssuer, TokenWebhookOptions};

/// The configuration of a server. `Options::default()` is a server on a free loopback port with TLS and a CA that
/// lives in memory; it still needs an engine, which [`crate::Server::start`] takes beside the options.
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
    /// A CSV of static tokens in the form of kube-apiserver: `token,user,uid,"group1,group2"`.
    pub token_file: Option<PathBuf>,
    /// The place for CA and signing keys, unless [`Security::SelfMade`] names a directory.
    pub keys: KeepKeys,
    /// The names and addresses under which clients reach the server.
    pub serving: ServingOptions,
    /// Keys and CAs that credentials are verified with.
    pub identity: IdentityOptions,
    /// The authorizers, in the order they are asked. A request that none allows is refused. With `Node`, kubelets are
    /// limited to what their Pods need, as in clusters made by kubeadm; kube-apiserver's own default allows
    /// everything.
    pub authorization: Vec<AuthorizationMode>,
    /// The audit log; none if there is nothing here.
    pub audit: Option<AuditOptions>,
    /// Serves requests without credentials as `system:anonymous`.
    pub anonymous: bool,
    /// Serves the web console under `/console/`.
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
    /// The controllers that run inside the server.
    pub lifecycle: LifecycleOptions,
    /// Admission plugins that are switched on and off.
    pub admission: AdmissionOptions,
    /// The program that `/version` names.
    pub build: BuildInfo,
}

/// The source that a program was built from. A library does not know; the program that contains it does.
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
    /// In the process: they are gone with it.
    #[default]
    Process,
    /// In a directory, one file each (mode 0600).
    Directory(PathBuf),
    /// In the store, where all servers on it find the same ones.
    Store,
}

/// The names and addresses under which clients reach the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServingOptions {
    /// Names and addresses that the serving certificate covers besides those that are known.
    pub names: Vec<String>,
    /// The address that kubeconfigs and the certificate name, if it differs from the one listened on.
    pub advertise: Option<IpAddr>,
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
    /// A webhook that is asked about tokens that no other authenticator accepts.
    pub token_webhook: Option<TokenWebhookOptions>,
    /// The longest that a token of a service account may hold. kube-apiserver has no bound but 2^32 seconds; a token that
    /// outlives everybody who knows of it is of no use to anyone but a thief.
    pub max_token_age: Duration,
}

impl Default for IdentityOptions {
    fn default() -> Self {
        Self {
            client_ca_file: None,
            signing_key_file: None,
            key_files: Vec::new(),
            oidc: Vec::new(),
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

/// The controllers that run inside the server. In a cluster most of this is done by kube-controller-manager: switch
/// off what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LifecycleOptions {
    /// Writes the bootstrap objects at the start: namespaces, RBAC roles, the `kubernetes` Service.
    pub first_objects: bool,
    /// The time at which namespaces get their default ServiceAccount and `kube-root-ca.crt`.
    pub namespace_objects: NamespaceObjects,
    /// Empties deleted namespaces and removes their finalizer.
    pub empty_namespaces: bool,
    /// Collects garbage: deletes dependents whose owners are gone.
    pub collect_garbage: bool,
    /// Removes the protection finalizer of deleted claims and volumes that are not in use.
    pub storage_protection: bool,
    /// Recalculates the status of ResourceQuotas when objects are deleted.
    pub quota_status: bool,
    /// Maintains the IPAddress objects of Service addresses.
    pub service_addresses: bool,
    /// Expressions of ValidatingAdmissionPolicies are type-checked, with warnings in their status.
    pub policy_status: bool,
    /// The time after its last change at which an Event is deleted (`--event-ttl`); `None` keeps them.
    pub event_ttl: Option<Duration>,
    /// The delay before a change is acted on, so that a client still sees the deletion mark of what it deleted, and owners
    /// may be written after their dependents.
    pub settle: Duration,
}

impl LifecycleOptions {
    /// All controllers off: only the API.
    #[must_use]
    pub fn off() -> Self {
        Self {
            first_objects: false,
            namespace_objects: NamespaceObjects::Never,
            empty_namespaces: false,
            collect_garbage: false,
            quota_status: false,
            policy_status: false,
            storage_protection: false,
            service_addresses: false,
            event_ttl: None,
            settle: Duration::ZERO,
        }
    }
}

impl Default for LifecycleOptions {
    fn default() -> Self {
        Self {
            first_objects: true,
            namespace_objects: NamespaceObjects::WithFirstPod,
            empty_namespaces: true,
            collect_garbage: true,
            quota_status: true,
            policy_status: true,
            storage_protection: true,
            service_addresses: true,
            event_ttl: Some(Duration::from_secs(3600)),
            settle: Duration::from_secs(2),
        }
    }
}

/// The time at which a namespace gets its default ServiceAccount and the CA bundle for its Pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamespaceObjects {
    /// Not at all.
    Never,
    /// With the first Pod, the first thing that uses them: a namespace that only holds other objects stays as it was made.
    WithFirstPod,
    /// When it is created, as in a cluster with a controller manager.
    AtOnce,
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

/// Bounds on connections and on requests before they are authenticated: what any stranger can make the server spend.
#[derive(Clone, Copy, Debug)]
pub struct HttpLimits {
    /// Connections at one time. Beyond it new ones wait in the listen queue rather than eat memory.
    pub connections: usize,
    /// Bytes of a request head. Go's default is 1 MiB; real clients stay below 8 KiB.
    pub head_bytes: usize,
    /// Header lines of a request. Clients send about ten, proxies add a few.
    pub head_lines: usize,
    /// Time for TLS handshake, and again for a request head once its first byte came: holds off slow-loris clients.
    pub head_timeout: Duration,
    /// The longest time a connection may be idle between requests.
    pub idle_timeout: Duration,
    /// Time a request body may take to arrive.
    pub body_timeout: Duration,
    /// Concurrent streams of one HTTP/2 connection. client-go holds all its watches on one connection, and one watch
    /// costs us little, so this is above kube-apiserver's 100.
    pub http2_streams: u32,
}

/// Bounds on requests: sizes, times and how many at once.
#[doc(alias = "MaxRequestBodyBytes")]
#[doc(alias = "MaxRequestsInFlight")]
#[derive(Clone, Copy, Debug)]
pub struct RequestLimits {
    /// Bytes of a request body (413 above it), as in kube-apiserver.
    pub body_bytes: usize,
    /// Bytes of all request bodies that are being read, wait or are worked on. More wait to be read: a body is read before its
    /// request has a seat, so that seats bound nothing here.
    pub bodies_bytes: usize,
    /// The part of it that one user has at most, so that others find room.
    pub user_bodies_bytes: usize,
    /// Bytes of answers that one user may leave unread before its further requests wait: what a client does not read is held
    /// for it.
    pub user_answers_bytes: usize,
    /// Bytes of a stored object; larger ones are refused. It is etcd's default limit of a request, which clients of
    /// kube-apiserver rely on: everything that handles objects handles ones of this size.
    pub object_bytes: usize,
    /// Bytes of a body or object above which it is worked on by blocking threads, because an async worker answers no
    /// other request meanwhile. Below it the work takes less time than the switch.
    pub heavy_above: usize,
    /// The longest time for an ordinary request (504 after it).
    pub timeout: Duration,
    /// Requests that take longer are logged: far above what any request needs on a healthy machine.
    pub slow: Duration,
    /// The longest wait of a read for a resourceVersion that has not come yet (504 "Too large resource version" after it).
    pub version_wait: Duration,
    /// Seats of ordinary requests, which priority levels share: `--max-requests-inflight` and
    /// `--max-mutating-requests-inflight` of kube-apiserver together. More requests wait, or are answered 429.
    pub in_flight: usize,
    /// Percent of the processors that the requests of one user may use while another user is there; what goes beyond it waits for
    /// milliseconds. 100 lets everybody use all of them. On two processors 20 is 0.4 ms of work in a millisecond, which is
    /// the most that somebody else's request waits for; client-go's own limits of 50 or 100 requests a second are far below it.
    pub user_processor_percent: u32,
    /// Answers above this are compressed for clients that allow it. Below it the gain is not worth the time.
    pub gzip_above: usize,
    /// Bytes of all compressors together, about 256 KiB each: a client that does not read keeps one for as long as it likes. Answers
    /// that find no room are sent as they are.
    pub gzip_bytes: usize,
    /// Bytes of a protobuf list that are kept while its length, which precedes it, is computed. Longer lists are
    /// encoded twice, so this is above the lists of most clusters.
    pub protobuf_bytes: usize,
    /// The same for all lists together, so that hundreds of clients that do not read hold no more than this. A list that finds no room
    /// is encoded twice.
    pub protobuf_lists_bytes: usize,
    /// The size of one piece of a streamed answer: big enough to fill TLS records, small enough to stay in the CPU's
    /// second-level cache.
    pub piece_bytes: usize,
}

/// Bounds on what the cache holds besides the current objects.
#[derive(Clone, Copy, Debug)]
pub struct CacheLimits {
    /// Bytes of recent events kept in memory for watchers. Older ones are read from the engine.
    pub log_bytes: usize,
    /// Snapshots kept for continue tokens. An older token is served from the engine.
    pub pinned_snapshots: usize,
    /// The longest time such a snapshot is kept: it holds on to every object that has changed since. Real token lives
    /// are as short.
    pub pinned_for: Duration,
    /// Bytes of objects, as they are stored, whose trees are kept after a write for the next one. A tree takes about
    /// three times as much.
    pub recent_bytes: usize,
    /// Objects per page when an old state is read from the engine.
    pub engine_page: usize,
}

/// Timeouts and bounds of watches.
#[doc(alias = "MinRequestTimeout")]
#[derive(Clone, Copy, Debug)]
pub struct WatchLimits {
    /// A watch without timeoutSeconds ends after a random time between this and twice this, so that clients spread.
    pub min_timeout: Duration,
    /// The interval of bookmarks, for watches that asked for them.
    pub bookmark_every: Duration,
    /// The time before the deadline of a watch at which its last bookmark is sent.
    pub bookmark_before_end: Duration,
    /// The interval at which a watch is authorized again: it ends when its user's rights were withdrawn or its token
    /// no longer holds. kube-apiserver never looks again; `None` does as it does.
    pub recheck_every: Option<Duration>,
    /// Bytes of objects that a watcher takes at a time. A client that does not read holds that much.
    pub batch_bytes: usize,
    /// Events a watcher takes at a time, together with `batch_bytes`.
    pub batch_events: usize,
}

/// Bounds of streams that carry many watches. What holds for one watch holds for each of them ([`WatchLimits`]).
#[derive(Clone, Copy, Debug)]
pub struct StreamLimits {
    /// Watches in one stream. A subscription counts once per namespace that it names. Programs watch a few dozen kinds; whoever
    /// watches more opens another stream.
    pub watches: usize,
    /// Bytes of a message of the client: enough to begin as many watches as a stream carries.
    pub message_bytes: usize,
    /// Messages that wait until the stream gets to them. More are not read from a WebSocket, and refused from others.
    pub waiting_messages: usize,
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
            audit: None,
            anonymous: true,
            console: true,
            http: HttpLimits::default(),
            requests: RequestLimits::default(),
            cache: CacheLimits::default(),
            watch: WatchLimits::default(),
            stream: StreamLimits::default(),
            lifecycle: LifecycleOptions::default(),
            admission: AdmissionOptions::default(),
            build: BuildInfo::default(),
        }
    }
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            connections: 50_000,
            head_bytes: 64 << 10,
            head_lines: 100,
            head_timeout: Duration::from_secs(32),
            idle_timeout: Duration::from_secs(90),
            body_timeout: Duration::from_secs(60),
            http2_streams: 1000,
        }
    }
}

impl Default for RequestLimits {
    fn default() -> Self {
        Self {
            body_bytes: 3 << 20,
            bodies_bytes: 256 << 20,
            user_bodies_bytes: 48 << 20,
            user_answers_bytes: 64 << 20,
            object_bytes: 3 << 19,
            heavy_above: 16 << 10,
            timeout: Duration::from_secs(60),
            slow: Duration::from_secs(1),
            version_wait: Duration::from_secs(3),
            in_flight: 600,
            user_processor_percent: 20,
            gzip_above: 128 << 10,
            gzip_bytes: 32 << 20,
            protobuf_bytes: 4 << 20,
            protobuf_lists_bytes: 64 << 20,
            piece_bytes: 64 << 10,
        }
    }
}

impl Default for CacheLimits {
    fn default() -> Self {
        Self {
            log_bytes: 16 << 20,
            pinned_snapshots: 64,
            pinned_for: Duration::from_secs(300),
            recent_bytes: 768 << 10,
            engine_page: 500,
        }
    }
}

impl Default for StreamLimits {
    fn default() -> Self {
        Self { watches: 256, message_bytes: 128 << 10, waiting_messages: 16 }
    }
}

impl Default for WatchLimits {
    fn default() -> Self {
        Self {
            min_timeout: Duration::from_secs(1800),
            bookmark_every: Duration::from_secs(60),
            recheck_every: Some(Duration::from_secs(60)),
            bookmark_before_end: Duration::from_secs(2),
            batch_bytes: 256 << 10,
            batch_events: 256,
        }
    }
}
