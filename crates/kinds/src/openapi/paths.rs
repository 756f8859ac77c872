//! The paths of a resource and the operations on them, as kube-apiserver describes its own.
//!
//! The operations follow from the verbs and subresources of the [`Kind`]; names, descriptions and parameters are
//! kube-apiserver's to the letter, because generated clients take their method names from operation ids. The deprecated
//! `watch` paths are described, too. The operations themselves are made by [`super::path_subject`]. Custom resources
//! are described by other rules, which are in [`super::custom`].

use super::operation::{OpenApiOperation, PathItem};
use super::parameters::Parameter;
use super::path_subject::PathSubject;
use crate::kind::{Kind, Subresource};
use crate::schema;

/// Keys of the parameters of a list.
pub(super) const LIST: &[&str] = &[
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "shardSelector",
    "timeoutSeconds",
    "watch",
];

/// Keys of the parameters of a create or update.
pub(super) const WRITE: &[&str] = &["dryRun", "fieldManager", "fieldValidation"];

/// Keys of the parameters of a patch.
pub(super) const PATCH_OPTIONS: &[&str] = &["dryRun", "fieldManager.patch", "fieldValidation", "force"];

/// Keys of the parameters of a delete.
pub(super) const DELETE: &[&str] = &[
    "dryRun",
    "gracePeriodSeconds",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "orphanDependents",
    "propagationPolicy",
];

/// All paths of a built-in kind.
///
/// Paths without any operation are left out: a kind that cannot be listed has no collection.
pub(super) fn of_kind(kind: &Kind) -> Vec<PathItem> {
    let root = root(kind.group, kind.version);
    let place = if kind.is_namespaced() { "/namespaces/{namespace}" } else { "" };
    let (collection, over_all) = (format!("{place}/{}", kind.plural), format!("/{}", kind.plural));
    let item = format!("{collection}/{{name}}");
    let (on_collection, on_item) = (PathSubject::new(kind, false), PathSubject::new(kind, true));
    let everywhere = PathSubject {
        suffix: "ForAllNamespaces",
        namespaced: false,
        in_path: Vec::new(),
        ..PathSubject::new(kind, false)
    };
    let mut paths = vec![
        path(format!("{root}{collection}"), on_collection.on_collection()),
        path(format!("{root}{item}"), on_item.on_item()),
    ];
    let over_all_namespaces = kind.is_namespaced() && kind.allows("list");
    if over_all_namespaces {
        paths.push(path(format!("{root}{over_all}"), vec![everywhere.list()]));
    }
    if kind.allows("watch") {
        paths.push(path(format!("{root}/watch{collection}"), vec![on_collection.watch(true)]));
        paths.push(path(format!("{root}/watch{item}"), vec![on_item.watch(false)]));
        if over_all_namespaces {
            paths.push(path(format!("{root}/watch{over_all}"), vec![everywhere.watch(true)]));
        }
    }
    for sub in kind.subresources {
        paths.extend(of_subresource(kind, sub, &format!("{root}{item}/{}", sub.name)));
    }
    paths.retain(|path| !path.operations.is_empty());
    paths
}

/// The paths of a subresource. Those that connect to a kubelet have no body; `proxy` has a second path for what follows
/// it.
fn of_subresource(kind: &Kind, sub: &Subresource, at: &str) -> Vec<PathItem> {
    let mut subject = PathSubject::new(kind, true);
    subject.in_path.retain(|parameter| parameter.name != "name");
    subject.in_path.push(Parameter::object_name(sub.kind));
    let (group, version) = gv_of(kind, sub);
    subject.object = definition(group, version, sub.kind);
    subject.sub = Some(sub);
    let Some(options) = connect_options(kind.plural, sub.name) else {
        return vec![path(at.to_owned(), subject.on_subresource())];
    };
    let methods: &[&'static str] = match sub.name {
        "proxy" => &["get", "put", "post", "delete", "options", "head", "patch"],
        _ => &["get", "post"],
    };
    let mut paths = vec![path(at.to_owned(), subject.connect(methods, options))];
    if sub.name == "proxy" {
        subject.suffix = "WithPath";
        subject.in_path.extend(Parameter::get("path"));
        paths.push(path(format!("{at}/{{path}}"), subject.connect(methods, options)));
    }
    paths
}

/// Keys of the parameters of a subresource that connects to a kubelet.
fn connect_options(plural: &str, sub: &str) -> Option<&'static [&'static str]> {
    Some(match (plural, sub) {
        (_, "exec") => &["command", "container.exec", "stderr.exec", "stdin.exec", "stdout.exec", "tty.exec"],
        (_, "attach") => {
            &["container.attach", "stderr.attach", "stdin.attach", "stdout.attach", "tty.attach"]
        }
        (_, "portforward") => &["ports"],
        ("pods", "proxy") => &["path.pods"],
        ("services", "proxy") => &["path.services"],
        ("nodes", "proxy") => &["path.nodes"],
        _ => return None,
    })
}

fn path(path: String, operations: Vec<OpenApiOperation>) -> PathItem {
    PathItem { path, operations }
}

/// The path of a group and version.
pub(super) fn root(group: &str, version: &str) -> String {
    if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") }
}

/// The name of a type's definition; `None` for kinds without a schema.
pub(super) fn definition(group: &str, version: &str, kind: &str) -> Option<String> {
    let node = schema::node(group, version, kind)?;
    Some(node.as_struct()?.name.to_owned())
}

/// Subresources without a group and version of their own have those of the kind.
pub(super) fn gv_of<'a>(kind: &'a Kind, sub: &'a Subresource) -> (&'a str, &'a str) {
    if sub.version.is_empty() { (kind.group, kind.version) } else { (sub.group, sub.version) }
}

/// `a ` or `an ` before a noun; nothing before a plural.
pub(super) fn article(noun: &str) -> &'static str {
    if noun.ends_with('s') && !noun.ends_with("ss") {
        return "";
    }
    let vowel = noun.starts_with(['a', 'e', 'i', 'o', 'u', 'A', 'E', 'I', 'O', 'U']);
    if vowel { "an " } else { "a " }
}
