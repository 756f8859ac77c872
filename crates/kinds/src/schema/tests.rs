//! Tests of the field table: every kind is in it, and its lookups agree with the types of Kubernetes.

use listwatch_merge::patch::{ListKeys, MergeSchema as _};

use super::*;

#[test]
fn every_stored_kind_has_a_struct_with_metadata_and_a_list() {
    for kind in crate::all() {
        let object = node(kind.group, kind.version, kind.kind);
        let object = object.unwrap_or_else(|| panic!("{} is not in schema/table.txt", kind.kind));
        assert!(object.field("metadata").is_some(), "{}", kind.kind);
        if kind.flags.stored {
            assert!(node(kind.group, kind.version, &kind.list_kind()).is_some(), "{}", kind.kind);
        }
    }
}

#[test]
fn fields_are_sorted_by_name_for_the_search() {
    for (id, structure) in schema().structs() {
        assert!(schema().fields(id).is_sorted_by_key(|f| f.name), "{}", structure.name);
    }
}

#[test]
fn every_line_of_the_table_is_understood() {
    let text = include_str!("table.txt");
    let fields = text.lines().filter(|l| l.starts_with("  ")).count();
    assert_eq!(schema().structs().map(|(id, _)| schema().fields(id).len()).sum::<usize>(), fields);
    let kinds = text.lines().filter(|l| l.starts_with("kind ")).count();
    assert_eq!(schema().kinds().len(), kinds);
    // A type that is not found becomes JSON, which only few fields are.
    let json = text.lines().filter(|l| l.split(' ').nth(3).is_some_and(|t| t.ends_with("json"))).count();
    let loaded = |ty: FieldType| match ty {
        FieldType::List(id) | FieldType::Map(id) => schema().element(id) == FieldType::Json,
        ty => ty == FieldType::Json,
    };
    let found = schema().structs().flat_map(|(id, _)| schema().fields(id)).filter(|f| loaded(f.ty));
    assert_eq!(found.count(), json);
}

#[test]
fn merge_key_and_map_keys_differ_where_kubernetes_lets_them() {
    let service = node("", "v1", "Service").and_then(|n| n.field("spec")?.field("ports")).unwrap();
    assert_eq!(service.merge_key(), Some("port"));
    assert_eq!(service.list_kind(), ListKind::Map(ListKeys::Builtin(&["port", "protocol"])));
    assert_eq!(service.key_default("protocol"), Some("TCP".into()));
    let volumes = node("", "v1", "Pod").and_then(|n| n.field("spec")?.field("volumes")).unwrap();
    assert_eq!(volumes.patch_strategy(), PatchStrategy { merge: true, retain_keys: true, replace: false });
}

#[test]
fn structs_know_the_name_go_prints() {
    let spec = node("", "v1", "Pod").and_then(|n| n.field("spec")).and_then(Node::as_struct).unwrap();
    assert_eq!((spec.short_name(), spec.go_name()), ("PodSpec", "v1.PodSpec"));
}

#[test]
fn protobuf_numbers_are_unique_in_each_message() {
    for (id, structure) in schema().structs() {
        let mut seen = std::collections::HashSet::new();
        for field in schema().fields(id).iter().filter(|f| f.numbers != [0; 3]) {
            assert!(seen.insert(field.numbers), "{}.{}", structure.name, field.name);
        }
    }
}
