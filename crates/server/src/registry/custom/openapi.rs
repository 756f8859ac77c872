//! Custom resources in OpenAPI, for `kubectl explain` and `apply`.

use std::collections::BTreeMap;
use std::sync::Arc;

use listwatch_kinds::openapi::{self, SubresourcePaths};
use listwatch_wire::json::{Value, json};

use crate::registry::Resource;

/// The document of one group and version.
#[must_use]
pub fn document(resources: &[&Arc<Resource>]) -> Vec<u8> {
    let paths: Vec<_> = resources.iter().map(|resource| paths(resource)).collect();
    let mut schemas = BTreeMap::new();
    for resource in resources {
        schemas.insert(definition(resource, &resource.kind), object(resource));
        schemas.insert(definition(resource, &resource.list_kind), list(resource));
    }
    openapi::custom_v3(&paths, &schemas)
}

/// The name of a definition: the group backwards, then version and kind.
fn definition(resource: &Resource, kind: &str) -> String {
    let group: Vec<&str> = resource.group.split('.').rev().collect();
    format!("{}.{}.{kind}", group.join("."), resource.version)
}

fn paths(resource: &Resource) -> openapi::Resource<'_> {
    openapi::Resource {
        group: &resource.group,
        version: &resource.version,
        kind: &resource.kind,
        plural: &resource.plural,
        namespaced: resource.namespaced,
        verbs: resource.verbs.iter().map(|verb| &**verb).collect(),
        subresources: resource
            .subresources
            .iter()
            .map(|sub| SubresourcePaths {
                name: &sub.name,
                gvk: [&sub.group, &sub.version, &sub.kind],
                verbs: sub.verbs.iter().map(|verb| &**verb).collect(),
                definition: (sub.kind == resource.kind).then(|| definition(resource, &resource.kind)),
            })
            .collect(),
        definition: definition(resource, &resource.kind),
        list_definition: definition(resource, &resource.list_kind),
        custom: true,
    }
}

/// The declared schema with what every object has.
fn object(resource: &Resource) -> Value {
    let mut schema =
        resource.custom.as_ref().map(|version| (*version.schema_json).clone()).unwrap_or_default();
    let Some(fields) = schema.as_object_mut() else { return schema };
    if let Some(properties) = fields.entry("properties").or_insert_with(|| json!({})).as_object_mut() {
        properties.insert("apiVersion".to_owned(), json!({"type": "string"}));
        properties.insert("kind".to_owned(), json!({"type": "string"}));
        properties
            .insert("metadata".to_owned(), reference("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"));
    }
    fields.insert("x-kubernetes-group-version-kind".to_owned(), gvk(resource, &resource.kind));
    schema
}

fn list(resource: &Resource) -> Value {
    json!({
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": reference("io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"),
            "items": {"type": "array", "items": reference(&definition(resource, &resource.kind))},
        },
        "x-kubernetes-group-version-kind": gvk(resource, &resource.list_kind),
    })
}

fn reference(name: &str) -> Value {
    json!({"allOf": [{"$ref": format!("#/components/schemas/{name}")}]})
}

fn gvk(resource: &Resource, kind: &str) -> Value {
    json!([{"group": &*resource.group, "version": &*resource.version, "kind": kind}])
}
