//! [`Deltas`]: turns patches of objects that are held already into whole objects.
//!
//! The base of a patch is the cached object, or one that this stream has delivered and the cache has not applied yet. Every
//! result is compared with the server's checksum. A mismatch ends the stream, and the next one requests whole objects.

use hashbrown::HashMap;
use listwatch_wire::delta::{DeltaError, DeltaEvent};
use listwatch_wire::event::{EventType, WireEvent};
use listwatch_wire::{ObjectKey, Revision};

use super::resource::ResourceKind;
use crate::lister_watcher::{HeldObjects, WatchEvent};
use crate::object::Object;

/// Objects that are on their way are looked through for the first time when there are so many: some batches of events.
const MIN_PRUNED: usize = 256;

/// The bases of patches.
pub(super) struct Deltas {
    held: HeldObjects,
    /// The first bytes of objects of this kind. Items of a list begin without it.
    prefix: String,
    /// Objects that were delivered and may not be in the cache yet.
    ahead: HashMap<ObjectKey, Object, foldhash::fast::RandomState>,
    /// The number of those at which they are looked through next.
    prune_at: usize,
}

impl Deltas {
    /// Patches apply to what `held` has. `resource` is for objects that the cache holds without their kind.
    pub(super) fn new(held: HeldObjects, resource: &ResourceKind) -> Self {
        let kind = &resource.kind;
        let prefix = format!("{{\"kind\":\"{}\",\"apiVersion\":\"{}\",", kind.kind, kind.api_version());
        Self { held, prefix, ahead: HashMap::default(), prune_at: MIN_PRUNED }
    }

    /// Takes note of an event that came whole.
    pub(super) fn note(&mut self, event: &WatchEvent) {
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => self.keep(object),
            WatchEvent::Deleted(object) => drop(self.ahead.remove(object.key())),
            _ => {}
        }
    }

    /// Makes the whole event of a delta.
    pub(super) fn resolve(&mut self, event: &WireEvent) -> Result<WatchEvent, DeltaError> {
        let delta = DeltaEvent::parse(event.event_type, &event.object)?;
        let key = ObjectKey::namespaced(delta.namespace, delta.name);
        let base = self.base(&key, delta.base).ok_or(DeltaError::NoBase)?;
        if base.revision() != delta.base || !base.is_of(delta.uid) {
            return Err(DeltaError::WrongBase { base: delta.base, held: base.revision() });
        }
        if event.event_type == EventType::Deleted {
            self.ahead.remove(&key);
            return Ok(WatchEvent::Deleted(base.with_revision(delta.revision)));
        }
        let json = match base.json().starts_with(b"{\"kind\"") {
            true => delta.apply(base.json())?,
            false => delta.apply(&self.with_kind(base.json()))?,
        };
        let object = base.patched(json, &delta);
        self.keep(&object);
        Ok(WatchEvent::Modified(object))
    }

    /// The bytes as a watch sends them: items of lists carry no kind.
    fn with_kind(&self, json: &[u8]) -> Vec<u8> {
        [self.prefix.as_bytes(), json.get(1..).unwrap_or_default()].concat()
    }

    /// The base version of a patch: one that was delivered and is not applied yet, or the one in the cache.
    fn base(&self, key: &ObjectKey, revision: Revision) -> Option<Object> {
        match self.ahead.get(key) {
            Some(object) if object.revision() == revision => Some(object.clone()),
            _ => self.held.get(key.namespace(), key.name()),
        }
    }

    /// Keeps an object until the cache has it. Pruned when there are many.
    fn keep(&mut self, object: &Object) {
        self.ahead.insert(object.key().clone(), object.clone());
        if self.ahead.len() >= self.prune_at {
            let held = &self.held;
            self.ahead.retain(|key, object| {
                let current = held.get(key.namespace(), key.name());
                current.is_none_or(|current| current.revision() < object.revision())
            });
            self.prune_at = (self.ahead.len() * 2).max(MIN_PRUNED);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
mod tests {
    use bytes::Bytes;
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::object::Keep;

    fn object(json: &str) -> Object {
        Object::from_json(json.as_bytes(), Keep::default()).unwrap()
    }

    const BASE: &str = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","resourceVersion":"9","namespace":"n","uid":"u"},"data":{"k":"1"}}"#;

    fn delta(base: u64, uid: &str, value: &str, result: &str) -> WireEvent {
        let at = BASE.find("\"9\"").unwrap() + 1;
        let place = BASE.find("\"1\"").unwrap();
        let (_, crc) = listwatch_wire::delta::checksum(&[result.as_bytes()]);
        let json = format!(
            r#"{{"namespace":"n","name":"a","uid":"{uid}","base":"{base}","resourceVersion":"10","at":{at},"bytes":{},"crc32":"{crc:08x}","patch":[{{"op":"replace","path":"/data/k","value":"{value}","at":[{place},3]}}]}}"#,
            result.len()
        );
        WireEvent { event_type: EventType::Modified, object: Bytes::from(json), is_delta: true }
    }

    fn expected(value: &str) -> String {
        BASE.replace("\"9\"", "\"10\"").replace("\"1\"", &format!("\"{value}\""))
    }

    fn deltas(held: Option<&str>) -> Deltas {
        let held = held.map(object);
        let held = HeldObjects::new(move |_, _| held.clone());
        Deltas::new(held, &ResourceKind::of::<ConfigMap>())
    }

    #[test]
    fn a_patch_makes_the_object_that_the_server_has() {
        // As a watch sends it, and as a list does.
        for base in [BASE, &BASE.replace(r#""kind":"ConfigMap","apiVersion":"v1","#, "")] {
            let event = deltas(Some(base)).resolve(&delta(9, "u", "2", &expected("2"))).unwrap();
            let WatchEvent::Modified(made) = event else { panic!("{event:?}") };
            assert_eq!(std::str::from_utf8(made.json()).unwrap(), expected("2"));
            assert_eq!((made.revision().0, made.name(), made.namespace()), (10, "a", "n"));
            assert!(made.same_identity(&object(BASE)));
        }
    }

    #[test]
    fn delivered_objects_count_before_those_of_the_cache() {
        let mut deltas = deltas(Some(&BASE.replace("\"9\"", "\"5\"")));
        deltas.note(&WatchEvent::Added(object(BASE)));
        assert!(deltas.resolve(&delta(9, "u", "2", &expected("2"))).is_ok());
    }

    #[test]
    fn whatever_does_not_fit_is_an_error_and_no_object() {
        let good = delta(9, "u", "2", &expected("2"));
        assert!(matches!(deltas(None).resolve(&good), Err(DeltaError::NoBase)));
        let older = BASE.replace("\"9\"", "\"8\"");
        assert!(matches!(deltas(Some(&older)).resolve(&good), Err(DeltaError::WrongBase { .. })));
        let other = delta(9, "another", "2", &expected("2"));
        assert!(matches!(deltas(Some(BASE)).resolve(&other), Err(DeltaError::WrongBase { .. })));
        let changed = BASE.replace("\"1\"", "\"7\"");
        assert!(deltas(Some(&changed.replace("\"k\"", "\"l\""))).resolve(&good).is_err());
        let lies = delta(9, "u", "3", &expected("2"));
        assert!(matches!(deltas(Some(BASE)).resolve(&lies), Err(DeltaError::WrongResult { .. })));
    }
}
