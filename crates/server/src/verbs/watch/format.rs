//! [`EventFormat`]: the encoding of watch events for one watcher.
//!
//! Whole objects in JSON are framed once per event and shared by all watchers; protobuf and deltas are shared as well
//! on the first request for them ([`crate::cache::LateFrames`]). Tables and metadata are made per watcher. A table
//! has its columns in the first event only, so the format is a state machine of its stream. An event that has no
//! protobuf form ends the watch with an error: leaving it out would be a lost event.
//!
//! The order and the time of events are [`super`]'s; one document outside of a stream is [`crate::respond`].

use std::borrow::Cow;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use listwatch_wire::event::EventType;
use listwatch_wire::{Revision, Status};

use crate::cache::{Cache, CachedObject, FilteredEvent, LateFrames, frame, push_number};
use crate::registry::Resource;
use crate::request::negotiate::{Encoding, MetaVersion, ResponseForm, ResponseShape};
use crate::respond::encode::write_partial;
use crate::respond::protobuf;
use crate::respond::table;
use crate::respond::table::Include;

/// The encoding of events for a watcher.
///
/// A few words per watch, since there may be tens of thousands.
#[doc(alias = "watchEncoder")]
#[doc(alias = "Embedder")]
#[derive(Debug)]
pub(crate) struct EventFormat {
    resource: Arc<Resource>,
    encoding: Encoding,
    shape: ResponseShape,
    include: Include,
    /// Changes are sent as patches where they are smaller.
    delta: bool,
    /// True once the columns of a table were sent: they are in the first event only.
    columns_told: bool,
    /// Events sent as patches that have not been counted yet.
    deltas: u64,
    broken: bool,
}

impl EventFormat {
    pub(crate) fn new(resource: Arc<Resource>, form: ResponseForm, include: Include) -> Self {
        let ResponseForm { encoding, shape, delta, .. } = form;
        Self { resource, encoding, shape, include, delta, columns_told: false, deltas: 0, broken: false }
    }

    /// Returns true if events are bytes with their length before them, rather than lines of text.
    pub(crate) fn is_binary(&self) -> bool {
        self.encoding == Encoding::Protobuf
    }

