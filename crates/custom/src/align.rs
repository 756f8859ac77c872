//! The old object in the order of the new one.
//!
//! Ratcheting compares elements of keyed lists by their keys, so that a list whose elements only changed places counts as
//! unchanged, and so does everything around it. Plain comparison finds that once the old elements are in the new order.

use std::collections::HashMap;

use listwatch_wire::json::Value;

use crate::schema::Schema;
use crate::validate::map_key;

/// The old value, with the elements of keyed lists in the order in which the new value has them. Lists with other keys stay
/// as they are.
///
/// Costs as much as changed: parts that are equal are not entered.
#[must_use]
pub fn aligned(schema: &Schema, old: &Value, new: &Value) -> Value {
    if old == new { old.clone() } else { aligned_change(schema, old, new) }
}

/// [`aligned`] for values that differ, so that each level compares its fields once.
fn aligned_change(schema: &Schema, old: &Value, new: &Value) -> Value {
    match (old, new) {
        (Value::Object(before), Value::Object(after)) => {
            let mut fields = before.clone();
            for (name, after) in after {
                let Some((schema, before)) = schema.field(name).zip(before.get(name)) else { continue };
                if before != after {
                    fields.insert(name.clone(), aligned_change(schema, before, after));
                }
            }
            Value::Object(fields)
        }
        (Value::Array(before), Value::Array(after)) if schema.is_keyed_list() => {
            reordered(schema, before, after).unwrap_or_else(|| old.clone())
        }
        _ => old.clone(),
    }
}

/// The elements in the new order, if both lists have the same keys, each once.
fn reordered(schema: &Schema, old: &[Value], new: &[Value]) -> Option<Value> {
    let items = schema.items.as_deref()?;
    let mut known: HashMap<Value, &Value> = old.iter().map(|item| (map_key(schema, item), item)).collect();
    if known.len() != old.len() || old.len() != new.len() {
        return None;
    }
    let in_order = new.iter().map(|item| Some(aligned(items, known.remove(&map_key(schema, item))?, item)));
    Some(Value::Array(in_order.collect::<Option<Vec<_>>>()?.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use listwatch_wire::json::json;

    #[test]
    fn elements_that_changed_places_are_the_same() {
        let items = json!({"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}});
        let list = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": items});
        let schema = crate::tests::schema(
            json!({"type": "object", "properties": {"l": list, "p": {"type": "array", "items": {"type": "integer"}}}}),
        );
        let old = json!({"l": [{"k": "a"}, {"k": "b"}], "p": [1, 2]});
        let new = json!({"l": [{"k": "b"}, {"k": "a"}], "p": [2, 1]});
        assert_eq!(aligned(&schema, &old, &new), json!({"l": [{"k": "b"}, {"k": "a"}], "p": [1, 2]}));
        let other = json!({"l": [{"k": "b"}, {"k": "c"}], "p": [1, 2]});
        assert_eq!(aligned(&schema, &old, &other), old);
    }
}
