//! Structural schemas: the rules that a schema must satisfy before anything is stored under it.
//!
//! A schema is structural if types are stated outside of `allOf`, `anyOf`, `oneOf` and `not`, so that one walk can tell
//! for each field whether it is known, what its default is and how a list merges. Depth is limited to [`MAX_DEPTH`],
//! since every walk over objects recurses along the schema. Defaults must themselves be valid and contain no unknown
//! field. Expression rules are checked last, and only if nothing else is wrong, because their types come from the
//! schema.

pub(crate) mod keywords;

use listwatch_cel::PatternAllowance;
use listwatch_wire::json::Value;
use listwatch_wire::status::{FieldError, FieldErrors};

use crate::Rules;
use crate::prune::has_unknown;
use crate::schema::{Additional, Pattern, Schema};
use crate::validate::validate_default;

/// Schemas nested deeper are refused: every walk over objects recurses along the schema.
pub const MAX_DEPTH: usize = 64;

/// Levels to which schemas may nest at all, alternatives included. What is accepted has a protobuf form, whose messages nest
/// up to 128 levels.
const MAX_LEVELS: usize = MAX_DEPTH + 32;

/// The keywords of schemas below a schema, besides `properties`: one schema or a list of them.
const NESTED: [&str; 6] = ["items", "additionalProperties", "not", "allOf", "anyOf", "oneOf"];

/// The most bytes that the paths to all nodes of a schema may have together. Every walk makes them, to name nodes in errors;
/// a long name with many fields below it would be copied for each.
const MAX_PATH_BYTES: usize = 128 << 20;

/// Returns the reason for which a schema is not read at all: it nests too deep, or its paths are too long. It does not recurse:
/// reading a schema takes more stack per level than reading JSON does, and the depth of JSON alone is not a bound.
pub(crate) fn exceeded_bound(schema: &Value) -> Option<String> {
    let (mut open, mut bytes) = (vec![(schema, 0, 0)], 0_usize);
    while let Some((schema, depth, length)) = open.pop() {
        if depth > MAX_LEVELS {
            return Some(format!("must not be nested deeper than {MAX_DEPTH} levels"));
        }
        bytes = bytes.saturating_add(length);
        if bytes > MAX_PATH_BYTES {
            return Some("names of fields must not be so long that paths have more than 128 MiB".to_owned());
        }
        let named = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
        open.extend(named.map(|(name, schema)| (schema, depth + 1, length + name.len())));
        for nested in NESTED.iter().filter_map(|keyword| schema.get(keyword)) {
            match nested {
                Value::Array(several) => {
                    open.extend(several.iter().map(|schema| (schema, depth + 1, length)))
                }
                one => open.push((one, depth + 1, length)),
            }
        }
    }
    None
}

/// Compiles all patterns of a schema that is within [the bounds](exceeded_bound), and returns false if they take too much
/// together.
pub(crate) fn admits_patterns(schema: &Value, allowance: &PatternAllowance) -> bool {
    let mut open = vec![schema];
    while let Some(schema) = open.pop() {
        let pattern = schema.get("pattern").and_then(Value::as_str).filter(|pattern| !pattern.is_empty());
        if pattern.is_some_and(|pattern| !allowance.admits(pattern)) {
            return false;
        }
        let named = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
        open.extend(named.map(|(_, schema)| schema));
        for nested in NESTED.iter().filter_map(|keyword| schema.get(keyword)) {
            open.extend(nested.as_array().map_or(std::slice::from_ref(nested), Vec::as_slice));
        }
    }
    true
}

/// The most keys of a keyed list, and the most bytes of the default of one. kube-apiserver has no such bounds, but every key
/// is looked up in every element of the list, whether the element has it or not.
const MAX_LIST_KEYS: usize = 64;
/// The most bytes of the default of a list key.
const MAX_KEY_DEFAULT: usize = 1024;

/// The types of OpenAPI v3.
const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// Returns the errors in the schema of one version, given parsed and as JSON, at paths under `path`. It has no
/// [unsupported keywords](keywords::unsupported_anywhere).
///
/// Called for definitions that are written; stored ones are never checked again, so that a stricter program still
/// serves them.
#[must_use]
pub fn check(schema: &Schema, json: &Value, rules: &Rules, path: &str) -> Vec<FieldError> {
    let mut errors = FieldErrors::new();
    if schema.type_name != "object" {
        let wrong = FieldError::invalid(
            format!("{path}.type"),
            schema.type_name.clone(),
            "must be object at the root",
        );
        let missing = FieldError::required(format!("{path}.type"), "must not be empty at the root");
        match schema.type_name.as_str() {
            // Another extension replaces the type of the root.
            "" if schema.preserve_unknown || schema.int_or_string => {}
            "" => errors.push(missing),
            _ => errors.push(wrong),
        }
    }
    node(schema, path, DefaultPlace::default(), &mut errors);
    errors.extend(keywords::check(json, path));
    if errors.is_empty() { rules.errors(json, path) } else { errors.into_vec() }
}

