//! The delta form of an event: a patch of the version that watchers hold, or the name of what was deleted.
//!
//! A watcher that has received everything up to an event holds the version before it, so one delta serves all of
//! them. It is made from the canonical stored bytes of both versions when the first watcher asks, and kept with the
//! event. A patch that is not much smaller than the object is not sent. The format is `listwatch_wire::delta` and
//! `docs/delta-watch.md`.

use bytes::{Bytes, BytesMut};
use listwatch_wire::Revision;
use listwatch_wire::delta::{Compared, DeltaFrame, Insertion, checksum, compare};
use listwatch_wire::json::raw;

use crate::cache::event::{Change, Event};
use crate::cache::object::{Object, VERSION_PREFIX};

/// Makes the delta form; `None` if the whole object is to be sent.
pub(super) fn make(event: &Event, change: Change, type_prefix: &[u8]) -> Option<Bytes> {
    match change {
        Change::Added => None,
        Change::Modified => modified(event, type_prefix),
        Change::Deleted => deleted(event),
    }
}

/// Makes the patch between two versions; `None` if it would not be much smaller than the object, or touches what
/// clients see differently.
fn modified(event: &Event, type_prefix: &[u8]) -> Option<Bytes> {
    let (before, after) = (event.previous.as_ref()?, event.object.as_ref()?);
    // A patch that is not much smaller than the object is not worth being applied.
    let room = after.written_len(type_prefix) / 2;
    let Compared::Edits(edits) = compare(before.stored(), after.stored(), room) else { return None };
    let seen = insertion(before, type_prefix);
    if edits.first().is_some_and(|edit| edit.at.start < seen.skipped) {
        return None;
    }
    let mut out = BytesMut::with_capacity(1024);
    let result = after.with_parts(event.revision, type_prefix, checksum);
    head(event, before)?.modified(&edits, &seen, result, &mut out);
    (out.len() <= room).then(|| Bytes::copy_from_slice(&out))
}

fn deleted(event: &Event) -> Option<Bytes> {
    let mut out = BytesMut::with_capacity(256);
    head(event, event.previous.as_ref()?)?.deleted(&mut out);
    Some(out.freeze())
}

/// The name of the object. `None` for one that JSON would escape, which hardly any has.
fn head<'a>(event: &Event, before: &'a Object) -> Option<DeltaFrame<'a>> {
    let plain = |text: &&str| !text.bytes().any(|byte| byte < b' ' || matches!(byte, b'"' | b'\\'));
    Some(DeltaFrame {
        namespace: Some(before.namespace()).filter(plain)?,
        name: Some(before.name()).filter(plain)?,
        uid: raw::lookup(before.stored(), &["metadata", "uid"]).and_then(raw::scalar).unwrap_or_default(),
        base: before.revision(),
        revision: event.revision,
    })
}

/// The places where written objects differ from stored bytes: the type at the beginning and the resourceVersion.
fn insertion(before: &Object, type_prefix: &[u8]) -> Insertion {
    let (skipped, splice) = before.splice_offsets();
    Insertion {
        skipped,
        prefix: type_prefix.len(),
        splice,
        spliced: VERSION_PREFIX.len() + digits(before.revision()) + 1,
        number: VERSION_PREFIX.len(),
    }
}

fn digits(revision: Revision) -> usize {
    revision.0.checked_ilog10().map_or(1, |log| log as usize + 1)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use listwatch_wire::delta::DeltaEvent;
    use listwatch_wire::event::{Decoder, DecoderOptions};

    use super::*;

    const PREFIX: &[u8] = b"{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",";

    fn object(data: &str, revision: u64) -> Arc<Object> {
        let value = format!(
            r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"a","namespace":"ns","uid":"u-1"}},"data":{data}}}"#
        );
        let key = "/registry/configmaps/ns/a".into();
        Arc::new(Object::new(key, 21, value.into(), Revision(revision)).unwrap())
    }

    fn written(object: &Object) -> Bytes {
        let mut out = BytesMut::new();
        object.write(PREFIX, &mut out);
        out.freeze()
    }

    #[test]
    fn a_change_becomes_what_the_object_is() {
        // From 9 to 10: the number of the version grows.
        let (before, after) = (
            object(r#"{"k":"1","l":"same same same same"}"#, 9),
            object(r#"{"k":"2","l":"same same same same"}"#, 10),
        );
        let event = Event::new(Revision(10), Some(Arc::clone(&after)), Some(Arc::clone(&before)));
        let line = make(&event, Change::Modified, PREFIX).unwrap_or_else(|| {
            // Larger than half of such a small object: made all the same, to be looked at.
            let mut out = BytesMut::new();
            let Compared::Edits(edits) = compare(before.stored(), after.stored(), 1000) else {
                panic!("no edits")
            };
            let result = after.with_parts(Revision(10), PREFIX, checksum);
            head(&event, &before).unwrap().modified(&edits, &insertion(&before, PREFIX), result, &mut out);
            out.freeze()
        });
        let mut decoder = Decoder::new(DecoderOptions { deltas: true, ..DecoderOptions::default() });
        decoder.push(line);
        let received = decoder.next_event().unwrap().unwrap();
        let delta = DeltaEvent::parse(received.event_type, &received.object).unwrap();
        assert_eq!(
            (delta.namespace, delta.name, delta.uid, delta.base),
            ("ns", "a", &b"u-1"[..], Revision(9))
        );
        assert_eq!(delta.apply(&written(&before)).unwrap(), written(&after));
    }

    #[test]
    fn a_change_of_nearly_everything_is_sent_whole() {
        let (before, after) = (
            object(&format!("{{\"k\":\"{}\"}}", "x".repeat(500)), 9),
            object(&format!("{{\"k\":\"{}\"}}", "y".repeat(500)), 10),
        );
        let event = Event::new(Revision(10), Some(after), Some(before));
        assert_eq!(make(&event, Change::Modified, PREFIX), None);
    }

    #[test]
    fn a_deletion_names_its_object() {
        let event = Event::new(Revision(12), None, Some(object("{}", 9)));
        let line = make(&event, Change::Deleted, PREFIX).unwrap();
        let expected = r#"{"type":"DELETED","delta":{"namespace":"ns","name":"a","uid":"u-1","base":"9","resourceVersion":"12"}}"#;
        assert_eq!(std::str::from_utf8(&line).unwrap().trim_end(), expected);
    }
}
