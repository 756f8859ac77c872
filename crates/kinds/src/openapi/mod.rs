//! OpenAPI documents, written from the schema table on request.
//!
//! kubectl, Helm and code generators read them; nothing in the server does. So only their sources are kept, the table and
//! its compressed texts, and a document is written into one buffer on request: [`v3`] for one group version, [`v2`] and
//! [`v2_protobuf`] for everything. [`hash`] names a document's content without making it, for the links of `/openapi/v3`.
//!
//! Operations are made once for both dialects ([`paths`], [`custom`], [`discovery`]) and written by [`operation`]; schemas come
//! from [`components`]. [`gnostic`] is the protobuf form of v2. [`extension`] merges the v2 documents of extension API servers.

mod components;
mod custom;
mod custom_schema;
mod discovery;
mod docs;
mod extension;
mod gnostic;
mod gnostic_v3;
mod operation;
mod overlay;
mod parameters;
mod path_subject;
mod paths;

use std::collections::BTreeSet;
use std::sync::LazyLock;

use listwatch_wire::json::{Value, json};
use sha2::{Digest, Sha512};

use crate::proto::message_table::named;
use crate::proto::wire::{put_bytes, put_string};
use crate::table;
use components::Components;
use extension::DocumentMerge;
use operation::{DELETE_OPTIONS, PATCH, PathItem};

pub use custom::CustomResource;
pub use extension::extension_v2;
pub use gnostic_v3::v3_protobuf;

/// The two dialects; they differ in the structure of a document and in the form of references.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    V2,
    V3,
}

impl Dialect {
    /// Returns a reference to a definition, which the two dialects keep in different places.
    fn reference(self, definition: &str) -> Value {
        let prefix = match self {
            Self::V2 => "#/definitions/",
            Self::V3 => "#/components/schemas/",
        };
        json!({ "$ref": format!("{prefix}{definition}") })
    }
}

/// The version of the API that the documents describe.
const VERSION: &str = "1.37";
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// The names of the built-in v3 documents: `apis/apps/v1`, `apis/apps`, `version`.
#[must_use]
pub fn names() -> BTreeSet<String> {
    let mut names: BTreeSet<String> =
        ["api", "apis", "version", ".well-known/openid-configuration", "openid/v1/jwks"]
            .map(str::to_owned)
            .into();
    for kind in table::all() {
        names.insert(paths::root(kind.group, kind.version).split_off(1));
        if !kind.group.is_empty() {
            names.insert(format!("apis/{}", kind.group));
        }
    }
    names
}

/// The v3 document with one of the [`names`].
///
/// ```
/// let document = listwatch_kinds::openapi::v3("apis/apps/v1").unwrap();
/// let document: listwatch_wire::json::Value = serde_json::from_slice(&document).unwrap();
/// assert!(document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"].is_object());
/// ```
#[must_use]
pub fn v3(name: &str) -> Option<Vec<u8>> {
    let paths = match name.split('/').collect::<Vec<_>>().as_slice() {
        ["api"] => vec![discovery::core()],
        ["apis"] => vec![discovery::groups()],
        ["version"] => vec![discovery::version()],
        [".well-known", "openid-configuration"] => vec![discovery::openid_configuration()],
        ["openid", "v1", "jwks"] => vec![discovery::openid_keys()],
        ["apis", group] if table::all().iter().any(|kind| kind.group == *group) => {
            vec![discovery::group(group)]
        }
        ["api", version] => of_version("", version)?,
        ["apis", group, version] => of_version(group, version)?,
        _ => return None,
    };
    let mut components = match name.split('/').collect::<Vec<_>>().as_slice() {
        ["apis", group, version] => Components::of_version(group, version),
        _ => Components::new(),
    };
    components.reach_paths(&paths);
    Some(write_v3("Kubernetes", VERSION, &paths, &components, true))
}

