//! Reads the OpenAPI documents: the shape of every type, its lists' merge rules and the text that explains it.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use serde_json::Value;

/// All definitions by name (`io.k8s.api.core.v1.Pod`).
pub(super) struct Definitions(BTreeMap<String, Value>);

/// The types that are not structs on the wire, with their names in the table.
const SPECIAL: &[(&str, &str)] = &[
    ("io.k8s.apimachinery.pkg.api.resource.Quantity", "quantity"),
    ("io.k8s.apimachinery.pkg.util.intstr.IntOrString", "intorstring"),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.Time", "time"),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime", "microtime"),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1", "fieldsv1"),
    ("io.k8s.apimachinery.pkg.runtime.RawExtension", "raw"),
    ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON", "json"),
    ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray", "schemaorarray"),
    ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool", "schemaorbool"),
    (
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray",
        "schemaorstrings",
    ),
];

impl Definitions {
    /// Reads the documents of a folder, one per group and version. What several of them define is the same in all.
    pub(super) fn read(folder: &Path) -> anyhow::Result<Self> {
        let listed = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
        let mut files = listed.map(|entry| Ok(entry?.path())).collect::<anyhow::Result<Vec<_>>>()?;
        files.sort();
        let mut definitions = BTreeMap::new();
        for file in files.iter().filter(|file| file.extension().is_some_and(|end| end == "json")) {
            let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
            let mut document: Value = serde_json::from_str(&text)?;
            let schemas = document.pointer_mut("/components/schemas").and_then(Value::as_object_mut);
            for (name, schema) in schemas.into_iter().flat_map(std::mem::take) {
                definitions.insert(name, without_all_of(schema));
            }
        }
        Ok(Self(definitions))
    }

    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// The (group, version, kind) → definition pairs of stable versions.
    pub(super) fn stable_kinds(&self) -> Vec<(String, String, String, String)> {
        let mut kinds = Vec::new();
        for (name, definition) in &self.0 {
            let listed = definition.get("x-kubernetes-group-version-kind").and_then(Value::as_array);
            for kind in listed.into_iter().flatten() {
                let text = |key: &str| kind.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
                let (group, version, kind) = (text("group"), text("version"), text("kind"));
                let stable = version.starts_with('v') && version[1..].chars().all(|c| c.is_ascii_digit());
                // The options of requests belong to every group at once; one entry is enough.
                let repeated = name.contains(".meta.v1.") && !group.is_empty();
                if stable && !repeated {
                    kinds.push((group, version, kind, name.clone()));
                }
            }
        }
        kinds
    }
}

/// A reference with siblings is wrapped in an `allOf` of its own.
fn without_all_of(mut schema: Value) -> Value {
    match &mut schema {
        Value::Object(fields) => {
            for value in fields.values_mut() {
                *value = without_all_of(value.take());
            }
            let alone = fields.get("allOf").and_then(Value::as_array).filter(|all| all.len() == 1).cloned();
            if let Some(Value::Object(reference)) = alone.and_then(|mut all| all.pop()) {
                fields.remove("allOf");
                fields.extend(reference);
            }
        }
        Value::Array(items) => {
            for item in items {
                *item = without_all_of(item.take());
            }
        }
        _ => {}
    }
    schema
}

/// The table's word for a property's type: `string`, `[]core.v1.Container`, `{}quantity`.
pub(super) fn type_of(property: &Value) -> anyhow::Result<String> {
    if let Some(target) = property.get("$ref").and_then(Value::as_str) {
        let name = target.rsplit('/').next().unwrap_or(target);
        let special = SPECIAL.iter().find(|(definition, _)| *definition == name);
        return Ok(special.map_or_else(|| name.to_owned(), |(_, word)| (*word).to_owned()));
    }
    let format = property.get("format").and_then(Value::as_str).unwrap_or_default();
    Ok(match (json_type(property), format) {
        ("string", "byte") => "bytes".to_owned(),
        ("string", _) => "string".to_owned(),
        ("boolean", _) => "bool".to_owned(),
        ("integer", "int32") => "int32".to_owned(),
        ("integer", _) => "int64".to_owned(),
        ("number", _) => "double".to_owned(),
        ("array", _) => format!("[]{}", type_of(property.get("items").context("array without items")?)?),
        ("object", _) => {
            let values = property.get("additionalProperties").context("object without a type")?;
            format!("{{}}{}", type_of(values)?)
        }
        (other, _) => anyhow::bail!("a property of type {other:?}: {property}"),
    })
}

/// The definitions say `["string", "null"]` for what is optional.
fn json_type(property: &Value) -> &str {
    match property.get("type") {
        Some(Value::String(name)) => name,
        Some(Value::Array(names)) => names.first().and_then(Value::as_str).unwrap_or_default(),
        _ => "",
    }
}

/// The name of the struct a type word leads to, if it is one.
pub(super) fn struct_of(word: &str) -> Option<&str> {
    match word.trim_start_matches(['[', ']', '{', '}']) {
        // Their parts are ordinary structs, reached through the special types only.
        "schemaorarray" | "schemaorbool" => {
            Some("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps")
        }
        name => name.contains('.').then_some(name),
    }
}

/// The rules of merging that an extension states, as flags of the table.
pub(super) fn merge_flags(schema: &Value) -> String {
    let text = |key: &str| schema.get(key).and_then(Value::as_str);
    let mut flags = String::new();
    match text("x-kubernetes-list-type") {
        Some("map") => {
            let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
            let keys: Vec<&str> = keys.into_iter().flatten().filter_map(Value::as_str).collect();
            flags += &format!(" list=map:{}", keys.join(","));
        }
        Some(kind) => flags += &format!(" list={kind}"),
        None => {}
    }
    if let Some(kind) = text("x-kubernetes-map-type") {
        flags += &format!(" map={kind}");
    }
    if let Some(key) = text("x-kubernetes-patch-merge-key") {
        flags += &format!(" key={key}");
    }
    if let Some(strategy) = text("x-kubernetes-patch-strategy") {
        flags += &format!(" patch={strategy}");
    }
    flags
}
