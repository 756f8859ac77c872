//! Laws of field sets and of apply, on random sets and objects.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

type Path = Vec<String>;

fn element() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec!["f:a", "f:b", "f:c"]).prop_map(String::from),
        Just("k:{\"name\":\"x\"}".to_owned()),
        Just("v:1".to_owned()),
    ]
}

fn paths() -> impl Strategy<Value = BTreeSet<Path>> {
    prop::collection::btree_set(prop::collection::vec(element(), 1..4), 0..8)
}

/// The set a naive reader of the definition would build.
fn set(paths: &BTreeSet<Path>) -> FieldSet {
    let mut out = FieldSet::new();
    for path in paths {
        let leaf = json!({});
        let nested = path.iter().rev().fold(leaf, |below, step| json!({ step.clone(): below }));
        out.union(&FieldSet::from_json(nested).unwrap());
    }
    out
}

fn model(set: &FieldSet) -> BTreeSet<Path> {
    fn walk(node: &Value, path: &mut Path, out: &mut BTreeSet<Path>) {
        let map = node.as_object().unwrap();
        if !path.is_empty() && (map.is_empty() || map.contains_key(".")) {
            out.insert(path.clone());
        }
        for (key, below) in map.iter().filter(|(key, _)| *key != ".") {
            path.push(key.to_string());
            walk(below, path, out);
            path.pop();
        }
    }
    let mut out = BTreeSet::new();
    walk(&set.to_json(), &mut Vec::new(), &mut out);
    out
}

fn config() -> impl Strategy<Value = Value> {
    let data = prop::collection::btree_map("[a-d]", "[12]", 0..4);
    let items = prop::collection::btree_map("[a-c]", prop::option::of("[12]"), 0..3);
    let args = prop::option::of(prop::collection::vec(0..3, 0..3));
    (data, items, args, any::<bool>()).prop_map(|(data, items, args, set)| {
        let item = |(name, image): (String, Option<String>)| match image {
            Some(image) => json!({"name": name, "image": image}),
            None => json!({"name": name}),
        };
        let mut spec = json!({"items": items.into_iter().map(item).collect::<Vec<_>>()});
        if let Some(args) = args {
            spec["args"] = json!(args);
        }
        let mut config = json!({"kind": "Thing", "apiVersion": "v1", "metadata": {"name": "a"}, "data": data, "spec": spec});
        if set {
            config["metadata"]["finalizers"] = json!(["x", "y"]);
        }
        config
    })
}

proptest! {
    #[test]
    fn set_operations_agree_with_plain_sets(a in paths(), b in paths()) {
        let (left, right) = (set(&a), set(&b));
        prop_assert_eq!(&model(&left), &a);
        prop_assert_eq!(left.contains(&right), b.is_subset(&a));
        let mut union = left.clone();
        union.union(&right);
        prop_assert_eq!(model(&union), a.union(&b).cloned().collect());
        let mut difference = left.clone();
        difference.subtract(&right);
        prop_assert_eq!(model(&difference), a.difference(&b).cloned().collect());
        prop_assert_eq!(model(&left.intersection(&right)), a.intersection(&b).cloned().collect());
        let mut recursive = left;
        recursive.subtract_recursive(&right);
        let expected = a.iter().filter(|p| !b.iter().any(|q| p.starts_with(q))).cloned().collect();
        prop_assert_eq!(model(&recursive), expected);
    }

    #[test]
    fn equal_sets_have_equal_json(a in paths(), b in paths()) {
        let mut one = set(&a);
        one.union(&set(&b));
        one.subtract(&set(&b));
        let expected: BTreeSet<Path> = a.difference(&b).cloned().collect();
        prop_assert_eq!(one, set(&expected));
    }

    #[test]
    fn applying_twice_is_applying_once(first in config(), second in config(), other in config()) {
        let mut world = World::new();
        world.apply_at("one", T0, first, true).unwrap();
        world.apply_at("two", T0, other, true).unwrap();
        world.apply_at("one", T0, second.clone(), true).unwrap();
        let once = world.live.clone();
        let again = world.manager("one", T1).apply(once.as_ref(), &second, false).unwrap();
        prop_assert!(!again.changed);
        prop_assert_eq!(Some(again.object), once);
    }

    #[test]
    fn applied_fields_are_set_and_owned(configs in prop::collection::vec(config(), 1..4)) {
        let mut world = World::new();
        for (i, config) in configs.iter().enumerate() {
            world.apply_at(["one", "two"][i % 2], T0, config.clone(), true).unwrap();
            let live = world.live.as_ref().unwrap();
            for (key, value) in config["data"].as_object().unwrap() {
                prop_assert_eq!(&live["data"][key.as_str()], value);
            }
        }
    }

    #[test]
    fn dropping_everything_leaves_nothing_behind(a in config(), b in config()) {
        let mut world = World::new();
        world.apply_at("one", T0, a, true).unwrap();
        world.apply_at("two", T0, b, true).unwrap();
        let bare = json!({"kind": "Thing", "apiVersion": "v1", "metadata": {"name": "a"}});
        world.apply_at("one", T0, bare.clone(), true).unwrap();
        world.apply_at("two", T0, bare, true).unwrap();
        let live = world.live.as_ref().unwrap();
        prop_assert_eq!(live["metadata"].get("finalizers"), None);
        prop_assert_eq!((world.owned("one"), world.owned("two")), (Value::Null, Value::Null));
        for part in ["data", "spec"] {
            prop_assert!(live.get(part).is_none_or(|v| v == &json!({}) || v == &json!({"items": []})), "{}", live);
        }
    }
}
