//! Discovery: which groups, versions and resources are served, one document each.
//!
//! The form that all clients understand; newer ones get everything in one document from [`super::discovery_v2`].
//! Documents are made from the registry on each request: they are small, and a CustomResourceDefinition shows as soon
//! as it is served. Groups of extension API servers appear in the list of groups; their resources are served by
//! themselves, through `forward/extension.rs`. The order of groups and versions decides what kubectl prefers.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use listwatch_wire::Status;
use listwatch_wire::gvk::version_order;
use listwatch_wire::json::{Value, json};
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::api::Api;
use crate::endpoints::{discovery_v2, health, openid, zpages};
use crate::http::body::Response;
use crate::http::request::Request;
use crate::registry::extension::{CUSTOM_GROUP_PRIORITY, ExtensionServer};
use crate::registry::{Resource, Served, SubresourceInfo};
use crate::request::info::parts;
use crate::request::negotiate::{self, Encoding, ResponseSubject, Serving};
use crate::respond;
use crate::respond::{encode, protobuf};

/// Answers paths of discovery; `None` for any other.
///
/// The snapshot of served resources is taken once, so a document is consistent even if definitions change meanwhile.
///
/// # Errors
/// 404 for a version that a served group does not have, 406 for a form that there is not.
pub(crate) fn answer(api: &Api, request: &Request, path: &str) -> Result<Option<Response>, Status> {
    let (served, remotes) = (api.registry.served(), api.registry.remotes.all());
    let known = Known { served: &served, remotes: &remotes };
    let parts = parts(path);
    if let Some(core) = aggregates(request, &parts)
        && let Some(encoding) = discovery_v2::wanted(request)
    {
        return discovery_v2::answer(request, known, core, encoding).map(Some);
    }
    Ok(Some(match parts.as_slice() {
        [] | ["index.html"] => json_of(&json!({"paths": paths(api, known)})),
        ["api"] => document(request, Serving::Routed, &core_versions())?,
        ["apis"] => document(request, Serving::Typed, &group_list(known))?,
        ["apis", name] if known.has_group(name) => {
            let Some(group) = groups(known).into_iter().find(|group| *group.name == **name) else {
                return Ok(None);
            };
            let group = ApiGroup { kind: Some("APIGroup"), api_version: Some("v1"), ..group };
            document(request, Serving::Typed, &group)?
        }
        ["apis", "", _] => return Ok(None),
        ["api", version] if served.has_version("", version) => {
            document(request, Serving::Routed, &resource_list(&served, "", version))?
        }
        ["apis", group, version] if served.has_version(group, version) => {
            document(request, serving(&served, group), &resource_list(&served, group, version))?
        }
        ["api", _] => return Err(Status::no_such_path()),
        ["apis", group, _] if served.has_builtin_group(group) => return Err(Status::no_such_path()),
        _ => return Ok(None),
    }))
}

fn core_versions() -> Value {
    json!({
        "kind": "APIVersions", "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": ""}],
    })
}

fn group_list(known: Known<'_>) -> Value {
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups(known)})
}

/// Returns true for the path that aggregates the core group, false for that of all others, `None` where there is no
/// aggregated form.
fn aggregates(request: &Request, parts: &[&str]) -> Option<bool> {
    match parts {
        ["api"] => Some(true),
        // The path with a slash at the end has a handler of its own, without the aggregated form.
        ["apis"] if !request.path.ends_with('/') => Some(false),
        _ => None,
    }
}

/// The lists of resources of built-in groups have routes. Those of other groups, and the groups themselves, do not.
fn serving(served: &Served, group: &str) -> Serving {
    if served.has_builtin_group(group) { Serving::Routed } else { Serving::Typed }
}

/// A document in the encoding that the client asks for.
fn document(request: &Request, serving: Serving, document: &impl Serialize) -> Result<Response, Status> {
    let form = negotiate::negotiated(request, ResponseSubject::Plain, serving)?;
    let json = serde_json::to_vec(document).map_err(Status::internal)?;
    let body = match form.encoding {
        // The version is given because some of these documents have no apiVersion, nor has their envelope.
        Encoding::Protobuf => protobuf::document_of("v1", &json)?,
        _ => encode::document(json.into(), form)?,
    };
    Ok(respond::full(StatusCode::OK, form.content_type(), body))
}

/// A document that is always spread over lines.
pub(super) fn json_of(document: &impl Serialize) -> Response {
    respond::json(StatusCode::OK, encode::pretty(&serde_json::to_vec(document).unwrap_or_default()))
}

