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

mod collection;
#[cfg(feature = "etcd")]
mod etcd;
mod held;
pub mod history;
pub mod proxy;
pub mod raw;
mod server;
pub mod workload;

pub use collection::TestCollection;
#[cfg(feature = "etcd")]
pub use etcd::Etcd;
pub use held::DeltaBases;
pub use proxy::Proxy;
pub use raw::RawClient;
pub use server::{StartError, TestServer, TestStore};
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
