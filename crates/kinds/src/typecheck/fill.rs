//! What structs write even when nobody set it.

use listwatch_wire::json::{Map, Text, Value};

use super::scalar::number;
use crate::schema::{Node, StructId, Type, schema};

/// Adds the fields that are always written: value structs as `{}`, scalars without `omitempty` as their zero value.
///
/// Belongs at the end of a write: `"status":{}` of a new Deployment, `"rules":null` of an empty Role.
pub fn fill(node: Node, object: &mut Value) {
    value(node.ty(), object);
}

fn value(ty: Type, v: &mut Value) {
    match (ty, v) {
        (Type::Struct(id), Value::Object(map)) => structure(id, map),
        (Type::List(id), Value::Array(items)) => {
            let item = schema().element(id);
            items.iter_mut().for_each(|v| value(item, v));
        }
        (Type::Map(id), Value::Object(map)) => {
            let item = schema().element(id);
            map.values_mut().for_each(|v| value(item, v));
        }
        _ => {}
    }
}

fn structure(id: StructId, map: &mut Map) {
    if !schema().structure(id).fills {
        return;
    }
    for field in schema().fields(id).iter().filter(|f| f.fills) {
        match map.get_mut(field.name) {
            Some(v) => value(field.ty, v),
            None if field.always_written() => {
                let v = if field.pointer { Value::Null } else { zero(field.ty) };
                map.insert(field.name.to_owned(), v);
            }
            None => {}
        }
    }
}

/// The zero value of a type as Go writes it.
pub(super) fn zero(ty: Type) -> Value {
    match ty {
        Type::String => Value::String(Text::default()),
        Type::Bool => Value::Bool(false),
        Type::Int32 | Type::Int64 | Type::Double | Type::IntOrString => number(0),
        Type::Quantity => "0".into(),
        Type::Struct(id) => {
            let mut map = Map::new();
            structure(id, &mut map);
            Value::Object(map)
        }
        _ => Value::Null,
    }
}
