//! The cost of a write grows with the size of the object, not with its square.
//!
//! Every list and map of every built-in kind is filled with n elements and with four times as many, and the steps of a
//! whole write are counted: decoding, defaults, validation, warnings, field ownership, patches. Each list is tried with
//! elements that differ and with elements that are all the same.

use std::collections::HashSet;

use listwatch_kinds::schema::{Field, FieldType, StructId, schema};
use listwatch_kinds::tree::Tree;
use listwatch_wire::json::{Map, Value, json, steps};

use super::strategy::{Builtin, Strategy};
use crate::registry::managed::Tracking;
use crate::registry::view::ObjectView;

const ELEMENTS: usize = 100;
/// Four times the input takes four times the steps; sorting and binary search take a little more.
const MOST: f64 = 5.0;

/// The steps of everything that happens to an object on its way into the store and through its changes.
pub(super) fn cost(rules: &dyn Strategy, object: &Value) -> u64 {
    let tracking = |manager: &str| Tracking {
        manager: manager.to_owned(),
        api_version: object.text("apiVersion").to_owned(),
        subresource: "",
        time: "2026-01-01T00:00:00Z".to_owned(),
    };
    let before = steps::taken();
    let mut old = object.clone();
    rules.decode(&mut old, None);
    rules.complete(&mut old, None);
    rules.track(&tracking("a"), None, &mut old);
    rules.prepare_create(&mut old);
    rules.validate_create(&old);
    rules.warnings(&old, None);
    let mut new = reversed(object);
    rules.decode(&mut new, None);
    rules.complete(&mut new, None);
    rules.track(&tracking("b"), Some(&old), &mut new);
    for view in [ObjectView::Whole, ObjectView::Status, ObjectView::EphemeralContainers, ObjectView::Resize] {
        let mut new = new.clone();
        rules.prepare_update(view, &mut new, &old);
        rules.validate_update(view, &new, &old);
        rules.warnings(&new, Some(&old));
    }
    let _ = rules.strategic(&mut old.clone(), &reversed(object));
    let _ = rules.apply(&tracking("c"), Some(&old), &new_configuration(&new), true);
    steps::taken() - before
}

/// The object as a client could apply it: without the fields that only the server writes.
fn new_configuration(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(meta) = object.inner("metadata") {
        meta.remove("managedFields");
    }
    object
}

/// The same with all lists the other way round.
fn reversed(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().rev().map(reversed).collect(),
        Value::Object(map) => {
            Value::Object(map.iter().map(|(key, value)| (key.clone(), reversed(value))).collect())
        }
        other => other.clone(),
    }
}

/// The failure message if the cost of `make(4n)` is far above four times that of `make(n)`.
pub(super) fn steepness(what: &str, rules: &dyn Strategy, make: impl Fn(usize) -> Value) -> Option<String> {
    let [few, many] = [ELEMENTS, 4 * ELEMENTS].map(|n| cost(rules, &make(n)));
    let ratio = many as f64 / few.max(1) as f64;
    (ratio >= MOST)
        .then(|| format!("{what}: {few} steps for {ELEMENTS} elements, {many} for four times as many"))
}

/// A scalar of a type; `n` makes it differ from others.
fn scalar(ty: FieldType, n: usize) -> Value {
    match ty {
        FieldType::Bool => true.into(),
        FieldType::Int32 | FieldType::Int64 => n.into(),
        FieldType::Struct(_) => json!({}),
        FieldType::List(_) => json!([]),
        FieldType::Map(_) => json!({}),
        _ => format!("a{n}").into(),
    }
}

/// A struct whose scalars are all set.
fn element(ty: FieldType, n: usize) -> Value {
    let FieldType::Struct(id) = ty else { return scalar(ty, n) };
    let fields = schema()
        .fields(id)
        .iter()
        .filter(|field| !matches!(field.ty, FieldType::Struct(_) | FieldType::List(_) | FieldType::Map(_)));
    Value::Object(fields.map(|field| (field.name, scalar(field.ty, n))).collect())
}

/// `n` elements of a list or map.
fn collection(field: &Field, n: usize, same: bool) -> Value {
    let number = |i: usize| if same { 7 } else { i };
    match field.ty {
        FieldType::List(item) => (0..n).map(|i| element(schema().element(item), number(i))).collect(),
        FieldType::Map(item) => Value::Object(
            (0..n).map(|i| (format!("k{i}"), element(schema().element(item), number(i)))).collect(),
        ),
        _ => Value::Null,
    }
}

/// The place of a list or map: the fields on the way to it, and whether each is itself a list or map of which one
/// element is gone into.
type Way = Vec<&'static Field>;

/// Every list and map below a struct that was not met before.
fn ways(id: StructId, way: &mut Way, met: &mut HashSet<(StructId, &'static str)>, found: &mut Vec<Way>) {
    for field in schema().fields(id) {
        if !met.insert((id, field.name)) {
            continue;
        }
        way.push(field);
        let inner = match field.ty {
            FieldType::List(item) | FieldType::Map(item) => {
                found.push(way.clone());
                schema().element(item)
            }
            other => other,
        };
        if let FieldType::Struct(inner) = inner {
            ways(inner, way, met, found);
        }
        way.pop();
    }
}

/// An object with one value at the end of a way.
fn place(way: &[&'static Field], end: Value) -> Value {
    let Some((field, rest)) = way.split_first() else { return end };
    let inner = place(rest, end);
    let value = match field.ty {
        FieldType::List(item) if !rest.is_empty() => json!([with_scalars(schema().element(item), inner)]),
        FieldType::Map(_) if !rest.is_empty() => json!({"k": inner}),
        ty if !rest.is_empty() => with_scalars(ty, inner),
        _ => inner,
    };
    Value::Object(Map::from_iter([(field.name, value)]))
}

fn with_scalars(ty: FieldType, inner: Value) -> Value {
    let Value::Object(mut fields) = element(ty, 1) else { return inner };
    fields.extend(inner.as_object().into_iter().flatten().map(|(key, value)| (key.clone(), value.clone())));
    Value::Object(fields)
}

#[test]
fn no_list_of_any_kind_costs_its_square() {
    let mut met = HashSet::new();
    let (mut tried, mut steep) = (0, Vec::new());
    for entry in schema().kinds() {
        let Some(kind) = listwatch_kinds::by_kind(entry.group, entry.version, entry.kind) else { continue };
        if !kind.flags.stored {
            continue;
        }
        let rules = Builtin::new(kind);
        let mut found = Vec::new();
        ways(entry.id, &mut Vec::new(), &mut met, &mut found);
        for way in found {
            let names: Vec<&str> = way.iter().map(|field| field.name).collect();
            let Some(last) = way.last() else { continue };
            for same in [false, true] {
                let make = |n: usize| {
                    let mut object = place(&way, collection(last, n, same));
                    object["kind"] = kind.kind.into();
                    object["apiVersion"] = kind.api_version().into();
                    if object["metadata"].is_null() {
                        object["metadata"] = json!({});
                    }
                    object["metadata"]["name"] = "a".into();
                    object
                };
                let what = format!("{} {} same={same}", kind.kind, names.join("."));
                steep.extend(steepness(&what, &rules, make));
                tried += 1;
            }
        }
    }
    assert!(steep.is_empty(), "{steep:#?}");
    assert!(tried > 500, "only {tried} lists were tried");
}
