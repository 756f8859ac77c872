//! A revisioned, ordered, watchable key-value store, in the terms of etcd.
//!
//! [`Engine`] is the interface; there are three engines: [`MemoryEngine`] for tests, [`EmbeddedEngine`] on SQLite for one
//! machine, and one on etcd for several servers. Values are opaque to a store: objects, kinds and watch events belong to
//! the server.
//!
//! Next: [`Engine`] for the contract, `tail.rs` for how changes reach the followers of the log.
//!
//! ```
//! use listwatch_storage::{Engine, Expect, MemoryEngine, Write, Written};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), listwatch_storage::Error> {
//! let engine = MemoryEngine::default();
//! let mut log = engine.changes(engine.current().await?).await?;
//! let put = Write { key: "/a".into(), value: Some("1".into()), expect: Expect::Absent, origin: None };
//! let Written::Done { revision } = engine.write(put).await? else { unreachable!() };
//! assert_eq!(log.next().await?.upto, revision);
//! # Ok(())
//! # }
//! ```

mod changes;
pub mod embedded;
mod engine;
mod error;
#[cfg(feature = "etcd")]
pub mod etcd;
mod memory;
mod read;
#[cfg(feature = "suite")]
pub mod suite;
mod tail;
mod usage;
mod write;

pub use changes::{Batch, Change, Changes};
pub use embedded::{EmbeddedEngine, EmbeddedOptions};
pub use engine::{Engine, Health};
pub use error::Error;
#[cfg(feature = "etcd")]
pub use etcd::{EtcdEngine, EtcdOptions};
pub use listwatch_wire::Revision;
pub use memory::{MemoryEngine, MemoryOptions};
pub use read::{KeyValue, KeyVersion, Page, Range, VersionRange};
pub use usage::{SYNC_BOUNDS, SyncTimes, Usage};
pub use write::{Expect, Transacted, Write, Written};
