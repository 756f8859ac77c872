//! Tests of strategic merge patch, each named by the rule it shows.
//! The schema is a toy with one list of each kind. Order is tested as much as content: kube-apiserver's order after a
//! merge is visible to every client.

use listwatch_json::{Value, json};

use super::*;
use crate::patch::{ListKind, MapKind, PatchStrategy};

/// `items` merges by `name`, `ports` by `port`, `tags` and `finalizers` as sets, `selector` is replaced, everything
/// else has no strategy.
#[derive(Clone, Copy)]
struct Node(&'static str);

impl MergeSchema for Node {
    fn field(self, name: &str) -> Option<Self> {
        Some(Self(match name {
            "items" => "items",
            "ports" => "ports",
            "tags" => "tags",
            "selector" => "selector",
            _ => "",
        }))
    }
    fn items(self) -> Option<Self> {
        Some(Self(""))
    }
    fn list_kind(&self) -> ListKind<'_> {
        ListKind::Atomic
    }
    fn map_kind(self) -> MapKind {
        MapKind::Granular
    }
    fn merge_key(&self) -> Option<&str> {
        match self.0 {
            "items" => Some("name"),
            "ports" => Some("port"),
            _ => None,
        }
    }
    fn patch_strategy(self) -> PatchStrategy {
        PatchStrategy { merge: !self.0.is_empty(), retain_keys: false, replace: self.0 == "selector" }
    }
}

fn patched(object: Value, patch: Value) -> Result<Value, PatchError> {
    let mut object = object;
    strategic_merge_patch(&mut object, patch, Node("")).map(|()| object)
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap()).collect()
}

/// A new selector of a PodDisruptionBudget was merged with the old one.
#[test]
fn an_object_with_the_strategy_replace_is_replaced() {
    let object = json!({"selector": {"matchLabels": {"a": "b"}}, "other": {"a": 1}});
    let patch = json!({"selector": {"matchExpressions": [], "matchLabels": null}, "other": {"b": 2}});
    assert_eq!(
        patched(object, patch).unwrap(),
        json!({"selector": {"matchExpressions": [], "matchLabels": null}, "other": {"a": 1, "b": 2}})
    );
}

#[test]
fn elements_merge_by_key_and_the_patch_leads_the_order() {
    let object = json!({"ports": [{"port": 80, "name": "web"}]});
    let patch = json!({"ports": [{"port": 81, "name": "alt"}, {"port": 80, "name": "http"}]});
    assert_eq!(
        patched(object, patch).unwrap()["ports"],
        json!([{"port": 81, "name": "alt"}, {"port": 80, "name": "http"}])
    );
}

#[test]
fn server_elements_keep_their_place_among_patched_ones() {
    let object = json!({"items": [{"name": "a"}, {"name": "b"}, {"name": "c"}]});
    let patch = json!({"items": [{"name": "b", "x": 1}]});
    assert_eq!(names(&patched(object, patch).unwrap()["items"]), ["a", "b", "c"]);
}

#[test]
fn scalars_merge_as_sets() {
    let patch = json!({"tags": ["c", "a"]});
    assert_eq!(patched(json!({"tags": ["a", "b"]}), patch).unwrap()["tags"], json!(["c", "a", "b"]));
}

#[test]
fn lists_without_strategy_are_replaced() {
    assert_eq!(patched(json!({"args": [1, 2]}), json!({"args": [3]})).unwrap()["args"], json!([3]));
}

#[test]
fn delete_takes_one_element_replace_takes_all() {
    let object = || json!({"items": [{"name": "a"}, {"name": "b"}]});
    let delete = json!({"items": [{"$patch": "delete", "name": "a"}]});
    assert_eq!(names(&patched(object(), delete).unwrap()["items"]), ["b"]);
    let replace = json!({"items": [{"$patch": "replace"}, {"name": "c"}]});
    assert_eq!(names(&patched(object(), replace).unwrap()["items"]), ["c"]);
}

#[test]
fn maps_can_be_replaced_deleted_and_thinned() {
    let object = || json!({"m": {"a": 1, "b": 2}});
    assert_eq!(patched(object(), json!({"m": {"$patch": "replace", "c": 3}})).unwrap()["m"], json!({"c": 3}));
    assert_eq!(patched(object(), json!({"m": {"$patch": "delete"}})).unwrap()["m"], json!({}));
    assert_eq!(patched(object(), json!({"m": {"a": null}})).unwrap()["m"], json!({"b": 2}));
    assert_eq!(
        patched(object(), json!({"m": {"$retainKeys": ["c"], "c": 3}})).unwrap()["m"],
        json!({"c": 3})
    );
}

