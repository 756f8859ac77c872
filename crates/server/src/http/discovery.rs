//! Discovery: what is served, in the old form and the aggregated one, and the version.

use std::sync::Arc;

use http::StatusCode;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH, VARY};
use listwatch_wire::Status;
use listwatch_wire::json;
use serde_json::{Value, json};
use sha1::{Digest, Sha1};

use super::body::{Body, Response};
use super::request::Request;
use super::respond;
use super::service::Service;
use crate::registry::{Resource, Served};

/// The Kubernetes version whose behaviour is served.
const MINOR: &str = "37";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// `/version`.
pub(crate) fn version() -> Response {
    let document = json!({
        "major": "1",
        "minor": MINOR,
        "gitVersion": format!("v1.{MINOR}.0+listwatch-{}", env!("CARGO_PKG_VERSION")),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none (rust)",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, platform_arch()),
    });
    respond::json(StatusCode::OK, json::encode(&document))
}

/// Architectures under the names clients know.
fn platform_arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Answers paths of discovery; `None` for any other.
///
/// # Errors
/// 404 for a version that a served group does not have.
pub(crate) fn answer(service: &Service, request: &Request, path: &str) -> Result<Option<Response>, Status> {
    let served = service.api.registry.served();
    let parts: Vec<&str> = path.split('/').filter(|p| !p.is_empty()).collect();
    let document = match parts.as_slice() {
        [] => root(&served),
        ["api"] if wants_aggregated(request) => return Ok(Some(aggregated(request, &served, true))),
        ["apis"] if wants_aggregated(request) => return Ok(Some(aggregated(request, &served, false))),
        ["api"] => json!({
            "kind": "APIVersions", "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": ""}],
        }),
        ["apis"] => json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups(&served)}),
        ["apis", name] if !name.is_empty() && served.has_group(name) => single_group(&served, name),
        ["api", version] if served.has_version("", version) => resource_list(&served, "", version),
        ["apis", group, version] if served.has_version(group, version) => {
            resource_list(&served, group, version)
        }
        ["api", _] => return Err(Status::no_such_path()),
        ["apis", group, _] if served.has_group(group) => return Err(Status::no_such_path()),
        _ => return Ok(None),
    };
    Ok(Some(respond::json(StatusCode::OK, json::encode(&document))))
}

fn root(served: &Served) -> Value {
    let mut paths = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned()];
    for (group, versions) in by_group(served).iter().filter(|(group, _)| !group.is_empty()) {
        paths.push(format!("/apis/{group}"));
        paths.extend(versions.iter().map(|version| format!("/apis/{group}/{version}")));
    }
    paths.extend(
        ["/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]
            .map(Into::into),
    );
    json!({ "paths": paths })
}

/// Groups and their versions, in order.
fn by_group(served: &Served) -> Vec<(Arc<str>, Vec<Arc<str>>)> {
    let mut groups: Vec<(Arc<str>, Vec<Arc<str>>)> = Vec::new();
    for resource in served.resources() {
        match groups.iter_mut().find(|(group, _)| *group == resource.group) {
            Some((_, versions)) if versions.contains(&resource.version) => {}
            Some((_, versions)) => versions.push(Arc::clone(&resource.version)),
            None => groups.push((Arc::clone(&resource.group), vec![Arc::clone(&resource.version)])),
        }
    }
    groups
}

fn group_document(group: &str, versions: &[Arc<str>]) -> Value {
    let version = |v: &Arc<str>| json!({"groupVersion": format!("{group}/{v}"), "version": &**v});
    let all: Vec<Value> = versions.iter().map(version).collect();
    json!({"name": group, "preferredVersion": all.first(), "versions": all})
}

fn groups(served: &Served) -> Vec<Value> {
    let groups = by_group(served);
    groups.iter().filter(|(group, _)| !group.is_empty()).map(|(g, v)| group_document(g, v)).collect()
}

fn single_group(served: &Served, name: &str) -> Value {
    let groups = by_group(served);
    let found = groups.iter().find(|(group, _)| &**group == name);
    let mut document = found.map(|(group, versions)| group_document(group, versions)).unwrap_or_default();
    document["kind"] = "APIGroup".into();
    document["apiVersion"] = "v1".into();
    document
}

