//! [`CacheEvent`]: one change of one object, and its encoded frames, made once and shared by all watchers.
//!
//! The frame of a JSON watch is made for the first watcher that needs it and kept with the event; other forms are
//! made on demand and counted apart (`frames.rs`), because few clients ask for them.
//!
//! It does not know the filters: [`CacheEvent::change_for`] is asked per view. Next: `view.rs`.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use listwatch_wire::Revision;
use listwatch_wire::event::{EventType, SUFFIX};

use crate::cache::delta::{self, MadeDelta};
use crate::cache::filter::Filter;
use crate::cache::object::CachedObject;

/// One change of one object, shared by all views and watchers that see it.
///
/// Frames are made at most once per encoding, by the first watcher that needs one, and their bytes count against the
/// bound of the log for as long as the event is in it.
#[doc(alias = "watchCacheEvent")]
#[derive(Debug)]
pub struct CacheEvent {
    /// The revision of the change.
    pub revision: Revision,
    /// The object after the change; `None` if it was deleted.
    pub object: Option<Arc<CachedObject>>,
    /// The object before the change; `None` if it was created.
    pub previous: Option<Arc<CachedObject>>,
    /// The time at which the cache applied it. Lag of watches is measured from it.
    pub seen: Instant,
    /// With the whole object as JSON, each made for the first watcher that needs it.
    frames: EventFrames,
    /// Other encodings. Few watchers use them, and every event is kept for a while, so that they take up no more than
    /// a pointer until one does.
    others: OnceLock<Box<OtherForms>>,
    /// The bytes of other forms that the log has counted, or [`LEFT`].
    counted: AtomicUsize,
}

/// Marks an event that is no longer in the log: frames made for it are not counted any more.
const LEFT: usize = usize::MAX;

/// The frames of ADDED, MODIFIED and DELETED.
type EventFrames = [OnceLock<Bytes>; 3];

/// The forms of an event that are made only when a watcher asks for them.
#[derive(Debug, Default)]
struct OtherForms {
    protobuf: EventFrames,
    /// The deltas of MODIFIED and DELETED.
    deltas: [OnceLock<DeltaForm>; 2],
    compressed: OnceLock<Box<CompressedForms>>,
}

/// Shared frames, compressed.
#[derive(Debug, Default)]
struct CompressedForms {
    whole: EventFrames,
    delta: EventFrames,
    protobuf: EventFrames,
}

/// A delta, or nothing if whole objects are sent; for the version of the kind whose objects begin so.
#[derive(Debug)]
struct DeltaForm {
    type_prefix: Bytes,
    frame: Option<Bytes>,
}

impl CacheEvent {
    /// A change from `previous` to `object`.
    #[must_use]
    pub fn new(
        revision: Revision,
        object: Option<Arc<CachedObject>>,
        previous: Option<Arc<CachedObject>>,
    ) -> Self {
        let (frames, others, counted) = Default::default();
        Self { revision, object, previous, seen: Instant::now(), frames, others, counted }
    }

    /// The change as a watcher with this filter sees it, if it does: an object that begins to match is added, one that
    /// no longer does is deleted.
    #[must_use]
    pub(crate) fn change_for(&self, filter: &Filter) -> Option<ChangeKind> {
        let wanted = |object: &Option<Arc<CachedObject>>| object.as_ref().is_some_and(|o| filter.matches(o));
        ChangeKind::seen(wanted(&self.previous), wanted(&self.object))
    }

    /// The object an event of this type carries: the last content for a deletion.
    #[must_use]
    pub fn subject(&self, change: ChangeKind) -> Option<&Arc<CachedObject>> {
        match change {
            ChangeKind::Deleted => self.previous.as_ref(),
            ChangeKind::Added | ChangeKind::Modified => self.object.as_ref(),
        }
    }

    /// Returns the event as a line of JSON with the whole object. It is kept in the version of the first caller;
    /// callers of other versions get a frame of their own.
    #[must_use]
    pub fn frame(&self, change: ChangeKind, type_prefix: &[u8]) -> Bytes {
        let shared = change.slot(&self.frames).get_or_init(|| self.make_frame(change, type_prefix));
        let object = shared.get(EventType::from(change).prefix().len()..).unwrap_or_default();
        if object.starts_with(type_prefix) { shared.clone() } else { self.make_frame(change, type_prefix) }
    }

    /// The event in protobuf, if a watcher has made it.
    pub(crate) fn protobuf(&self, change: ChangeKind) -> Option<&Bytes> {
        change.slot(&self.others.get()?.protobuf).get()
    }

    /// Keeps the protobuf form for other watchers. The first one stays: they are all the same. How many bytes that adds to
    /// the log.
    pub(super) fn keep_protobuf(&self, change: ChangeKind, frame: Bytes) -> usize {
        let bytes = frame.len();
        let kept = change.slot(&self.others.get_or_init(Box::default).protobuf).set(frame).is_ok();
        if kept { self.count(bytes) } else { 0 }
    }

