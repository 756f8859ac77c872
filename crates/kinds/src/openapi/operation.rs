//! [`OpenApiOperation`] and [`PathItem`]: operations in the terms of Kubernetes, and their form in OpenAPI v2 and v3.
//!
//! The same operation is written in two dialects, so it is described once and rendered twice. `operationId`, tags and
//! the order of parameters follow kube-apiserver exactly: client generators derive method names from them. Parameters
//! that all operations of a path share are listed at the path.

use listwatch_wire::json::{Map, Value, json};

use super::Dialect;
use super::parameters::{DELETE_BODY, PATCH_BODY, Parameter};

pub(super) const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
pub(super) const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
pub(super) const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";

/// Media types.
pub(super) type Types = &'static [&'static str];

/// One operation: an HTTP method on a path.
#[derive(Clone, Debug)]
pub(super) struct OpenApiOperation {
    pub(super) method: &'static str,
    /// `x-kubernetes-action`; empty for what is not a resource.
    pub(super) action: &'static str,
    pub(super) id: String,
    pub(super) tag: String,
    pub(super) description: String,
    pub(super) parameters: Vec<Parameter<'static>>,
    /// Definition of the body, if it takes one.
    pub(super) body: Option<String>,
    pub(super) consumes: Types,
    pub(super) produces: Types,
    /// Status codes of success.
    pub(super) codes: &'static [u16],
    /// Definition of the response; `None` for text.
    pub(super) answer: Option<String>,
    pub(super) gvk: Option<[String; 3]>,
}

/// The operations on one path.
#[derive(Clone, Debug)]
pub(super) struct PathItem {
    pub(super) path: String,
    pub(super) operations: Vec<OpenApiOperation>,
}

impl PathItem {
    /// The path in a dialect. Parameters that all operations have are the path's.
    pub(super) fn value(&self, dialect: Dialect) -> Value {
        let everywhere = |p: &Parameter<'_>| {
            let same = |q: &Parameter<'_>| (q.name, q.place) == (p.name, p.place);
            self.operations.iter().all(|operation| operation.parameters.iter().any(same))
        };
        let mut path = Map::new();
        for operation in &self.operations {
            let own = operation.parameters.iter().filter(|p| !everywhere(p));
            path.insert(operation.method.to_owned(), operation.value(sorted(own, dialect), dialect));
        }
        let common = self.operations.last().map(|operation| &operation.parameters);
        let common = sorted(common.into_iter().flatten().filter(|p| everywhere(p)), dialect);
        if !common.is_empty() {
            path.insert("parameters".to_owned(), common.into());
        }
        path.into()
    }
}

/// Parameters in the order of their names, as kube-openapi writes them.
fn sorted<'a>(parameters: impl Iterator<Item = &'a Parameter<'static>>, dialect: Dialect) -> Vec<Value> {
    let mut parameters: Vec<_> = parameters.collect();
    parameters.sort_by_key(|p| (p.name, p.place));
    parameters.into_iter().map(|p| p.value(dialect)).collect()
}

impl OpenApiOperation {
    /// The operation in one of the dialects. The parts that both have in common are added here.
    fn value(&self, parameters: Vec<Value>, dialect: Dialect) -> Value {
        let mut out = match dialect {
            Dialect::V2 => self.v2(parameters),
            Dialect::V3 => self.v3(parameters),
        };
        let mut put = |key: &str, value: Value| drop(out.insert(key.to_owned(), value));
        if !self.description.is_empty() {
            put("description", self.description.as_str().into());
        }
        put("operationId", self.id.as_str().into());
        put("tags", json!([&*self.tag]));
        if !self.action.is_empty() {
            put("x-kubernetes-action", self.action.into());
        }
        if let Some([group, version, kind]) = &self.gvk {
            let gvk = json!({"group": &**group, "version": &**version, "kind": &**kind});
            put("x-kubernetes-group-version-kind", gvk);
        }
        out.into()
    }

