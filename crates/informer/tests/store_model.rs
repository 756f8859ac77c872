//! The store against a model that is too simple to be wrong: a sorted map, searched from end to end.
#![cfg(test)]

mod support;

use std::collections::BTreeMap;

use listwatch::object::Object;
use listwatch::store::{IndexError, Store, StoreWrite};
use listwatch::{ObjectKey, Raw, Revision};
use proptest::prelude::*;
use serde_json::json;

#[derive(Clone, Debug)]
enum Step {
    Put(u8, u8, u8),
    Remove(u8, u8),
    /// Several changes at once, of one key too: a color, or none for a removal.
    Batch(Vec<(u8, u8, Option<u8>)>),
    Replace(Vec<(u8, u8, u8)>),
    ReplaceNamespace(u8, Vec<(u8, u8)>),
    Snapshot,
    AddIndex,
}

fn step() -> impl Strategy<Value = Step> {
    let (ns, name, color) = (0..3_u8, 0..8_u8, 0..4_u8);
    prop_oneof![
        6 => (ns.clone(), name.clone(), color.clone()).prop_map(|(ns, name, color)| Step::Put(ns, name, color)),
        3 => (ns.clone(), name.clone()).prop_map(|(ns, name)| Step::Remove(ns, name)),
        3 => prop::collection::vec((ns.clone(), 0..3_u8, prop::option::of(color.clone())), 0..100).prop_map(Step::Batch),
        1 => prop::collection::vec((ns.clone(), name.clone(), color.clone()), 0..12).prop_map(Step::Replace),
        1 => (ns, prop::collection::vec((name, color), 0..6)).prop_map(|(ns, o)| Step::ReplaceNamespace(ns, o)),
        2 => Just(Step::Snapshot),
        1 => Just(Step::AddIndex),
    ]
}

fn key(ns: u8, name: u8) -> ObjectKey {
    ObjectKey::namespaced(&format!("ns{ns}"), &format!("o{name}"))
}

fn object(ns: u8, name: u8, color: u8, revision: u64) -> Object<Raw> {
    let key = key(ns, name);
    Object::from_value(&json!({"metadata": {
        "namespace": key.namespace(), "name": key.name(), "resourceVersion": revision.to_string(),
        "labels": {"color": color.to_string()}
    }}))
    .unwrap()
}

type Model = BTreeMap<ObjectKey, (u8, u64)>;

fn state_of(snapshot: &listwatch::Snapshot<Raw>) -> Vec<(ObjectKey, u64)> {
    snapshot.iter().map(|object| (object.key().clone(), object.revision().0)).collect()
}

fn state_of_model(model: &Model) -> Vec<(ObjectKey, u64)> {
    model.iter().map(|(key, (_, revision))| (key.clone(), *revision)).collect()
}

