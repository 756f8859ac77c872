//! The keys of the store in etcd: under a prefix, so that etcd can be shared with other programs.
//!
//! Keys start with a slash, so the prefix followed by a slash alone is free. That key is the *marker*: it is covered by
//! the watch but sorts before all data, and writing to it advances the log.

use std::sync::Arc;

use bytes::Bytes;
use etcd_client::EventType;
use etcd_client::proto::PbEvent;
use listwatch_wire::Revision;

use crate::{Batch, Change, KeyValue, Range};

/// The keys under a prefix.
///
/// Keys and ranges are translated here in both directions, so no other file handles the prefix.
#[derive(Clone, Debug)]
pub(super) struct Keyspace {
    prefix: Arc<str>,
}

impl Keyspace {
    /// Trailing slashes do not count: `/listwatch` and `/listwatch/` are the same store.
    pub(super) fn new(prefix: &str) -> Self {
        Self { prefix: prefix.trim_end_matches('/').into() }
    }

    /// The key that moves the log on.
    pub(super) fn marker(&self) -> String {
        format!("{}/", self.prefix)
    }

    /// The end of everything that we watch, which starts with the marker.
    pub(super) fn end(&self) -> String {
        format!("{}0", self.prefix)
    }

    /// Our key in etcd.
    pub(super) fn key(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }

    /// A range in etcd: never the marker, never the keys of others.
    pub(super) fn bounds(&self, range: &Range) -> (String, String) {
        let start = if &*range.start < "/\0" { "/\0" } else { &range.start };
        let end = if range.end.is_empty() || &*range.end > "0" { "0" } else { &range.end };
        (self.key(start), self.key(end))
    }

    /// One of etcd's keys as ours; `None` for bytes that are not UTF-8, which another program has written under the prefix.
    /// No request can name such a key, so it is left out.
    fn own_key(&self, key: &[u8]) -> Option<Arc<str>> {
        let own = std::str::from_utf8(key).ok().and_then(|key| key.strip_prefix(&*self.prefix));
        if own.is_none() {
            tracing::warn!(key = %key.escape_ascii(), "etcd has a key under our prefix that is not text");
        }
        own.map(Arc::from)
    }

    /// One of etcd's entries as ours.
    pub(super) fn key_value(&self, found: etcd_client::KeyValue) -> Option<KeyValue> {
        let revision = revision(found.mod_revision());
        let (key, value) = found.into_key_value();
        Some(KeyValue { key: self.own_key(&key)?, value: value.into(), revision })
    }

    /// The changes of a watch response, or nothing if it has no events. The marker only moves the log on.
    pub(super) fn batch(&self, events: Vec<PbEvent>) -> Option<Batch> {
        let upto = events.iter().filter_map(|event| event.kv.as_ref()).map(|kv| kv.mod_revision).max()?;
        let marker = self.marker();
        let is_data = |event: &PbEvent| event.kv.as_ref().is_some_and(|kv| kv.key != marker.as_bytes());
        let data = events.into_iter().filter(is_data);
        let changes: Vec<Change> = data.filter_map(|event| self.change(event)).collect();
        Some(Batch { changes: changes.into(), upto: revision(upto) })
    }

    /// Returns the change that an event of etcd describes, with the key without the prefix.
    fn change(&self, event: PbEvent) -> Option<Change> {
        let is_put = event.r#type == EventType::Put as i32;
        let kv = event.kv?;
        Some(Change {
            revision: revision(kv.mod_revision),
            key: self.own_key(&kv.key)?,
            value: is_put.then(|| Bytes::from(kv.value)),
            previous: event.prev_kv.map(|kv| (revision(kv.mod_revision), Bytes::from(kv.value))),
        })
    }
}

/// etcd's integers have a sign; revisions never use it.
pub(super) fn revision(number: i64) -> Revision {
    Revision(u64::try_from(number).unwrap_or(0))
}

/// A revision for etcd.
pub(super) fn number(revision: Revision) -> i64 {
    i64::try_from(revision.0).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_stay_within_the_prefix_and_off_the_marker() {
        let keys = Keyspace::new("/p/");
        let bounds = |start: &str, end: &str| {
            keys.bounds(&Range { start: start.into(), end: end.into(), limit: 0, at: None })
        };
        assert_eq!(bounds("", ""), ("/p/\0".to_owned(), "/p0".to_owned()));
        assert_eq!(bounds("/", "z"), ("/p/\0".to_owned(), "/p0".to_owned()));
        assert_eq!(bounds("/a/", "/a0"), ("/p/a/".to_owned(), "/p/a0".to_owned()));
        assert_eq!(keys.marker(), "/p/");
    }
}
