//! The requirements on every engine, as tests, for authors of another one.
//!
//! Each [`Case`] gets an empty engine, does something with it and panics if the engine breaks the contract of
//! [`Engine`]. No case expects revisions to start at a particular number or to be free of gaps: in etcd others write too.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! use std::sync::Arc;
//! for case in listwatch_storage::suite::cases() {
//!     case.run(Arc::new(listwatch_storage::MemoryEngine::default())).await;
//! }
//! # }
//! ```

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test suite fails by panicking"
)]

mod compaction;
mod concurrency;
mod log;
mod reads;
mod transactions;
mod writes;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use listwatch_wire::Revision;

use crate::{Change, Changes, Engine, Expect, Range, Write, Written};

/// The longest time for anything that must happen: far more than the slowest engine on a loaded machine needs.
const PATIENCE: Duration = Duration::from_secs(30);

/// A case, with its future boxed, so that all are of one type.
type Run = fn(Arc<dyn Engine>) -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// One property that engines have.
///
/// A value rather than a test function, so that a crate with another engine can run each case under a name of its
/// own.
#[derive(Clone, Copy)]
pub struct Case {
    /// The requirement that it tests.
    pub name: &'static str,
    run: Run,
}

impl Case {
    /// Runs on an engine without any keys.
    ///
    /// # Panics
    /// If the engine does not have the property.
    pub async fn run(&self, engine: Arc<dyn Engine>) {
        let done = tokio::time::timeout(PATIENCE * 2, (self.run)(engine)).await;
        assert!(done.is_ok(), "case {} did not come to an end", self.name);
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Case").field("name", &self.name).finish_non_exhaustive()
    }
}

macro_rules! cases {
    ($module:ident: $($name:ident,)*) => {
        &[$(Case {
            name: concat!(stringify!($module), "::", stringify!($name)),
            run: |engine| Box::pin(async move { $module::$name(&engine).await }),
        },)*]
    };
}

/// All cases.
///
/// Grouped by what they touch: single writes, reads, the log, compaction, transactions, concurrency. They need no
/// particular order, but an empty engine each.
#[must_use]
pub fn cases() -> Vec<Case> {
    [WRITES, READS, LOG, COMPACTION, TRANSACTIONS, CONCURRENCY].concat()
}

const WRITES: &[Case] = cases! {
    writes:
    put_get_delete,
    every_write_has_a_greater_revision,
    absent_refuses_what_exists,
    at_refuses_another_revision,
    deleting_nothing_is_refused,
    refused_writes_leave_no_trace,
    values_are_any_bytes,
    keys_are_any_text_after_a_slash,
    a_key_can_live_again,
};

const READS: &[Case] = cases! {
    reads:
    range_is_ordered_and_half_open,
    limit_bounds_items_but_not_count,
    pages_follow_each_other,
    older_revisions_stay_as_they_were,
    older_ranges_show_what_is_deleted_now,
    future_is_an_error,
    neighbours_of_a_prefix_stay_out,
    versions_come_newest_first_and_in_pages,
    versions_end_where_history_begins,
};

const LOG: &[Case] = cases! {
    log:
    changes_come_in_order_with_previous_values,
    the_log_starts_anywhere,
    an_empty_log_waits,
    dropping_the_future_loses_nothing,
    many_readers_see_the_same,
    a_slow_reader_misses_nothing,
    future_positions_are_an_error,
    the_log_reaches_the_current_revision,
};

const COMPACTION: &[Case] = cases! {
    compaction:
    older_reads_and_logs_fail,
    the_state_at_the_begin_of_history_stays,
    the_log_after_the_begin_of_history_stays_whole,
    deleted_keys_stay_deleted,
    going_back_does_nothing,
    the_future_cannot_be_compacted,
};

const TRANSACTIONS: &[Case] = cases! {
    transactions:
    all_conditions_or_nothing,
    the_log_has_a_transaction_in_one_batch,
    a_key_cannot_be_written_twice,
};

const CONCURRENCY: &[Case] = cases! {
    concurrency:
    one_of_many_creates_wins,
    increments_are_not_lost,
    reads_see_acknowledged_writes,
    ranges_are_snapshots,
    the_log_has_every_write_once,
};

fn put(key: &str, value: impl Into<Bytes>, expect: Expect) -> Write {
    Write { key: key.into(), value: Some(value.into()), expect, origin: None }
}

fn delete(key: &str, expect: Expect) -> Write {
    Write { key: key.into(), value: None, expect, origin: None }
}

/// Writes, and expects it to take place.
async fn done(engine: &Arc<dyn Engine>, write: Write) -> Revision {
    match engine.write(write.clone()).await.expect("a write") {
        Written::Done { revision } => revision,
        Written::Refused { current } => panic!("{write:?} was refused by {current:?}"),
    }
}

async fn set(engine: &Arc<dyn Engine>, key: &str, value: &str) -> Revision {
    done(engine, put(key, value.to_owned(), Expect::Any)).await
}

async fn remove(engine: &Arc<dyn Engine>, key: &str) -> Revision {
    done(engine, delete(key, Expect::Any)).await
}

/// Writes, and expects a refusal; returns the present value.
async fn refused(engine: &Arc<dyn Engine>, write: Write) -> Option<(Revision, Bytes)> {
    match engine.write(write.clone()).await.expect("an answer") {
        Written::Done { revision } => panic!("{write:?} was done at {revision}"),
        Written::Refused { current } => current.map(|current| {
            assert_eq!(current.key, write.key);
            (current.revision, current.value)
        }),
    }
}

/// Reads a value as text, at a revision or now.
async fn value(engine: &Arc<dyn Engine>, key: &str, at: Option<Revision>) -> Option<String> {
    let found = engine.get(key, at).await.expect("a read");
    found.map(|found| {
        assert_eq!(&*found.key, key);
        text(&found.value)
    })
}

fn text(value: &Bytes) -> String {
    String::from_utf8(value.to_vec()).expect("text")
}

/// The entries of a prefix as `key=value`.
async fn listing(engine: &Arc<dyn Engine>, prefix: &str, at: Option<Revision>) -> Vec<String> {
    let page = engine.range(Range { at, ..Range::prefix(prefix) }).await.expect("a range");
    assert_eq!(page.count, page.items.len() as u64);
    page.items.iter().map(|item| format!("{}={}", item.key, text(&item.value))).collect()
}

/// Reads the log until it reaches `upto`.
async fn read_upto(log: &mut Box<dyn Changes>, upto: Revision) -> Vec<Change> {
    let mut changes: Vec<Change> = Vec::new();
    loop {
        let batch =
            tokio::time::timeout(PATIENCE, log.next()).await.expect("a batch in time").expect("a batch");
        let last = batch.changes.last().map_or(Revision::ZERO, |change| change.revision);
        assert!(last <= batch.upto, "a change after what the batch says it reaches");
        changes.extend(batch.changes.iter().cloned());
        if batch.upto >= upto {
            return changes;
        }
    }
}

/// A change as `key=value(previous)` or `key-(previous)`.
fn shorthand(change: &Change) -> String {
    let previous = change.previous.as_ref().map_or_else(|| "none".to_owned(), |(_, value)| text(value));
    match &change.value {
        Some(value) => format!("{}={}({previous})", change.key, text(value)),
        None => format!("{}-({previous})", change.key),
    }
}
