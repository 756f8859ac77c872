//! OpenAPI documents of custom resources, for `kubectl explain`, validation in clients and server-side apply of
//! kubectl.
//!
//! The documents themselves are written by `listwatch_kinds::openapi`; this translates resources of the registry into
//! its input. They are made on request and not kept, except for their hashes (`hashes.rs`); serving and caching by
//! clients is `endpoints/openapi.rs`.

use std::sync::{Arc, LazyLock};

use listwatch_kinds::openapi::{self, CustomResource};
use listwatch_wire::json::{Value, json};

use crate::registry::{Resource, Served};

/// The v3 document of one group and version.
#[must_use]
pub fn document(resources: &[&Arc<Resource>]) -> Vec<u8> {
    let described: Vec<_> = resources.iter().map(|resource| describe(resource)).collect();
    openapi::custom_v3(&described)
}

/// Returns the OpenAPI v2 document of everything that is served, built-in kinds and the parts of extension API servers
/// included. It is large: several megabytes.
///
/// Made once for concurrent requests and compressed when sent; clients cache it by its ETag.
#[must_use]
pub fn v2(served: &Served, extensions: &[&[u8]]) -> Vec<u8> {
    openapi::v2(&custom(served), extensions)
}

/// Returns the OpenAPI v2 document in protobuf, which older versions of kubectl and Helm ask for.
#[must_use]
pub fn v2_protobuf(served: &Served, extensions: &[&[u8]]) -> Vec<u8> {
    openapi::v2_protobuf(&custom(served), extensions)
}

/// The custom resources that are served, in the form that the document is written from.
fn custom(served: &Served) -> Vec<CustomResource<'_>> {
    served
        .resources()
        .iter()
        .filter(|resource| resource.is_custom())
        .map(|resource| describe(resource))
        .collect()
}

/// A resource without a schema is described as one with any fields.
fn describe(resource: &Resource) -> CustomResource<'_> {
    static NOTHING: LazyLock<Value> = LazyLock::new(|| json!({}));
    let version = resource.custom.as_ref();
    let offers = |name: &str| resource.subresources.iter().any(|sub| &*sub.name == name);
    CustomResource {
        group: &resource.group,
        version: &resource.version,
        kind: &resource.kind,
        list_kind: &resource.list_kind,
        plural: &resource.plural,
        namespaced: resource.namespaced,
        status: offers("status"),
        scale: offers("scale"),
        schema: version.map_or(&*NOTHING, |version| &*version.schema_json),
        selectable: version.map_or(&[], |version| &version.selectable),
    }
}
