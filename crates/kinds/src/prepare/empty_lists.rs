//! Empty lists that a client sent for fields that are written even if they are empty.
//!
//! kube-apiserver records their sender as the owner of the field, and its store has no empty lists: what is stored is
//! null. So they are kept while a body is decoded, until field ownership has been recorded. Only lists near the root
//! are; deeper ones, such as the containers of a Pod, may not be empty anyway.

use listwatch_wire::json::Value;

use crate::Kind;
use crate::tree::Tree;

/// The kinds with such fields: group, kind, the struct around the fields and the fields.
const OWNED_EMPTY: [(&str, &str, &str, &[&str]); 4] = [
    ("", "LimitRange", "spec", &["limits"]),
    ("discovery.k8s.io", "EndpointSlice", "", &["endpoints", "ports"]),
    ("rbac.authorization.k8s.io", "ClusterRole", "", &["rules"]),
    ("rbac.authorization.k8s.io", "Role", "", &["rules"]),
];

/// Returns true for such a field, of a struct with this definition.
pub(crate) fn is_owned_empty(definition: &str, field: &str) -> bool {
    let structure = definition.rsplit('.').next().unwrap_or_default();
    OWNED_EMPTY.iter().any(|(_, kind, around, fields)| {
        let is_around = match around.is_empty() {
            true => structure == *kind,
            false => structure.strip_suffix("Spec") == Some(kind),
        };
        is_around && fields.contains(&field)
    })
}

/// Replaces the empty lists of a kind by null.
pub(super) fn drop_empty_lists(kind: &Kind, object: &mut Value) {
    let of_kind = |row: &&(&str, &str, &str, &[&str])| (row.0, row.1) == (kind.group, kind.kind);
    let Some((_, _, around, fields)) = OWNED_EMPTY.iter().find(of_kind) else { return };
    let is_empty = |holder: &Value, field: &str| holder.at(field).as_array().is_some_and(Vec::is_empty);
    for field in *fields {
        let holder = if around.is_empty() { &*object } else { object.at(around) };
        if !is_empty(holder, field) {
            continue;
        }
        match around.is_empty() {
            true => object.put(field, Value::Null),
            false => {
                if let Some(holder) = object.inner(around) {
                    holder.put(field, Value::Null);
                }
            }
        }
    }
}
