//! The paths of a resource and the operations on them.

use listwatch_wire::json::{Map, Value, json};

use super::{Dialect, put_member};
use crate::kind::Kind;
use crate::schema;

/// What paths need to know of a resource, built in or custom.
#[derive(Clone, Debug)]
pub struct Resource<'a> {
    /// API group; empty for core.
    pub group: &'a str,
    /// Version.
    pub version: &'a str,
    /// Kind.
    pub kind: &'a str,
    /// Name in paths.
    pub plural: &'a str,
    /// Inside a namespace or not.
    pub namespaced: bool,
    /// Verbs as discovery lists them.
    pub verbs: Vec<&'a str>,
    /// Subresources.
    pub subresources: Vec<SubresourcePaths<'a>>,
    /// Name of the definition of the object.
    pub definition: String,
    /// Name of the definition of the list.
    pub list_definition: String,
    /// Defined by a CustomResourceDefinition, so without strategic merge patch.
    pub custom: bool,
}

/// What paths need to know of a subresource.
#[derive(Clone, Debug)]
pub struct SubresourcePaths<'a> {
    /// The last path segment.
    pub name: &'a str,
    /// Group, version and kind of the object it speaks.
    pub gvk: [&'a str; 3],
    /// Verbs as discovery lists them.
    pub verbs: Vec<&'a str>,
    /// Name of the definition of the object it speaks, if there is one.
    pub definition: Option<String>,
}

impl Resource<'static> {
    /// The paths of a built-in kind.
    #[must_use]
    pub fn of(kind: &Kind) -> Self {
        let subresources = kind.subresources.iter().map(|sub| {
            let own = sub.version.is_empty();
            let (group, version) = if own { (kind.group, kind.version) } else { (sub.group, sub.version) };
            SubresourcePaths {
                name: sub.name,
                gvk: [group, version, sub.kind],
                verbs: sub.verbs.to_vec(),
                definition: definition(group, version, sub.kind),
            }
        });
        Self {
            group: kind.group,
            version: kind.version,
            kind: kind.kind,
            plural: kind.plural,
            namespaced: kind.is_namespaced(),
            verbs: kind.verbs.to_vec(),
            subresources: subresources.collect(),
            definition: definition(kind.group, kind.version, kind.kind).unwrap_or_default(),
            list_definition: definition(kind.group, kind.version, &kind.list_kind()).unwrap_or_default(),
            custom: false,
        }
    }
}

impl Resource<'_> {
    fn patch_types(&self) -> &'static [&'static str] {
        if self.custom { CUSTOM_PATCH_TYPES } else { PATCH_TYPES }
    }
}

fn definition(group: &str, version: &str, kind: &str) -> Option<String> {
    let node = schema::node(group, version, kind)?;
    Some(node.as_struct()?.name.to_owned())
}

const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";

const LIST: &[(&str, &str)] = &[
    ("allowWatchBookmarks", "boolean"),
    ("continue", "string"),
    ("fieldSelector", "string"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("timeoutSeconds", "integer"),
    ("watch", "boolean"),
];
const WRITE: &[(&str, &str)] =
    &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string")];
const APPLY: &[(&str, &str)] =
    &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string"), ("force", "boolean")];
const DELETE: &[(&str, &str)] = &[
    ("dryRun", "string"),
    ("gracePeriodSeconds", "integer"),
    ("ignoreStoreReadErrorWithClusterBreakingPotential", "boolean"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
];
const PATCH_TYPES: &[&str] = &[
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];
/// Custom kinds have no merge keys. `kubectl apply` sends a strategic merge patch wherever it is offered.
const CUSTOM_PATCH_TYPES: &[&str] =
    &["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"];
const ANY_TYPE: &[&str] = &["*/*"];

/// One operation: an HTTP method and what it means.
struct Operation<'a> {
    method: &'static str,
    /// `x-kubernetes-action`, and the start of the operation's id.
    action: &'static str,
    parameters: &'static [(&'static str, &'static str)],
    /// Definition of the body, if it takes one.
    body: Option<&'a str>,
    /// Media types of the body.
    consumes: &'static [&'static str],
    /// Definition of the answer.
    answer: Option<&'a str>,
}

