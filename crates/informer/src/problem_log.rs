//! [`ProblemLog`]: rate limiting of the log lines about problems.
//!
//! A server that is down for an hour, or a thousand objects that fail to transform, should not produce thousands of
//! lines. Each kind of problem is logged at most once per interval, with the number of suppressed problems since the
//! last line. Counters and the problem hook receive every one.

use std::time::Duration;

use tokio::time::Instant;

/// At most one line per kind in this time: often enough to see that the problem persists.
const EVERY: Duration = Duration::from_secs(10);

/// When each kind was last written about, and how many were left out since.
#[derive(Debug, Default)]
pub(crate) struct ProblemLog {
    kinds: Vec<(&'static str, Instant, u64)>,
}

impl ProblemLog {
    /// Returns the number of problems of this kind that were left out of the log before this one, if this one is to be
    /// written.
    pub(crate) fn admit(&mut self, kind: &'static str, now: Instant) -> Option<u64> {
        let Some((_, last, left_out)) = self.kinds.iter_mut().find(|(name, ..)| *name == kind) else {
            // There are as many kinds as the code names, about a dozen.
            self.kinds.push((kind, now, 0));
            return Some(0);
        };
        if now.saturating_duration_since(*last) < EVERY {
            *left_out += 1;
            return None;
        }
        *last = now;
        Some(std::mem::take(left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_one_kind_is_a_line_now_and_then_and_hides_no_other() {
        let (mut log, start) = (ProblemLog::default(), Instant::now());
        assert_eq!(log.admit("list", start), Some(0));
        for millis in 1..1000 {
            assert_eq!(log.admit("list", start + Duration::from_millis(millis)), None);
        }
        assert_eq!(log.admit("watch", start + Duration::from_secs(1)), Some(0));
        assert_eq!(log.admit("list", start + EVERY), Some(999));
        assert_eq!(log.admit("list", start + EVERY), None);
        assert_eq!(log.admit("list", start + 3 * EVERY), Some(1));
    }
}
