//! Defaulting of custom objects, together with dropping nulls that are not values.
//!
//! Defaults are applied to objects, also inside defaults, but a missing object is not created for the sake of defaults
//! below it: that is structural-schema defaulting, as in apiextensions-apiserver. A null is dropped if the field is not
//! nullable and then takes the default. It runs on requests and on objects read from the store, so that a default added
//! later shows in old objects. Pruning comes before, validation after.

use listwatch_wire::json::{Map, Value};

use crate::Schema;

/// Fills absent fields that have a default, everywhere in the object.
///
/// A `null` where the schema does not allow one counts as absent: it is dropped, and gives way to a default.
pub fn fill(schema: &Schema, value: &mut Value) {
    match value {
        Value::Object(fields) => fill_fields(schema, fields),
        Value::Array(items) => {
            if let Some(schema) = schema.items.as_deref() {
                items.iter_mut().for_each(|item| fill(schema, item));
            }
        }
        _ => {}
    }
}

/// Drops nulls first, so that a dropped field takes its default. Values of defaults are filled in turn.
fn fill_fields(schema: &Schema, fields: &mut Map) {
    fields.retain(|name, value| !value.is_null() || keeps_null(schema, name));
    for (name, property) in &schema.properties {
        match fields.get_mut(name) {
            Some(value) => fill(property, value),
            None => {
                if let Some(default) = &property.default {
                    let mut value = default.clone();
                    fill(property, &mut value);
                    fields.insert(name.clone(), value);
                }
            }
        }
    }
    if let Some(unnamed) = schema.additional() {
        let others = fields.iter_mut().filter(|(name, _)| !schema.properties.contains_key(name.as_str()));
        others.for_each(|(_, value)| fill(unnamed, value));
    }
}

fn keeps_null(schema: &Schema, name: &str) -> bool {
    schema.field(name).is_none_or(|field| field.nullable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::schema;
    use listwatch_wire::json::json;

    fn filled(schema_json: Value, mut value: Value) -> Value {
        fill(&schema(schema_json), &mut value);
        value
    }

    #[test]
    fn a_null_is_kept_only_where_it_is_allowed() {
        let schema = json!({"type": "object", "properties": {
            "may": {"type": "string", "nullable": true}, "not": {"type": "string"},
            "def": {"type": "string", "default": "d"},
            "maydef": {"type": "string", "nullable": true, "default": "d"}}});
        let value = filled(schema, json!({"may": null, "not": null, "def": null, "maydef": null}));
        assert_eq!(value, json!({"may": null, "def": "d", "maydef": null}));
    }

    #[test]
    fn defaults_nest_but_do_not_create_their_parents() {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "a": {"type": "object", "default": {}, "properties": {"b": {"type": "integer", "default": 3}}}}}}});
        assert_eq!(filled(schema.clone(), json!({"spec": {}})), json!({"spec": {"a": {"b": 3}}}));
        assert_eq!(filled(schema, json!({})), json!({}));
    }

    #[test]
    fn elements_and_map_values_are_filled() {
        let item = json!({"type": "object", "properties": {"x": {"type": "integer", "default": 1}}});
        let schema = json!({"type": "object", "properties": {
            "l": {"type": "array", "items": item}, "m": {"type": "object", "additionalProperties": item}}});
        let value = filled(schema, json!({"l": [{}, {"x": 2}], "m": {"k": {}}}));
        assert_eq!(value, json!({"l": [{"x": 1}, {"x": 2}], "m": {"k": {"x": 1}}}));
    }
}
