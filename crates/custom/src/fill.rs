//! Defaulting of custom objects, together with dropping nulls that are not values.
//!
//! Defaults are applied to objects, also inside defaults, but a missing object is not created for the sake of defaults
//! below it: that is structural-schema defaulting, as in apiextensions-apiserver. A null is dropped if the field is not
//! nullable and then takes the default. It runs on requests and on objects read from the store, so that a default added
//! later shows in old objects. Pruning comes before, validation after.

use listwatch_wire::json::{Map, Value};

use crate::Schema;

/// The most bytes of defaults that are added to an object: far more than can be stored of it. A list of many empty
/// objects would else become as many copies of the defaults of one.
const MOST_ADDED: usize = 8 << 20;

/// Fills absent fields that have a default, everywhere in the object, up to a size that cannot be stored anyway.
///
/// A `null` where the schema does not allow one counts as absent: it is dropped, and replaced by the default if there is one.
///
/// Costs as much as the object and its schema have in common, plus what is added. Called for requests, for objects
/// that are read from the store, and for defaults themselves.
///
/// ```
/// use listwatch_custom::{Schema, fill};
/// use listwatch_wire::json::json;
///
/// let schema: Schema = json!({"type": "object", "properties": {
///     "size": {"type": "integer", "default": 1},
///     "name": {"type": "string"}
/// }}).to_type()?;
/// let mut object = json!({"size": null, "name": null});
/// fill(&schema, &mut object);
/// assert_eq!(object, json!({"size": 1}));
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn fill(schema: &Schema, value: &mut Value) {
    Filler { room: MOST_ADDED, nulls: Nulls::Dropped }.fill(schema, value);
}

/// Fills in the defaults of an applied object. A `null` in it is a value: only a default takes its place, and
/// validation refuses it where it may not be.
pub fn fill_applied(schema: &Schema, value: &mut Value) {
    Filler { room: MOST_ADDED, nulls: Nulls::Kept }.fill(schema, value);
}

/// The treatment of nulls where a schema does not allow them and has no default.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Nulls {
    Dropped,
    Kept,
}

/// Fills in defaults.
struct Filler {
    /// The bytes that may still be added.
    room: usize,
    nulls: Nulls,
}

impl Filler {
    /// Fills in the defaults of a value and of everything below it. Scalars have none: a default is a property of the
    /// field around.
    fn fill(&mut self, schema: &Schema, value: &mut Value) {
        match value {
            Value::Object(fields) => self.fill_fields(schema, fields),
            Value::Array(items) => {
                if let Some(schema) = schema.items.as_deref() {
                    items.iter_mut().for_each(|item| self.fill_null_or_below(schema, item));
                }
            }
            _ => {}
        }
    }

    /// Nulls go first, so that a null which is dropped is an absent field when its default is looked for.
    fn fill_fields(&mut self, schema: &Schema, fields: &mut Map) {
        let kept = self.nulls == Nulls::Kept;
        let valued = |name: &str| !schema.properties.contains_key(name) && has_default(schema, name);
        let stays =
            |name: &str| keeps_null(schema, name) || valued(name) || (kept && !has_default(schema, name));
        fields.retain(|name, value| !value.is_null() || stays(name));
        self.add_defaults(schema, fields);
        for (name, value) in fields.iter_mut() {
            if let Some(schema) = schema.field(name) {
                self.fill_null_or_below(schema, value);
            }
        }
    }

    /// Replaces a null among elements or map values by their default.
    fn fill_null_or_below(&mut self, schema: &Schema, value: &mut Value) {
        if let Some(default) = &schema.default
            && value.is_null()
            && !schema.nullable
            && self.takes("", default)
        {
            *value = default.clone();
        }
        self.fill(schema, value);
    }

    /// Adds the defaults of absent fields, as they are declared: what they contain is filled in with the other fields.
    fn add_defaults(&mut self, schema: &Schema, fields: &mut Map) {
        for (name, default) in schema.properties.defaults() {
            if self.room == 0 {
                return;
            }
            if !fields.contains_key(name) && self.takes(name, default) {
                fields.insert(name, default.clone());
            }
        }
    }

    /// Takes the room of a field; false if there is none.
    ///
    /// Once there is no room, all later defaults are left out as well: the object is too large to be
    /// stored anyway, and the size check of the write rejects it.
    fn takes(&mut self, name: &str, default: &Value) -> bool {
        let left = self.room.checked_sub(name.len() + weight(default));
        self.room = left.unwrap_or(0);
        left.is_some()
    }
}

/// About the bytes of a value.
fn weight(value: &Value) -> usize {
    4 + match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(fields) => fields.iter().map(|(name, value)| name.len() + weight(value)).sum(),
        _ => 0,
    }
}

/// A null in a field without a schema is kept, because no schema forbids it.
fn keeps_null(schema: &Schema, name: &str) -> bool {
    schema.field(name).is_none_or(|field| field.nullable)
}

fn has_default(schema: &Schema, name: &str) -> bool {
    schema.field(name).is_some_and(|field| field.default.is_some())
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

    /// A list of 100,000 empty objects, each with a default of 10 KB, became a gigabyte.
    #[test]
    fn defaults_do_not_outgrow_every_store() {
        let item =
            json!({"type": "object", "properties": {"a": {"type": "string", "default": "x".repeat(10_000)}}});
        let schema = json!({"type": "object", "properties": {"list": {"type": "array", "items": item}}});
        let empty: Vec<Value> = (0..2000).map(|_| json!({})).collect();
        let value = filled(schema, json!({"list": empty}));
        let filled = value["list"].as_array().unwrap().iter().filter(|item| item.get("a").is_some()).count();
        assert!(filled * 10_000 <= MOST_ADDED && filled > 100, "{filled}");
    }

    /// Each element was asked for every field of its schema, and each default weighed that had no room.
    #[test]
    fn the_cost_is_that_of_the_object_and_of_what_is_added() {
        let plain: Map = (0..20_000).map(|n| (format!("p{n}"), json!({"type": "string"}))).collect();
        let default = json!({"type": "array", "items": {"type": "integer"}, "default": vec![1; 100_000]});
        for properties in [plain, Map::from_iter([("d", default)])] {
            let items = json!({"type": "object", "properties": properties});
            let schema = json!({"type": "object", "properties": {"l": {"type": "array", "items": items}}});
            let began = std::time::Instant::now();
            let value = filled(schema, json!({"l": vec![json!({}); 50_000]}));
            assert_eq!(value["l"].as_array().map(Vec::len), Some(50_000));
            assert!(began.elapsed() < std::time::Duration::from_secs(10), "{:?}", began.elapsed());
        }
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

    /// A null that was applied disappeared, and the object was accepted.
    #[test]
    fn an_applied_null_stays_to_be_refused() {
        let described = schema(json!({"type": "object", "properties": {
            "not": {"type": "string"}, "def": {"type": "string", "default": "d"}}}));
        let mut value = json!({"not": null, "def": null});
        fill_applied(&described, &mut value);
        assert_eq!(value, json!({"not": null, "def": "d"}));
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

    #[test]
    fn a_null_among_elements_or_map_values_takes_their_default() {
        let item = json!({"type": "string", "default": "d"});
        let schema = json!({"type": "object", "properties": {
            "l": {"type": "array", "items": item}, "m": {"type": "object", "additionalProperties": item}}});
        let value = filled(schema, json!({"l": [null, "x"], "m": {"k": null}}));
        assert_eq!(value, json!({"l": ["d", "x"], "m": {"k": "d"}}));
    }
}
