//! [`EmbeddedOptions`]: the bounds of the embedded engine, each with its reason.
//!
//! They are of three kinds: history (how far back a list or watch can resume), memory (the tail, the queue, unindexed
//! changes) and the disk (checkpoint, reserve). `reserve_bytes` must stay above `checkpoint_bytes`, or a full disk
//! cannot be emptied. Nothing here changes the file format; a store can be opened with other options at any time.

use std::time::Duration;

/// The bounds of an [`EmbeddedEngine`](super::EmbeddedEngine). The defaults suit a cluster of some thousand nodes.
///
/// ```
/// use listwatch_storage::EmbeddedOptions;
///
/// // A small edge device: little history, and less space held back for a full disk.
/// let small = EmbeddedOptions {
///     history_bytes: 64 << 20,
///     history_floor: 4 << 20,
///     reserve_bytes: 6 << 20,
///     checkpoint_bytes: 4 << 20,
///     ..EmbeddedOptions::default()
/// };
/// assert!(small.reserve_bytes > small.checkpoint_bytes, "a full disk can still be emptied");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct EmbeddedOptions {
    /// The time for which changes stay readable, while the store is open. One hour lets clients resume their watches after
    /// a long absence, and a store that was shut over night still has the evening's changes.
    pub history_age: Duration,
    /// The bytes of changes that stay readable, if that is less. 2 GiB is an hour at 600 KiB/s.
    pub history_bytes: u64,
    /// History may be as large as the live data, and this large in any case: a small store that changes all the time must
    /// not fill a disk with its past, and 64 MiB are still minutes of a busy one.
    pub history_floor: u64,
    /// Disk space held back for deletions and for the clearing of history when the disk is full. More than
    /// `checkpoint_bytes`, so that the write-ahead log can be moved to its place and emptied.
    pub reserve_bytes: u64,
    /// The bytes of the newest changes that stay in memory, for cursors that follow the log closely. Those further
    /// behind reads from disk.
    pub tail_bytes: usize,
    /// The number of changes that stay in memory, if that is less.
    pub tail_changes: usize,
    /// The writes that may wait for the disk before callers have to wait for a place in the queue.
    pub queue: usize,
    /// The most writes in one transaction: bounds the wait of the first of a batch for the last.
    pub batch: usize,
    /// The reads that use the disk at the same time. More would only compete for it.
    pub readers: usize,
    /// The bytes that may be written before a checkpoint moves them from the write-ahead log. Bounds what a start
    /// after a crash has to look through.
    pub checkpoint_bytes: u64,
    /// The changes that may be newer than the table of keys. Bounds what every start has to read, and memory.
    pub unindexed_changes: u64,
    /// Decides by key and value which writes are accepted on a full disk besides deletions: those that keep a cluster
    /// alive or end a deletion. They may use a quarter of the reserve.
    pub essential: fn(&str, &[u8]) -> bool,
    /// The largest size of the main file in pages, or zero for no limit but the disk.
    pub max_pages: u32,
}

impl Default for EmbeddedOptions {
    fn default() -> Self {
        Self {
            history_age: Duration::from_secs(3600),
            history_bytes: 2 << 30,
            history_floor: 64 << 20,
            reserve_bytes: 20 << 20,
            tail_bytes: 16 << 20,
            tail_changes: 65_536,
            queue: 4096,
            batch: 1024,
            readers: 4,
            checkpoint_bytes: 16 << 20,
            unindexed_changes: 16_384,
            essential: |_, _| false,
            max_pages: 0,
        }
    }
}
