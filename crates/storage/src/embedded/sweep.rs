//! Removal of expired history from the log: values that were replaced before the beginning of history, and records of
//! deletions.
//!
//! The value that a change replaced can be anywhere before it in the log; deleting it at once would touch a page for
//! every row. So a sweep first reads a span of changes and collects the rows they replaced, then deletes these in disk
//! order, where whole pages become free. Both run in small steps. A crash in between does no harm: the span is read
//! again, and rows that are deleted already stay deleted.

use std::sync::Arc;

use listwatch_wire::Revision;
use rusqlite::{Connection, Result, params};

use super::schema::{revision, sql};

/// The rows that a span marks for deletion: half a megabyte of memory at most, and enough to find neighbours.
const SPAN: usize = 8192;

/// A row to delete; with the key if it is a deletion record, after which the key is removed from the table of keys.
type Doomed = (Revision, Option<Arc<str>>);

/// The progress of a sweep.
///
/// Lives in memory; what survives a crash is `state.swept`. Works for one goal at a time, and a goal may move forward
/// while a span is under way: the span was read for the old one and is still right.
#[derive(Debug)]
pub(super) struct Sweep {
    /// The revision up to which everything is cleared, as stored in the database.
    swept: Revision,
    /// The revision at which reading the span continues.
    next: Revision,
    /// The rows that the span marked, the first to delete at the end.
    doomed: Vec<Doomed>,
    /// The end of the span that has been read, if one has.
    end: Option<Revision>,
}

impl Sweep {
    pub(super) fn new(swept: Revision) -> Self {
        Self { swept, next: swept, doomed: Vec::new(), end: None }
    }

    /// Returns true if rows must go for history to begin at `goal`.
    ///
    /// The goal is the begin of history, which retention or a compaction has moved.
    pub(super) fn due(&self, goal: Revision) -> bool {
        self.swept < goal
    }

    /// Returns true if the next step only reads.
    pub(super) fn reads(&self) -> bool {
        self.end.is_none()
    }

    /// Abandons the span after a failure; it is read again.
    pub(super) fn start_over(&mut self) {
        *self = Self::new(self.swept);
    }

    /// Reads some changes up to `goal`.
    ///
    /// The change at `goal` itself stays even if it is a deletion, so that the log never loses its newest revision; the
    /// next span starts with it.
    pub(super) fn read(&mut self, connection: &Connection, goal: Revision, rows: usize) -> Result<()> {
        let query = "SELECT revision, key, previous, typeof(value) = 'null' FROM log
                     WHERE revision >= ? AND revision <= ? ORDER BY revision LIMIT ?";
        let mut statement = connection.prepare_cached(query)?;
        let limit = i64::try_from(rows).unwrap_or(i64::MAX);
        let mut found = statement.query(params![sql(self.next), sql(goal), limit])?;
        let (mut count, mut last) = (0, goal);
        while let Some(row) = found.next()? {
            (count, last) = (count + 1, revision(row.get(0)?));
            let previous = revision(row.get(2)?);
            if previous > Revision::ZERO {
                self.doomed.push((previous, None));
            }
            if row.get(3)? && last < goal {
                self.doomed.push((last, Some(row.get(1)?)));
            }
        }
        self.next = last.next();
        if count < rows || self.doomed.len() >= SPAN {
            self.close_span(if count < rows { goal } else { last });
        }
        Ok(())
    }

    /// Sorts the rows to delete. A deletion that a later change replaced is listed twice; its key must not be removed.
    fn close_span(&mut self, end: Revision) {
        self.end = Some(end);
        self.doomed.sort_unstable_by_key(|(at, key)| (*at, key.is_none()));
        self.doomed.dedup_by_key(|(at, _)| *at);
        self.doomed.reverse();
    }

    /// Deletes some of the collected rows, within a transaction. Returns the keys that were removed.
    ///
    /// At most `rows` rows, so that a step stays within milliseconds however large the span is. The progress is part
    /// of the same transaction.
    pub(super) fn delete(
        &mut self,
        connection: &Connection,
        rows: usize,
    ) -> Result<Vec<(Arc<str>, Revision)>> {
        let mut remove = connection.prepare_cached("DELETE FROM log WHERE revision = ?")?;
        let mut forget = connection.prepare_cached("DELETE FROM keys WHERE key = ? AND revision <= ?")?;
        let mut gone = Vec::new();
        let keep = self.doomed.len().saturating_sub(rows);
        for (at, key) in self.doomed.drain(keep..).rev() {
            remove.execute([sql(at)])?;
            if let Some(key) = key {
                forget.execute(params![&*key, sql(at)])?;
                gone.push((key, at));
            }
        }
        if let Some(end) = self.end.filter(|_| self.doomed.is_empty()) {
            connection.execute("UPDATE state SET swept = ?", [sql(end)])?;
        }
        Ok(gone)
    }

    /// Notes that what was deleted is committed.
    ///
    /// Separate from `delete`, because a transaction that fails must leave the state as it was.
    pub(super) fn committed(&mut self) {
        if let Some(end) = self.end.filter(|_| self.doomed.is_empty()) {
            *self = Self::new(end);
        }
    }
}