    /// True if an event could not be encoded: the stream must end rather than skip it.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken
    }

    /// The number of events since the last call that were patches.
    pub(crate) fn take_delta_count(&mut self) -> u64 {
        std::mem::take(&mut self.deltas)
    }

    /// An event. Whole objects are encoded once for all watchers.
    ///
    /// Returns shared bytes in the common case, and a new allocation for tables and metadata.
    pub(crate) fn event(&mut self, filtered: &FilteredEvent, cache: &Cache) -> Bytes {
        let frames = &cache.frames;
        let Some(object) = filtered.event.subject(filtered.change) else { return Bytes::new() };
        if self.breaks() {
            return Bytes::new();
        }
        if let Some(frame) = self.delta(filtered, frames) {
            self.deltas += 1;
            return frame;
        }
        let whole = self.shape == ResponseShape::Whole;
        if whole && !self.is_binary() && matches!(self.resource.present(object), Cow::Borrowed(_)) {
            return filtered.event.frame(filtered.change, &self.resource.type_prefix);
        }
        let shared = whole && self.is_binary() && self.resource.present.is_none();
        if let Some(frame) = filtered.event.protobuf(filtered.change).filter(|_| shared) {
            return frame.clone();
        }
        let revision = filtered.event.revision;
        let make = |tree| protobuf::object(&self.resource, tree, revision);
        let known = shared.then(|| cache.trees.protobuf(object, revision, make)).flatten();
        let known =
            known.and_then(|document| Some(protobuf::framed(filtered.change.into(), &document.ok()?)));
        let frame = known.unwrap_or_else(|| {
            let mut out = BytesMut::with_capacity(object.written_len(&self.resource.type_prefix) + 256);
            self.write(filtered.change.into(), object, revision, &mut out);
            out.freeze()
        });
        if shared && !self.broken {
            frames.keep(&filtered.event, filtered.change, frame.clone());
        }
        frame
    }

    /// An event about an object that is already of the version to be shown.
    pub(crate) fn converted(
        &mut self,
        kind: EventType,
        object: &Arc<CachedObject>,
        revision: Revision,
    ) -> Bytes {
        let mut out = BytesMut::with_capacity(object.written_len(&self.resource.type_prefix) + 256);
        self.write(kind, object, revision, &mut out);
        out.freeze()
    }

    /// Returns true if events have no form: then the stream ends with the first of them, without a word, as in kube-apiserver.
    fn breaks(&mut self) -> bool {
        self.broken |= self.shape == ResponseShape::Unfit;
        self.shape == ResponseShape::Unfit
    }

    /// Returns true if each event is encoded for this watcher alone, which takes far longer than a copy.
    pub(crate) fn is_unshared(&self) -> bool {
        matches!(self.shape, ResponseShape::Table(_))
    }

    /// The resource that is watched.
    pub(crate) fn resource(&self) -> &Arc<Resource> {
        &self.resource
    }

    /// An event as a patch of what the watcher holds. Not if the watcher sees, or saw, another form than the stored one.
    fn delta(&self, filtered: &FilteredEvent, frames: &LateFrames) -> Option<Bytes> {
        let as_stored = |object: &Option<Arc<CachedObject>>| {
            object.as_ref().is_none_or(|object| matches!(self.resource.present(object), Cow::Borrowed(_)))
        };
        if !self.delta || !as_stored(&filtered.event.previous) || !as_stored(&filtered.event.object) {
            return None;
        }
        frames.delta(&filtered.event, filtered.change, &self.resource.type_prefix)
    }

    /// Appends an object of the initial state.
    pub(crate) fn initial(&mut self, object: &Arc<CachedObject>, out: &mut BytesMut) {
        self.write(EventType::Added, object, object.revision(), out);
    }

    /// Writes one event: the whole object, its metadata or a table row, as negotiated.
    fn write(&mut self, kind: EventType, object: &Arc<CachedObject>, revision: Revision, out: &mut BytesMut) {
        if self.breaks() {
            return;
        }
        let resource = Arc::clone(&self.resource);
        let object = resource.present(object);
        self.put(kind, out, |format, out| match format.shape {
            ResponseShape::Whole | ResponseShape::Unfit => {
                object.write_at(revision, &resource.type_prefix, out)
            }
            ResponseShape::Metadata(meta) => write_partial(&object, &resource, (revision, meta), out),
            ResponseShape::Table(meta) => {
                let mut whole = BytesMut::with_capacity(object.written_len(&resource.type_prefix));
                object.write_at(revision, &resource.type_prefix, &mut whole);
                format.table(meta, revision, &whole, format.include, out);
            }
        });
    }

    /// Appends an event with the JSON that `object` writes. If it has no protobuf form, an error event is appended
    /// and the stream marked as broken.
    fn put(&mut self, kind: EventType, out: &mut BytesMut, object: impl FnOnce(&mut Self, &mut BytesMut)) {
        if !self.is_binary() {
            return frame(kind, out, |out| object(self, out));
        }
        let mut json = BytesMut::with_capacity(1024);
        object(self, &mut json);
        let event = protobuf::event(kind, &json).unwrap_or_else(|status| {
            self.broken = true;
            self.error(&status)
        });
        out.extend_from_slice(&event);
    }

    /// A bookmark: an empty object of the kind with a version and the mark of the end of initial events. Built-in kinds have the
    /// fields that Go always writes.
    ///
    /// Clients take the version of a bookmark as their position, so it must not be sent before everything up to it
    /// was.
    pub(crate) fn bookmark(&mut self, revision: Revision, end_of_initial: bool) -> Bytes {
        if self.breaks() {
            return Bytes::new();
        }
        let mut out = BytesMut::with_capacity(256);
        let prefix = match self.shape {
            ResponseShape::Metadata(meta) => Bytes::from_static(meta.partial_prefix()),
            _ => self.resource.type_prefix.clone(),
        };
        self.put(EventType::Bookmark, &mut out, |format, out| {
            let mut object = BytesMut::from(&prefix[..]);
            object.extend_from_slice(b"\"metadata\":{\"resourceVersion\":\"");
            push_number(&mut object, revision.0);
            object.extend_from_slice(b"\"");
            if end_of_initial {
                object.extend_from_slice(b",\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}");
            }
            object.extend_from_slice(b"}");
            if !matches!(format.shape, ResponseShape::Metadata(_)) {
                object.extend_from_slice(format.resource.rules.zero_fields());
            }
            object.extend_from_slice(b"}");
            if let ResponseShape::Table(meta) = format.shape {
                // Without the metadata the mark would be lost.
                let keep = end_of_initial && format.include == Include::Nothing;
                let include = if keep { Include::Metadata } else { format.include };
                format.table(meta, revision, &object, include, out);
            } else {
                out.extend_from_slice(&object);
            }
        });
        out.freeze()
    }

    /// A Table of one row.
    fn table(
        &mut self,
        meta: MetaVersion,
        revision: Revision,
        object: &[u8],
        include: Include,
        out: &mut BytesMut,
    ) {
        let mut metadata = BytesMut::from(&b"{\"resourceVersion\":\""[..]);
        push_number(&mut metadata, revision.0);
        metadata.extend_from_slice(b"\"}");
        let columns = match std::mem::replace(&mut self.columns_told, true) {
            true => b"null".to_vec(),
            false => table::columns(&self.resource),
        };
        table::head(out, meta, &metadata, &columns);
        out.extend_from_slice(b"[");
        table::row(&self.resource, object, (meta, include), false, out);
        out.extend_from_slice(b"]}");
    }

    /// The end of a stream that cannot continue: a Status in any encoding.
    pub(crate) fn error(&self, status: &Status) -> Bytes {
        let json = status.to_json();
        if self.is_binary() {
            return protobuf::event(EventType::Error, &json).unwrap_or_default();
        }
        let mut out = BytesMut::with_capacity(256);
        frame(EventType::Error, &mut out, |out| out.extend_from_slice(&json));
        out.freeze()
    }
}
