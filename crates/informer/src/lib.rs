//! Informers for Kubernetes: a local, indexed copy of a collection that is kept up to date by list and watch, and
//! handlers that receive every change. It is client-go's `tools/cache` for Rust, and works with any Kubernetes API
//! server.
//!
//! **It is** [`SharedInformer`] and its parts: sources, reflector, delta queue, store, processor. Objects stay as the
//! bytes the server sent and are decoded on first use; readers never block the writer; a slow or panicking handler
//! delays only itself; every bound has a name.
//!
//! **It is not** a Kubernetes client (that is `kube`), nor a work queue (that is `listwatch-workqueue`, re-exported
//! as [`workqueue`]). [`Controller`] puts all of it together.
//!
//! # Modules, in the order in which a change passes them
//!
//! 1. [`object`]: the cached objects.
//! 2. [`lister_watcher`]: the source they are read from; [`pager`] for lists in pages.
//! 3. [`reflector`]: turns lists and watches into a sequence of changes, and recovers from failures.
//! 4. [`delta`]: the queue between reflector and store.
//! 5. [`store`]: the cache with its indexes and snapshots.
//! 6. [`processor`]: handlers and streams.
//! 7. [`informer`]: the shared informer, which combines the above.
//! 8. [`kube`](mod@kube): a Kubernetes API server as the source; [`factory`] and [`lister`] for programs with many
//!    informers.
//! 9. [`controller`]: a reconcile function over informers and a work queue.
//! 10. [`warm`]: a cache that survives restarts; [`namespaces`]: adding and removing namespaces at run time.
//! 11. Also: [`retry_watcher`] for events without a cache, [`until`] to wait for a condition, [`mutation_cache`] to
//!     read your own writes, [`ttl_store`] for values that expire, [`leader_election`] for programs with several
//!     replicas, [`event_recorder`] to record Kubernetes Events, [`metrics`] and [`debug`] for observability.
//!
//! # Types of other crates
//!
//! Every type in a public signature is re-exported, so that users need no further dependencies: the selectors, keys and
//! statuses of [`wire`], the queues of [`workqueue`], [`CancellationToken`], and `kube` itself as [`kube_rs`], in the
//! version that this crate uses.
//!
//! # Example
//!
//! ```
//! use listwatch::lister_watcher::InMemory;
//! use listwatch::{Event, HandlerOptions, SharedInformer};
//! use serde_json::{Value, json};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Any `ListerWatcher` will do; against a cluster it is made from a `kube::Client`.
//! let source = InMemory::new(1000);
//! source.put(&json!({"metadata": {"namespace": "default", "name": "web"}}))?;
//!
//! let informer = SharedInformer::<Value>::new(source.clone());
//! let handler = informer.add_event_handler_with(
//!     |event: &Event<Value>| println!("{event}"),
//!     HandlerOptions::named("printer"),
//! )?;
//! informer.start()?;
//!
//! handler.wait_synced().await;
//! assert_eq!(informer.snapshot().namespace("default").count(), 1);
//! informer.stop().await;
//! # Ok(())
//! # }
//! ```

pub mod controller;
pub mod debug;
pub mod delta;
pub mod event_recorder;
pub mod factory;
pub mod informer;
pub mod kube;
pub mod leader_election;
pub mod lister;
pub mod lister_watcher;
mod lru;
pub mod metrics;
mod monitor;
pub mod mutation_cache;
pub mod namespaces;
pub mod object;
pub mod pager;
mod panics;
mod problem_log;
pub mod processor;
pub mod reflector;
pub mod retry;
pub mod retry_watcher;
pub mod store;
mod sync;
pub mod ttl_store;
pub mod until;
pub mod warm;

pub use ::kube as kube_rs;
pub use controller::Controller;
pub use factory::InformerFactory;
pub use informer::{InformerBuilder, InformerError, InformerOptions, InformerStatus, SharedInformer};
pub use lister::Lister;
pub use lister_watcher::{ListerWatcher, Sources};
pub use listwatch_wire as wire;
pub use listwatch_wire::options::ListOptions;
pub use listwatch_wire::selector::{FieldSelector, LabelSelector};
pub use listwatch_wire::status::Status;
pub use listwatch_wire::{ObjectKey, Revision};
pub use listwatch_workqueue as workqueue;
pub use monitor::{LastProblem, SourceStatus};
pub use object::{Object, ObjectError, Owner, Raw};
pub use processor::{Deleted, Event, EventHandler, EventStream, HandlerOptions, Registration};
pub use reflector::{Problem, ProblemResponse, ReflectorOptions};
pub use retry_watcher::{RetryWatcher, RetryWatcherOptions};
pub use store::{Index, Snapshot, Store};
pub use tokio_util::sync::CancellationToken;
pub use warm::{Freshness, WarmOptions};