    /// The parts of a v2 operation: media types are its own, and the body is a parameter.
    fn v2(&self, mut parameters: Vec<Value>) -> Map {
        let mut out = Map::new();
        let mut put = |key: &str, value: Value| drop(out.insert(key.to_owned(), value));
        if let Some(body) = &self.body {
            parameters.insert(0, body_parameter(body));
        }
        if !self.consumes.is_empty() {
            put("consumes", self.consumes.into());
        }
        put("produces", self.produces.into());
        put("schemes", json!(["https"]));
        if !parameters.is_empty() {
            put("parameters", parameters.into());
        }
        let schema = match &self.answer {
            Some(definition) => Dialect::V2.reference(definition),
            None => json!({"type": "string"}),
        };
        put(
            "responses",
            self.responses(|description| json!({"description": description, "schema": schema.clone()})),
        );
        out
    }

    /// The parts of a v3 operation: media types belong to the content of bodies and responses.
    fn v3(&self, parameters: Vec<Value>) -> Map {
        let mut out = Map::new();
        let mut put = |key: &str, value: Value| drop(out.insert(key.to_owned(), value));
        if !parameters.is_empty() {
            put("parameters", parameters.into());
        }
        if let Some(body) = &self.body {
            let content = content(self.consumes, &Dialect::V3.reference(body));
            put(
                "requestBody",
                match body.as_str() {
                    DELETE_OPTIONS => json!({"content": content}),
                    _ => json!({"content": content, "required": true}),
                },
            );
        }
        let schema = match &self.answer {
            Some(definition) => Dialect::V3.reference(definition),
            None => json!({"type": "string"}),
        };
        let content = content(self.produces, &schema);
        put(
            "responses",
            self.responses(|description| json!({"description": description, "content": content.clone()})),
        );
        out
    }

    /// Every operation has a 401; other errors are not described, as in kube-apiserver.
    fn responses(&self, answer: impl Fn(&str) -> Value) -> Value {
        let text = |code: u16| match code {
            201 => "Created",
            202 => "Accepted",
            _ => "OK",
        };
        let successes = self.codes.iter().map(|code| (code.to_string(), answer(text(*code))));
        let mut responses: Map = successes.collect();
        responses.insert("401".to_owned(), json!({"description": "Unauthorized"}));
        responses.into()
    }
}

/// Patches and delete options are shared parameters of the document, other bodies are spelled out.
fn body_parameter(definition: &str) -> Value {
    match definition {
        PATCH => json!({"$ref": format!("#/parameters/{PATCH_BODY}")}),
        DELETE_OPTIONS => json!({"$ref": format!("#/parameters/{DELETE_BODY}")}),
        _ => {
            let schema = Dialect::V2.reference(definition);
            json!({"name": "body", "in": "body", "required": true, "schema": schema})
        }
    }
}

fn content(types: Types, schema: &Value) -> Value {
    let content: Map = types.iter().map(|ty| ((*ty).to_owned(), json!({"schema": schema.clone()}))).collect();
    content.into()
}

/// A word in an operation's name: letters and digits, the first letter and each after punctuation in upper case.
pub(super) fn camel(text: &str, first_upper: bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut upper = first_upper;
    for (index, c) in text.char_indices() {
        if c.is_alphabetic() || c == '_' || (index != 0 && c.is_numeric()) {
            if std::mem::take(&mut upper) {
                out.extend(c.to_uppercase());
            } else {
                out.push(c);
            }
        } else {
            upper = true;
        }
    }
    out
}

/// The tag of a group, or of a group and version.
pub(super) fn tag(group: &str, version: Option<&str>) -> String {
    let group = camel(short(group), false);
    match version {
        Some(version) => format!("{group}_{}", camel(version, false)),
        None => group,
    }
}

/// `readAppsV1NamespacedDeployment`: a verb, group and version, and what remains.
pub(super) fn operation_id(verb: &str, group: &str, version: &str, rest: &str) -> String {
    format!("{verb}{}{}{}", camel(short(group), true), camel(version, true), camel(rest, true))
}

/// `apps` is unchanged, `networking.k8s.io` becomes `networking`: tags and names are without the suffix.
fn short(group: &str) -> &str {
    if group.is_empty() { "core" } else { group.strip_suffix(".k8s.io").unwrap_or(group) }
}