#[test]
fn retain_keys_must_list_what_is_patched() {
    let refused = patched(json!({"m": {}}), json!({"m": {"$retainKeys": ["a"], "b": 1}})).unwrap_err();
    assert_eq!(refused, PatchError::Malformed("invalid patch format of retainKeys".into()));
}

#[test]
fn scalars_can_be_taken_out() {
    let patch = json!({"$deleteFromPrimitiveList/tags": ["a", "z"]});
    assert_eq!(patched(json!({"tags": ["a", "b"]}), patch.clone()).unwrap()["tags"], json!(["b"]));
    assert_eq!(patched(json!({}), patch).unwrap(), json!({}));
}

#[test]
fn set_element_order_decides() {
    let object = || json!({"items": [{"name": "one"}, {"name": "two"}]});
    let patch = json!({
        "$setElementOrder/items": [{"name": "new"}, {"name": "two"}, {"name": "one"}],
        "items": [{"name": "new"}],
    });
    assert_eq!(names(&patched(object(), patch).unwrap()["items"]), ["new", "two", "one"]);
    let order_only = json!({"$setElementOrder/items": [{"name": "two"}, {"name": "one"}]});
    assert_eq!(names(&patched(object(), order_only).unwrap()["items"]), ["two", "one"]);
    let scalars = json!({"$setElementOrder/tags": ["b", "a"], "tags": ["b"]});
    assert_eq!(patched(json!({"tags": ["a", "c"]}), scalars).unwrap()["tags"], json!(["b", "a", "c"]));
}

#[test]
fn set_element_order_must_hold_the_patched_elements() {
    let patch = json!({"$setElementOrder/items": [{"name": "a"}], "items": [{"name": "b"}]});
    assert!(
        matches!(patched(json!({"items": []}), patch), Err(PatchError::Unforeseen(t)) if t.starts_with("The order"))
    );
}

#[test]
fn unknown_directives_count_only_where_something_is_merged() {
    let patch = || json!({"labels": {"$patch": "explode"}});
    assert_eq!(
        patched(json!({"labels": {"l": "1"}}), patch()).unwrap_err(),
        PatchError::Unforeseen("unknown patch type: explode in map: map[$patch:explode]".into())
    );
    assert_eq!(patched(json!({}), patch()).unwrap(), json!({}));
}

#[test]
fn elements_need_their_key() {
    assert_eq!(
        patched(json!({"items": [{"name": "a"}]}), json!({"items": [{"image": "i:9"}]})).unwrap_err(),
        PatchError::Unforeseen("map: map[image:i:9] does not contain declared merge key: name".into())
    );
}

#[test]
fn new_values_have_no_nulls_and_patched_maps() {
    let patch = json!({"m": {"a": null, "b": {"$retainKeys": ["x"], "x": 1}, "c": {"$patch": "delete"}}});
    // kube-apiserver leaves the other directives in, and then warns of unknown fields.
    assert_eq!(patched(json!({}), patch).unwrap(), json!({"m": {"b": {"$retainKeys": ["x"], "x": 1}}}));
}

#[test]
fn long_lists_merge_in_a_moment() {
    let list = |from: u32| (from..from + 50_000).map(|i| json!({"name": i})).collect::<Vec<_>>();
    let merged = patched(json!({"items": list(0)}), json!({"items": list(25_000)})).unwrap();
    assert_eq!(merged["items"].as_array().unwrap().len(), 75_000);
    let tags = |from: u32| (from..from + 50_000).collect::<Vec<_>>();
    let merged = patched(json!({"tags": tags(0)}), json!({"tags": tags(25_000)})).unwrap();
    assert_eq!(merged["tags"].as_array().unwrap().len(), 75_000);
}

#[test]
fn an_order_of_keyed_elements_names_objects() {
    let patch = json!({"$setElementOrder/items": ["a"]});
    assert_eq!(
        patched(json!({"items": []}), patch).unwrap_err(),
        PatchError::Unforeseen("value for key 0 is not a map".into())
    );
}

#[test]
fn values_to_delete_that_are_no_list_are_ignored() {
    let object = json!({"tags": ["a"]});
    assert_eq!(patched(object.clone(), json!({"$deleteFromPrimitiveList/tags": "a"})).unwrap(), object);
}