/// The v3 document of the custom resources of one group and version. They have documents of their own, so that a
/// changed definition changes no other.
#[must_use]
pub fn custom_v3(resources: &[CustomResource<'_>]) -> Vec<u8> {
    let paths: Vec<PathItem> = resources.iter().flat_map(CustomResource::paths).collect();
    let mut components = Components::of_custom();
    components.reach_paths(&paths);
    for (name, schema) in resources.iter().flat_map(|resource| resource.schemas(Dialect::V3)) {
        components.add_schema(name, schema);
    }
    write_v3("Kubernetes CRD Swagger", "v0.1.0", &paths, &components, false)
}

/// The v2 (Swagger) document of all built-in kinds, some custom resources and the parts of extension API servers
/// ([`extension_v2`], those of higher priority first), as `/openapi/v2` serves it. It is several megabytes, and written part by
/// part.
#[must_use]
pub fn v2(custom: &[CustomResource<'_>], extensions: &[&[u8]]) -> Vec<u8> {
    let (mut paths, mut definitions, mut parameters) =
        (Members::default(), Members::default(), Members::default());
    each_v2(custom, extensions, |section, name, value| match section {
        Section::Paths => paths.put(name, value),
        Section::Definitions => definitions.put(name, value),
        Section::Parameters => parameters.put(name, value),
    });
    let mut out =
        format!(r#"{{"swagger":"2.0","info":{{"title":"Kubernetes","version":"{VERSION}"}},"paths":{{"#)
            .into_bytes();
    out.append(&mut paths.0);
    out.extend_from_slice(br#"},"definitions":{"#);
    out.append(&mut definitions.0);
    out.extend_from_slice(br#"},"parameters":{"#);
    out.append(&mut parameters.0);
    out.extend_from_slice(br#"},"securityDefinitions":{"BearerToken":{"description":"Bearer Token authentication","type":"apiKey","name":"authorization","in":"header"}},"security":[{"BearerToken":[]}]}"#);
    out
}

/// The document of [`v2`] in protobuf, as gnostic's `openapi.v2.Document`: the form in which kubectl asks for it.
///
/// The parts go through their JSON form, so both forms cannot disagree.
#[must_use]
pub fn v2_protobuf(custom: &[CustomResource<'_>], extensions: &[&[u8]]) -> Vec<u8> {
    let (mut paths, mut definitions, mut parameters) = (Vec::new(), Vec::new(), Vec::new());
    each_v2(custom, extensions, |section, name, value| match section {
        Section::Paths => put_bytes(&mut paths, 2, &named(name, &gnostic::path_item(value))),
        Section::Definitions => {
            let schema = value.as_object().map(gnostic::schema).unwrap_or_default();
            put_bytes(&mut definitions, 1, &named(name, &schema));
        }
        Section::Parameters => put_bytes(&mut parameters, 1, &named(name, &gnostic::parameter(value))),
    });
    let mut out = Vec::with_capacity(paths.len() + definitions.len() + parameters.len() + 256);
    put_string(&mut out, 1, "2.0");
    let mut info = Vec::new();
    put_string(&mut info, 1, "Kubernetes");
    put_string(&mut info, 2, VERSION);
    put_bytes(&mut out, 2, &info);
    put_bytes(&mut out, 8, &paths);
    put_bytes(&mut out, 9, &definitions);
    put_bytes(&mut out, 10, &parameters);
    put_security(&mut out);
    out
}

/// The only way in: a bearer token.
fn put_security(out: &mut Vec<u8>) {
    let mut requirement = Vec::new();
    put_bytes(&mut requirement, 1, &named("BearerToken", &[]));
    put_bytes(out, 12, &requirement);
    let mut key = Vec::new();
    put_string(&mut key, 1, "apiKey");
    put_string(&mut key, 2, "authorization");
    put_string(&mut key, 3, "header");
    put_string(&mut key, 4, "Bearer Token authentication");
    let mut item = Vec::new();
    put_bytes(&mut item, 2, &key);
    let mut definitions = Vec::new();
    put_bytes(&mut definitions, 1, &named("BearerToken", &item));
    put_bytes(out, 13, &definitions);
}

/// The sections of the v2 document that are written in parts.
#[derive(Clone, Copy)]
enum Section {
    Paths,
    Definitions,
    Parameters,
}

/// Calls `put` with the parts of the v2 document one by one, so that only one of them is in memory as a tree.
fn each_v2(
    custom: &[CustomResource<'_>],
    extensions: &[&[u8]],
    mut write: impl FnMut(Section, &str, &Value),
) {
    let mut merge = DocumentMerge::new(extensions);
    each_own(custom, |section, name, value| write(section, name, &merge.own(section, name, value)));
    merge.finish(write);
}

/// Calls `put` with the parts about the server's own resources.
fn each_own(custom: &[CustomResource<'_>], mut put: impl FnMut(Section, &str, &Value)) {
    let mut components = Components::new();
    let mut write = |path: &PathItem| {
        components.reach_paths([path]);
        put(Section::Paths, &path.path, &path.value(Dialect::V2));
    };
    each_path(&mut write);
    custom.iter().flat_map(CustomResource::paths).for_each(|path| write(&path));
    for (name, schema) in custom.iter().flat_map(|resource| resource.schemas(Dialect::V2)) {
        components.add_schema(name, schema);
    }
    components.each(Dialect::V2, |name, schema| put(Section::Definitions, name, schema));
    for (name, parameter) in parameters::shared(PATCH, DELETE_OPTIONS) {
        put(Section::Parameters, name, &parameter);
    }
}

/// Calls `put` with the paths of all built-in kinds and of discovery, one group version at a time.
fn each_path(mut put: impl FnMut(&PathItem)) {
    let singles = [
        discovery::core(),
        discovery::groups(),
        discovery::version(),
        discovery::openid_configuration(),
        discovery::openid_keys(),
    ];
    singles.iter().for_each(&mut put);
    let groups: BTreeSet<&str> =
        table::all().iter().map(|kind| kind.group).filter(|g| !g.is_empty()).collect();
    groups.iter().for_each(|group| put(&discovery::group(group)));
    for (group, version) in versions() {
        of_version(group, version).unwrap_or_default().iter().for_each(&mut put);
    }
}

/// Sorted, so that the document is the same in every run.
fn versions() -> BTreeSet<(&'static str, &'static str)> {
    table::all().iter().map(|kind| (kind.group, kind.version)).collect()
}

/// The paths of a built-in group and version.
fn of_version(group: &str, version: &str) -> Option<Vec<PathItem>> {
    let kinds = table::all().iter().filter(|kind| kind.group == group && kind.version == version);
    let mut paths: Vec<PathItem> = kinds.flat_map(paths::of_kind).collect();
    if paths.is_empty() {
        return None;
    }
    paths.push(discovery::group_version(group, version));
    Some(paths)
}

/// Writes a v3 document part by part, since the largest has megabytes as text and several times that as a tree.
fn write_v3(
    title: &str,
    version: &str,
    paths: &[PathItem],
    components: &Components,
    secured: bool,
) -> Vec<u8> {
    let mut out =
        format!(r#"{{"openapi":"3.0.0","info":{{"title":"{title}","version":"{version}"}},"paths":{{"#)
            .into_bytes();
    let mut members = Members::default();
    paths.iter().for_each(|path| members.put(&path.path, &path.value(Dialect::V3)));
    out.append(&mut members.0);
    out.extend_from_slice(br#"},"components":{"#);
    components.each(Dialect::V3, |name, schema| members.put(name, schema));
    let schemas = !members.0.is_empty();
    if schemas {
        out.extend_from_slice(br#""schemas":{"#);
        out.append(&mut members.0);
        out.push(b'}');
    }
    if secured {
        out.extend_from_slice(if schemas { b"," } else { b"" });
        out.extend_from_slice(br#""securitySchemes":{"BearerToken":{"type":"apiKey","description":"Bearer Token authentication","name":"authorization","in":"header"}}"#);
    }
    out.extend_from_slice(b"}}");
    out
}

/// A name for the content of a built-in document: upper-case hexadecimal, changing when the table or its texts do.
#[must_use]
pub fn hash(name: &str) -> String {
    static TABLE: LazyLock<Sha512> = LazyLock::new(|| {
        let mut hash = Sha512::new();
        hash.update(include_bytes!("../schema/table.txt"));
        hash.update(include_bytes!("../schema/overlay.json.gz"));
        hash.update(docs::COMPRESSED);
        hash.update(env!("CARGO_PKG_VERSION"));
        hash
    });
    let mut hash = TABLE.clone();
    hash.update(name);
    hash.finalize().iter().map(|byte| format!("{byte:02X}")).collect()
}

/// The members of a JSON object being written.
/// Bytes and not a tree: the largest document would need several times its size as one.
#[derive(Default)]
struct Members(Vec<u8>);

impl Members {
    /// Appends `"key":value`, with the comma that separates it from what came before.
    fn put(&mut self, key: &str, value: &Value) {
        if !self.0.is_empty() {
            self.0.push(b',');
        }
        self.0.extend_from_slice(Value::from(key).to_string().as_bytes());
        self.0.push(b':');
        self.0.extend_from_slice(value.to_string().as_bytes());
    }
}

#[cfg(test)]
mod overlay_tests;
#[cfg(test)]
mod tests;
