//! [`Handle`]: a running server, with its address, its credentials and its shutdown.
//!
//! Shutdown is the reverse of the start: no new connections, watches end with a bookmark, requests finish within [`DRAIN`], then
//! tasks are aborted and the engine is closed. Starting is [`super::Server`]'s.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::api::Api;
use crate::identity::addresses;
use crate::identity::authority::Issued;

/// The longest time for connections to finish once the server stops: a slow client must not keep it alive.
/// Watches end at once, so this is for requests under way.
const DRAIN: Duration = Duration::from_secs(10);

/// A running server. Dropping it stops the server at once; [`Handle::shutdown`] does so gracefully.
///
/// ```
/// use std::sync::Arc;
/// use listwatch_server::{Options, Server};
/// use listwatch_storage::{EmbeddedEngine, EmbeddedOptions};
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let data = tempfile::tempdir()?;
/// let engine = EmbeddedEngine::open(data.path(), EmbeddedOptions::default()).await?;
/// let server = Server::start(Options::default(), Arc::new(engine)).await?;
/// let kubeconfig = server.admin_kubeconfig(); // for kubectl --kubeconfig
/// assert!(kubeconfig.contains(&server.url()));
///
/// tokio::select! {
///     task = server.failed() => eprintln!("{task} ended; restart the process"),
///     () = tokio::time::sleep(std::time::Duration::from_millis(10)) => {} // a signal, in a program
/// }
/// server.shutdown().await; // the engine is closed, too
/// # Ok(())
/// # }
/// ```
pub struct Handle {
    /// The address listened on.
    pub(super) address: SocketAddr,
    /// The CA of the serving certificate; `None` for plain HTTP.
    pub(super) ca_pem: Option<String>,
    pub(super) admin_token: String,
    /// A client certificate of the administrator, made at each start.
    pub(super) admin_certificate: Issued,
    pub(super) api: Arc<Api>,
    /// Cancelled when the server stops; everything that runs holds a clone.
    pub(super) stop: CancellationToken,
    /// Tracks connections, so that shutdown can wait for them.
    pub(super) connections: TaskTracker,
    /// The background tasks, aborted at the end of a shutdown or when the handle is dropped.
    pub(super) tasks: Vec<tokio::task::AbortHandle>,
}

impl std::fmt::Debug for Handle {
    /// Without the administrator's token and key, which have no place in logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Handle {
    /// The address that it listens on, with the port that was chosen for port 0.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL at which clients reach it: the advertised address, or loopback if it listens on all addresses.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if self.ca_pem.is_some() { "https" } else { "http" };
        let address = addresses::reachable(self.address, self.api.options.serving.advertise);
        format!("{scheme}://{address}")
    }

    /// The CA of its serving certificate, in PEM, for clients to verify it with; `None` for plain HTTP.
    #[must_use]
    pub fn ca_pem(&self) -> Option<&str> {
        self.ca_pem.as_deref()
    }

    /// A bearer token of a member of `system:masters`. It is kept with the CA, so it outlives a restart unless keys
    /// are in memory only.
    #[must_use]
    pub fn admin_token(&self) -> &str {
        &self.admin_token
    }

    /// Returns a kubeconfig for the administrator: with a client certificate, and with a token for clients that support
    /// only tokens. It contains secrets.
    #[must_use]
    pub fn admin_kubeconfig(&self) -> String {
        let line = |key: &str, pem: &str| format!("    {key}: {}\n", STANDARD.encode(pem));
        let ca = self.ca_pem.as_ref().map(|pem| line("certificate-authority-data", pem));
        let Issued { certificate, key } = &self.admin_certificate;
        let client = line("client-certificate-data", certificate) + &line("client-key-data", key);
        format!(
            "apiVersion: v1\nkind: Config\nclusters:\n- name: listwatch\n  cluster:\n    server: {url}\n{ca}\
             users:\n- name: admin\n  user:\n{client}    token: {token}\n\
             contexts:\n- name: listwatch\n  context:\n    cluster: listwatch\n    user: admin\n\
             current-context: listwatch\n",
            url = self.url(),
            ca = ca.unwrap_or_default(),
            client = if self.ca_pem.is_some() { client } else { String::new() },
            token = self.admin_token,
        )
    }

    /// Completes when a background task has ended that the server depends on, and returns its name. The process should
    /// end: the tasks cannot be restarted.
    pub async fn failed(&self) -> &'static str {
        self.api.metrics.tasks.first_end().await
    }

    /// The shared state of request handlers, for programs that embed the server.
    #[must_use]
    pub fn api(&self) -> &Arc<Api> {
        &self.api
    }

    /// Stops gracefully: no new connections, watches end with a last bookmark, requests in flight finish, the
    /// engine is closed. It takes at most ten seconds plus the closing of the engine; connections that are still open
    /// then are dropped.
    pub async fn shutdown(mut self) {
        self.stop.cancel();
        self.api.cache.close();
        self.connections.close();
        if tokio::time::timeout(DRAIN, self.connections.wait()).await.is_err() {
            tracing::warn!(left = self.connections.len(), "connections did not end in time");
        }
        for task in self.tasks.drain(..) {
            task.abort();
        }
        if let Err(error) = self.api.engine.close().await {
            tracing::warn!(%error, "the store did not close properly");
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.stop.cancel();
        self.api.cache.close();
        self.tasks.iter().for_each(tokio::task::AbortHandle::abort);
    }
}
