//! Fields that Go structs write even if they are not set.
//!
//! kube-apiserver decodes into structs and encodes them again, which adds `"status":{}` to a new Deployment and
//! `"rules":null` to an empty Role; clients and recorded objects expect it. The schema table marks such fields, and
//! types below which nothing can be missing are not entered. It belongs at the end of a write, after defaults; parts
//! shared with the stored object have them already.

use listwatch_wire::json::{Map, Text, Value};

use super::scalar::number;
use crate::schema::{Node, StructId, Type, schema};

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
fn value(ty: Type, v: &mut Value, before: Option<&Value>) {
    if before.is_some_and(|before| v.is_same(before)) {
        return;
    }
    match (ty, v) {
        (Type::Struct(id), Value::Object(map)) => structure(id, map, before),
        (Type::List(id), Value::Array(items)) if fills(schema().element(id)) => {
            let item = schema().element(id);
            let before = before.and_then(Value::as_array);
            for (at, v) in items.iter_mut().enumerate() {
                value(item, v, before.and_then(|before| before.get(at)));
            }
        }
        (Type::Map(id), Value::Object(map)) if fills(schema().element(id)) => {
            let item = schema().element(id);
            map.iter_mut().for_each(|(key, v)| value(item, v, before.and_then(|before| before.get(key))));
        }
        _ => {}
    }
}

/// Returns true if anything can be missing from a value of this type.
fn fills(ty: Type) -> bool {
    match ty {
        Type::Struct(id) => schema().structure(id).fills,
        Type::List(id) | Type::Map(id) => fills(schema().element(id)),
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
pub(super) fn zero(ty: Type) -> Value {
    match ty {
        Type::String | Type::Bytes => Value::String(Text::default()),
        Type::Bool => Value::Bool(false),
        Type::Int32 | Type::Int64 | Type::Double | Type::IntOrString => number(0),
        Type::Quantity => "0".into(),
        Type::Struct(id) => {
            let mut map = Map::new();
            structure(id, &mut map, None);
            Value::Object(map)
        }
        _ => Value::Null,
    }
}
