//! [`TestServer`]: the real API server on a free loopback port, inside the test process.
//!
//! It has TLS and an administrator, like a server started from the command line, so that a test covers the whole path.
//! envtest of controller-runtime is the closest relative; this needs no binaries. Dropping it ends the server without
//! grace; [`TestServer::stop`] waits for requests. [`Proxy`](crate::Proxy) goes in front of it for faults.

use std::sync::Arc;

use kube::config::{KubeConfigOptions, Kubeconfig};
use listwatch_server::{Handle, Options, Security, Server};
use listwatch_storage::{EmbeddedEngine, EmbeddedOptions, Engine, MemoryEngine};
#[cfg(feature = "etcd")]
use listwatch_storage::{EtcdEngine, EtcdOptions};
use tempfile::TempDir;

use crate::raw::RawClient;

/// The storage of a [`TestServer`]. Memory is the fastest; the others are for tests of what survives a restart.
#[derive(Clone, Debug, Default)]
pub enum TestStore {
    /// In memory: lost when the server ends.
    #[default]
    Memory,
    /// The embedded engine, in a directory that goes away with the server.
    Embedded,
    /// An etcd at this URL, see `Etcd`.
    #[cfg(feature = "etcd")]
    Etcd(String),
}

/// A server on a free loopback port, with TLS and an administrator; stopped when dropped.
///
/// ```
/// use k8s_openapi::api::core::v1::Namespace;
/// use kube::api::{Api, ListParams};
/// use listwatch_testkit::TestServer;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = TestServer::start().await?;
/// let namespaces: Api<Namespace> = Api::all(server.client()?);
/// assert!(namespaces.list(&ListParams::default()).await?.items.len() > 0);
/// # Ok(())
/// # }
/// ```
///
/// Starts in milliseconds on memory. Each test can have one of its own, so tests need not agree on names of objects.
#[derive(Debug)]
#[doc(alias = "envtest")]
pub struct TestServer {
    handle: Handle,
    engine: Arc<dyn Engine>,
    config: kube::Config,
    store: TestStore,
    options: Options,
    /// The last field, so that the files are removed after the server has closed them.
    data: Option<TempDir>,
}

/// The reason for which a [`TestServer`] did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The server did not start.
    #[error(transparent)]
    Server(#[from] listwatch_server::Error),
    /// The store did not open.
    #[error(transparent)]
    Storage(#[from] listwatch_storage::Error),
    /// No directory could be made.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The server's kubeconfig is of no use to the client.
    #[error(transparent)]
    Kubeconfig(#[from] kube::config::KubeconfigError),
    /// The server's kubeconfig cannot be parsed.
    #[error("the server's kubeconfig cannot be parsed: {0}")]
    Yaml(String),
}

impl TestServer {
    /// Starts one in memory: the one for most tests.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn start() -> Result<Self, StartError> {
        Self::on(TestStore::Memory).await
    }

    /// Starts one on another store, for tests of restarts or of several servers on one etcd.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn on(store: TestStore) -> Result<Self, StartError> {
        Self::with(store, Options::default()).await
    }

    /// Starts one on a store with other options than the usual ones: admission plugins, limits, authorization modes.
    ///
    /// ```
    /// use listwatch_testkit::server::{AdmissionOptions, Options};
    /// use listwatch_testkit::{TestServer, TestStore};
    ///
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let enable = vec!["AlwaysPullImages".into()];
    /// let admission = AdmissionOptions { enable, ..AdmissionOptions::default() };
    /// let server = TestServer::with(TestStore::Memory, Options { admission, ..Options::default() }).await?;
    /// assert!(server.url().starts_with("https://127.0.0.1:"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The bind address of the default options is a free loopback port. Certificates of a server with a data
    /// directory are kept there, so that a restart has the same CA.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn with(store: TestStore, options: Options) -> Result<Self, StartError> {
        let data = if matches!(store, TestStore::Embedded) { Some(tempfile::tempdir()?) } else { None };
        // The future of a start is large, and would be part of that of every test.
        Box::pin(Self::open(store, options, data)).await
    }

    /// Opens the store, starts the server, and makes a client configuration from its kubeconfig.
    async fn open(store: TestStore, mut options: Options, data: Option<TempDir>) -> Result<Self, StartError> {
        let engine: Arc<dyn Engine> = match (&store, &data) {
            #[cfg(feature = "etcd")]
            (TestStore::Etcd(endpoint), _) => Arc::new(
                EtcdEngine::connect(EtcdOptions {
                    endpoints: vec![endpoint.clone()],
                    ..EtcdOptions::default()
                })
                .await?,
            ),
            (_, Some(data)) => Arc::new(EmbeddedEngine::open(data.path(), EmbeddedOptions::default()).await?),
            (_, None) => Arc::new(MemoryEngine::default()),
        };
        if let (Security::SelfMade { dir }, Some(data)) = (&mut options.security, &data) {
            *dir = Some(data.path().to_owned());
        }
        let handle = Server::start(options.clone(), engine.clone()).await?;
        let kubeconfig: Kubeconfig =
            listwatch_server::parse_yaml(&handle.admin_kubeconfig()).map_err(StartError::Yaml)?;
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        Ok(Self { handle, engine, config, store, options, data })
    }

    /// Its URL, with the port that the system chose.
    #[must_use]
    pub fn url(&self) -> String {
        self.handle.url()
    }

    /// Returns the administrator's kubeconfig as a file would have it, for programs that a test starts.
    #[must_use]
    pub fn kubeconfig(&self) -> String {
        self.handle.admin_kubeconfig()
    }

    /// The administrator's configuration for `kube` clients and [`crate::Proxy::start`].
    #[must_use]
    pub fn config(&self) -> kube::Config {
        self.config.clone()
    }

    /// A client for the administrator, who may do everything. To test the permissions of an operator, impersonate its
    /// service account in a [`config`](Self::config):
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::Secret;
    /// use kube::api::{Api, ListParams};
    /// use listwatch_testkit::TestServer;
    ///
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let server = TestServer::start().await?;
    /// let mut config = server.config();
    /// config.auth_info.impersonate = Some("system:serviceaccount:default:greeter".to_owned());
    /// let secrets: Api<Secret> = Api::default_namespaced(config.try_into()?);
    /// let refused = secrets.list(&ListParams::default()).await.unwrap_err();
    /// assert!(refused.to_string().contains("is forbidden"), "{refused}");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If TLS cannot be set up.
    pub fn client(&self) -> Result<kube::Client, kube::Error> {
        kube::Client::try_from(self.config())
    }

    /// Returns a client for requests by method and path, as the administrator, with each response as it was sent.
    ///
    /// # Errors
    /// If TLS cannot be set up.
    pub fn raw(&self) -> Result<RawClient, crate::raw::RawError> {
        RawClient::new(self.config())
    }

    /// The storage engine: its log is the truth that validators compare with.
    ///
    /// Writing to it goes around the API: the server sees such a write as one of another server on the same store.
    #[must_use]
    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.engine
    }

    /// The running server itself.
    #[must_use]
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Stops gracefully and starts again at the same address, on the same data where the store keeps any.
    ///
    /// In memory, everything is lost. Clients must be created again unless the store keeps the CA.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn restart(self) -> Result<Self, StartError> {
        let Self { handle, engine, config: _, store, mut options, data } = self;
        options.bind = handle.address();
        handle.shutdown().await;
        // The directory is locked until the last reference to the engine is dropped.
        drop(engine);
        Box::pin(Self::open(store, options, data)).await
    }

    /// Stops gracefully: watches end, requests are finished.
    pub async fn stop(self) {
        self.handle.shutdown().await;
    }
}
