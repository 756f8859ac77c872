//! OpenAPI documents, written from the schema table when somebody asks.
//!
//! `kubectl explain`, `kubectl apply` and code generators read them; nothing in the server does. So they are kept as what
//! they are made from, the table and its compressed texts, and written into one buffer on request: [`v3`] for one group
//! version, [`v2`] for everything. [`hash`] names a document's content without making it, for the links of `/openapi/v3`.
//!
//! [`custom_v3`] writes the document of custom resources, which bring their schemas along.

mod components;
mod docs;
mod paths;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use listwatch_wire::json::{Value, json};
use sha2::{Digest, Sha512};

use crate::kind::Kind;
use crate::table;
use components::Components;
use paths::put_paths;

pub use paths::{Resource, SubresourcePaths};

/// The two languages; they differ in where things stand and how references are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    V2,
    V3,
}

impl Dialect {
    fn reference(self, definition: &str) -> Value {
        json!({ "$ref": format!("{}{definition}", self.prefix()) })
    }

    fn prefix(self) -> &'static str {
        match self {
            Self::V2 => "#/definitions/",
            Self::V3 => "#/components/schemas/",
        }
    }
}

/// The version of the API that the documents describe.
const VERSION: &str = "v1.37.0";

/// The OpenAPI v3 document of a built-in group and version.
///
/// ```
/// let document = listwatch_kinds::openapi::v3("apps", "v1").unwrap();
/// let document: listwatch_wire::json::Value = serde_json::from_slice(&document).unwrap();
/// assert!(document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"].is_object());
/// ```
#[must_use]
pub fn v3(group: &str, version: &str) -> Option<Vec<u8>> {
    let kinds: Vec<&Kind> =
        table::all().iter().filter(|k| k.group == group && k.version == version).collect();
    if kinds.is_empty() {
        return None;
    }
    let mut out = head(Dialect::V3);
    put_all_paths(&mut out, &kinds, Dialect::V3);
    out.extend_from_slice(br#","components":{"schemas":{"#);
    Components::of(&kinds).put(&mut out, Dialect::V3);
    out.extend_from_slice(br#"},"securitySchemes":{"BearerToken":{"description":"Bearer Token authentication","type":"apiKey","name":"authorization","in":"header"}}}}"#);
    Some(out)
}

/// The OpenAPI v2 (Swagger) document of all built-in kinds.
#[must_use]
pub fn v2() -> Vec<u8> {
    let kinds: Vec<&Kind> = table::all().iter().collect();
    let mut out = head(Dialect::V2);
    put_all_paths(&mut out, &kinds, Dialect::V2);
    out.extend_from_slice(br#","definitions":{"#);
    Components::of(&kinds).put(&mut out, Dialect::V2);
    out.extend_from_slice(br#"},"securityDefinitions":{"BearerToken":{"description":"Bearer Token authentication","type":"apiKey","name":"authorization","in":"header"}},"security":[{"BearerToken":[]}]}"#);
    out
}

/// The OpenAPI v3 document of custom resources of one group and version, with the schema of each under its definition name.
#[must_use]
pub fn custom_v3(resources: &[Resource<'_>], schemas: &BTreeMap<String, Value>) -> Vec<u8> {
    let mut out = head(Dialect::V3);
    let mut first = true;
    for resource in resources {
        put_paths(&mut out, &mut first, resource, Dialect::V3);
    }
    out.extend_from_slice(br#"},"components":{"schemas":{"#);
    let mut components = Components::shared();
    components.own = schemas.clone();
    components.put(&mut out, Dialect::V3);
    out.extend_from_slice(b"}}}");
    out
}

/// A name for the content of a built-in document: upper-case hexadecimal, changing when the table or its texts do.
#[must_use]
pub fn hash(group: &str, version: &str) -> String {
    static TABLE: LazyLock<Sha512> = LazyLock::new(|| {
        let mut hash = Sha512::new();
        hash.update(include_bytes!("../schema/table.txt"));
        hash.update(docs::COMPRESSED);
        hash.update(env!("CARGO_PKG_VERSION"));
        hash
    });
    let mut hash = TABLE.clone();
    hash.update(format!("{group}/{version}"));
    hash.finalize().iter().map(|byte| format!("{byte:02X}")).collect()
}

fn head(dialect: Dialect) -> Vec<u8> {
    let (key, version) = match dialect {
        Dialect::V2 => ("swagger", "2.0"),
        Dialect::V3 => ("openapi", "3.0.0"),
    };
    format!(r#"{{"{key}":"{version}","info":{{"title":"Kubernetes","version":"{VERSION}"}},"paths":{{"#)
        .into_bytes()
}

fn put_all_paths(out: &mut Vec<u8>, kinds: &[&Kind], dialect: Dialect) {
    let mut first = true;
    for kind in kinds {
        put_paths(out, &mut first, &Resource::of(kind), dialect);
    }
    out.push(b'}');
}

/// Appends `"key":value`, with the comma that separates it from what came before.
fn put_member(out: &mut Vec<u8>, first: &mut bool, key: &str, value: &Value) {
    if !std::mem::take(first) {
        out.push(b',');
    }
    out.extend_from_slice(Value::from(key).to_string().as_bytes());
    out.push(b':');
    out.extend_from_slice(value.to_string().as_bytes());
}

#[cfg(test)]
mod tests;