/// The place of a node in its schema.
#[derive(Clone, Copy, Default)]
struct DefaultPlace {
    depth: usize,
    /// True for the type and the metadata of a resource and everything below them.
    in_metadata: bool,
}

impl DefaultPlace {
    /// The place of a node below one at this place.
    fn below(self, schema: &Schema, step: &str, child: &Schema) -> Self {
        let is_resource = self.depth == 0 || schema.embedded;
        let names = [".properties[metadata]", ".properties[apiVersion]", ".properties[kind]"];
        let in_metadata = self.in_metadata || is_resource && names.contains(&step);
        Self { depth: self.depth + 1, in_metadata: in_metadata && !child.embedded }
    }
}

/// Costs as much as the schema has nodes, apart from defaults, which are validated as values.
fn node(schema: &Schema, path: &str, place: DefaultPlace, errors: &mut FieldErrors) {
    let depth = place.depth;
    if errors.is_full() {
        return;
    }
    if depth > MAX_DEPTH {
        errors
            .push(FieldError::forbidden(path, format!("must not be nested deeper than {MAX_DEPTH} levels")));
        return;
    }
    types(schema, path, depth, errors);
    lists(schema, path, errors);
    let open = matches!(schema.additional_properties, None | Some(Additional::Any(true)));
    if !schema.properties.is_empty() && !open {
        let detail = "additionalProperties and properties are mutual exclusive";
        errors.push(FieldError::forbidden(format!("{path}.additionalProperties"), detail));
    }
    pattern(&schema.pattern, path, errors);
    default(schema, path, place, errors);
    for (step, child) in schema.children() {
        node(child, &format!("{path}{step}"), place.below(schema, &step, child), errors);
    }
}

/// A pattern must be one to Go, in the structure as in alternatives.
fn pattern(pattern: &Pattern, path: &str, errors: &mut FieldErrors) {
    if let Some(error) = pattern.error() {
        let detail = format!("must be a valid regular expression, but isn't: {error}");
        errors.push(FieldError::invalid(format!("{path}.pattern"), pattern.text(), detail));
    }
}

/// Requires a type wherever a value is specified: without one, pruning and defaulting are undefined.
fn types(schema: &Schema, path: &str, depth: usize, errors: &mut FieldErrors) {
    let field = format!("{path}.type");
    let may_be_empty = schema.int_or_string || schema.preserve_unknown || schema.embedded || depth == 0;
    match schema.type_name.as_str() {
        "" if may_be_empty => {}
        "" => {
            let what = if path.ends_with(".items") { "array items" } else { "object fields" };
            errors.push(FieldError::required(field, format!("must not be empty for specified {what}")));
        }
        name if TYPES.contains(&name) => {}
        name => errors.push(FieldError::not_supported(field, name, &TYPES)),
    }
    if schema.type_name == "array" && schema.items.is_none() {
        errors.push(FieldError::required(format!("{path}.items"), "must be specified"));
    }
    for (key, set) in [
        ("x-kubernetes-preserve-unknown-fields", schema.preserve_unknown),
        ("x-kubernetes-embedded-resource", schema.embedded),
    ] {
        if schema.int_or_string && set {
            let detail = "must be false if x-kubernetes-int-or-string is true";
            errors.push(FieldError::invalid(format!("{path}.{key}"), true, detail));
        }
    }
    if schema.embedded && schema.type_name != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(match schema.type_name.as_str() {
            "" => FieldError::required(format!("{path}.type"), detail),
            found => FieldError::invalid(format!("{path}.type"), found, detail),
        });
    }
}

