use super::*;
use listwatch_wire::json::json;

fn errors(schema_json: Value) -> Vec<String> {
    let schema = crate::tests::schema(schema_json.clone());
    let errors = check(&schema, &schema_json, &Rules::compile(&schema_json), "s");
    errors.iter().map(|error| format!("{} {:?}", error.field, error.kind)).collect()
}

/// Names were kept for the life of the process, and a definition with many of them left no room for those of others.
#[test]
fn keys_of_lists_are_bounded_for_each_list() {
    let list = |keys: &[String], default: &str| {
        let key = json!({"type": "string", "default": default});
        let fields: listwatch_wire::json::Map = keys.iter().map(|name| (name.clone(), key.clone())).collect();
        let keys: Vec<Value> = keys.iter().map(|name| name.as_str().into()).collect();
        json!({"type": "object", "properties": {"l": {"type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": keys, "items": {"type": "object", "properties": fields}}}})
    };
    let keys = |from: usize, count: usize| (from..from + count).map(|n| format!("k{n}")).collect::<Vec<_>>();
    for n in 0..100 {
        assert_eq!(errors(list(&keys(n * 64, 64), "x")), [""; 0]);
    }
    assert_eq!(errors(list(&keys(0, 65), "x")), ["s.properties[l].x-kubernetes-list-map-keys TooMany"]);
    let long = list(&keys(0, 1), &"x".repeat(1025));
    assert_eq!(errors(long), ["s.properties[l].items.properties[k0].default TooLong"]);
}

#[test]
fn paths_of_a_schema_are_bounded_together() {
    let fields: listwatch_wire::json::Map =
        (0..1000).map(|n| (format!("p{n}"), json!({"type": "string"}))).collect();
    let inner = json!({"type": "object", "properties": fields});
    let schema = |name: String| json!({"type": "object", "properties": {name: inner}});
    assert_eq!(exceeded_bound(&schema("n".repeat(1000))), None);
    assert!(exceeded_bound(&schema("n".repeat(200_000))).is_some());
}

#[test]
fn errors_of_a_schema_are_bounded() {
    let fields: listwatch_wire::json::Map =
        (0..5000).map(|n| (format!("p{n}"), json!({"type": "x"}))).collect();
    assert!(errors(json!({"type": "object", "properties": fields})).len() <= 1000);
}

#[test]
fn every_node_needs_a_type() {
    assert_eq!(
        errors(json!({"type": "object", "properties": {"a": {"properties": {"b": {"type": "string"}}}}})),
        ["s.properties[a].type Required"]
    );
    assert_eq!(
        errors(json!({"type": "object", "properties": {"a": {"type": "array", "items": {}}}})),
        ["s.properties[a].items.type Required"]
    );
    assert_eq!(errors(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})), [""; 0]);
}

/// A default was taken with the defaults inside it, and one of a whole resource without a type.
#[test]
fn a_default_must_be_complete_by_itself() {
    let part = json!({"type": "object", "default": {}, "required": ["n"], "properties": {"n": {"type": "integer", "default": 3}}});
    let schema = json!({"type": "object", "properties": {"a": part}});
    assert_eq!(errors(schema), ["s.properties[a].default.n Required"]);
    let root = json!({"type": "object", "default": {"spec": {}}, "properties": {"spec": {"type": "object"}}});
    assert_eq!(errors(root), ["s.default.apiVersion Required", "s.default.kind Required"]);
    let set = json!({"type": "array", "default": [1, 1], "items": {"type": "integer"}, "x-kubernetes-list-type": "set"});
    assert!(errors(json!({"type": "object", "properties": {"a": set}})).is_empty());
}

/// Empty keywords were accepted, and so was a nullable key.
#[test]
fn keywords_of_lists_and_maps_have_a_value() {
    let one = |field: Value| errors(json!({"type": "object", "properties": {"a": field}}));
    let list = json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": ""});
    assert_eq!(one(list), ["s.properties[a].x-kubernetes-list-type NotSupported"]);
    let map = json!({"type": "object", "x-kubernetes-map-type": ""});
    assert_eq!(one(map), ["s.properties[a].x-kubernetes-map-type NotSupported"]);
    let items = json!({"type": "object", "required": ["k"], "properties": {"k": {"type": "string", "nullable": true}}});
    let keyed = json!({"type": "array", "items": items, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]});
    assert_eq!(one(keyed), ["s.properties[a].items.properties[k].nullable Forbidden"]);
    assert_eq!(errors(json!({"x-kubernetes-preserve-unknown-fields": true})), [""; 0]);
}

#[test]
fn a_default_must_fit() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string", "default": 5}}});
    assert_eq!(errors(schema), ["s.properties[a].default TypeInvalid"]);
    let part = json!({"type": "object", "properties": {"b": {"type": "string"}}, "default": {"c": 1}});
    let schema = json!({"type": "object", "properties": {"a": part}});
    assert_eq!(errors(schema), ["s.properties[a].default Invalid"]);
}

#[test]
fn keys_of_keyed_lists_must_always_be_there() {
    let list = |required: &[&str]| {
        json!({"type": "object", "properties": {"l": {"type": "array",
        "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
        "items": {"type": "object", "required": required, "properties": {"k": {"type": "string"}}}}}})
    };
    assert_eq!(errors(list(&[])), ["s.properties[l].items.properties[k].default Required"]);
    assert_eq!(errors(list(&["k"])), [""; 0]);
}

#[test]
fn nesting_is_bounded() {
    let deep = (0..100)
        .fold(json!({"type": "string"}), |inner, _| json!({"type": "object", "properties": {"a": inner}}));
    assert!(errors(deep).iter().any(|error| error.ends_with("Forbidden")));
}

#[test]
fn a_key_that_is_named_twice_is_checked_twice() {
    let item = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let list = json!({"type": "array", "items": item, "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["a", "a"]});
    let missing = "s.properties[f].items.properties[a].default Required";
    let found = errors(json!({"type": "object", "properties": {"f": list}}));
    assert_eq!(found, ["s.properties[f].x-kubernetes-list-map-keys Invalid", missing, missing]);
}

/// kube-apiserver checks these types in objects only.
#[test]
fn a_default_of_an_integer_or_string_may_have_any_type() {
    for default in [json!(true), json!(1.5), json!("5%")] {
        let field = json!({"x-kubernetes-int-or-string": true, "default": default});
        assert_eq!(errors(json!({"type": "object", "properties": {"f": field}})), [""; 0]);
    }
}
