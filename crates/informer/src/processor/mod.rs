//! Delivery of store changes to handlers, each at its own pace.
//!
//! The informer loop publishes batches of [`Event`]s; every handler has a backlog of them, which is a cursor and not a
//! copy: the batches are shared. A handler that keeps up reads them in order. One that falls behind by more than
//! [`HandlerOptions::max_backlog`] has its unread batches folded by key (see `coalesce`), so that its backlog is
//! bounded by the number of objects and not by the number of changes. No other handler waits for it, and no key is
//! lost: a key that changed is always delivered, with its latest state.
//!
//! This is not where the store is changed; that is [`informer`](crate::informer). In reading order: [`event`],
//! [`handler`], `coalesce`, `backlog`, `runner`, `resync`, [`stream`].

pub(crate) mod backlog;
pub(crate) mod coalesce;
pub(crate) mod current;
pub(crate) mod enqueue;
pub mod event;
pub mod handler;
pub(crate) mod registry;
pub(crate) mod resync;
pub(crate) mod runner;
pub mod stream;

pub use enqueue::enqueue_keys;
pub use event::{Deleted, Event};
pub use handler::{AsyncEventHandler, EventHandler, FilteringHandler, HandlerFuncs, HandlerOptions, RunOn};
pub use registry::{HandlerStatus, Registration};
pub use stream::EventStream;
