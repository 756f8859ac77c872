//! Fields that Go structs write even if they are not set.
//!
//! kube-apiserver decodes into structs and encodes them again, which adds `"status":{}` to a new Deployment and
//! `"rules":null` to an empty Role; clients and recorded objects expect it. The schema table marks such fields, and
//! types below which nothing can be missing are not entered. It belongs at the end of a write, after defaults; parts
//! shared with the stored object have them already.

use listwatch_wire::json::{Map, Text, Value};

use super::scalar::number;
use crate::schema::{FieldType, Node, StructId, schema};

/// Adds the fields that are always written: value structs as `{}`, scalars without `omitempty` as their zero value.
///
/// Belongs at the end of a write: `"status":{}` of a new Deployment, `"rules":null` of an empty Role.
///
/// Parts that the object shares with `before` have them already.
///
/// Costs as much as the parts that are not shared. It adds and never changes, so running it twice does nothing.
pub fn fill(node: Node, object: &mut Value, before: Option<&Value>) {
    value(node.ty(), object, before);
}

/// Fills a value and everything below it, except what is shared with the stored object.
fn value(ty: FieldType, v: &mut Value, before: Option<&Value>) {
    if before.is_some_and(|before| v.is_same(before)) {
        return;
    }
    match (ty, v) {
        (FieldType::Struct(id), Value::Object(map)) => structure(id, map, before),
        (FieldType::List(id), Value::Array(items)) if fills(schema().element(id)) => {
            let item = schema().element(id);
            let before = before.and_then(Value::as_array);
            for (at, v) in items.iter_mut().enumerate() {
                value(item, v, before.and_then(|before| before.get(at)));
            }
        }
        (FieldType::Map(id), Value::Object(map)) if fills(schema().element(id)) => {
            let item = schema().element(id);
            map.iter_mut().for_each(|(key, v)| value(item, v, before.and_then(|before| before.get(key))));
        }
        _ => {}
    }
}

/// Returns true if anything can be missing from a value of this type.
fn fills(ty: FieldType) -> bool {
    match ty {
        FieldType::Struct(id) => schema().structure(id).fills,
        FieldType::List(id) | FieldType::Map(id) => fills(schema().element(id)),
        _ => false,
    }
}

/// Fills a struct. Most structs have nothing to fill, and are left without a look at their fields.
fn structure(id: StructId, map: &mut Map, before: Option<&Value>) {
    if !schema().structure(id).fills {
        return;
    }
    for field in schema().fields(id).iter().filter(|f| f.fills) {
        let before = before.and_then(|before| before.get(field.name));
        match map.get(field.name) {
            // Not even reached for if there is nothing to do: reaching for it copies what is shared.
            Some(v) if before.is_some_and(|before| v.is_same(before)) => {}
            Some(_) => {
                if let Some(v) = map.get_mut(field.name) {
                    value(field.ty, v, before);
                }
            }
            None if field.always_written() => {
                let v = if field.pointer { Value::Null } else { zero(field.ty) };
                map.insert(field.name, v);
            }
            None => {}
        }
    }
}

/// The zero value of a type as Go writes it.
pub(super) fn zero(ty: FieldType) -> Value {
    match ty {
        FieldType::String | FieldType::Bytes => Value::String(Text::default()),
        FieldType::Bool => Value::Bool(false),
        FieldType::Int32 | FieldType::Int64 | FieldType::Double | FieldType::IntOrString => number(0),
        FieldType::Quantity => "0".into(),
        FieldType::Struct(id) => {
            let mut map = Map::new();
            structure(id, &mut map, None);
            Value::Object(map)
        }
        _ => Value::Null,
    }
}
