//! The work of the writer between batches, in small steps: update the table of keys, remove expired history from the log,
//! and advance the beginning of history.
//!
//! None of this changes the content of the store, so these transactions are not synced: a crash may undo the newest of
//! them, and the work is repeated.
//!
//! A step is bounded by rows, and takes more of them the larger the batch before it was, so that clearing keeps up with
//! filling. At most one step comes between two batches. Each one advances the epoch, which makes readers retry that
//! have read the index but not yet the tables.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use listwatch_wire::Revision;
use rusqlite::{Connection, Result, Transaction, TransactionBehavior, params};

use super::EmbeddedOptions;
use super::index::KeyHead;
use super::recover::Recovered;
use super::retention::{Retention, RetentionMark, mark_due};
use super::schema::sql;
use super::sweep::Sweep;
use super::writer::EngineWriter;
use crate::Error;

/// The most rows of one step: a few milliseconds.
const STEP: usize = 512;

/// The rows that a step may take for every write of the batch before it. Clearing has to be faster than filling.
const ROWS_PER_WRITE: usize = 4;

/// About what a row changed by a step costs in the write-ahead log.
const STEP_ROW_BYTES: u64 = 1024;

/// The progress of upkeep.
#[derive(Debug)]
pub(super) struct Upkeep {
    /// All changes up to here are in the table of keys; a start replays what comes after.
    indexed: Revision,
    sweep: Sweep,
    /// The pass over the recent keys that is under way.
    pass: Option<UpkeepPass>,
    unindexed_changes: u64,
    retention: Retention,
    history_floor: u64,
    marks: VecDeque<RetentionMark>,
    /// Bytes of keys and values written since the store was created, according to the marks.
    bytes: u64,
    opened: Instant,
    /// The time that the store was open before this process, from the newest mark.
    uptime_before_ms: u64,
}

/// One pass over the recent keys. When it is through, the table has all changes up to the revision where it began; keys
/// that changed behind its back wait for the next one.
#[derive(Debug)]
struct UpkeepPass {
    upto: Revision,
    after: Arc<str>,
}

impl Upkeep {
    /// Continues the upkeep where the last run of the store left it.
    pub(super) fn new(recovered: Recovered, options: &EmbeddedOptions) -> Self {
        let last = recovered.marks.back().copied();
        Self {
            indexed: recovered.indexed,
            sweep: Sweep::new(recovered.swept),
            pass: None,
            unindexed_changes: options.unindexed_changes,
            retention: Retention { age: options.history_age, bytes: options.history_bytes },
            history_floor: options.history_floor,
            bytes: last.map_or(0, |mark| mark.bytes) + recovered.unmarked,
            uptime_before_ms: last.map_or(0, |mark| mark.uptime_ms),
            marks: recovered.marks,
            opened: Instant::now(),
        }
    }

    /// Counts bytes written.
    pub(super) fn written(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// A mark of this moment. Age counts the time in which the store was open, so that history is not lost by a week
    /// of being off.
    fn now(&self, revision: Revision) -> RetentionMark {
        let open_ms = u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX);
        RetentionMark {
            revision,
            uptime_ms: self.uptime_before_ms.saturating_add(open_ms),
            bytes: self.bytes,
        }
    }
}

/// A transaction that a crash may undo.
///
/// `synchronous = NORMAL` in WAL mode: atomic after a crash, but possibly lost. The pragma is set back even if the work
/// failed, or the next write would be acknowledged without a sync.
fn relaxed<T>(connection: &Connection, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
    connection.execute_batch("PRAGMA synchronous = NORMAL")?;
    let done =
        Transaction::new_unchecked(connection, TransactionBehavior::Immediate).and_then(|transaction| {
            let done = work(&transaction)?;
            transaction.commit().map(|()| done)
        });
    connection.execute_batch("PRAGMA synchronous = FULL")?;
    done
}

