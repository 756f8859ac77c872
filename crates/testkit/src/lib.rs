//! Test support: an API server inside the process, a fault-injecting proxy, and validators of the guarantees of a
//! watch.
//!
//! **It is** used by all end-to-end tests of this workspace, and meant for tests of any controller. **It is not** a fake:
//! [`TestServer`] is the real server, over real sockets, with real TLS.
//!
//! # In reading order
//!
//! 1. [`TestServer`]: a server on a free port, ready in milliseconds, stopped when dropped.
//! 2. `Etcd`, with the feature `etcd`: a real etcd for tests that need one.
//! 3. [`Proxy`]: cuts, stalls, delays and corrupts the traffic, by script or by seed.
//! 4. [`history`]: records of what happened, and the validators that name each broken promise.
//! 5. [`Workload`]: writers, watchers and listers that produce such records.
//!
//! Tests of an operator need the first and perhaps the third; the others are for tests of a server or of a client library.
//!
//! # A test of a controller
//!
//! [`TestServer`] and the controller run in the test. The cache of the controller's informer is the point to wait at: when it has
//! the resource version that a write returned, and the controller is idle, everything that follows from the write has been done.
//! The proxy simulates a bad network.
//!
//! ```
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kube::api::{Api, PostParams};
//! use listwatch::controller::{Controller, Outcome, Reconcile};
//! use listwatch::{Revision, SharedInformer};
//! use listwatch_testkit::proxy::{Plan, Proxy};
//! use listwatch_testkit::TestServer;
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = TestServer::start().await?;
//! let proxy = Proxy::start(server.config(), Plan::none()).await?;
//! let maps = SharedInformer::<ConfigMap>::new(Api::<ConfigMap>::all(proxy.config().try_into()?));
//! let controller = Controller::new(maps.clone())
//!     .start(|_: Reconcile<ConfigMap>| async { Ok::<_, kube::Error>(Outcome::Done) })?;
//!
//! let direct: Api<ConfigMap> = Api::default_namespaced(server.client()?);
//! let written = direct.create(&PostParams::default(), &serde_json::from_str(r#"{"metadata": {"name": "a"}}"#)?).await?;
//! let revision: Revision = written.metadata.resource_version.as_deref().unwrap_or_default().parse()?;
//! maps.store().wait_for(revision).await?;
//! controller.monitor().idle().await;
//! assert!(controller.monitor().status().reconciles > 0);
//!
//! proxy.cut_all(); // the informer resumes its watch
//! controller.stop().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Types of other crates
//!
//! Public signatures use types of the server ([`server`]), of storage engines ([`storage`]) and of both ends
//! ([`wire`]), which are re-exported in the version that this crate uses, and of the crates `kube`, `http` and
//! `serde_json`.

mod collection;
#[cfg(feature = "etcd")]
mod etcd;
mod held;
pub mod history;
pub mod proxy;
pub mod raw;
mod test_server;
pub mod workload;

pub use collection::TestCollection;
#[cfg(feature = "etcd")]
pub use etcd::Etcd;
pub use held::DeltaBases;
pub use listwatch_server as server;
pub use listwatch_storage as storage;
pub use listwatch_wire as wire;
pub use proxy::Proxy;
pub use raw::RawClient;
pub use test_server::{StartError, TestServer, TestStore};
pub use workload::Workload;

/// True if tests with real parts are enabled: `LISTWATCH_REAL=1`.
///
/// Only the value `1` counts, so that `LISTWATCH_REAL=0` disables them.
#[must_use]
pub fn with_real_parts() -> bool {
    std::env::var_os("LISTWATCH_REAL").is_some_and(|value| value == "1")
}

/// The Rust samples of documents, so that they compile and run. `cargo xtask test samples` fails for a document with Rust that is
/// not here.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../README.zh.md")]
    struct ChineseReadme;
    #[doc = include_str!("../../../crates/informer/README.md")]
    struct InformerReadme;
    #[doc = include_str!("../../../crates/testkit/README.md")]
    struct TestkitReadme;
    #[doc = include_str!("../../../crates/workqueue/README.md")]
    struct WorkqueueReadme;
    #[doc = include_str!("../../../docs/guides/controller.md")]
    struct ReadmeController;
    #[doc = include_str!("../../../docs/guides/testing.md")]
    struct Testing;
    #[doc = include_str!("../../../docs/testing-webhooks.md")]
    struct TestingWebhooks;
}