/// Appends the paths of a resource.
pub(super) fn put_paths(out: &mut Vec<u8>, first: &mut bool, resource: &Resource<'_>, dialect: Dialect) {
    let root = match resource.group {
        "" => format!("/api/{}", resource.version),
        group => format!("/apis/{group}/{}", resource.version),
    };
    let gvk = [resource.group, resource.version, resource.kind];
    let own = if resource.namespaced { format!("{root}/namespaces/{{namespace}}") } else { root.clone() };
    let collection = format!("{own}/{}", resource.plural);
    let item = format!("{collection}/{{name}}");
    let named = |operations: Vec<Operation<'_>>, gvk, suffix: &str, parameters| {
        path(&operations, gvk, &operation_name(resource, suffix), parameters, dialect)
    };
    let scope: &[&str] = if resource.namespaced { &["namespace"] } else { &[] };
    let scope_and_name: Vec<&str> = ["name"].iter().chain(scope).copied().collect();
    put(out, first, &collection, named(on_collection(resource), gvk, "", scope));
    put(out, first, &item, named(on_item(resource), gvk, "", &scope_and_name));
    if resource.namespaced && resource.verbs.contains(&"list") {
        let everywhere = named(vec![list(resource)], gvk, "ForAllNamespaces", &[]);
        put(out, first, &format!("{root}/{}", resource.plural), everywhere);
    }
    for sub in &resource.subresources {
        let operations = on_object(&sub.verbs, sub.definition.as_deref(), resource.patch_types());
        let path = named(operations, sub.gvk, &camel(sub.name), &scope_and_name);
        put(out, first, &format!("{item}/{}", sub.name), path);
    }
}

fn put(out: &mut Vec<u8>, first: &mut bool, name: &str, path: Option<Value>) {
    if let Some(path) = path {
        put_member(out, first, name, &path);
    }
}

fn list<'a>(resource: &'a Resource<'_>) -> Operation<'a> {
    Operation {
        method: "get",
        action: "list",
        parameters: LIST,
        body: None,
        consumes: ANY_TYPE,
        answer: Some(&resource.list_definition),
    }
}

fn on_collection<'a>(resource: &'a Resource<'_>) -> Vec<Operation<'a>> {
    let mut operations = Vec::new();
    if resource.verbs.contains(&"list") {
        operations.push(list(resource));
    }
    operations.extend(on_object(
        resource.verbs.iter().copied().filter(|v| *v == "create").collect::<Vec<_>>().as_slice(),
        Some(&resource.definition),
        resource.patch_types(),
    ));
    if resource.verbs.contains(&"deletecollection") {
        operations.push(Operation {
            method: "delete",
            action: "deletecollection",
            parameters: DELETE,
            body: Some(DELETE_OPTIONS),
            consumes: ANY_TYPE,
            answer: Some(STATUS),
        });
    }
    operations
}

fn on_item<'a>(resource: &'a Resource<'_>) -> Vec<Operation<'a>> {
    let verbs: Vec<&str> = resource.verbs.iter().copied().filter(|v| *v != "create").collect();
    on_object(&verbs, Some(&resource.definition), resource.patch_types())
}

/// The verbs that mean one object.
fn on_object<'a>(
    verbs: &[&str],
    definition: Option<&'a str>,
    patch_types: &'static [&'static str],
) -> Vec<Operation<'a>> {
    let operation = |method, action, parameters, body, answer| {
        let consumes = if method == "patch" { patch_types } else { ANY_TYPE };
        Operation { method, action, parameters, body, consumes, answer }
    };
    verbs
        .iter()
        .filter_map(|verb| match *verb {
            "get" => Some(operation("get", "get", &[][..], None, definition)),
            "create" => Some(operation("post", "post", WRITE, definition, definition)),
            "update" => Some(operation("put", "put", WRITE, definition, definition)),
            "patch" => Some(operation("patch", "patch", APPLY, Some(PATCH), definition)),
            "delete" => Some(operation("delete", "delete", DELETE, Some(DELETE_OPTIONS), Some(STATUS))),
            _ => None,
        })
        .collect()
}

