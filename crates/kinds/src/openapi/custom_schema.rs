//! Schemas of custom resources, as kube-apiserver publishes them.
//!
//! The v2 document is lossy on purpose: kubectl rejects unknown fields of a schema with properties and knows no
//! `nullable` or unions, so those are removed, and an object that preserves unknown fields becomes a plain `object`.
//! The v3 document keeps the declared schema and adds `apiVersion`, `kind`, `metadata` and the fields of embedded
//! resources.
//!
//! The input is the schema as declared. These functions never reject anything: a definition was validated when it was
//! written, by `listwatch-custom`.

use listwatch_wire::json::{Map, Value, json};

use super::custom::CustomResource;
use super::{Dialect, OBJECT_META};

const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";

/// The texts of the fields that every object has, as kube-apiserver writes them.
const API_VERSION: &str = "APIVersion defines the versioned schema of this representation of an object. Servers should convert recognized schemas to the latest internal value, and may reject unrecognized values. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";
const KIND: &str = "Kind is a string value representing the REST resource this object represents. Servers may infer this from the endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const METADATA: &str = "Standard object's metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";
const LIST_METADATA: &str = "Standard list metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const EMBEDDED_API_VERSION: &str = "apiVersion defines the versioned schema of this representation of an object. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";
const EMBEDDED_KIND: &str = "kind is a string value representing the type of this object. In CamelCase. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";

impl CustomResource<'_> {
    /// The declared schema with what every object has.
    pub(super) fn object(&self, dialect: Dialect) -> Value {
        let mut schema = self.schema.clone();
        let open = preserves(&schema);
        let mut map = match (dialect, schema.as_object_mut()) {
            // kubectl rejects unknown fields of a schema with properties.
            (Dialect::V2, Some(_)) if open => Map::from_iter([("type".to_owned(), "object".into())]),
            (_, None) => Map::from_iter([("type".to_owned(), "object".into())]),
            (dialect, Some(map)) => {
                match dialect {
                    Dialect::V2 => prune(map),
                    Dialect::V3 => unfold(map),
                }
                put_properties(map, type_meta(dialect, API_VERSION, KIND));
                embed(map, dialect);
                std::mem::take(map)
            }
        };
        map.insert("x-kubernetes-group-version-kind".to_owned(), self.gvk(self.kind));
        self.put_selectable(&mut map);
        map.into()
    }

    /// The list of a custom kind, which no definition declares.
    pub(super) fn list_schema(&self, dialect: Dialect) -> Value {
        let items = json!({
            "description": format!("List of {}. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md", self.plural),
            "type": "array",
            "items": dialect.reference(&self.definition(self.kind)),
        });
        let schema = json!({
            "description": format!("{} is a list of {}", self.list_kind, self.kind),
            "type": "object",
            "required": ["items"],
            "properties": {
                "apiVersion": {"description": API_VERSION, "type": "string"},
                "items": items,
                "kind": {"description": KIND, "type": "string"},
                "metadata": described(dialect, LIST_META, LIST_METADATA),
            },
            "x-kubernetes-group-version-kind": self.gvk(self.list_kind),
        });
        let Value::Object(mut map) = schema else { return schema };
        self.put_selectable(&mut map);
        map.into()
    }

    /// The extension by which kubectl finds the definition of a kind.
    fn gvk(&self, kind: &str) -> Value {
        json!([{"group": self.group, "version": self.version, "kind": kind}])
    }

    /// Left out if there are none, as in kube-apiserver.
    fn put_selectable(&self, map: &mut Map) {
        if !self.selectable.is_empty() {
            let fields: Value =
                self.selectable.iter().map(|path| json!({"fieldPath": path.as_str()})).collect();
            map.insert("x-kubernetes-selectable-fields".to_owned(), fields);
        }
    }
}

/// A reference with a description beside it.
fn described(dialect: Dialect, definition: &str, description: &str) -> Value {
    let reference = dialect.reference(definition);
    match dialect {
        Dialect::V2 => {
            let mut reference = reference;
            if let Some(map) = reference.as_object_mut() {
                map.insert("description".to_owned(), description.into());
            }
            reference
        }
        Dialect::V3 => json!({"description": description, "allOf": [reference]}),
    }
}

