//! A Kubernetes API server built around list and watch.
//!
//! [`Server::start`] takes [`Options`] and a storage engine and returns a [`Handle`]. Everything a client sees, from TLS
//! to the last event of a watch, is served from then on, until [`Handle::shutdown`].
//!
//! It is not a store: that is `listwatch_storage`. The built-in kinds are data in `listwatch_kinds`. The command line
//! is `listwatch serve`.
//!
//! # Reading the source
//!
//! 1. [`cache`]: the watch cache, with the current state, recent events and watchers. The core.
//! 2. `listen/`, `http/`: connections, TLS, HTTP/1.1, HTTP/2 and WebSocket.
//! 3. `chain/`: the handler chain of every request: authentication, authorization, limits, routing to its verb. `request/` has
//!    the parsed request, `respond/` the encodings of a response.
//! 4. `verbs/`: one file per verb; `endpoints/`: discovery, OpenAPI, health, metrics; `subresources/`.
//! 5. `pipeline/`: the steps of every write. `admission/` and `allocate/` are two of them.
//! 6. [`registry`]: which resources exist, and the strategy of each.
//! 7. [`auth`]: authentication and authorization.
//! 8. `fairness/`: API priority and fairness.
//! 9. `forward/`: requests forwarded to extension API servers, kubelets, Pods and Services.
//! 10. `lifecycle/`: controllers: bootstrap objects, namespace deletion, garbage collection, CustomResourceDefinitions.
//! 11. [`observe`]: metrics and debug pages.
//!
//! ```
//! use std::sync::Arc;
//! use listwatch_server::{Options, Server};
//! use listwatch_storage::MemoryEngine;
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), listwatch_server::Error> {
//! let server = Server::start(Options::default(), Arc::new(MemoryEngine::default())).await?;
//! println!("serving at {}", server.url());
//! server.shutdown().await;
//! # Ok(())
//! # }
//! ```

mod admission;
mod allocate;
pub mod api;
mod audit;
pub mod auth;
#[cfg(feature = "bench-http")]
pub mod bench_http;
pub mod cache;
mod chain;
pub mod encryption;
mod endpoints;
mod error;
mod fairness;
mod files;
mod forward;
#[cfg(fuzzing)]
pub mod fuzzing;
mod http;
mod identity;
mod lifecycle;
mod listen;
pub mod observe;
mod options;
mod outbound;
mod pipeline;
pub mod registry;
mod request;
mod respond;
mod server;
mod subresources;
mod verbs;

pub use admission::{
    AdmissionError, AdmissionOptions, EventLimit, EventLimitType, ImagePolicyOptions, PodSecurityOptions,
    WebhookLimits,
};
pub use api::is_essential;
pub use error::Error;
pub use files::parse_yaml;
pub use options::{
    AuditOptions, AuditRotation, BuildInfo, CacheLimits, HttpLimits, IdentityOptions, KeepKeys,
    LifecycleOptions, NamespaceObjects, NodeOptions, Options, RequestLimits, Security, ServingOptions,
    StreamLimits, WatchLimits,
};
pub use server::{Handle, Server};
