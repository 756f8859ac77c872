//! Paths of custom resources, as kube-apiserver publishes them.
//!
//! They have the operations of a built-in kind, with fewer media types and without the deprecated `watch` paths. Their
//! schemas are in [`super::custom_schema`]; validation is `listwatch-custom`.

use listwatch_wire::json::Value;

use super::Dialect;
use super::operation::{
    DELETE_OPTIONS, OpenApiOperation, PATCH, PathItem, STATUS, Types, camel, operation_id, tag,
};
use super::parameters::Parameter;
use super::paths::{DELETE, LIST, PATCH_OPTIONS, WRITE, article, root};

const TYPES: Types = &["application/json", "application/yaml"];
const PATCH_TYPES: Types =
    &["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"];
const SCALE: &str = "io.k8s.api.autoscaling.v1.Scale";

/// One version of a custom resource.
#[derive(Clone, Debug)]
#[doc(alias = "CustomResourceDefinitionVersion")]
pub struct CustomResource<'a> {
    /// The API group, which every custom resource has; it is part of the definition's name.
    pub group: &'a str,
    /// The version of this schema; each served version is a separate resource here.
    pub version: &'a str,
    /// The `kind` of its objects, which names the definition in the document.
    pub kind: &'a str,
    /// Kind of its lists.
    pub list_kind: &'a str,
    /// The resource name in paths.
    pub plural: &'a str,
    /// True if paths have a namespace.
    pub namespaced: bool,
    /// True if `/status` is served, with the kind itself.
    pub status: bool,
    /// True if `/scale` is served, with the Scale of `autoscaling/v1`.
    pub scale: bool,
    /// The schema as declared.
    pub schema: &'a Value,
    /// The fields that field selectors may name, as `spec.color`.
    pub selectable: &'a [String],
}

impl CustomResource<'_> {
    /// Name of the definition of a kind: the group backwards, then version and kind.
    pub(super) fn definition(&self, kind: &str) -> String {
        let group: Vec<&str> = self.group.split('.').rev().collect();
        format!("{}.{}.{kind}", group.join("."), self.version)
    }

    /// All its paths.
    pub(super) fn paths(&self) -> Vec<PathItem> {
        let root = root(self.group, self.version);
        let place = if self.namespaced { "/namespaces/{namespace}" } else { "" };
        let collection = format!("{root}{place}/{}", self.plural);
        let item = format!("{collection}/{{name}}");
        let mut paths = Vec::new();
        if self.namespaced {
            let mut everywhere = self.list();
            everywhere.id =
                operation_id("list", self.group, self.version, &format!("{}ForAllNamespaces", self.kind));
            everywhere.parameters.retain(|parameter| parameter.name != "namespace");
            paths.push(PathItem { path: format!("{root}/{}", self.plural), operations: vec![everywhere] });
        }
        paths.push(PathItem {
            path: collection,
            operations: vec![self.list(), self.create(), self.delete_collection()],
        });
        let mut operations = self.view("", &self.definition(self.kind));
        operations.push(self.delete());
        paths.push(PathItem { path: item.clone(), operations });
        let subresources =
            [("status", self.status, self.definition(self.kind)), ("scale", self.scale, SCALE.to_owned())];
        for (name, _, definition) in subresources.iter().filter(|(_, offered, _)| *offered) {
            let operations = self.view(name, definition);
            paths.push(PathItem { path: format!("{item}/{name}"), operations });
        }
        paths
    }

    /// An operation that answers with the object, on the collection or on the object.
    ///
    /// Media types are JSON and YAML only: custom resources have no protobuf form.
    fn operation(
        &self,
        method: &'static str,
        action: &'static str,
        verb: &str,
        sub: &str,
        keys: &[&str],
    ) -> OpenApiOperation {
        let (verb, before) = verb.split_once(' ').unwrap_or((verb, ""));
        let namespaced = if self.namespaced { "Namespaced" } else { "" };
        let rest = format!("{before}{namespaced}{}{}", self.kind, camel(sub, true));
        let mut parameters = Parameter::list(keys);
        parameters.extend(Parameter::get("pretty"));
        if self.namespaced {
            parameters.extend(Parameter::get("namespace"));
        }
        if !matches!(action, "list" | "post" | "deletecollection") {
            parameters.push(Parameter::object_name(self.kind));
        }
        OpenApiOperation {
            method,
            action,
            id: operation_id(verb, self.group, self.version, &rest),
            tag: tag(self.group, Some(self.version)),
            description: String::new(),
            parameters,
            body: None,
            consumes: TYPES,
            produces: TYPES,
            codes: &[200],
            answer: Some(self.definition(self.kind)),
            gvk: Some([self.group, self.version, self.kind].map(str::to_owned)),
        }
    }

    fn list(&self) -> OpenApiOperation {
        OpenApiOperation {
            description: format!("list objects of kind {}", self.kind),
            answer: Some(self.definition(self.list_kind)),
            ..self.operation("get", "list", "list", "", LIST)
        }
    }

    fn create(&self) -> OpenApiOperation {
        OpenApiOperation {
            description: format!("create {}{}", article(self.kind), self.kind),
            body: Some(self.definition(self.kind)),
            codes: &[200, 201, 202],
            ..self.operation("post", "post", "create", "", WRITE)
        }
    }

    fn delete_collection(&self) -> OpenApiOperation {
        OpenApiOperation {
            description: format!("delete collection of {}", self.kind),
            answer: Some(STATUS.to_owned()),
            ..self.operation("delete", "deletecollection", "delete Collection", "", LIST)
        }
    }

    fn delete(&self) -> OpenApiOperation {
        OpenApiOperation {
            description: format!("delete {}{}", article(self.kind), self.kind),
            body: Some(DELETE_OPTIONS.to_owned()),
            answer: Some(STATUS.to_owned()),
            codes: &[200, 202],
            ..self.operation("delete", "delete", "delete", "", DELETE)
        }
    }

    /// Reading, replacing and patching the object or a subresource of it.
    fn view(&self, sub: &str, definition: &str) -> Vec<OpenApiOperation> {
        let part = if sub.is_empty() { String::new() } else { format!("{sub} of ") };
        let describe = |verb: &str| format!("{verb} {part}the specified {}", self.kind);
        let answer = Some(definition.to_owned());
        vec![
            OpenApiOperation {
                description: describe("read"),
                answer: answer.clone(),
                ..self.operation("get", "get", "read", sub, &["resourceVersion"])
            },
            OpenApiOperation {
                description: describe("replace"),
                body: answer.clone(),
                answer: answer.clone(),
                codes: &[200, 201],
                ..self.operation("put", "put", "replace", sub, WRITE)
            },
            OpenApiOperation {
                description: describe("partially update"),
                body: Some(PATCH.to_owned()),
                consumes: PATCH_TYPES,
                answer,
                ..self.operation("patch", "patch", "patch", sub, PATCH_OPTIONS)
            },
        ]
    }

    /// The definitions of the kind and of its lists.
    ///
    /// Copies the declared schema, once per dialect.
    pub(super) fn schemas(&self, dialect: Dialect) -> [(String, Value); 2] {
        [
            (self.definition(self.kind), self.object(dialect)),
            (self.definition(self.list_kind), self.list_schema(dialect)),
        ]
    }
}
