//! The promise of a list and of the initial events of a watch: the state of one revision, complete and in key order.
//!
//! A list must also be no older than the last write that was acknowledged before its request, which is the promise
//! of a consistent read. Order is checked because pagination depends on it: `namespace/name` compares bytewise, so that
//! `a-b/x` comes before `a/x`.

use listwatch_wire::Revision;

use super::{ListRecord, Seen, Truth, Violation, WatchFilter};

impl ListRecord {
    /// Returns every promise that this list broke.
    ///
    /// At most two violations: one about age, and the first difference in content.
    #[must_use]
    pub fn check(&self, truth: &Truth) -> Vec<Violation> {
        let mut broken = Vec::new();
        if self.revision < self.not_older_than {
            broken.push(format!(
                "at {}, but {} was acknowledged before it",
                self.revision, self.not_older_than
            ));
        }
        broken.extend(truth.compare_state(&self.filter, self.revision, self.items.iter()));
        broken.into_iter().map(|what| Violation::Snapshot(format!("{}: {what}", self.name))).collect()
    }
}

impl Truth {
    /// The first difference between some objects and the matching state of a revision. Order counts: `namespace/name` sorts
    /// bytewise, so that `a-b/x` comes before `a/x`.
    pub(super) fn compare_state<'a>(
        &self,
        filter: &WatchFilter,
        revision: Revision,
        objects: impl Iterator<Item = &'a Seen>,
    ) -> Option<String> {
        let state = self.state(filter, revision);
        let mut expected: Vec<_> = state.iter().collect();
        expected.sort_by(|a, b| a.0.as_str().cmp(b.0.as_str()));
        let mut expected = expected.into_iter();
        for object in objects {
            let Some((key, (at, content))) = expected.next() else {
                return Some(format!("{} is too many at {revision}", object.key));
            };
            if *key != object.key {
                return Some(format!("{} where {key} should be at {revision}", object.key));
            }
            if *at != object.revision || **content != object.content {
                return Some(format!(
                    "{key} is not as of {revision}: shown {}, committed {at}",
                    object.revision
                ));
            }
        }
        expected.next().map(|(key, _)| format!("{key} is missing at {revision}"))
    }
}