proptest! {
    #[test]
    fn the_store_is_a_sorted_map_with_indexes(steps in prop::collection::vec(step(), 1..60)) {
        let (store, mut writer) = Store::<Raw>::new();
        let mut model = Model::new();
        let mut snapshots = Vec::new();
        let mut indexes = Vec::new();
        for (at, step) in steps.into_iter().enumerate() {
            let revision = at as u64 + 1;
            match step {
                Step::Put(ns, name, color) => {
                    let (changes, _) = writer.write(vec![StoreWrite::Put(object(ns, name, color, revision))]);
                    let old = model.insert(key(ns, name), (color, revision));
                    prop_assert_eq!(changes[0].old.as_ref().map(|o| o.revision().0), old.map(|(_, r)| r));
                }
                Step::Remove(ns, name) => {
                    let (changes, _) = writer.write(vec![StoreWrite::Remove(key(ns, name))]);
                    let old = model.remove(&key(ns, name));
                    prop_assert_eq!(changes[0].old.as_ref().map(|o| o.revision().0), old.map(|(_, r)| r));
                }
                Step::Batch(batch) => {
                    let write = |(ns, name, color): &(u8, u8, Option<u8>)| match color {
                        Some(color) => StoreWrite::Put(object(*ns, *name, *color, revision)),
                        None => StoreWrite::Remove(key(*ns, *name)),
                    };
                    let (changes, _) = writer.write(batch.iter().map(write).collect());
                    prop_assert_eq!(changes.len(), batch.len());
                    for ((ns, name, color), change) in batch.into_iter().zip(changes) {
                        let old = match color {
                            Some(color) => model.insert(key(ns, name), (color, revision)),
                            None => model.remove(&key(ns, name)),
                        };
                        prop_assert_eq!(change.old.map(|o| o.revision().0), old.map(|(_, r)| r));
                        prop_assert_eq!(change.new.map(|o| o.revision().0), color.map(|_| revision));
                    }
                }
                Step::Replace(objects) => {
                    let all = objects.iter().map(|(ns, name, color)| object(*ns, *name, *color, revision));
                    writer.replace(None, all.collect());
                    model = objects.iter().map(|(ns, name, c)| (key(*ns, *name), (*c, revision))).collect();
                }
                Step::ReplaceNamespace(ns, objects) => {
                    let all = objects.iter().map(|(name, color)| object(ns, *name, *color, revision));
                    let space = format!("ns{ns}");
                    writer.replace(Some(&space), all.collect());
                    model.retain(|key, _| key.namespace() != space);
                    model.extend(objects.iter().map(|(name, c)| (key(ns, *name), (*c, revision))));
                }
                Step::Snapshot => snapshots.push((store.snapshot(), state_of_model(&model))),
                Step::AddIndex => {
                    let by_color = |object: &Object<Raw>| {
                        Ok(object.label("color").map(|color| color.into_owned()).into_iter().collect())
                    };
                    indexes.push(store.add_index(&format!("color-{at}"), by_color).unwrap());
                }
            }
            let now = store.snapshot();
            prop_assert_eq!(state_of(&now), state_of_model(&model));
            prop_assert_eq!(store.len(), model.len());
            for index in &indexes {
                for color in 0..4_u8 {
                    let found: Vec<_> = now.index_keys(index, color.to_string().as_str()).unwrap();
                    let expected: Vec<_> =
                        model.iter().filter(|(_, (c, _))| *c == color).map(|(key, _)| key.clone()).collect();
                    prop_assert_eq!(found, expected);
                }
                prop_assert!(now.index_values(index).unwrap().all(|(_, count)| count > 0));
            }
            for ns in 0..3_u8 {
                let space = format!("ns{ns}");
                let expected = model.keys().filter(|key| key.namespace() == space).count();
                prop_assert_eq!(now.namespace(&space).count(), expected);
            }
        }
        // A snapshot does not change with later writes.
        for (snapshot, expected) in snapshots {
            prop_assert_eq!(state_of(&snapshot), expected);
        }
    }
}

#[test]
fn an_index_function_that_fails_or_panics_concerns_only_its_object() {
    let (store, mut writer) = Store::<Raw>::new();
    let picky = |object: &Object<Raw>| match object.name() {
        "o1" => Err(IndexError::cannot_place(object, "no color")),
        "o2" => panic!("on purpose"),
        name => Ok([name.to_owned()].into_iter().collect()),
    };
    let index = store.add_index("picky", picky).unwrap();
    let writes = (0..4).map(|name| StoreWrite::Put(object(0, name, 0, u64::from(name) + 1))).collect();
    let (changes, problems) = writer.write(writes);
    assert_eq!((changes.len(), problems.len(), store.len()), (4, 2, 4));
    assert!(problems[0].to_string().contains("index \"picky\" cannot place ns0/o1: no color"));
    let snapshot = store.snapshot();
    assert_eq!(snapshot.index_values(&index).unwrap().count(), 2);
    assert!(matches!(
        store.add_index("picky", |_| Ok::<_, IndexError>([1_u8].into_iter().collect())),
        Err(IndexError::NameTaken(_))
    ));
}

#[test]
fn an_index_added_late_is_complete_and_unknown_to_older_snapshots() {
    let (store, mut writer) = Store::<Raw>::new();
    writer.replace(None, (0..8).map(|name| object(0, name, name % 2, 1)).collect());
    let before = store.snapshot();
    let index = store
        .add_index("color", |o: &Object<Raw>| Ok(o.label("color").map(String::from).into_iter().collect()))
        .unwrap();
    assert_eq!(store.snapshot().by_index(&index, "1").unwrap().count(), 4);
    assert!(matches!(before.by_index(&index, "1").map(Iterator::count), Err(IndexError::Unknown(_))));
}

