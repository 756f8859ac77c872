//! A Kubernetes API server whose heart is list and watch.
//!
//! [`Server::start`] takes [`Options`] and a storage engine and returns a [`Handle`]. Everything a client sees, from TLS
//! to the last event of a watch, is served from then on, until [`Handle::shutdown`].
//!
//! It is not a store: that is `listwatch_storage`. It does not know the built-in kinds by heart: those are data in
//! `listwatch_kinds`. It has no command line: that is `listwatch serve`.
//!
//! # Reading the source
//!
//! 1. [`cache`]: the current state, its recent history, and those who watch it. The heart.
//! 2. `http/`: connections, requests, and one file per verb: `read`, `list`, `watch`, `write`.
//! 3. [`registry`]: which kinds exist, and the rules of writing them.
//! 4. [`auth`]: who asks, and whether they may.
//! 5. `lifecycle/`: what happens by itself: first objects, namespaces that empty, dependents that follow their owners.
//! 6. [`observe`]: what can be seen from outside.
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

pub mod api;
pub mod auth;
pub mod cache;
mod error;
mod http;
mod lifecycle;
pub mod observe;
mod options;
pub mod registry;
mod server;

pub use error::Error;
pub use options::{
    CacheLimits, HttpLimits, LifecycleOptions, NamespaceObjects, Options, RequestLimits, Security,
    WatchLimits,
};
pub use server::{Handle, Server};
