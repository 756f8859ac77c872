//! A revisioned, ordered, watchable key-value store: memory, SQLite and etcd engines.

mod engine;
mod error;

pub use engine::{Batch, Change, Changes, Engine, Expect, KeyValue, Page, Range, Write, Written};
pub use error::Error;
