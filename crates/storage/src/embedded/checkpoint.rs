//! The checkpoint thread, which copies the write-ahead log into the database file, and the clock of the writer.
//!
//! A checkpoint is most of the disk IO and would stall the writer if it ran there, as SQLite does by default. Beside a
//! busy writer, however, it never completes, and the write-ahead log would grow for ever. So this thread copies the bulk,
//! and the writer the rest that was added in the meantime.

use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use rusqlite::{Connection, Result};
use tokio::sync::mpsc::WeakSender;

use super::pending::WriterRequest;
use super::schema::{ConnectionRole, connect};
use super::writer::EngineWriter;

/// The cost of a batch in the write-ahead log beside its content: the page it began in and the one it ended in.
pub(super) const BATCH_OVERHEAD: u64 = 8192;

/// The interval at which the writer checks for history that has ended, and for a broken disk that works again.
const TICK: Duration = Duration::from_secs(1);

/// As little as that is left to the writer, a fraction of a batch's time …
const LITTLE_PAGES: i64 = 64;
/// … unless it outruns this thread so many times in a row.
const ROUNDS: usize = 5;

/// Runs until the writer ends.
///
/// Has no state that must be finished: it may be stopped at any time, and the next checkpoint completes an unfinished
/// one.
pub(super) fn run(path: &Path, wanted: &Receiver<()>, writer: &WeakSender<WriterRequest>) {
    let mut next_tick = Instant::now() + TICK;
    loop {
        let request = match wanted.recv_timeout(next_tick.saturating_duration_since(Instant::now())) {
            Ok(()) => {
                move_bulk(path);
                WriterRequest::Checkpointed
            }
            Err(RecvTimeoutError::Timeout) => {
                next_tick = Instant::now() + TICK;
                WriterRequest::Tick
            }
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let Some(writer) = writer.upgrade() else { return };
        if writer.blocking_send(request).is_err() {
            return;
        }
    }
}

/// Opens a connection each time: this happens every few seconds at most, and an idle store should hold nothing.
fn move_bulk(path: &Path) {
    let moved = connect(path, ConnectionRole::Helper).map(|connection| rounds(&connection));
    if let Err(error) | Ok(Err(error)) =
        moved.map(|moved| moved.map_err(|error| super::failure::writing(&error)))
    {
        tracing::warn!(%error, "could not move the write-ahead log to its place, trying again later");
    }
}

/// Each round moves what was written during the one before, so they become shorter unless the writer is faster than
/// the disk.
fn rounds(connection: &Connection) -> Result<()> {
    let mut done = 0;
    for _ in 0..ROUNDS {
        let moved = passive(connection)?;
        if moved.moved - done < LITTLE_PAGES {
            break;
        }
        done = moved.moved;
    }
    Ok(())
}

struct Moved {
    total: i64,
    moved: i64,
}

fn passive(connection: &Connection) -> Result<Moved> {
    connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| {
        Ok(Moved { total: row.get(1)?, moved: row.get(2)? })
    })
}

/// Moves everything and empties the write-ahead log, when no more writes will come.
///
/// Waits for readers up to the connection's busy timeout, then leaves the rest in the log without an error; the next
/// start recovers it.
pub(super) fn finish(connection: &Connection) -> Result<()> {
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
}

impl EngineWriter<'_> {
    /// Moves what came while the bulk was moved. After that the next commit starts over at the begin of the file, unless
    /// a reader still looks at an old state.
    pub(super) fn finish_checkpoint(&mut self) {
        match passive(self.connection) {
            Ok(Moved { total, moved }) => {
                self.unmoved_bytes = u64::try_from(total - moved).unwrap_or(0) * BATCH_OVERHEAD;
            }
            Err(error) => tracing::warn!(%error, "could not finish moving the write-ahead log to its place"),
        }
    }
}
