//! Fields that Go structs write even if they are not set.
//!
//! kube-apiserver decodes into structs and encodes them again, which adds `"status":{}` to a new Deployment and
//! `"rules":null` to an empty Role; clients and recorded objects expect it. The schema table marks such fields, and
//! types below which nothing can be missing are not entered. It belongs at the end of a write, after defaults; parts
//! shared with the stored object have them already.

use listwatch_wire::json::{Map, Text, Value};

use super::scalar::number;
use crate::schema::{Field, FieldType, Node, StructId, schema};

/// Adds the fields that are always written: value structs as `{}`, scalars without `omitempty` as their zero value.
///
/// Belongs at the end of a write: `"status":{}` of a new Deployment, `"rules":null` of an empty Role.
///
/// Parts that the object shares with `before` have them already.
///
/// Copies only containers that lack something, so that objects of one template go on sharing the others. It adds and never
/// changes, so running it twice does nothing.
pub fn fill(node: Node, object: &mut Value, before: Option<&Value>) {
    if let Some(filled) = filled(node.ty(), object, before) {
        *object = filled;
    }
}

/// A value with what it and everything below it lacks; `None` if that is nothing. Parts shared with the stored object are not
/// looked at.
fn filled(ty: FieldType, v: &Value, before: Option<&Value>) -> Option<Value> {
    if before.is_some_and(|before| v.is_same(before)) {
        return None;
    }
    match (ty, v) {
        (FieldType::Struct(id), Value::Object(map)) => {
            let missing = missing(id, map, before);
            (!missing.is_empty()).then(|| {
                let mut map = map.clone();
                map.extend(missing);
                Value::Object(map)
            })
        }
        (FieldType::List(id), Value::Array(items)) if fills(schema().element(id)) => {
            let (item, before) = (schema().element(id), before.and_then(Value::as_array));
            let at = |at: usize| before.and_then(|before| before.get(at));
            let changed = items.iter().enumerate().filter_map(|(i, v)| Some((i, filled(item, v, at(i))?)));
            let changed: Vec<_> = changed.collect();
            replaced(v, changed, |array, i| array.as_array_mut()?.get_mut(i))
        }
        (FieldType::Map(id), Value::Object(map)) if fills(schema().element(id)) => {
            let item = schema().element(id);
            let of = |key: &str| before.and_then(|before| before.get(key));
            let changed = map.iter().filter_map(|(key, v)| Some((key.clone(), filled(item, v, of(key))?)));
            let changed: Vec<_> = changed.collect();
            replaced(v, changed, |object, key| object.as_object_mut()?.get_mut(&key))
        }
        _ => None,
    }
}

/// A copy of a container with other values in some places; `None` if there are none.
fn replaced<K>(
    container: &Value,
    changed: Vec<(K, Value)>,
    place: impl Fn(&mut Value, K) -> Option<&mut Value>,
) -> Option<Value> {
    if changed.is_empty() {
        return None;
    }
    let mut copy = container.clone();
    for (key, v) in changed {
        if let Some(slot) = place(&mut copy, key) {
            *slot = v;
        }
    }
    Some(copy)
}

/// Returns true if anything can be missing from a value of this type.
fn fills(ty: FieldType) -> bool {
    match ty {
        FieldType::Struct(id) => schema().structure(id).fills,
        FieldType::List(id) | FieldType::Map(id) => fills(schema().element(id)),
        _ => false,
    }
}

/// The fields that a struct lacks, or that lack something themselves, with their new values. Most structs have nothing to fill,
/// and are left without a look at their fields.
fn missing(id: StructId, map: &Map, before: Option<&Value>) -> Vec<(&'static str, Value)> {
    if !schema().structure(id).fills {
        return Vec::new();
    }
    let new = |field: &'static Field| {
        let before = before.and_then(|before| before.get(field.name));
        match map.get(field.name) {
            Some(v) => filled(field.ty, v, before),
            None if !field.always_written() => None,
            None if field.pointer => Some(Value::Null),
            None => Some(zero(field.ty)),
        }
    };
    let fields = schema().fields(id).iter().filter(|field| field.fills);
    fields.filter_map(|field| Some((field.name, new(field)?))).collect()
}

/// The zero value of a type as Go writes it.
pub(super) fn zero(ty: FieldType) -> Value {
    match ty {
        FieldType::String | FieldType::Bytes => Value::String(Text::default()),
        FieldType::Bool => Value::Bool(false),
        FieldType::Int32 | FieldType::Int64 | FieldType::Double | FieldType::IntOrString => number(0),
        FieldType::Quantity => "0".into(),
        FieldType::Struct(id) => {
            let missing = missing(id, &Map::new(), None);
            Value::Object(missing.into_iter().collect())
        }
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    /// Every Pod of a ReplicaSet had a copy of the containers of its template that could lack something.
    #[test]
    fn only_containers_that_lack_something_are_copied() {
        let node = crate::schema::node("", "v1", "Pod").unwrap();
        let container = |resources: Value| json!({"name": "a", "resources": resources});
        let template = json!({"spec": {"containers": [container(json!({})), {"name": "b"}]}, "status": {}});
        let mut pod = template.clone();
        fill(node, &mut pod, None);
        let (old, new) = (&template["spec"]["containers"], &pod["spec"]["containers"]);
        assert!(new[0].is_same(&old[0]) && !new[1].is_same(&old[1]));
        assert_eq!(new[1], json!({"name": "b", "resources": {}}));
        let complete = pod.clone();
        fill(node, &mut pod, None);
        assert!(pod.is_same(&complete));
    }
}