fn path(
    operations: &[Operation<'_>],
    gvk: [&str; 3],
    name: &str,
    parameters: &[&str],
    dialect: Dialect,
) -> Option<Value> {
    if operations.is_empty() {
        return None;
    }
    let mut path: Map =
        operations.iter().map(|o| (o.method.to_owned(), operation(o, gvk, name, dialect))).collect();
    let parameters = parameters.iter().map(|p| parameter(p, "string", "path", dialect));
    path.insert("parameters".to_owned(), parameters.collect());
    Some(path.into())
}

fn operation(
    operation: &Operation<'_>,
    [group, version, kind]: [&str; 3],
    name: &str,
    dialect: Dialect,
) -> Value {
    let mut parameters: Vec<Value> =
        operation.parameters.iter().map(|(name, ty)| parameter(name, ty, "query", dialect)).collect();
    let mut out = Map::new();
    out.insert("operationId".to_owned(), format!("{}{name}", verb_word(operation.action)).into());
    out.insert("x-kubernetes-action".to_owned(), operation.action.into());
    out.insert(
        "x-kubernetes-group-version-kind".to_owned(),
        json!({"group": group, "version": version, "kind": kind}),
    );
    match (operation.body, dialect) {
        (Some(body), Dialect::V2) => {
            parameters.push(json!({"name": "body", "in": "body", "schema": dialect.reference(body)}));
            out.insert("consumes".to_owned(), json!(operation.consumes));
        }
        (Some(body), Dialect::V3) => {
            let content: Map = operation
                .consumes
                .iter()
                .map(|ty| ((*ty).to_owned(), json!({"schema": dialect.reference(body)})))
                .collect();
            out.insert("requestBody".to_owned(), json!({ "content": content }));
        }
        (None, _) => {}
    }
    if !parameters.is_empty() {
        out.insert("parameters".to_owned(), parameters.into());
    }
    out.insert("responses".to_owned(), json!({"200": answer(operation.answer, dialect)}));
    out.into()
}

fn answer(definition: Option<&str>, dialect: Dialect) -> Value {
    match (definition, dialect) {
        (None, _) => json!({"description": "OK"}),
        (Some(name), Dialect::V2) => json!({"description": "OK", "schema": dialect.reference(name)}),
        (Some(name), Dialect::V3) => {
            let schema = json!({"schema": dialect.reference(name)});
            json!({"description": "OK", "content": {"application/json": schema, "application/yaml": schema}})
        }
    }
}

fn parameter(name: &str, ty: &str, place: &str, dialect: Dialect) -> Value {
    let mut parameter = match dialect {
        Dialect::V2 => json!({"name": name, "in": place, "type": ty, "uniqueItems": true}),
        Dialect::V3 => json!({"name": name, "in": place, "schema": {"type": ty, "uniqueItems": true}}),
    };
    if let (Value::Object(map), "path") = (&mut parameter, place) {
        map.insert("required".to_owned(), true.into());
    }
    parameter
}

/// `AppsV1NamespacedDeploymentScale`: generators of clients make method names of it.
fn operation_name(resource: &Resource<'_>, suffix: &str) -> String {
    let group = resource.group.split('.').next().unwrap_or_default();
    let group = if group.is_empty() { "core" } else { group };
    let scope = if resource.namespaced && suffix != "ForAllNamespaces" { "Namespaced" } else { "" };
    format!("{}{}{scope}{}{suffix}", camel(group), camel(resource.version), resource.kind)
}

fn verb_word(action: &str) -> &'static str {
    match action {
        "get" => "read",
        "post" => "create",
        "put" => "replace",
        "patch" => "patch",
        "list" => "list",
        "deletecollection" => "deleteCollection",
        _ => "delete",
    }
}

fn camel(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map(|c| c.to_ascii_uppercase()).into_iter().chain(chars).collect()
}
