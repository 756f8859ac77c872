//! Reading a watch: from the chunks of a body to the events of the reflector.
//!
//! An object that cannot be used is reported as a separate event; a line that cannot be decoded ends the watch. Patches
//! are applied to the cached objects (`deltas`).

use std::sync::atomic::Ordering;

use futures::stream;
use listwatch_wire::Revision;
use listwatch_wire::event::{DecodeError, Decoder, DecoderOptions, EventType, WireEvent};
use listwatch_wire::json::raw;
use listwatch_wire::status::Status;

use super::super::body::Chunks;
use super::super::deltas::Deltas;
use super::{KubeSource, WHOLE_WATCHES};
use crate::lister_watcher::{SourceError, WatchEvent, WatchStream};
use crate::object::Object;

impl KubeSource {
    /// The events of a body, in batches of what has arrived together. `initial` is true if they begin with the initial state.
    pub(super) fn read(&self, chunks: Chunks, deltas: Option<Deltas>, initial: bool) -> WatchStream {
        let decoder = Decoder::new(DecoderOptions { deltas: deltas.is_some(), ..DecoderOptions::default() });
        let initial_left = initial.then_some(self.max_list_bytes);
        let reading = WatchReading::Open(Box::new(KubeWatch {
            source: self.clone(),
            chunks,
            decoder,
            deltas,
            initial_left,
        }));
        WatchStream::new(stream::unfold(reading, WatchReading::next))
    }

    /// Converts an event of the wire to one of the reflector. Unusable objects are distinguished from errors that end
    /// the stream.
    fn event(&self, event: &WireEvent) -> WatchEvent {
        match event.event_type {
            EventType::Bookmark => bookmark(&event.object),
            EventType::Error => error(&event.object),
            EventType::Added => self.change(&event.object, WatchEvent::Added),
            EventType::Modified => self.change(&event.object, WatchEvent::Modified),
            EventType::Deleted => self.change(&event.object, WatchEvent::Deleted),
        }
    }

    /// An object that cannot be read is reported and passed over: the others of the stream are sound.
    fn change(&self, json: &[u8], make: fn(Object) -> WatchEvent) -> WatchEvent {
        match self.object(json) {
            Ok(object) => make(object),
            Err(reason) => WatchEvent::Unusable(reason),
        }
    }

    /// The event, made whole if it came as a patch.
    fn resolve(&self, deltas: Option<&mut Deltas>, event: &WireEvent) -> Result<WatchEvent, SourceError> {
        let Some(deltas) = deltas else { return Ok(self.event(event)) };
        if event.is_delta {
            return deltas.resolve(event).map_err(|error| {
                self.whole_watches.store(WHOLE_WATCHES, Ordering::Relaxed);
                SourceError::Delta(error)
            });
        }
        let event = self.event(event);
        deltas.note(&event);
        Ok(event)
    }

    /// The events that are complete with this chunk, and the error that follows them, if the rest cannot be read.
    fn decode(
        &self,
        decoder: &mut Decoder,
        mut deltas: Option<&mut Deltas>,
        chunk: bytes::Bytes,
    ) -> (Vec<WatchEvent>, Option<SourceError>) {
        decoder.push(chunk);
        let mut events = Vec::new();
        loop {
            match decoder.next_event() {
                Ok(Some(event)) => match self.resolve(deltas.as_deref_mut(), &event) {
                    Ok(event) => events.push(event),
                    Err(error) => return (events, Some(error)),
                },
                Ok(None) => return (events, None),
                Err(error) => return (events, Some(malformed(&error))),
            }
        }
    }
}

/// A line that is not an event is quoted only if it is a web page: a part of an event may be a part of a secret.
fn malformed(error: &DecodeError) -> SourceError {
    match error {
        DecodeError::Malformed(line) if !line.trim_start().starts_with('<') => {
            SourceError::Malformed("a line that is no watch event".to_owned())
        }
        other => SourceError::Malformed(other.to_string()),
    }
}

/// The resourceVersion, without decoding the object.
fn revision_of(json: &[u8]) -> Option<Revision> {
    let text =
        raw::lookup(json, &["metadata", "resourceVersion"])?.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// A bookmark, with the mark that ends the initial events of a streaming list.
fn bookmark(json: &[u8]) -> WatchEvent {
    let Some(revision) = revision_of(json) else {
        return WatchEvent::Unusable("bookmark without a resource version".to_owned());
    };
    let mark = raw::lookup(json, &["metadata", "annotations", "k8s.io/initial-events-end"]);
    WatchEvent::Bookmark { revision, initial_events_end: mark == Some(b"\"true\"") }
}

/// The status of an `ERROR` event. One that is none is quoted, up to 200 bytes.
fn error(json: &[u8]) -> WatchEvent {
    match serde_json::from_slice::<Status>(json) {
        Ok(status) => WatchEvent::Error(Box::new(status)),
        Err(_) => {
            let text = String::from_utf8_lossy(json.get(..200).unwrap_or(json));
            WatchEvent::Error(Box::new(Status::internal(format!("not a status: {text}"))))
        }
    }
}

/// A watch as it is read.
enum WatchReading {
    Open(Box<KubeWatch>),
    /// The error that ends the stream, after everything before it was delivered.
    Broken(SourceError),
    Ended,
}

/// The body of an open watch, and what its events become.
struct KubeWatch {
    source: KubeSource,
    chunks: Chunks,
    decoder: Decoder,
    deltas: Option<Deltas>,
    /// The bytes that the initial state may still have; `None` after its end. The reflector keeps all of it until then.
    initial_left: Option<u64>,
}

impl KubeWatch {
    /// The events of a chunk, and the error that follows them.
    ///
    /// # Errors
    ///
    /// The initial state is too long.
    fn take(&mut self, chunk: bytes::Bytes) -> Result<(Vec<WatchEvent>, Option<SourceError>), SourceError> {
        if let Some(left) = &mut self.initial_left {
            *left = left.checked_sub(chunk.len() as u64).ok_or_else(|| self.source.too_long())?;
        }
        let (events, error) = self.source.decode(&mut self.decoder, self.deltas.as_mut(), chunk);
        let ends =
            |event: &WatchEvent| matches!(event, WatchEvent::Bookmark { initial_events_end: true, .. });
        if self.initial_left.is_some() && events.iter().any(ends) {
            self.initial_left = None;
        }
        Ok((events, error))
    }
}

impl WatchReading {
    /// The next events or the error that ends the watch, and what follows.
    async fn next(self) -> Option<(Result<Vec<WatchEvent>, SourceError>, Self)> {
        let mut open = match self {
            Self::Open(open) => open,
            Self::Broken(error) => return Some((Err(error), Self::Ended)),
            Self::Ended => return None,
        };
        let chunk = match open.chunks.next().await {
            Some(Ok(chunk)) => chunk,
            Some(Err(error)) => return Some((Err(error), Self::Ended)),
            None => return open.decoder.finish().err().map(|cut| (Err(malformed(&cut)), Self::Ended)),
        };
        Some(match open.take(chunk) {
            Ok((events, None)) => (Ok(events), Self::Open(open)),
            Ok((events, Some(error))) if events.is_empty() => (Err(error), Self::Ended),
            Ok((events, Some(error))) => (Ok(events), Self::Broken(error)),
            Err(error) => (Err(error), Self::Ended),
        })
    }
}
