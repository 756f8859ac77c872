//! [`DeltaBases`]: the objects that a client of a delta watch holds, and the application of deltas to them.
//!
//! It is written from `docs/delta-watch.md` alone, so that it checks the server independently of the client library.

use std::collections::BTreeMap;

use listwatch_wire::delta::{DeltaError, DeltaEvent};
use listwatch_wire::event::{EventType, WireEvent};
use listwatch_wire::json::raw;
use listwatch_wire::{ObjectKey, Revision};

/// The objects of a stream, as bytes. Outlives the stream: the next one continues from it.
///
/// Unbounded, unlike a client's: a test's collections are small, and every object that was sent must be kept.
#[derive(Clone, Debug, Default)]
pub struct DeltaBases(BTreeMap<ObjectKey, Vec<u8>>);

impl DeltaBases {
    /// Removes everything, before initial events.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Keeps, or removes, the object of an event with a whole object.
    pub(crate) fn take(&mut self, event: &WireEvent) {
        let text = |path: &[&str]| raw::lookup(&event.object, path).and_then(raw::scalar).unwrap_or_default();
        let key = ObjectKey::namespaced(text(&["metadata", "namespace"]), text(&["metadata", "name"]));
        match event.event_type {
            EventType::Added | EventType::Modified => drop(self.0.insert(key, event.object.to_vec())),
            EventType::Deleted => drop(self.0.remove(&key)),
            EventType::Bookmark | EventType::Error => {}
        }
    }

    /// Applies a delta. Returns the object that the event is about, and its resourceVersion: that of a deletion is not in the
    /// object.
    ///
    /// # Errors
    ///
    /// If the object is not held, is held at another revision or with another uid, or the result has another
    /// checksum.
    pub(crate) fn apply(&mut self, event: &WireEvent) -> Result<(Vec<u8>, Revision), DeltaError> {
        let delta = DeltaEvent::parse(event.event_type, &event.object)?;
        let key = ObjectKey::namespaced(delta.namespace, delta.name);
        let base = self.0.get(&key).ok_or(DeltaError::NoBase)?;
        let text = |path: &[&str]| raw::lookup(base, path).and_then(raw::scalar).unwrap_or_default();
        let held = text(&["metadata", "resourceVersion"]).parse().unwrap_or(Revision::ZERO);
        if held != delta.base || text(&["metadata", "uid"]).as_bytes() != delta.uid {
            return Err(DeltaError::WrongBase { base: delta.base, held });
        }
        let object = match event.event_type {
            EventType::Deleted => self.0.remove(&key).unwrap_or_default(),
            _ => delta.apply(base)?,
        };
        if event.event_type != EventType::Deleted {
            self.0.insert(key, object.clone());
        }
        Ok((object, delta.revision))
    }
}
