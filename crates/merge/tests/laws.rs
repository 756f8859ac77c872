//! Properties of patches that hold for every input.

#[path = "../../json/tests/support/any_json.rs"]
mod any_json;

use any_json::value;
use listwatch_json::{Map, Value, json};
use listwatch_merge::patch::{JsonPatch, Schemaless, merge_patch, strategic_merge_patch};
use proptest::prelude::*;

/// Any object.
fn object(nulls: bool) -> impl Strategy<Value = Value> {
    prop::collection::btree_map("[a-c]", value(nulls), 0..4)
        .prop_map(|map| Value::Object(map.into_iter().collect::<Map>()))
}

proptest! {
    #[test]
    fn merging_twice_is_merging_once(object in value(true), patch in value(true)) {
        let mut once = object;
        merge_patch(&mut once, patch.clone());
        let mut twice = once.clone();
        merge_patch(&mut twice, patch);
        prop_assert_eq!(twice, once);
    }

    #[test]
    fn without_a_schema_strategic_is_plain_merge(object in object(false), patch in object(true)) {
        let (mut strategic, mut plain) = (object.clone(), object);
        strategic_merge_patch(&mut strategic, patch.clone(), Schemaless).unwrap();
        merge_patch(&mut plain, patch.clone());
        // A plain merge keeps nulls within lists; a strategic one has no word on them but drops those of maps in them.
        prop_assume!(!has_null_in_list(&patch));
        prop_assert_eq!(strategic, plain);
    }

    #[test]
    fn json_patch_can_remove_what_it_adds(object in object(true), added in value(true)) {
        let patch = json!([{"op": "add", "path": "/new", "value": added}, {"op": "test", "path": "/new", "value": added},
            {"op": "move", "from": "/new", "path": "/newer"}, {"op": "copy", "from": "/newer", "path": "/new"},
            {"op": "remove", "path": "/newer"}, {"op": "remove", "path": "/new"}]);
        let mut patched = object.clone();
        JsonPatch::parse(patch.to_string().as_bytes()).unwrap().apply(&mut patched).unwrap();
        prop_assert_eq!(patched, object);
    }

    #[test]
    fn no_bytes_make_anything_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = JsonPatch::parse(&bytes);
    }
}

fn has_null_in_list(value: &Value) -> bool {
    fn has_null(value: &Value) -> bool {
        match value {
            Value::Null => true,
            Value::Array(items) => items.iter().any(has_null),
            Value::Object(map) => map.values().any(has_null),
            _ => false,
        }
    }
    match value {
        Value::Array(items) => items.iter().any(has_null),
        Value::Object(map) => map.values().any(has_null_in_list),
        _ => false,
    }
}