/// A group and its versions, the preferred one first.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ApiGroup {
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    api_version: Option<&'static str>,
    name: Arc<str>,
    versions: Vec<GroupVersionForDiscovery>,
    preferred_version: Option<GroupVersionForDiscovery>,
}

#[derive(Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct GroupVersionForDiscovery {
    group_version: String,
    version: Arc<str>,
}

/// The resources of a group and version.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ApiResourceList {
    kind: &'static str,
    /// Absent in the core group's list, as in kube-apiserver.
    #[serde(skip_serializing_if = "Option::is_none")]
    api_version: Option<&'static str>,
    group_version: String,
    resources: Vec<ApiResource>,
}

/// A resource, or a subresource under the name `resource/sub`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ApiResource {
    name: String,
    singular_name: Arc<str>,
    namespaced: bool,
    /// Empty means that of the list. Subresources with kinds of another group state it, as `scale` does.
    #[serde(skip_serializing_if = "str::is_empty")]
    group: Arc<str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    version: Arc<str>,
    kind: Arc<str>,
    verbs: Vec<Arc<str>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    short_names: Vec<Arc<str>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    categories: Vec<Arc<str>>,
    /// Clients that migrate stored objects compare it. Resources that are not stored have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    storage_version_hash: Option<String>,
}

/// The storage version as kube-apiserver hashes it: some kinds of v1 are stored there in the version before it, so that a
/// server of the previous release can read them. Here all are stored as v1.
fn hashed_version(resource: &Resource) -> (Arc<str>, Arc<str>) {
    let (group, version) = &resource.stored_as;
    let version = match (&**group, &*resource.kind) {
        ("apiextensions.k8s.io", "CustomResourceDefinition") => "v1beta1".into(),
        ("certificates.k8s.io", "ClusterTrustBundle" | "PodCertificateRequest") => "v1beta1".into(),
        ("resource.k8s.io", "DeviceTaintRule") => "v1beta2".into(),
        _ => Arc::clone(version),
    };
    (Arc::clone(group), version)
}

/// A hash of the storage version, by which clients notice that it changed.
fn storage_version_hash((group, version): &(Arc<str>, Arc<str>), kind: &str) -> String {
    let hash = Sha256::digest(format!("{group}/{version}/{kind}"));
    STANDARD.encode(hash.get(..8).unwrap_or_default())
}

/// All paths that are served now, in order.
pub(super) fn all_paths(api: &Api) -> Vec<String> {
    let (served, remotes) = (api.registry.served(), api.registry.remotes.all());
    paths(api, Known { served: &served, remotes: &remotes })
}

/// All paths that are served, in order.
fn paths(api: &Api, known: Known<'_>) -> Vec<String> {
    let own = [
        openid::CONFIGURATION,
        openid::KEYS,
        "/api",
        "/api/v1",
        "/apis",
        "/apis/",
        zpages::FLAGS,
        "/metrics",
        "/metrics/slis",
        "/openapi/v2",
        "/openapi/v3",
        "/openapi/v3/",
        zpages::STATUS,
        "/version",
    ];
    let mut paths: Vec<String> = own.map(str::to_owned).into();
    paths.extend(health::paths(api));
    for (group, versions) in by_group(known).iter().filter(|(group, _)| !group.is_empty()) {
        paths.push(format!("/apis/{group}"));
        paths.extend(versions.iter().map(|version| format!("/apis/{group}/{version}")));
    }
    paths.sort();
    paths
}

/// The resources that are served here, and those of extension API servers.
#[derive(Clone, Copy)]
pub(crate) struct Known<'a> {
    pub(crate) served: &'a Served,
    pub(crate) remotes: &'a [Arc<ExtensionServer>],
}

impl Known<'_> {
    /// The priorities of groups that have APIServices of their own.
    fn priorities(&self) -> HashMap<&str, i64> {
        let mut priorities = HashMap::new();
        for remote in self.remotes {
            let priority = priorities.entry(&*remote.group).or_insert(remote.group_priority);
            *priority = remote.group_priority.max(*priority);
        }
        priorities
    }

    fn has_group(self, group: &str) -> bool {
        self.served.has_group(group) || self.remotes.iter().any(|remote| &*remote.group == group)
    }
}

