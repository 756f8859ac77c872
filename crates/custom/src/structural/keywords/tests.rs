//! Tests of the forbidden parts of a schema.

use super::*;
use listwatch_wire::json::json;

fn errors(field: Value) -> Vec<String> {
    let schema = json!({"type": "object", "properties": {"f": field}});
    check(&schema, "s").iter().map(|error| format!("{} {:?}", error.field, error.kind)).collect()
}

#[test]
fn keywords_without_meaning_are_refused() {
    let schema = json!({"type": "object", "properties": {"f": {"$ref": "#/x"}, "g": {"definitions": {}}}});
    let fields: Vec<String> = unsupported_anywhere(&schema, "s").into_iter().map(|e| e.field).collect();
    assert_eq!(fields, ["s.properties[f].$ref", "s.properties[g].definitions"]);
}

#[test]
fn misplaced_keywords_are_refused() {
    for (field, expected) in [
        (json!({"type": "string", "pattern": "x"}), vec![]),
        (
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": false}),
            vec!["s.properties[f].x-kubernetes-preserve-unknown-fields Invalid"],
        ),
        (json!({"type": "string", "x-kubernetes-list-type": "set"}), vec!["s.properties[f].type Invalid"]),
        (
            json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "object"}}),
            vec!["s.properties[f].items.x-kubernetes-map-type Invalid"],
        ),
        (
            json!({"type": "object", "x-kubernetes-embedded-resource": true}),
            vec!["s.properties[f].properties Required"],
        ),
    ] {
        assert_eq!(errors(field.clone()), expected, "{field}");
    }
}

#[test]
fn alternatives_restrict_what_is_described() {
    let described = json!({"type": "object", "properties": {"a": {"type": "integer"}}, "anyOf": [{"properties": {"a": {"minimum": 1}}}]});
    assert_eq!(errors(described), [""; 0]);
    let typed = json!({"type": "string", "anyOf": [{"type": "string"}]});
    assert_eq!(errors(typed), ["s.properties[f].anyOf[0].type Forbidden"]);
    let undescribed = json!({"type": "object", "not": {"properties": {"z": {"minimum": 1}}}});
    let at_root = check(&undescribed, "s").into_iter().map(|error| error.field);
    assert_eq!(at_root.collect::<Vec<_>>(), ["s.properties[z]"]);
    // Only the alternatives of the root are compared with the described fields.
    assert_eq!(errors(undescribed), [""; 0]);
    let either =
        json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]});
    assert_eq!(errors(either), [""; 0]);
}

/// Merge keywords, rules and patterns of alternatives were not looked at.
#[test]
fn alternatives_have_no_extensions_and_valid_patterns() {
    let inside = |alternative: Value| errors(json!({"type": "string", "not": alternative}));
    assert_eq!(
        inside(json!({"x-kubernetes-list-type": "set"})),
        ["s.properties[f].not.x-kubernetes-list-type Forbidden", "s.properties[f].not.type Required"]
    );
    assert_eq!(
        inside(json!({"x-kubernetes-validations": [{"rule": "true"}]})),
        ["s.properties[f].not.x-kubernetes-validations Forbidden"]
    );
    assert_eq!(inside(json!({"pattern": "a**"})), ["s.properties[f].not.pattern Invalid"]);
    assert_eq!(inside(json!({"x-kubernetes-list-map-keys": [], "pattern": "a*"})), [""; 0]);
}

#[test]
fn an_objects_own_metadata_is_known() {
    let root = |metadata: Value| {
        let schema = json!({"type": "object", "properties": {"metadata": metadata}});
        check(&schema, "s")
            .iter()
            .map(|error| format!("{} {:?}", error.field, error.kind))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        root(json!({"type": "object", "properties": {"name": {"type": "string", "maxLength": 5}}})),
        [""; 0]
    );
    assert_eq!(
        root(json!({"type": "object", "properties": {"labels": {"type": "object"}}})),
        ["s.properties[metadata] Forbidden"]
    );
    assert_eq!(
        root(json!({"type": "object", "properties": {"name": {"type": "string", "default": "x"}}})),
        ["s.properties[metadata].properties[name].default Forbidden"]
    );
}

#[test]
fn rules_must_say_something() {
    let rule = |rule: Value| {
        errors(
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "x-kubernetes-validations": [rule]}),
        )
    };
    let at = |part: &str| format!("s.properties[f].x-kubernetes-validations[0].{part}");
    assert_eq!(rule(json!({"rule": "true", "fieldPath": ".a", "reason": "FieldValueRequired"})), [""; 0]);
    assert_eq!(rule(json!({"rule": " "})), [at("rule Required")]);
    assert_eq!(rule(json!({"rule": "true", "message": "a\nb"})), [at("message Invalid")]);
    assert_eq!(rule(json!({"rule": "true\n&& true"})), [at("message Required")]);
    assert_eq!(rule(json!({"rule": "true", "reason": "Because"})), [at("reason NotSupported")]);
    assert_eq!(rule(json!({"rule": "true", "fieldPath": ".b"})), [at("fieldPath Invalid")]);
}