impl EngineWriter<'_> {
    /// Returns true if a step would find something to do.
    pub(super) fn upkeep_due(&self) -> bool {
        let compacted = self.shared.index.read().compacted;
        let unindexed = self.upkeep.pass.is_some() || self.unindexed() >= self.upkeep.unindexed_changes;
        unindexed || self.upkeep.sweep.due(compacted)
    }

    /// Changes that the index on disk does not have yet; they are found in memory.
    fn unindexed(&self) -> u64 {
        self.shared.upto().0.saturating_sub(self.upkeep.indexed.0)
    }

    /// One step after a batch of `writes`.
    pub(super) fn upkeep_step(&mut self, writes: usize) {
        let rows = if writes == 0 { STEP } else { (writes * ROWS_PER_WRITE).clamp(STEP / 8, STEP) };
        if self.upkeep.pass.is_some() || self.unindexed() >= self.upkeep.unindexed_changes {
            self.index_step(rows);
        } else if let Err(error) = self.sweep_step(rows) {
            self.upkeep.sweep.start_over();
            self.fail(&error);
        }
    }

    /// Brings some keys of the table up to date. False once the pass is through.
    ///
    /// A pass needs no snapshot: a key that changes after the pass went by stays in the index, with a head that is
    /// newer than `upto`.
    pub(super) fn index_step(&mut self, rows: usize) -> bool {
        let pass = self
            .upkeep
            .pass
            .get_or_insert_with(|| UpkeepPass { upto: self.shared.upto(), after: Arc::from("") });
        let heads = self.shared.index.read().after(&pass.after, rows);
        let Some((last, _)) = heads.last() else {
            let upto = pass.upto;
            self.upkeep.pass = None;
            if let Err(error) = self.indexed(upto) {
                self.fail(&error);
            }
            return false;
        };
        pass.after = Arc::clone(last);
        match self.store_heads(&heads) {
            Ok(()) => true,
            Err(error) => {
                self.upkeep.pass = None;
                self.fail(&error);
                false
            }
        }
    }

    /// Writes the newest revisions of some keys to the table and moves the epoch. The index is changed only after the
    /// commit, so that readers never see it ahead of the tables.
    fn store_heads(&mut self, heads: &[(Arc<str>, KeyHead)]) -> Result<()> {
        let epoch = relaxed(self.connection, |connection| {
            let store = "INSERT INTO keys VALUES (?, ?, ?)
                         ON CONFLICT (key) DO UPDATE SET revision = excluded.revision, live = excluded.live";
            let mut store = connection.prepare_cached(store)?;
            for (key, head) in heads {
                store.execute(params![&**key, sql(head.revision), head.live])?;
            }
            next_epoch(connection)
        })?;
        let mut index = self.shared.index.write();
        heads.iter().for_each(|(key, _)| index.stored(key));
        index.epoch = epoch;
        self.unmoved_bytes += heads.len() as u64 * STEP_ROW_BYTES;
        Ok(())
    }

    /// Records how far the index by key reaches. Not synced: after a crash a part is indexed again.
    fn indexed(&mut self, upto: Revision) -> Result<()> {
        relaxed(self.connection, |connection| {
            connection.execute("UPDATE state SET indexed = ?", [sql(upto)])
        })?;
        self.upkeep.indexed = upto;
        Ok(())
    }

    /// Clears some of the log of what is before the begin of history.
    fn sweep_step(&mut self, rows: usize) -> Result<()> {
        let goal = self.shared.index.read().compacted;
        if self.upkeep.sweep.reads() {
            return self.upkeep.sweep.read(self.connection, goal, rows);
        }
        let sweep = &mut self.upkeep.sweep;
        let (gone, epoch) = relaxed(self.connection, |connection| {
            Ok((sweep.delete(connection, rows)?, next_epoch(connection)?))
        })?;
        sweep.committed();
        self.unmoved_bytes += rows as u64 * STEP_ROW_BYTES;
        let mut index = self.shared.index.write();
        gone.iter().for_each(|(key, at)| index.swept(key, *at));
        index.epoch = epoch;
        Ok(())
    }

    /// Moves the begin of history to `upto`; the log is cleared later.
    ///
    /// # Errors
    ///
    /// [`Error::Future`] beyond the newest revision; else as a write.
    pub(super) fn compact(&mut self, upto: Revision) -> std::result::Result<(), Error> {
        let (current, compacted) = {
            let index = self.shared.index.read();
            (index.upto, index.compacted)
        };
        if upto > current {
            return Err(Error::Future { asked: upto, current });
        }
        if upto <= compacted {
            return Ok(());
        }
        self.begin_history(upto).map_err(|error| self.fail(&error))
    }

    /// Not synced: if a crash undoes it, history is longer than reported, which is harmless.
    fn begin_history(&mut self, at: Revision) -> Result<()> {
        let epoch = relaxed(self.connection, |connection| {
            connection.execute("UPDATE state SET compacted = ?", [sql(at)])?;
            connection.execute("DELETE FROM marks WHERE revision < ?", [sql(at)])?;
            next_epoch(connection)
        })?;
        self.upkeep.marks.retain(|mark| mark.revision >= at);
        let mut index = self.shared.index.write();
        index.compacted = at;
        index.epoch = epoch;
        Ok(())
    }

    /// Returns how many bytes of history may be kept: as many as the live data has, within the options' bounds.
    ///
    /// The size of the live data is what the pages hold minus what was written since the oldest mark, an estimate
    /// that errs by free space inside of pages.
    fn history_budget(&self, now: RetentionMark) -> Result<u64> {
        let number = |name: &str| self.connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let pages = number("page_count")? - number("freelist_count")?;
        let used = u64::try_from(pages * number("page_size")?).unwrap_or(0);
        let history = now.bytes.saturating_sub(self.upkeep.marks.front().map_or(0, |mark| mark.bytes));
        let live = used.saturating_sub(history);
        Ok(live.max(self.upkeep.history_floor).min(self.upkeep.retention.bytes))
    }

    /// Bytes of the file that hold nothing.
    pub(super) fn free_bytes(&self) -> u64 {
        let number = |name: &str| self.connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let free = number("freelist_count").unwrap_or(0) * number("page_size").unwrap_or(0);
        u64::try_from(free).unwrap_or(0)
    }

    /// Compacts to the newest revision and clears the log, for a disk that is full: what was deleted frees no space
    /// before.
    ///
    /// Unlike a step it runs to the end, because nothing else can be written on a full disk.
    pub(super) fn drop_history(&mut self) {
        let upto = self.shared.upto();
        let mut outcome = self.begin_history(upto);
        while outcome.is_ok() && self.upkeep.sweep.due(upto) {
            outcome = self.sweep_step(STEP);
        }
        if let Err(error) = outcome {
            self.upkeep.sweep.start_over();
            if !self.connection.is_autocommit() {
                let _ = self.connection.execute_batch("ROLLBACK");
            }
            tracing::warn!(%error, "history could not be cleared from the full disk, trying again");
        }
        self.move_log();
    }

    /// Sets a mark if it is time for one, and lets history begin where its bounds say.
    ///
    /// Called at each tick, once per second. Does one small insert at most, and marks what has ended; `sweep_step`
    /// clears it.
    pub(super) fn retain(&mut self) -> Result<()> {
        let now = self.upkeep.now(self.shared.upto());
        if mark_due(self.upkeep.marks.back().copied(), now) {
            let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
            let values = params![sql(now.revision), number(now.uptime_ms), number(now.bytes)];
            relaxed(self.connection, |connection| {
                connection.execute("INSERT OR REPLACE INTO marks VALUES (?, ?, ?)", values)
            })?;
            self.upkeep.marks.push_back(now);
        }
        let compacted = self.shared.index.read().compacted;
        let retention = Retention { bytes: self.history_budget(now)?, ..self.upkeep.retention };
        match retention.expired(&self.upkeep.marks, now) {
            Some(expired) if expired > compacted => self.begin_history(expired),
            _ => Ok(()),
        }
    }
}

