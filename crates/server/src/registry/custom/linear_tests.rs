//! The cost of a write of a custom object grows linearly with its size, for lists of all types.
//!
//! Each list type of a structural schema (`atomic`, `set`, `map`) is filled with n and with four times as many
//! elements, and the steps are compared: a quadratic algorithm in pruning, defaulting, validation or field ownership
//! would let one request of 3 MiB block a worker. The same test for built-in kinds is `registry/linear_tests.rs`.

use listwatch_custom::Definition;
use listwatch_wire::json::{Value, json};

use super::rules::{Custom, versions_of};
use super::stages::{Stages, version_schemas};
use crate::registry::linear_tests::steepness;

fn rules(list: Value) -> Custom {
    let object = json!({
        "metadata": {"name": "lists.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "lists", "kind": "List"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "properties": {"list": list}}},
            }}}],
        },
    });
    let definition = Definition::read(&object).unwrap();
    let version = &definition.versions[0];
    let stages = Stages::new(&definition, version, &version_schemas(&definition));
    Custom::new(&definition, version, &stages, &versions_of(&definition))
}

#[test]
fn no_list_of_a_custom_kind_costs_its_square() {
    // The update of a keyed list of 239 KB took 32 seconds.
    let element = json!({"type": "object", "required": ["name", "port"], "properties": {
        "name": {"type": "string"}, "port": {"type": "integer"}, "note": {"type": "string", "default": "x"}}});
    let lists = [
        json!({"type": "array", "items": element}),
        json!({"type": "array", "items": element, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name", "port"]}),
        json!({"type": "array", "items": element, "x-kubernetes-list-type": "atomic"}),
        json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}),
        json!({"type": "object", "additionalProperties": element}),
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
        json!({"type": "object"}),
    ];
    for list in lists {
        let rules = rules(list.clone());
        for same in [false, true] {
            let make = |n: usize| {
                let number = |i: usize| if same { 7 } else { i };
                let item = |i: usize| match list["items"]["type"] == "string" {
                    true => format!("a{}", number(i)).into(),
                    false => json!({"name": format!("a{}", number(i)), "port": 80}),
                };
                let value: Value = match list["type"] == "array" {
                    true => (0..n).map(item).collect(),
                    false => Value::Object((0..n).map(|i| (format!("k{i}"), item(i))).collect()),
                };
                json!({"kind": "List", "apiVersion": "example.com/v1",
                    "metadata": {"name": "a", "namespace": "n"}, "spec": {"list": value}})
            };
            assert_eq!(steepness(&format!("{list} same={same}"), &rules, make), None);
        }
    }
}