/// Groups and their versions, the preferred version of each first.
///
/// Built-in groups come first, as they were registered, then the others by priority and name: of two kinds with the same short
/// name kubectl takes the first. Versions are in Kubernetes' order: stable before beta before alpha, newer first.
pub(crate) fn by_group(known: Known<'_>) -> Vec<(Arc<str>, Vec<Arc<str>>)> {
    let mut groups: Vec<(Arc<str>, Vec<Arc<str>>)> = Vec::new();
    // Definitions may have thousands of versions and groups together.
    let (mut places, mut seen) = (HashMap::new(), HashSet::new());
    let here = known.served.resources().iter().map(|resource| (&resource.group, &resource.version));
    let elsewhere = known.remotes.iter().map(|remote| (&remote.group, &remote.version));
    for (of, version) in here.chain(elsewhere) {
        if !seen.insert((of, version)) {
            continue;
        }
        let place = *places.entry(of).or_insert(groups.len());
        match groups.get_mut(place) {
            Some((_, versions)) => versions.push(Arc::clone(version)),
            None => groups.push((Arc::clone(of), vec![Arc::clone(version)])),
        }
    }
    for (_, versions) in &mut groups {
        versions.sort_by(|a, b| version_order(b, a));
    }
    sort_custom(&mut groups, known);
    groups
}

/// Sorts the groups that are not built in behind the others.
fn sort_custom(groups: &mut [(Arc<str>, Vec<Arc<str>>)], known: Known<'_>) {
    let builtin = known.served.resources().iter().filter(|resource| !resource.is_custom());
    let builtin: HashSet<&str> = builtin.map(|resource| &*resource.group).collect();
    let priorities = known.priorities();
    let priority = |group: &str| priorities.get(group).copied().unwrap_or(CUSTOM_GROUP_PRIORITY);
    groups.sort_by_cached_key(|(group, _)| {
        (!builtin.contains(&**group)).then(|| (Reverse(priority(group)), Arc::clone(group)))
    });
}

/// Without the core group, which is found at `/api`.
fn groups(known: Known<'_>) -> Vec<ApiGroup> {
    let named = by_group(known).into_iter().filter(|(group, _)| !group.is_empty());
    named
        .map(|(name, versions)| {
            let version =
                |v: Arc<str>| GroupVersionForDiscovery { group_version: format!("{name}/{v}"), version: v };
            let versions: Vec<_> = versions.into_iter().map(version).collect();
            ApiGroup {
                kind: None,
                api_version: None,
                preferred_version: versions.first().cloned(),
                versions,
                name,
            }
        })
        .collect()
}

/// Linear in all served resources. Clients cache the response.
fn resource_list(served: &Served, group: &str, version: &str) -> ApiResourceList {
    let of_version = served.resources().iter().filter(|r| &*r.group == group && &*r.version == version);
    ApiResourceList {
        kind: "APIResourceList",
        api_version: (!group.is_empty()).then_some("v1"),
        group_version: if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") },
        resources: of_version.flat_map(|resource| entries(served, resource)).collect(),
    }
}

/// The resource, then its subresources under `resource/sub`, which is the order in kube-apiserver.
fn entries<'a>(served: &Served, resource: &'a Resource) -> impl Iterator<Item = ApiResource> + use<'a> {
    let stored_is_served = resource.version == resource.stored_as.1
        || resource.builtin.is_some()
        || served.resources().iter().any(|other| {
            other.group == resource.group
                && other.plural == resource.plural
                && other.version == resource.stored_as.1
        });
    let own = ApiResource {
        name: resource.plural.to_string(),
        singular_name: Arc::clone(&resource.singular),
        namespaced: resource.namespaced,
        group: "".into(),
        version: "".into(),
        kind: Arc::clone(&resource.kind),
        verbs: resource.verbs.clone(),
        short_names: resource.short_names.clone(),
        categories: resource.categories.clone(),
        storage_version_hash: resource
            .builtin
            // No hash for kinds that are not stored, nor for a stored version that is not served.
            .map_or(stored_is_served, |kind| kind.verbs.contains(&"watch"))
            .then(|| storage_version_hash(&hashed_version(resource), &resource.kind)),
    };
    let sub = |sub: &SubresourceInfo| ApiResource {
        name: format!("{}/{}", resource.plural, sub.name),
        singular_name: "".into(),
        namespaced: resource.namespaced,
        group: Arc::clone(&sub.group),
        version: Arc::clone(&sub.version),
        kind: Arc::clone(&sub.kind),
        verbs: sub.verbs.clone(),
        short_names: Vec::new(),
        categories: Vec::new(),
        storage_version_hash: None,
    };
    std::iter::once(own).chain(resource.subresources.iter().map(sub))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storage_versions_hash_as_in_kube_apiserver() {
        let hash = |group: &str, kind| storage_version_hash(&(group.into(), "v1".into()), kind);
        assert_eq!(hash("", "Pod"), "xPOwRZ+Yhw8=");
        assert_eq!(hash("", "ConfigMap"), "qFsyl6wFWjQ=");
        assert_eq!(hash("apps", "Deployment"), "8aSe+NMegvE=");
    }
}
