//! [`PathSubject`]: the operations on one path of a built-in kind, made from its row.
//!
//! One method per operation. Each names the parameters, media types and status codes that kube-apiserver declares for
//! it; which of them a path has follows from the verbs of discovery.

use super::operation::{DELETE_OPTIONS, OpenApiOperation, PATCH, STATUS, Types, operation_id, tag};
use super::parameters::Parameter;
use super::paths::{DELETE, LIST, PATCH_OPTIONS, WRITE, article, definition, gv_of};
use crate::kind::{Kind, Subresource};

/// Bodies of connections to kubelets, which are passed on unread.
const ANY: Types = &["*/*"];
/// In the order of kube-apiserver's document. Apply by CBOR is not offered.
const PATCH_TYPES: Types = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];

/// The forms of objects.
const PRODUCES: Types = &["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
/// A log is text; errors about it are statuses.
const PRODUCES_LOG: Types =
    &["text/plain", "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];

/// The forms of lists, which become streams with `watch=true`.
const PRODUCES_STREAM: Types = &[
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
];
const WATCH_EVENT: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent";
/// Parameters of a list that a deletion of a collection does not take.
const ONLY_WATCH: [&str; 2] = ["allowWatchBookmarks", "watch"];
/// Keys of the parameters of a Pod's log.
const LOG: &[&str] = &[
    "container.log",
    "follow",
    "insecureSkipTLSVerifyBackend",
    "limitBytes",
    "pretty",
    "previous",
    "sinceSeconds",
    "stream",
    "tailLines",
    "timestamps",
];

/// A resource, or a subresource of it, whose operations are made. Cheap to make: one per path, each giving several operations.
pub(super) struct PathSubject<'a> {
    pub(super) kind: &'a Kind,
    pub(super) sub: Option<&'a Subresource>,
    /// Definition of the object.
    pub(super) object: Option<String>,
    /// Parameters that the path itself has.
    pub(super) in_path: Vec<Parameter<'static>>,
    /// The suffix of the operation's name.
    pub(super) suffix: &'static str,
    pub(super) namespaced: bool,
}

impl<'a> PathSubject<'a> {
    /// The path of one object if `named`, else of a collection.
    pub(super) fn new(kind: &'a Kind, named: bool) -> Self {
        let mut in_path = Vec::new();
        if named {
            in_path.push(Parameter::object_name(kind.kind));
        }
        if kind.is_namespaced() {
            in_path.extend(Parameter::get("namespace"));
        }
        let object = definition(kind.group, kind.version, kind.kind);
        Self { kind, sub: None, object, in_path, suffix: "", namespaced: kind.is_namespaced() }
    }

    /// The operations on a collection that discovery lists for the kind.
    pub(super) fn on_collection(&self) -> Vec<OpenApiOperation> {
        let mut operations = Vec::new();
        if self.kind.allows("list") {
            operations.push(self.list());
        }
        if self.kind.allows("create") {
            operations.push(self.create());
        }
        if self.kind.allows("deletecollection") {
            operations.push(self.delete_collection());
        }
        operations
    }

    /// The operations on one object that discovery lists for the kind.
    pub(super) fn on_item(&self) -> Vec<OpenApiOperation> {
        let mut operations = Vec::new();
        if self.kind.allows("get") {
            operations.push(self.read(PRODUCES, &["pretty"], self.object.clone()));
        }
        if self.kind.allows("update") {
            operations.push(self.replace());
        }
        if self.kind.allows("delete") {
            operations.push(self.delete());
        }
        if self.kind.allows("patch") {
            operations.push(self.patch());
        }
        operations
    }

    /// The operations on a subresource. A Pod's log is text and has parameters of its own.
    pub(super) fn on_subresource(&self) -> Vec<OpenApiOperation> {
        let Some(sub) = self.sub else { return Vec::new() };
        let offers = |verb: &str| sub.verbs.contains(&verb);
        let mut operations = Vec::new();
        if offers("get") && sub.name == "log" {
            operations.push(self.read(PRODUCES_LOG, LOG, None));
        } else if offers("get") {
            operations.push(self.read(PRODUCES, &["pretty"], self.object.clone()));
        }
        if offers("update") {
            operations.push(self.replace());
        }
        if offers("create") {
            operations.push(self.create());
        }
        if offers("patch") {
            operations.push(self.patch());
        }
        operations
    }

    /// `status of `, or nothing for the object itself.
    fn part(&self) -> String {
        self.sub.map(|sub| format!("{} of ", sub.name)).unwrap_or_default()
    }

    /// An operation that answers with the object, without parameters of its own.
    fn operation(
        &self,
        method: &'static str,
        action: &'static str,
        verb: &str,
        description: String,
    ) -> OpenApiOperation {
        let (verb, before) = verb.split_once(' ').unwrap_or((verb, ""));
        let kind = self.kind;
        let (group, version, name) = match self.sub {
            Some(sub) => {
                let (group, version) = gv_of(kind, sub);
                (group, version, sub.kind)
            }
            None => (kind.group, kind.version, kind.kind),
        };
        let namespaced = if self.namespaced { "Namespaced" } else { "" };
        let sub = self.sub.map(|sub| super::operation::camel(sub.name, true)).unwrap_or_default();
        let rest = format!("{before}{namespaced}{}{sub}{}", kind.kind, self.suffix);
        OpenApiOperation {
            method,
            action,
            id: operation_id(verb, kind.group, kind.version, &rest),
            tag: tag(kind.group, Some(kind.version)),
            description,
            parameters: self.in_path.clone(),
            body: None,
            consumes: ANY,
            produces: PRODUCES,
            codes: &[200],
            answer: self.object.clone(),
            gvk: Some([group, version, name].map(str::to_owned)),
        }
    }

    /// Adds query parameters to an operation, by their keys.
    fn with(&self, mut operation: OpenApiOperation, keys: &[&str]) -> OpenApiOperation {
        operation.parameters.extend(Parameter::list(keys));
        if !keys.contains(&"pretty") {
            operation.parameters.extend(Parameter::get("pretty"));
        }
        operation
    }

    /// Watching is described as a parameter of the list and not as an operation of its own.
    pub(super) fn list(&self) -> OpenApiOperation {
        let what = if self.kind.allows("watch") { "list or watch" } else { "list" };
        let operation =
            self.operation("get", "list", "list", format!("{what} objects of kind {}", self.kind.kind));
        let answer = definition(self.kind.group, self.kind.version, &self.kind.list_kind());
        self.with(OpenApiOperation { answer, produces: PRODUCES_STREAM, ..operation }, LIST)
    }

    /// The deprecated watch paths (`/api/v1/watch/…`), which are still described.
    pub(super) fn watch(&self, of_list: bool) -> OpenApiOperation {
        let kind = self.kind.kind;
        const USE: &str = "deprecated: use the 'watch' parameter with a list operation instead";
        let (action, description) = match of_list {
            true => ("watchlist", format!("watch individual changes to a list of {kind}. {USE}.")),
            false => (
                "watch",
                format!(
                    "watch changes to an object of kind {kind}. {USE}, filtered to a single item with the 'fieldSelector' parameter."
                ),
            ),
        };
        let mut operation = self.operation("get", action, "watch", description);
        if of_list {
            let end = operation.id.len() - self.suffix.len();
            operation.id.insert_str(end, "List");
        }
        self.with(
            OpenApiOperation { answer: Some(WATCH_EVENT.to_owned()), produces: PRODUCES_STREAM, ..operation },
            LIST,
        )
    }

    /// GET of one object or subresource.
    fn read(&self, produces: Types, keys: &[&str], answer: Option<String>) -> OpenApiOperation {
        let description = format!("read {}the specified {}", self.part(), self.kind.kind);
        let operation = self.operation("get", "get", "read", description);
        self.with(OpenApiOperation { produces, answer, ..operation }, keys)
    }

    /// POST: 201 for a new object, 200 and 202 as kube-apiserver declares them.
    fn create(&self) -> OpenApiOperation {
        let kind = self.kind.kind;
        let description = format!("create {}{}{kind}", self.part(), article(kind));
        let operation = self.operation("post", "post", "create", description);
        self.with(OpenApiOperation { body: self.object.clone(), codes: &[200, 201, 202], ..operation }, WRITE)
    }

    /// PUT, which creates where the kind allows it (201).
    fn replace(&self) -> OpenApiOperation {
        let description = format!("replace {}the specified {}", self.part(), self.kind.kind);
        let operation = self.operation("put", "put", "replace", description);
        self.with(OpenApiOperation { body: self.object.clone(), codes: &[200, 201], ..operation }, WRITE)
    }

    /// PATCH, whose body is any of the four types.
    fn patch(&self) -> OpenApiOperation {
        let description = format!("partially update {}the specified {}", self.part(), self.kind.kind);
        let operation = self.operation("patch", "patch", "patch", description);
        let body = Some(PATCH.to_owned());
        self.with(
            OpenApiOperation { body, consumes: PATCH_TYPES, codes: &[200, 201], ..operation },
            PATCH_OPTIONS,
        )
    }

    /// The response is the object for the few kinds whose deletion returns it, and a Status otherwise.
    fn delete(&self) -> OpenApiOperation {
        let kind = self.kind;
        let description = format!("delete {}{}", article(kind.kind), kind.kind);
        let operation = self.operation("delete", "delete", "delete", description);
        let answer =
            if kind.flags.returns_deleted_object { self.object.clone() } else { Some(STATUS.to_owned()) };
        let body = Some(DELETE_OPTIONS.to_owned());
        self.with(OpenApiOperation { body, answer, codes: &[200, 202], ..operation }, DELETE)
    }

    /// DELETE of a collection takes the options of a deletion and the selectors of a list.
    fn delete_collection(&self) -> OpenApiOperation {
        let description = format!("delete collection of {}", self.kind.kind);
        let operation = self.operation("delete", "deletecollection", "delete Collection", description);
        let list = LIST.iter().filter(|key| !ONLY_WATCH.contains(key));
        let (mut keys, own): (Vec<&str>, _) = (DELETE.to_vec(), list.copied());
        keys.extend(own);
        let (body, answer) = (Some(DELETE_OPTIONS.to_owned()), Some(STATUS.to_owned()));
        self.with(OpenApiOperation { body, answer, ..operation }, &keys)
    }

    /// One operation per method, all alike: kube-apiserver accepts every method and passes it on.
    pub(super) fn connect(&self, methods: &[&'static str], options: &[&str]) -> Vec<OpenApiOperation> {
        let connect = |method: &&'static str| {
            let loud = method.to_ascii_uppercase();
            let description = format!("connect {loud} requests to {}{}", self.part(), self.kind.kind);
            let verb = format!("connect {}", super::operation::camel(method, true));
            let mut operation = self.operation(method, "connect", &verb, description);
            operation.parameters.extend(Parameter::list(options));
            OpenApiOperation { answer: None, produces: ANY, ..operation }
        };
        methods.iter().map(connect).collect()
    }
}