/// Counts a change of the tables, so that no reader takes them together with an index that does not belong to them.
fn next_epoch(connection: &Connection) -> Result<i64> {
    connection.query_row("UPDATE state SET epoch = epoch + 1 RETURNING epoch", [], |row| row.get(0))
}

/// Brings the table of keys up to date and drops all history at once, for a store that no other process uses.
pub(super) fn forget_all(connection: &mut Connection) -> Result<()> {
    let transaction = connection.transaction()?;
    transaction.execute_batch(
        "INSERT INTO keys SELECT key, max(revision), typeof(value) != 'null' FROM log
             WHERE revision > (SELECT indexed FROM state) GROUP BY key
             ON CONFLICT (key) DO UPDATE SET revision = excluded.revision, live = excluded.live;
         UPDATE state SET indexed = (SELECT coalesce(max(revision), 0) FROM log);
         UPDATE state SET compacted = indexed, swept = indexed, epoch = epoch + 1;
         DELETE FROM log WHERE revision < (SELECT compacted FROM state)
             AND revision NOT IN (SELECT revision FROM keys WHERE live);
         DELETE FROM keys WHERE NOT live AND revision < (SELECT compacted FROM state);
         DELETE FROM marks WHERE revision < (SELECT compacted FROM state);",
    )?;
    transaction.commit()
}