fn resource_list(served: &Served, group: &str, version: &str) -> Value {
    let mut resources = Vec::new();
    for resource in served.resources().iter().filter(|r| &*r.group == group && &*r.version == version) {
        resources.push(resource_entry(resource));
        resources.extend(resource.subresources.iter().map(|sub| {
            let mut entry = json!({
                "name": format!("{}/{}", resource.plural, sub.name), "singularName": "",
                "namespaced": resource.namespaced, "kind": &*sub.kind, "verbs": texts(&sub.verbs),
            });
            if !sub.version.is_empty() {
                entry["group"] = (*sub.group).into();
                entry["version"] = (*sub.version).into();
            }
            entry
        }));
    }
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources})
}

fn resource_entry(resource: &Resource) -> Value {
    let mut entry = json!({
        "name": &*resource.plural, "singularName": &*resource.singular, "namespaced": resource.namespaced,
        "kind": &*resource.kind, "verbs": texts(&resource.verbs),
    });
    if !resource.short_names.is_empty() {
        entry["shortNames"] = texts(&resource.short_names);
    }
    if !resource.categories.is_empty() {
        entry["categories"] = texts(&resource.categories);
    }
    entry
}

fn texts(list: &[Arc<str>]) -> Value {
    list.iter().map(|t| Value::from(&**t)).collect()
}

/// Whether the aggregated form comes before the plain one in what the client accepts.
fn wants_aggregated(request: &Request) -> bool {
    let accept = request.header(ACCEPT).unwrap_or_default();
    for clause in accept.split(',') {
        let has = |part: &str| clause.split(';').any(|p| p.trim() == part);
        if has("as=APIGroupDiscoveryList") && has("g=apidiscovery.k8s.io") && has("v=v2") {
            return true;
        }
        if clause.trim() == "application/json" || clause.trim().starts_with("*/*") {
            return false;
        }
    }
    false
}

fn aggregated(request: &Request, served: &Served, core: bool) -> Response {
    let groups = by_group(served);
    let items: Vec<Value> = groups
        .iter()
        .filter(|(group, _)| group.is_empty() == core)
        .map(|(group, versions)| {
            let versions: Vec<Value> =
                versions.iter().map(|v| aggregated_version(served, group, v)).collect();
            let metadata = if group.is_empty() { json!({}) } else { json!({"name": &**group}) };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    let document = json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items,
    });
    with_etag(request, json::encode(&document))
}

fn aggregated_version(served: &Served, group: &str, version: &str) -> Value {
    let of_version = served.resources().iter().filter(|r| &*r.group == group && &*r.version == version);
    let resources: Vec<Value> = of_version.map(|r| aggregated_resource(r)).collect();
    json!({"version": version, "freshness": "Current", "resources": resources})
}

fn aggregated_resource(resource: &Resource) -> Value {
    let kind =
        |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
    let own = |name: &str| match resource.is_custom() {
        true => kind(&resource.group, &resource.version, name),
        false => kind("", "", name),
    };
    let mut entry = json!({
        "resource": &*resource.plural,
        "responseKind": own(&resource.kind),
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": &*resource.singular,
        "verbs": texts(&resource.verbs),
    });
    if !resource.short_names.is_empty() {
        entry["shortNames"] = texts(&resource.short_names);
    }
    if !resource.categories.is_empty() {
        entry["categories"] = texts(&resource.categories);
    }
    let subresources: Vec<Value> = resource
        .subresources
        .iter()
        .map(|sub| {
            let response = match sub.version.is_empty() {
                true => own(&sub.kind),
                false => kind(&sub.group, &sub.version, &sub.kind),
            };
            json!({"subresource": &*sub.name, "responseKind": response, "verbs": texts(&sub.verbs)})
        })
        .collect();
    if !subresources.is_empty() {
        entry["subresources"] = subresources.into();
    }
    entry
}

fn with_etag(request: &Request, body: Vec<u8>) -> Response {
    let hash = Sha1::digest(&body);
    let etag = format!("\"{}\"", hash.iter().map(|b| format!("{b:02X}")).collect::<String>());
    let known = request.header(IF_NONE_MATCH).is_some_and(|sent| sent.split(',').any(|e| e.trim() == etag));
    let mut response = respond::json(StatusCode::OK, body);
    if known {
        response = response.map(|_| Body::Empty);
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(AGGREGATED));
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public"));
    if let Ok(etag) = HeaderValue::from_str(&etag) {
        headers.insert(ETAG, etag);
    }
    response
}
