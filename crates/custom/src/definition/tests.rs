//! Tests of reading definitions.

use super::*;

pub(super) fn definition(plural: &str, kind: &str) -> Value {
    let mut object = json!({"metadata": {"name": format!("{plural}.example.test")}, "spec": {
        "group": "example.test", "scope": "Namespaced", "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List")},
        "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object"}}}}}]}});
    begin(&mut object);
    object
}

#[test]
fn a_new_definition_remembers_its_stored_version() {
    let object = definition("widgets", "Widget");
    assert_eq!(object.pointer("/status/storedVersions"), Some(&json!(["v1"])));
}

#[test]
fn a_taken_kind_is_a_conflict_and_the_last_one_found_is_the_reason() {
    let mut first = Definition::read(&definition("widgets", "Widget")).unwrap();
    first.accepted = first.names.clone();
    let second = Definition::read(&definition("gizmos", "Widget")).unwrap();
    let conflicts = name_conflicts(&second, [&first].into_iter());
    let reasons: Vec<_> = conflicts.iter().map(|conflict| conflict.reason).collect();
    assert_eq!(reasons, ["SingularConflict", "KindConflict", "ListKindConflict"]);
    assert_eq!(name_conflicts(&first, [&first, &second].into_iter()), []);
}
