//! [`LateFrames`]: bytes that events of the log have gained since their size was counted.
//!
//! `CacheLimits::log_bytes` bounds the memory of recent events. Protobuf, delta and compressed frames are made when the first
//! watcher needs them, after the event was counted, so they are added here and the feeder drops older events sooner. Without
//! it, many watchers with different encodings would grow the log past its bound. The frames themselves stay in `event.rs`;
//! `feeder.rs` is the reader.

use std::sync::atomic::{AtomicIsize, Ordering};

use bytes::Bytes;

use crate::cache::event::{CacheEvent, ChangeKind};

/// The sum of late frames, in bytes. Signed: a frame may be subtracted by the feeder an instant before the watcher
/// that made it adds it.
#[derive(Debug, Default)]
pub(crate) struct LateFrames(AtomicIsize);

impl LateFrames {
    /// The bytes of late frames in the log.
    pub(crate) fn get(&self) -> usize {
        // A frame may be forgotten an instant before it is counted.
        usize::try_from(self.0.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// Keeps the protobuf form of an event for other watchers.
    pub(crate) fn keep(&self, event: &CacheEvent, change: ChangeKind, frame: Bytes) {
        let counted = event.keep_protobuf(change, frame);
        self.0.fetch_add(counted.cast_signed(), Ordering::Relaxed);
    }

    /// The delta form of an event, made once for all watchers; `None` if they get the whole object.
    pub(crate) fn delta(&self, event: &CacheEvent, change: ChangeKind, type_prefix: &Bytes) -> Option<Bytes> {
        let (frame, counted) = event.delta(change, type_prefix);
        if counted > 0 {
            self.0.fetch_add(counted.cast_signed(), Ordering::Relaxed);
        }
        frame
    }

    /// A frame of an event in a compressed form, made once for all watchers; `None` if the frame is not shared.
    pub(crate) fn compressed(
        &self,
        event: &CacheEvent,
        change: ChangeKind,
        frame: &Bytes,
        compress: impl FnOnce(&Bytes) -> Bytes,
    ) -> Option<Bytes> {
        let (compressed, counted) = event.compressed(change, frame, compress);
        if counted > 0 {
            self.0.fetch_add(counted.cast_signed(), Ordering::Relaxed);
        }
        compressed
    }

    /// Subtracts the late frames of an event that the log has dropped.
    pub(crate) fn forget(&self, event: &CacheEvent) {
        self.0.fetch_sub(event.leave_log().cast_signed(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cache::object::CachedObject;
    use listwatch_wire::Revision;

    const OBJECT: &str = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"ns"}}"#;

    #[test]
    fn a_frame_is_compressed_once_for_all_watchers() {
        let object =
            CachedObject::new("/registry/configmaps/ns/a".into(), 21, OBJECT.into(), Revision(1)).unwrap();
        let (frames, event) =
            (LateFrames::default(), CacheEvent::new(Revision(1), Some(Arc::new(object)), None));
        let frame = event.frame(ChangeKind::Added, b"{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",");
        let first = frames.compressed(&event, ChangeKind::Added, &frame, |_| Bytes::from_static(b"once"));
        let again = frames.compressed(&event, ChangeKind::Added, &frame, |_| unreachable!());
        assert_eq!((first.as_deref(), again.as_deref()), (Some(&b"once"[..]), Some(&b"once"[..])));
        let of_another_version = Bytes::from_static(b"made for one watcher");
        assert_eq!(
            frames.compressed(&event, ChangeKind::Added, &of_another_version, |_| unreachable!()),
            None
        );
        assert!(frames.get() > 0);
        frames.forget(&event);
        assert_eq!(frames.get(), 0);
    }

    /// A log of events that protobuf clients watch grew to twice its bound.
    #[test]
    fn frames_count_as_long_as_their_event_is_in_the_log() {
        let (frames, event) = (LateFrames::default(), CacheEvent::new(Revision(1), None, None));
        frames.keep(&event, ChangeKind::Added, Bytes::from_static(b"0123456789"));
        frames.keep(&event, ChangeKind::Added, Bytes::from_static(b"the same again"));
        frames.keep(&event, ChangeKind::Modified, Bytes::from_static(b"01234"));
        assert_eq!(frames.get(), 15);
        frames.forget(&event);
        frames.keep(&event, ChangeKind::Deleted, Bytes::from_static(b"late"));
        assert_eq!(frames.get(), 0);
    }
}
