//! [`Parts`]: the responses of a watch that etcd splits, as whole revisions.
//!
//! A watch that is behind gets the changes of up to a thousand revisions in one response, each with the value before: two
//! gigabytes of objects of a megabyte. Neither end can send that, and a watch that begins anew gets the same again. So
//! watches ask etcd to split responses above its `--max-request-bytes`. A part may end in the middle of a revision, while a
//! batch must have all of it.

use etcd_client::WatchResponse;
use etcd_client::proto::PbEvent;

/// The changes of the last revision of a part, until the next part comes.
#[derive(Debug, Default)]
pub(super) struct Parts {
    rest: Vec<PbEvent>,
    /// True while parts of a response are missing.
    is_split: bool,
}

impl Parts {
    /// Takes the changes of a response; returns those of whole revisions, which may be none.
    pub(super) fn add(&mut self, response: &mut WatchResponse) -> Vec<PbEvent> {
        self.add_events(std::mem::take(&mut response.0.events), response.0.fragment)
    }

    /// True after the last part of a response.
    pub(super) fn is_whole(&self) -> bool {
        !self.is_split
    }

    fn add_events(&mut self, events: Vec<PbEvent>, is_split: bool) -> Vec<PbEvent> {
        self.is_split = is_split;
        let mut events = match self.rest.is_empty() {
            true => events,
            false => std::mem::take(&mut self.rest).into_iter().chain(events).collect(),
        };
        if is_split {
            let last = events.last().map(revision);
            let whole = events.partition_point(|event| Some(revision(event)) < last);
            self.rest = events.split_off(whole);
        }
        events
    }
}

fn revision(event: &PbEvent) -> i64 {
    event.kv.as_ref().map_or(0, |kv| kv.mod_revision)
}

#[cfg(test)]
mod tests {
    use etcd_client::proto::PbKeyValue;

    use super::*;

    fn event(revision: i64) -> PbEvent {
        let kv = PbKeyValue { mod_revision: revision, ..PbKeyValue::default() };
        PbEvent { kv: Some(kv), ..PbEvent::default() }
    }

    /// The second half of a transaction was taken for changes that had come before.
    #[test]
    fn a_revision_that_is_split_comes_whole() {
        let mut parts = Parts::default();
        let mut add = |revisions: &[i64], is_split| {
            let events = revisions.iter().copied().map(event).collect();
            parts.add_events(events, is_split).iter().map(revision).collect::<Vec<_>>()
        };
        assert_eq!(add(&[1, 2, 2], false), [1, 2, 2]);
        assert_eq!(add(&[3, 4, 5, 5], true), [3, 4]);
        assert_eq!(add(&[5], true), [0; 0]);
        assert_eq!(add(&[5, 6, 7], true), [5, 5, 5, 5, 6]);
        assert_eq!(add(&[7], false), [7, 7]);
        assert_eq!(add(&[8], false), [8]);
    }
}
