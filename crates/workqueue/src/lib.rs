//! Work queues for controllers.
//!
//! **It is** what client-go's `util/workqueue` is: a queue of *keys* that need work. A key is queued at most once, is never
//! processed by two consumers at a time, and if it is added while being processed it is processed exactly once more. On
//! top come delays, rate-limited retries, priorities, fairness between tenants, reasons that travel with a key, a bound,
//! metrics, and a small runner that turns a function into a controller. ([`Parallel`] is for the work inside one run.)
//!
//! **It is not** a channel or a job store: it holds keys, not messages, in the memory of one process.
//!
//! # A controller in ten lines
//!
//! ```
//! use listwatch_workqueue::{Job, Options, Outcome, Queue, Runner};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let queue = Queue::new(Options::new().name("pods"));
//! let runner = Runner::new(|job: Job<String>| async move {
//!     println!("reconciling {}", job.key);
//!     Ok::<_, std::io::Error>(Outcome::Done)
//! })
//! .workers(4)
//! .start(&queue);
//!
//! queue.add("default/web".to_owned())?; // what an informer's handler does
//! runner.shut_down().await; // everything queued is processed first
//! # Ok(())
//! # }
//! ```
//!
//! # Without the runner
//!
//! ```
//! use std::time::Duration;
//! use listwatch_workqueue::{Options, Queue};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let queue: Queue<&str> = Queue::new(Options::new());
//! queue.add("a")?;
//! queue.add("a")?; // queued already
//! queue.add_after("b", Duration::from_millis(5))?;
//!
//! let item = queue.get().await.ok_or("shut down")?;
//! queue.add("a")?; // in flight: once more, later
//! item.finish();
//!
//! assert_eq!(queue.get().await.map(|item| *item.key()), Some("a"));
//! assert_eq!(queue.get().await.map(|item| *item.key()), Some("b"));
//! # Ok(())
//! # }
//! ```
//!
//! # Where it differs from client-go, on purpose
//!
//! | client-go | here |
//! |---|---|
//! | `ShutDownWithDrain` returns when nothing is in flight for a moment, though keys are queued or due to run again | waits until nothing is queued, in flight or to be run again |
//! | of two callers of it only one returns | any number may wait |
//! | the delaying queue's goroutine outlives the queue, an add may block for ever | no thread and no task per queue; adds never block |
//! | `Done` without `Get` queues a key twice | [`Item`] cannot be done twice, or without having been handed out |
//! | a panicking worker leaves its key in flight for ever | the item's drop releases the key and retries it |
//! | failure counts of keys that are never forgotten leak | [bounded](limiter::FailureCounts) |
//! | a timer goroutine refreshes gauges twice a second | computed when read |
//! | no priorities, fairness, bound, cancel, pause or listing | [`Priority`], [`Options::fair`], [`Options::capacity`], [`Queue::cancel`], [`Queue::pause`], [`Queue::list`] |
//!
//! As in client-go, delayed keys are dropped at shutdown: the initial list of the next process adds their objects
//! again.
//!
//! # The order of keys
//!
//! Keys of one priority are handed out in the order in which they became ready: an add that has returned comes before
//! every add that begins after that, whichever threads they are on. (Producers leave keys in an inbox that is moved
//! into the queue in batches; batches keep the order, and everything that depends on it — a look at the length, an add
//! of another priority, a key that falls due — moves them first.) A key keeps its place when it is added again, goes to
//! the end when it is done and was added meanwhile, and to the end of the queue of a higher priority when its priority
//! is raised. A delayed key becomes ready when, its time having come, a consumer next looks; of several that are due,
//! the one with the earlier time goes first, to the millisecond. While more than a hundred keys of its priority are
//! ready it may have to wait: due keys then join them a hundred at a time, one such portion for every hundred
//! hand-outs, and other adds may come between.
//!
//! In a [fair](Options::fair) queue this holds for the keys of each tenant.
//!
//! # Reading the source
//!
//! `core/` is the queue as a pure state machine with the time passed in: start there. `shared.rs` puts locks around it and
//! explains which consumer is woken when. `produce.rs`, `get.rs`, `item.rs`, `drain.rs` are the public calls. `limiter/`,
//! `metrics.rs`, `prometheus.rs` and `runner/` are independent of the rest.

mod clock;
mod core;
mod drain;
mod error;
mod get;
mod inbox;
mod inspect;
mod item;
pub mod limiter;
mod metrics;
mod options;
mod pace;
mod priority;
mod produce;
mod prometheus;
mod queue;
mod reason;
mod runner;
mod shared;
#[cfg(test)]
mod shuttle_tests;
mod sync;
mod ticket;
mod waiters;
mod waking;

pub use drain::{Drain, Drained};
pub use error::AddError;
pub use get::Get;
pub use inspect::{KeyState, KeyView};
pub use item::Item;
pub use metrics::{Histogram, Source, Stats};
pub use options::Options;
pub use priority::Priority;
pub use produce::AddWait;
pub use prometheus::Prometheus;
pub use queue::Queue;
pub use reason::Reason;
pub use runner::{Job, Outcome, Parallel, Pieces, Runner, Running, Unfinished};

/// Types that can be keys: implemented for everything that fits. Cloning should be cheap; a consumer gets a clone.
pub trait Key: Eq + std::hash::Hash + Clone + Send + 'static {}

impl<K: Eq + std::hash::Hash + Clone + Send + 'static> Key for K {}