    /// Returns the event as a delta, `None` if the whole object is to be sent, and the bytes that were added to the
    /// log. It is kept in the version of the first caller.
    pub(super) fn delta(&self, change: ChangeKind, type_prefix: &Bytes) -> (Option<Bytes>, usize) {
        let [modified, deleted] = &self.others.get_or_init(Box::default).deltas;
        let slot = match change {
            ChangeKind::Added => return (None, 0),
            ChangeKind::Modified => modified,
            ChangeKind::Deleted => deleted,
        };
        let make = || delta::make(self, change, type_prefix);
        let mut made = 0;
        let form = slot.get_or_init(|| {
            let MadeDelta { frame, outlines } = make();
            made = frame.as_ref().map_or(0, Bytes::len) + outlines + size_of::<OtherForms>();
            DeltaForm { type_prefix: type_prefix.clone(), frame }
        });
        let frame = if form.type_prefix == *type_prefix { form.frame.clone() } else { make().frame };
        (frame, if made > 0 { self.count(made) } else { 0 })
    }

    /// A frame of this event in a compressed form, and how many bytes that adds to the log. `None` for a frame that is not
    /// shared: it would be compressed for one watcher all the same.
    pub(super) fn compressed(
        &self,
        change: ChangeKind,
        frame: &Bytes,
        compress: impl FnOnce(&Bytes) -> Bytes,
    ) -> (Option<Bytes>, usize) {
        let is_kept = |kept: Option<&Bytes>| kept.is_some_and(|kept| kept.as_ptr() == frame.as_ptr());
        let others = self.others.get_or_init(Box::default);
        let forms = || others.compressed.get_or_init(Box::default);
        let slot = if is_kept(change.slot(&self.frames).get()) {
            change.slot(&forms().whole)
        } else if others.deltas.iter().any(|delta| is_kept(delta.get().and_then(|form| form.frame.as_ref())))
        {
            change.slot(&forms().delta)
        } else if is_kept(change.slot(&others.protobuf).get()) {
            change.slot(&forms().protobuf)
        } else {
            return (None, 0);
        };
        let mut made = 0;
        let compressed = slot.get_or_init(|| {
            let compressed = compress(frame);
            made = compressed.len() + size_of::<CompressedForms>();
            compressed
        });
        (Some(compressed.clone()), if made > 0 { self.count(made) } else { 0 })
    }

    /// Counts bytes that are kept since the event was weighed; none if the log has let go of it.
    fn count(&self, bytes: usize) -> usize {
        let in_log = |counted| (counted != LEFT).then(|| counted + bytes);
        let counted = self.counted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, in_log);
        counted.map_or(0, |_| bytes)
    }

    /// Marks the event as dropped from the log. Returns the bytes of late frames that were counted for it.
    pub(super) fn leave_log(&self) -> usize {
        self.counted.swap(LEFT, Ordering::Relaxed)
    }

    /// One line of a watch. Room for the type and the version is reserved, so that the buffer does not grow.
    fn make_frame(&self, change: ChangeKind, type_prefix: &[u8]) -> Bytes {
        let Some(object) = self.subject(change) else { return Bytes::new() };
        let mut out = BytesMut::with_capacity(object.written_len(type_prefix) + 64);
        frame(change.into(), &mut out, |out| object.write_at(self.revision, type_prefix, out));
        out.freeze()
    }

    /// The memory of the event: the objects, and about the same again for a frame as JSON. Other forms are counted as
    /// they come, see [`super::frames`].
    #[must_use]
    pub fn weight(&self) -> usize {
        let object = self.object.as_ref().map_or(0, |o| 2 * o.weight());
        let previous = self.previous.as_ref().map_or(0, |o| o.weight());
        object + previous + size_of::<Self>()
    }
}

/// Writes `{"type":…,"object":…}` and a newline.
pub(crate) fn frame(kind: EventType, out: &mut BytesMut, object: impl FnOnce(&mut BytesMut)) {
    out.extend_from_slice(kind.prefix());
    object(out);
    out.extend_from_slice(SUFFIX);
}

/// The type of a watch event, by the filter of the watcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// The object matches now and did not before: it was created, or a change made it match.
    Added,
    /// The object matched before and still does.
    Modified,
    /// The object matched before and no longer does: it was deleted, or a change made it not match.
    Deleted,
}

impl ChangeKind {
    /// The change that a watcher sees of an object that it wanted before, now, or both.
    pub(super) fn seen(before: bool, now: bool) -> Option<Self> {
        match (before, now) {
            (false, true) => Some(Self::Added),
            (true, true) => Some(Self::Modified),
            (true, false) => Some(Self::Deleted),
            (false, false) => None,
        }
    }

    /// The place of the frame of this kind of event.
    fn slot(self, [added, modified, deleted]: &EventFrames) -> &OnceLock<Bytes> {
        match self {
            Self::Added => added,
            Self::Modified => modified,
            Self::Deleted => deleted,
        }
    }
}

impl From<ChangeKind> for EventType {
    fn from(change: ChangeKind) -> Self {
        match change {
            ChangeKind::Added => Self::Added,
            ChangeKind::Modified => Self::Modified,
            ChangeKind::Deleted => Self::Deleted,
        }
    }
}
