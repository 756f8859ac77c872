//! The delta form of an event: a patch of the version that watchers hold, or the name of what was deleted.
//!
//! A watcher that has received everything up to an event holds the version before it, so one delta serves all of
//! them. It is made from the canonical stored bytes of both versions when the first watcher asks, and kept with the
//! event. Each version passes its outline on to the next, so that only the first comparison of an object reads all its bytes.
//! A patch that is not much smaller than the object is not sent. The format is `listwatch_wire::delta` and
//! `docs/delta-watch.md`.

use bytes::{Bytes, BytesMut};
use listwatch_wire::Revision;
use listwatch_wire::delta::{
    Compared, DeltaFrame, Edit, Insertion, Outline, checksum, compare, compare_outlined,
};
use listwatch_wire::json::raw;

use crate::cache::event::{CacheEvent, ChangeKind};
use crate::cache::object::{CachedObject, VERSION_PREFIX};

/// A smaller object is compared as quickly without an outline.
const OUTLINED_BYTES: usize = 1024;

/// The delta form of an event, made once: also the decision that a delta is not worth it.
#[derive(Debug, Default)]
pub(super) struct MadeDelta {
    /// The line; `None` if the whole object is to be sent.
    pub(super) frame: Option<Bytes>,
    /// The bytes of outlines that the objects keep since.
    pub(super) outlines: usize,
}

/// Makes the delta form.
pub(super) fn make(event: &CacheEvent, change: ChangeKind, type_prefix: &[u8]) -> MadeDelta {
    match change {
        ChangeKind::Added => MadeDelta::default(),
        ChangeKind::Modified => modified(event, type_prefix).unwrap_or_default(),
        ChangeKind::Deleted => MadeDelta { frame: deleted(event), outlines: 0 },
    }
}

/// Makes the patch between two versions; `None` if it would not be much smaller than the object, or touches what
/// clients see differently.
fn modified(event: &CacheEvent, type_prefix: &[u8]) -> Option<MadeDelta> {
    let (before, after) = (event.previous.as_ref()?, event.object.as_ref()?);
    // A patch that is not much smaller than the object is not worth being applied.
    let room = after.written_len(type_prefix) / 2;
    let (edits, outlines) = edits(before, after, room)?;
    let seen = insertion(before, type_prefix);
    if edits.first().is_some_and(|edit| edit.at.start < seen.skipped) {
        return Some(MadeDelta { frame: None, outlines });
    }
    let mut out = BytesMut::with_capacity(1024);
    let result = after.with_parts(event.revision, type_prefix, checksum);
    head(event, before)?.modified(&edits, &seen, result, &mut out);
    let frame = (out.len() <= room).then(|| Bytes::copy_from_slice(&out));
    Some(MadeDelta { frame, outlines })
}

/// The operations between two versions, and the bytes of outlines that were kept for them; `None` if there is no patch.
fn edits<'a>(before: &CachedObject, after: &'a CachedObject, room: usize) -> Option<(Vec<Edit<'a>>, usize)> {
    if before.stored().len() < OUTLINED_BYTES {
        let Compared::Edits(edits) = compare(before.stored(), after.stored(), room) else { return None };
        return Some((edits, 0));
    }
    let known = before.known_outline().map_or(0, Outline::bytes);
    let outline = before.outline();
    let (edits, next) = compare_outlined((before.stored(), outline), after.stored(), room)?;
    Some((edits, outline.bytes() - known + after.keep_outline(next)))
}

/// A deletion has the name of the object only. `None` if the event does not know the object before.
fn deleted(event: &CacheEvent) -> Option<Bytes> {
    let mut out = BytesMut::with_capacity(256);
    head(event, event.previous.as_ref()?)?.deleted(&mut out);
    Some(out.freeze())
}

/// The name of the object. `None` for one that JSON would escape, which hardly any has.
fn head<'a>(event: &CacheEvent, before: &'a CachedObject) -> Option<DeltaFrame<'a>> {
    let plain = |text: &&str| !text.bytes().any(|byte| byte < b' ' || matches!(byte, b'"' | b'\\'));
    Some(DeltaFrame {
        namespace: Some(before.namespace()).filter(plain)?,
        name: Some(before.name()).filter(plain)?,
        uid: uid(before).and_then(raw::scalar).unwrap_or_default(),
        base: before.revision(),
        revision: event.revision,
    })
}

/// The uid follows `managedFields`, which an outline skips.
fn uid(object: &CachedObject) -> Option<&[u8]> {
    let path = ["metadata", "uid"];
    match object.known_outline() {
        Some(outline) => outline.lookup(object.stored(), &path),
        None => raw::lookup(object.stored(), &path),
    }
}

/// The places where written objects differ from stored bytes: the type at the beginning and the resourceVersion.
fn insertion(before: &CachedObject, type_prefix: &[u8]) -> Insertion {
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

    fn object(data: &str, revision: u64) -> Arc<CachedObject> {
        let value = format!(
            r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"a","namespace":"ns","uid":"u-1"}},"data":{data}}}"#
        );
        let key = "/registry/configmaps/ns/a".into();
        Arc::new(CachedObject::new(key, 21, value.into(), Revision(revision)).unwrap())
    }

    fn written(object: &CachedObject) -> Bytes {
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
        let event = CacheEvent::new(Revision(10), Some(Arc::clone(&after)), Some(Arc::clone(&before)));
        let line = make(&event, ChangeKind::Modified, PREFIX).frame.unwrap_or_else(|| {
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
        let event = CacheEvent::new(Revision(10), Some(after), Some(before));
        assert_eq!(make(&event, ChangeKind::Modified, PREFIX).frame, None);
    }

    /// A comparison read both versions of a Pod for the path of a difference, six times the cost of sending it whole.
    #[test]
    fn each_version_hands_its_outline_on() {
        let filler = "x".repeat(2000);
        let version = |n: u64| object(&format!(r#"{{"a":{{"x":"{filler}"}},"k":{n}}}"#), n);
        let outlined = |object: &CachedObject| object.known_outline().cloned();
        let (first, second, third) = (version(8), version(9), version(10));
        let step = |before: &Arc<CachedObject>, after: &Arc<CachedObject>| {
            let event = CacheEvent::new(after.revision(), Some(Arc::clone(after)), Some(Arc::clone(before)));
            make(&event, ChangeKind::Modified, PREFIX)
        };
        let made = step(&first, &second);
        let bytes = Outline::of(first.stored()).bytes();
        assert!(made.frame.is_some_and(|line| line.len() < 300) && made.outlines == 2 * bytes);
        assert_eq!(outlined(&second), Some(Outline::of(second.stored())));
        assert_eq!((step(&second, &third).outlines, step(&second, &third).outlines), (bytes, 0));
        assert_eq!(outlined(&third), Some(Outline::of(third.stored())));
        assert_eq!(uid(&third), Some(&b"\"u-1\""[..]));
    }

    #[test]
    fn a_deletion_names_its_object() {
        let event = CacheEvent::new(Revision(12), None, Some(object("{}", 9)));
        let line = make(&event, ChangeKind::Deleted, PREFIX).frame.unwrap();
        let expected = r#"{"type":"DELETED","delta":{"namespace":"ns","name":"a","uid":"u-1","base":"9","resourceVersion":"12"}}"#;
        assert_eq!(std::str::from_utf8(&line).unwrap().trim_end(), expected);
    }
}
