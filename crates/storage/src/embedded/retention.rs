//! The amount of history to keep: a pure function of marks that are set as the store is written.
//!
//! Age counts the time that the store was open and never looks at the wall clock: neither a clock that jumps nor a long
//! shutdown discards history.
//!
//! Marks are rows of a table of their own, so that age survives a restart. There are at most a few thousand: one per
//! [`MARK_EVERY_BYTES`] or [`MARK_EVERY_MS`] within the bounds of history, and none while nothing is written. `sweep`
//! removes expired history.

use std::collections::VecDeque;
use std::time::Duration;

use listwatch_wire::Revision;

/// A mark is set at most so often by time …
const MARK_EVERY_MS: u64 = 10_000;
/// … and by bytes. Both are the grain of retention: a thousandth of the default.
const MARK_EVERY_BYTES: u64 = 4 << 20;

/// The position of the store at some time, from which the age and size of history are known later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RetentionMark {
    /// The newest revision then.
    pub(super) revision: Revision,
    /// The total time the store had been open.
    pub(super) uptime_ms: u64,
    /// The total bytes that had been written.
    pub(super) bytes: u64,
}

/// The bounds of history.
///
/// `upkeep` sets the bytes at each tick, from the size of the live data and the bounds of the options.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retention {
    pub(super) age: Duration,
    pub(super) bytes: u64,
}

impl Retention {
    /// The newest mark before which history is older or larger than wanted, as seen at `now`.
    ///
    /// Linear in the number of marks, once per second.
    pub(super) fn expired(self, marks: &VecDeque<RetentionMark>, now: RetentionMark) -> Option<Revision> {
        let age_ms = u64::try_from(self.age.as_millis()).unwrap_or(u64::MAX);
        let old = |mark: &&RetentionMark| now.uptime_ms.saturating_sub(mark.uptime_ms) >= age_ms;
        let large = |mark: &&RetentionMark| now.bytes.saturating_sub(mark.bytes) >= self.bytes;
        marks.iter().rev().find(|mark| old(mark) || large(mark)).map(|mark| mark.revision)
    }
}

/// Returns true if a mark is due at `now`.
pub(super) fn mark_due(last: Option<RetentionMark>, now: RetentionMark) -> bool {
    let last = last.unwrap_or(RetentionMark { revision: Revision::ZERO, uptime_ms: 0, bytes: 0 });
    let grown = now.revision > last.revision;
    grown && (now.uptime_ms >= last.uptime_ms + MARK_EVERY_MS || now.bytes >= last.bytes + MARK_EVERY_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(revision: u64, uptime_ms: u64, bytes: u64) -> RetentionMark {
        RetentionMark { revision: Revision(revision), uptime_ms, bytes }
    }

    #[test]
    fn history_ends_at_the_newest_mark_that_is_too_old_or_too_large() {
        let retention = Retention { age: Duration::from_secs(60), bytes: 1000 };
        let marks = VecDeque::from([mark(1, 0, 0), mark(5, 30_000, 100), mark(9, 50_000, 900)]);
        assert_eq!(retention.expired(&marks, mark(10, 59_999, 950)), None);
        assert_eq!(retention.expired(&marks, mark(10, 60_000, 950)), Some(Revision(1)));
        assert_eq!(retention.expired(&marks, mark(10, 90_000, 950)), Some(Revision(5)));
        assert_eq!(retention.expired(&marks, mark(10, 90_000, 1900)), Some(Revision(9)));
    }

    #[test]
    fn marks_are_set_by_time_or_bytes_but_not_without_changes() {
        assert!(!mark_due(None, mark(1, 9_999, 10)));
        assert!(mark_due(None, mark(1, 10_000, 10)));
        assert!(mark_due(Some(mark(1, 0, 0)), mark(2, 1, MARK_EVERY_BYTES)));
        assert!(!mark_due(Some(mark(2, 0, 0)), mark(2, 99_999, 0)));
    }
}
