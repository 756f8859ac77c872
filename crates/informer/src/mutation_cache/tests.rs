//! Tests of the mutation cache: responses to own writes and events of the watch, in every order in which they can
//! arrive.
//! A state older than one that was already returned must never be returned, and a deleted object must not come back.

use serde_json::{Value, json};

use super::*;
use crate::processor::Deleted;
use crate::store::{StoreWrite, StoreWriter};

fn object(uid: &str, revision: u64) -> Object<Value> {
    let metadata =
        json!({"namespace": "x", "name": "y", "uid": uid, "resourceVersion": revision.to_string()});
    Object::from_value(&json!({ "metadata": metadata })).unwrap()
}

struct World {
    cache: MutationCache<Value>,
    writer: StoreWriter<Value>,
    now: Instant,
}

impl World {
    fn new(options: MutationOptions) -> Self {
        let (store, writer) = Store::new();
        Self { cache: MutationCache::new(store, options), writer, now: Instant::now() }
    }

    fn watched(&mut self, object: Object<Value>) {
        let revision = object.revision();
        self.writer.write(vec![StoreWrite::Put(object)]);
        self.writer.advance(revision);
    }

    fn get(&self) -> Option<u64> {
        self.cache.get(&ObjectKey::namespaced("x", "y"), self.now).map(|object| object.revision().0)
    }

    fn written(&self, uid: &str, revision: u64) -> bool {
        self.cache.written(object(uid, revision), self.now)
    }
}

#[test]
fn own_writes_are_shown_until_the_watch_catches_up() {
    let mut world = World::new(MutationOptions::default());
    world.watched(object("u", 5));
    assert!(world.written("u", 9));
    assert_eq!(world.get(), Some(9));
    world.watched(object("u", 7));
    assert_eq!(world.get(), Some(9));
    world.watched(object("u", 10));
    assert_eq!(world.get(), Some(10));
}

/// As text, "9" sorts after "10".
#[test]
fn versions_compare_as_numbers() {
    let mut world = World::new(MutationOptions::default());
    world.watched(object("u", 10));
    assert!(!world.written("u", 9));
    assert_eq!(world.get(), Some(10));
    assert!(world.written("u", 100));
    assert!(!world.written("u", 99));
    assert_eq!(world.get(), Some(100));
}

/// A controller updates an object; it is deleted; the watch delivers the deletion; the controller's call comes last.
#[test]
fn a_late_write_does_not_bring_a_deleted_object_back() {
    let mut world = World::new(MutationOptions::default());
    world.watched(object("u", 5));
    world.writer.write(vec![StoreWrite::Remove(ObjectKey::namespaced("x", "y"))]);
    world.writer.advance(Revision(8));
    assert!(!world.written("u", 7));
    assert_eq!(world.get(), None);
}

/// Two namespaces, two watches: the store as a whole is at 3, but this object's watch has delivered its deletion at 8.
#[test]
fn an_observed_deletion_rejects_older_writes_and_those_of_its_uid() {
    let world = World::new(MutationOptions::default());
    assert!(world.written("u", 7));
    let gone = Deleted { object: object("u", 8), final_state_unknown: false };
    world.cache.observe(&Event::Deleted(gone), world.now);
    assert_eq!(world.get(), None);
    assert!(!world.written("u", 9));
    assert!(!world.written("v", 8));
    assert!(world.written("v", 10));
    assert_eq!(world.get(), Some(10));
}

/// A controller updates an object; it is deleted and created again; the watch has delivered both when the controller's
/// call comes. Its write is of another uid.
#[test]
fn a_late_write_does_not_hide_the_object_that_was_created_anew() {
    let mut world = World::new(MutationOptions::default());
    world.watched(object("first", 5));
    world.writer.write(vec![StoreWrite::Remove(ObjectKey::namespaced("x", "y"))]);
    world.watched(object("second", 9));
    assert!(!world.written("first", 7));
    assert_eq!(world.get(), Some(9));
    // Nor if the new one was written before it was seen.
    assert!(world.written("second", 12));
    assert!(!world.written("first", 7));
    assert_eq!(world.get(), Some(12));
    assert_eq!(world.cache.stats(), MutationStats { held: 1, shown: 1, refused: 2 });
}

/// The write was recorded first; then the watch delivers the deletion.
#[test]
fn an_observed_deletion_clears_an_own_write() {
    let mut world = World::new(MutationOptions::default());
    world.watched(object("u", 5));
    assert!(world.written("u", 7));
    assert_eq!(world.get(), Some(7));
    world.writer.write(vec![StoreWrite::Remove(ObjectKey::namespaced("x", "y"))]);
    let gone = Deleted { object: object("u", 8), final_state_unknown: false };
    world.cache.observe(&Event::Deleted(gone), world.now);
    assert_eq!(world.get(), None);
    // The same without an observer: the store is newer than the write.
    let mut world = World::new(MutationOptions::default());
    world.watched(object("u", 5));
    assert!(world.written("u", 7));
    world.writer.write(vec![StoreWrite::Remove(ObjectKey::namespaced("x", "y"))]);
    world.writer.advance(Revision(8));
    assert_eq!(world.get(), None);
}

#[test]
fn an_own_deletion_hides_this_incarnation_and_no_other() {
    let mut world = World::new(MutationOptions::default());
    world.watched(object("u", 5));
    world.cache.deleted(object("u", 5), world.now);
    assert_eq!(world.get(), None);
    world.watched(object("u", 6));
    assert_eq!(world.get(), None);
    world.watched(object("v", 9));
    assert_eq!(world.get(), Some(9));
}

#[test]
fn a_write_the_watch_never_confirms_is_forgotten_after_its_time() {
    let mut world = World::new(MutationOptions::default());
    world.watched(object("u", 5));
    assert!(world.written("u", 9));
    world.now += Duration::from_secs(300);
    assert_eq!(world.get(), Some(9));
    world.now += Duration::from_nanos(1);
    assert_eq!(world.get(), Some(5));
}

#[test]
fn created_objects_are_shown_only_with_the_option() {
    let world = World::new(MutationOptions::default());
    assert!(world.written("u", 9));
    assert_eq!(world.get(), Some(9));
    let world = World::new(MutationOptions { show_created: false, ..MutationOptions::default() });
    assert!(world.written("u", 9));
    assert_eq!(world.get(), None);
}

#[test]
fn the_bound_holds() {
    let world = World::new(MutationOptions { capacity: 10, ..MutationOptions::default() });
    for n in 1..100_u64 {
        let object = json!({"metadata": {"name": format!("o{n}"), "resourceVersion": n.to_string()}});
        assert!(world.cache.written(Object::from_value(&object).unwrap(), world.now));
    }
    assert_eq!(world.cache.entries.lock().len(), 10);
}