/// Checks the keywords of list and map types, which server-side apply merges by.
///
/// Wrong keywords here would make two appliers overwrite each other's elements without a conflict.
fn lists(schema: &Schema, path: &str, errors: &mut FieldErrors) {
    let field = format!("{path}.x-kubernetes-list-type");
    match schema.list_type.as_str() {
        "" | "atomic" | "set" if schema.list_map_keys.is_empty() => {}
        "map" if !schema.list_map_keys.is_empty() => keys(schema, path, errors),
        "map" => {
            keys(schema, path, errors);
            errors.push(FieldError::required(
                format!("{path}.x-kubernetes-list-map-keys"),
                "must not be empty if x-kubernetes-list-type is map",
            ));
        }
        // Absent or empty: `keywords.rs` distinguishes the two.
        "" => {}
        other @ ("atomic" | "set") => errors.push(FieldError::invalid(
            field,
            other,
            "must be map if x-kubernetes-list-map-keys is non-empty",
        )),
        other => {
            errors.push(FieldError::not_supported(field.as_str(), other, &["atomic", "set", "map"]));
            if !schema.list_map_keys.is_empty() {
                let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
                errors.push(FieldError::invalid(field, other, detail));
            }
        }
    }
    if !matches!(schema.map_type.as_str(), "" | "atomic" | "granular") {
        let field = format!("{path}.x-kubernetes-map-type");
        errors.push(FieldError::not_supported(field, schema.map_type.clone(), &["atomic", "granular"]));
    }
    if schema.unique_items {
        errors.push(FieldError::forbidden(
            format!("{path}.uniqueItems"),
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        ));
    }
}

/// A key of a keyed list must be a known scalar field that is always there: required, or with a default.
fn keys(schema: &Schema, path: &str, errors: &mut FieldErrors) {
    let Some(items) = schema.items.as_deref() else { return };
    if items.type_name != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        errors.push(FieldError::invalid(format!("{path}.items.type"), items.type_name.clone(), detail));
        return;
    }
    if schema.list_map_keys.len() > MAX_LIST_KEYS {
        let field = format!("{path}.x-kubernetes-list-map-keys");
        errors.push(FieldError::too_many(field, schema.list_map_keys.len(), MAX_LIST_KEYS));
        return;
    }
    let distinct: std::collections::BTreeSet<_> = schema.list_map_keys.iter().collect();
    if distinct.len() < schema.list_map_keys.len() {
        let field = format!("{path}.x-kubernetes-list-map-keys");
        let detail = "must not contain duplicate entries";
        errors.push(FieldError::invalid(field, schema.list_map_keys.clone(), detail));
    }
    // A key that is there twice is checked twice.
    for key in &schema.list_map_keys {
        map_key(schema, items, key, path, errors);
    }
}

/// Checks the property of one key.
fn map_key(schema: &Schema, items: &Schema, key: &str, path: &str, errors: &mut FieldErrors) {
    if items.properties.get(key).is_some_and(|property| property.nullable) {
        let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
        errors.push(FieldError::forbidden(format!("{path}.items.properties[{key}].nullable"), detail));
    }
    let field = format!("{path}.x-kubernetes-list-map-keys");
    match items.properties.get(key) {
        None => {
            let detail = "entries must all be names of item properties";
            errors.push(FieldError::invalid(field, schema.list_map_keys.clone(), detail));
        }
        Some(property) if matches!(&*property.type_name, "array" | "object") => {
            let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
            let field = format!("{path}.items.properties[{key}].type");
            errors.push(FieldError::invalid(field, property.type_name.clone(), detail));
        }
        Some(property) if property.default.is_none() && !items.required.iter().any(|name| name == key) => {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.push(FieldError::required(format!("{path}.items.properties[{key}].default"), detail));
        }
        Some(property) => key_default(property, || format!("{path}.items.properties[{key}].default"), errors),
    }
}

/// Bounds the default of a key: it is part of the identity of every element that leaves the key out.
fn key_default(property: &Schema, field: impl FnOnce() -> String, errors: &mut FieldErrors) {
    let length = property.default.as_ref().and_then(Value::as_str).map_or(0, str::len);
    if length > MAX_KEY_DEFAULT {
        errors.push(FieldError::too_long(field(), MAX_KEY_DEFAULT));
    }
}

/// A default must itself be a valid value, without the defaults inside it and without unknown fields, except in metadata,
/// where these are dropped. That of a whole resource says which one.
fn default(schema: &Schema, path: &str, place: DefaultPlace, errors: &mut FieldErrors) {
    let Some(default) = &schema.default else { return };
    if !place.in_metadata && has_unknown(schema, default) {
        let detail = "must not have unknown fields";
        errors.push(FieldError::invalid(format!("{path}.default"), default.clone(), detail));
    }
    let untyped = ["apiVersion", "kind"].into_iter().filter(|key| default.get(key).is_none());
    let untyped = untyped.map(|key| FieldError::required(format!("{path}.default.{key}"), ""));
    let untyped: Vec<FieldError> = untyped.filter(|_| place.depth == 0 || schema.embedded).collect();
    if !untyped.is_empty() {
        errors.extend(untyped);
        return;
    }
    for mut error in validate_default(schema, default) {
        // An error of the whole value has no path of its own.
        error.field = match error.field.as_str() {
            "" | "<nil>" => format!("{path}.default"),
            field => format!("{path}.default.{field}"),
        };
        errors.push(error);
    }
}

#[cfg(test)]
mod tests;