#[test]
fn pages_resume_after_a_key_and_selectors_read_labels_in_place() {
    let (store, mut writer) = Store::<Raw>::new();
    writer.replace(None, (0..8).map(|name| object(name % 2, name, name % 4, 1)).collect());
    let snapshot = store.snapshot();
    let mut pages = Vec::new();
    let mut last: Option<ObjectKey> = None;
    loop {
        let page = snapshot.page(last.as_ref(), 3);
        let Some(end) = page.last() else { break };
        last = Some(end.key().clone());
        pages.push(page.len());
    }
    assert_eq!(pages, [3, 3, 2]);
    assert_eq!(snapshot.select(&"color in (0, 3)".parse().unwrap()).count(), 4);
    assert_eq!(snapshot.select(&"!color".parse().unwrap()).count(), 0);
}

#[tokio::test]
async fn waiting_for_a_revision_ends_when_it_arrives_or_the_writer_is_dropped() {
    let (store, mut writer) = Store::<Raw>::new();
    let waiting = tokio::spawn({
        let store = store.clone();
        async move { store.wait_for(Revision(5)).await }
    });
    writer.advance(Revision(4));
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    writer.advance(Revision(6));
    waiting.await.unwrap().unwrap();
    drop(writer);
    assert_eq!(store.wait_for(Revision(7)).await.unwrap_err().at, Revision(6));
}

/// An object that is unchanged in a relist keeps its cached version, decoded form included.
#[test]
fn objects_unchanged_by_a_relist_keep_their_place() {
    let (store, mut writer) = Store::<Raw>::new();
    writer.replace(None, vec![object(0, 0, 0, 1), object(0, 1, 0, 1)]);
    let before = store.get(&key(0, 0)).unwrap();
    writer.replace(None, vec![object(0, 0, 0, 1), object(0, 1, 0, 2)]);
    assert!(std::ptr::eq(before.json(), store.get(&key(0, 0)).unwrap().json()));
    assert_eq!(store.get(&key(0, 1)).unwrap().revision(), Revision(2));
}

/// The key is built when the object is first seen; every later version, the store and the indexes hold that one.
#[test]
fn all_versions_of_an_object_share_its_key() {
    let (store, mut writer) = Store::<Raw>::new();
    let index = store
        .add_index("color", |o: &Object<Raw>| Ok(o.label("color").map(String::from).into_iter().collect()));
    writer.write(vec![StoreWrite::Put(object(0, 0, 0, 1))]);
    let first = store.get(&key(0, 0)).unwrap();
    for revision in 2..5 {
        writer.write(vec![StoreWrite::Put(object(0, 0, revision as u8, revision))]);
    }
    writer.replace(None, vec![object(0, 0, 9, 9)]);
    let last = store.get(&key(0, 0)).unwrap();
    let indexed = store.snapshot().index_keys(&index.unwrap(), "9").unwrap();
    assert_eq!(last.revision(), Revision(9));
    for key in [last.key(), &indexed[0]] {
        assert!(std::ptr::eq(first.key().as_str(), key.as_str()));
    }
}

/// An index that was added late swallowed the errors of its function.
#[test]
fn an_index_added_late_reports_objects_it_cannot_place() {
    let (store, mut writer) = Store::<Raw>::new();
    writer.write(
        (1..=3).map(|number| StoreWrite::Put(support::object(&format!("x/{number}"), number))).collect(),
    );
    let even = |object: &Object<Raw>| match object.revision().0 % 2 {
        0 => Ok([true].into_iter().collect()),
        _ => Err(IndexError::cannot_place(object, "odd")),
    };
    let index = store.add_index("even", even).unwrap();
    let unplaced: Vec<_> = index.unplaced().iter().map(ToString::to_string).collect();
    assert_eq!(unplaced, [r#"index "even" cannot place x/1: odd"#, r#"index "even" cannot place x/3: odd"#]);
    assert_eq!(store.snapshot().by_index(&index, &true).unwrap().count(), 1);
}