/// The fields that every object has.
fn type_meta(dialect: Dialect, api_version: &str, kind: &str) -> [(&'static str, Value); 3] {
    [
        ("apiVersion", json!({"type": "string", "description": api_version})),
        ("kind", json!({"type": "string", "description": kind})),
        ("metadata", described(dialect, OBJECT_META, METADATA)),
    ]
}

/// True if an extension is there and true.
fn is_set(map: &Map, key: &str) -> bool {
    map.get(key).and_then(Value::as_bool) == Some(true)
}

/// Fields that are not declared are kept, so the document must not forbid them.
fn preserves(schema: &Value) -> bool {
    schema.as_object().is_some_and(|map| is_set(map, "x-kubernetes-preserve-unknown-fields"))
}

/// Properties of the same name that the definition declares are replaced, as in kube-apiserver.
fn put_properties(map: &mut Map, new: [(&str, Value); 3]) {
    let mut properties = match map.remove("properties") {
        Some(Value::Object(properties)) => properties,
        _ => Map::new(),
    };
    for (name, schema) in new {
        properties.insert(name.to_owned(), schema);
    }
    map.insert("properties".to_owned(), properties.into());
}

/// Calls a function on every schema directly inside a schema.
fn each_inner(map: &mut Map, mut visit: impl FnMut(&mut Map)) {
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = map.get_mut(key).and_then(Value::as_object_mut) {
            visit(inner);
        }
    }
    let properties = map.get_mut("properties").and_then(Value::as_object_mut);
    for property in properties.into_iter().flat_map(Map::values_mut) {
        if let Some(inner) = property.as_object_mut() {
            visit(inner);
        }
    }
}

/// Removes what v2 cannot express, or what its readers misunderstand.
fn prune(map: &mut Map) {
    for key in ["allOf", "anyOf", "oneOf", "not", "default"] {
        map.remove(key);
    }
    let preserve = is_set(map, "x-kubernetes-preserve-unknown-fields");
    if is_set(map, "nullable") {
        map.remove("type");
    }
    if is_set(map, "nullable") || preserve {
        map.remove("items");
        map.remove("properties");
    }
    map.remove("nullable");
    let ty = map.get("type").and_then(Value::as_str);
    if (ty == Some("array") && !map.contains_key("items")) || (ty == Some("object") && preserve) {
        map.remove("type");
    }
    forget_nullable(map);
    each_inner(map, prune);
}

/// A nullable field is not required in v2, where nothing can be null.
fn forget_nullable(map: &mut Map) {
    let nullable = |schema: &Value| schema.as_object().is_some_and(|map| is_set(map, "nullable"));
    if map.get("additionalProperties").is_some_and(nullable) {
        map.remove("required");
        return;
    }
    let properties = map.get("properties").and_then(Value::as_object);
    let names: Vec<String> = properties
        .into_iter()
        .flat_map(Map::iter)
        .filter(|(_, schema)| nullable(schema))
        .map(|(name, _)| name.to_string())
        .collect();
    let Some(Value::Array(required)) = map.get("required") else { return };
    let kept: Vec<Value> = required
        .iter()
        .filter(|name| name.as_str().is_none_or(|name| !names.iter().any(|n| n == name)))
        .cloned()
        .collect();
    if kept.is_empty() {
        map.remove("required");
    } else {
        map.insert("required".to_owned(), kept.into());
    }
}

/// Spells out what `x-kubernetes-int-or-string` means.
fn unfold(map: &mut Map) {
    if is_set(map, "x-kubernetes-int-or-string") {
        let choice = json!([{"type": "integer"}, {"type": "string"}]);
        let said = map.get("anyOf") == Some(&choice)
            || map.get("allOf").and_then(Value::as_array).and_then(|all| all.first()?.get("anyOf"))
                == Some(&choice);
        if !said && !map.contains_key("anyOf") {
            map.insert("anyOf".to_owned(), choice);
        } else if !said {
            let mut all = vec![json!({ "anyOf": choice })];
            all.extend(map.get("allOf").and_then(Value::as_array).cloned().unwrap_or_default());
            map.insert("allOf".to_owned(), all.into());
        }
    }
    each_inner(map, unfold);
}

/// Adds the fields that every object has to embedded resources.
fn embed(map: &mut Map, dialect: Dialect) {
    each_inner(map, |inner| embed(inner, dialect));
    let open = dialect == Dialect::V2 && is_set(map, "x-kubernetes-preserve-unknown-fields");
    if open || !is_set(map, "x-kubernetes-embedded-resource") {
        return;
    }
    put_properties(map, type_meta(dialect, EMBEDDED_API_VERSION, EMBEDDED_KIND));
    let mut required = map.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    for name in ["kind", "apiVersion"] {
        if !required.iter().any(|there| there.as_str() == Some(name)) {
            required.push(name.into());
        }
    }
    map.insert("required".to_owned(), required.into());
}
