//! Aggregated discovery (`apidiscovery.k8s.io/v2`): all groups and resources in one document.
//!
//! kubectl asks for it first and saves a request per group version. The ETag is a hash of the document, so that a
//! client that has it gets a 304. The media type names a kind that ordinary negotiation does not offer, hence
//! [`wanted`]. Resources of extension API servers come from their last discovery document; one that does not answer
//! is listed as `Stale` without resources, so that clients keep their previous lists. The older form is
//! [`super::discovery`].

use std::collections::HashMap;
use std::sync::Arc;

use http::StatusCode;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH, VARY};
use listwatch_kinds::proto;
use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::Value;
use serde::Serialize;
use sha2::{Digest, Sha512};

use crate::endpoints::discovery::{Known, by_group};
use crate::http::body::Response;
use crate::http::request::Request;
use crate::registry::extension::ExtensionServer;
use crate::registry::{Resource, SubresourceInfo};
use crate::request::accept;
use crate::request::accept::AcceptClause;
use crate::request::negotiate::Encoding;
use crate::respond;
use crate::respond::encode;

/// The kind of the document in one of its media types.
const KIND: &str = "APIGroupDiscoveryList";
/// The group of that kind.
const GROUP: &str = "apidiscovery.k8s.io";
/// Its version. kube-apiserver has removed `v2beta1`.
const VERSION: &str = "v2";

/// The document. Field names and order are those of `k8s.io/api/apidiscovery/v2`.
///
/// A group with all of its versions; kubectl needs one request for everything.
#[derive(Serialize)]
struct ApiGroupDiscoveryList {
    kind: &'static str,
    #[serde(rename = "apiVersion")]
    api_version: &'static str,
    metadata: DiscoveryMetadata,
    items: Vec<ApiGroupDiscovery>,
}

#[derive(Serialize)]
struct ApiGroupDiscovery {
    metadata: DiscoveryMetadata,
    versions: Vec<ApiVersionDiscovery>,
}

/// The name of the group, which the core group has none of.
#[derive(Serialize)]
struct DiscoveryMetadata {
    #[serde(skip_serializing_if = "str::is_empty")]
    name: Arc<str>,
}

#[derive(Serialize)]
struct ApiVersionDiscovery {
    version: Arc<str>,
    resources: Vec<ApiResourceDiscovery>,
    /// `Current`, or `Stale` for an extension server that does not answer.
    freshness: &'static str,
}

/// A resource and its subresources.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ApiResourceDiscovery {
    resource: Arc<str>,
    response_kind: ResponseKind,
    scope: &'static str,
    singular_resource: Arc<str>,
    verbs: Vec<Arc<str>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    short_names: Vec<Arc<str>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    categories: Vec<Arc<str>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    subresources: Vec<SubEntry>,
}

/// A subresource. Its kind may be of another group, such as `Scale`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SubEntry {
    subresource: Arc<str>,
    response_kind: ResponseKind,
    verbs: Vec<Arc<str>>,
}

/// Empty group and version mean those of the parent.
#[derive(Serialize)]
struct ResponseKind {
    group: Arc<str>,
    version: Arc<str>,
    kind: Arc<str>,
}

/// Returns the encoding of the aggregated form if the client prefers it to the plain one.
pub(crate) fn wanted(request: &Request) -> Option<Encoding> {
    let clauses = accept::clauses(request.header(ACCEPT).unwrap_or_default());
    clauses
        .iter()
        .find_map(|clause| form(clause).map(|(encoding, aggregated)| aggregated.then_some(encoding)))?
}

/// The encoding that a clause asks for, and true if it asks for the aggregated form in it. `None` if it offers nothing.
fn form(clause: &AcceptClause<'_>) -> Option<(Encoding, bool)> {
    let encoding = Encoding::ALL.into_iter().find(|encoding| clause.allows(encoding.media_type()))?;
    match clause.transform() {
        _ if !clause.server_version.is_empty() => None,
        None => Some((encoding, false)),
        Some((KIND, GROUP, VERSION)) if matches!(clause.stream, "" | "watch") => Some((encoding, true)),
        Some(_) => None,
    }
}

/// The core group, or all others.
///
/// # Errors
/// 500 if the document cannot be encoded.
pub(crate) fn answer(
    request: &Request,
    known: Known<'_>,
    core: bool,
    encoding: Encoding,
) -> Result<Response, Status> {
    let groups = by_group(known).into_iter().filter(|(group, _)| group.is_empty() == core);
    let index = VersionIndex::of(known);
    let items = groups.map(|(group, versions)| ApiGroupDiscovery {
        versions: versions.into_iter().map(|v| index.version(&group, v)).collect(),
        metadata: DiscoveryMetadata { name: group },
    });
    let document = ApiGroupDiscoveryList {
        kind: KIND,
        api_version: "apidiscovery.k8s.io/v2",
        metadata: DiscoveryMetadata { name: "".into() },
        items: items.collect(),
    };
    let json = serde_json::to_vec(&document).map_err(Status::internal)?;
    with_etag(request, json, encoding)
}

/// The resources and extension API servers of each group version. Definitions may have thousands of versions, so that a
/// search for each of them would take seconds.
struct VersionIndex<'a> {
    served: HashMap<(&'a str, &'a str), Vec<&'a Resource>>,
    remotes: HashMap<(&'a str, &'a str), &'a ExtensionServer>,
}

impl<'a> VersionIndex<'a> {
    /// Groups the served resources by group and version, once per document.
    fn of(known: Known<'a>) -> Self {
        let mut served: HashMap<_, Vec<&Resource>> = HashMap::new();
        for resource in known.served.resources() {
            served.entry((&*resource.group, &*resource.version)).or_default().push(resource);
        }
        // The first of several counts.
        let remotes = known.remotes.iter().rev();
        Self {
            served,
            remotes: remotes.map(|remote| ((&*remote.group, &*remote.version), &**remote)).collect(),
        }
    }

    /// A version that is served here, or one from the discovery of an extension API server.
    fn version(&self, group: &str, version: Arc<str>) -> ApiVersionDiscovery {
        if let Some(remote) = self.remotes.get(&(group, &*version)) {
            return extension_version(remote, version);
        }
        let mut of_version = self.served.get(&(group, &*version)).cloned().unwrap_or_default();
        // kube-apiserver sorts custom resources, and lists built-in ones as they are registered.
        if of_version.iter().all(|resource| resource.is_custom()) {
            of_version.sort_by(|a, b| a.plural.cmp(&b.plural));
        }
        ApiVersionDiscovery {
            resources: of_version.into_iter().map(entry).collect(),
            freshness: "Current",
            version,
        }
    }
}

/// The resources that an extension API server lists. One that does not answer has none.
fn extension_version(remote: &ExtensionServer, version: Arc<str>) -> ApiVersionDiscovery {
    let Some(documents) = remote.documents() else {
        return ApiVersionDiscovery { version, freshness: "Stale", resources: Vec::new() };
    };
    let listed = documents.resources.list("resources");
    let whole = listed.iter().filter(|one| !one.text("name").contains('/'));
    let entries = whole.map(|one| remote_entry(remote, one, listed));
    ApiVersionDiscovery { resources: entries.collect(), version, freshness: "Current" }
}

/// Extension servers publish the older form, in which subresources are entries of their own; they are moved below
/// their resource.
fn remote_entry(remote: &ExtensionServer, resource: &Value, listed: &[Value]) -> ApiResourceDiscovery {
    let texts = |value: &Value, key: &str| -> Vec<Arc<str>> {
        value.list(key).iter().filter_map(Value::as_str).map(Arc::from).collect()
    };
    let or = |text: &str, own: &Arc<str>| if text.is_empty() { Arc::clone(own) } else { Arc::from(text) };
    let kind = |value: &Value| ResponseKind {
        group: or(value.text("group"), &remote.group),
        version: or(value.text("version"), &remote.version),
        kind: value.text("kind").into(),
    };
    let prefix = format!("{}/", resource.text("name"));
    let subresources = listed.iter().filter_map(|one| {
        let name = one.text("name").strip_prefix(&prefix)?;
        Some(SubEntry { subresource: name.into(), response_kind: kind(one), verbs: texts(one, "verbs") })
    });
    ApiResourceDiscovery {
        resource: resource.text("name").into(),
        response_kind: kind(resource),
        scope: if resource.flag("namespaced") { "Namespaced" } else { "Cluster" },
        singular_resource: resource.text("singularName").into(),
        verbs: texts(resource, "verbs"),
        short_names: texts(resource, "shortNames"),
        categories: texts(resource, "categories"),
        subresources: subresources.collect(),
    }
}

/// The entry of a resource in the document.
fn entry(resource: &Resource) -> ApiResourceDiscovery {
    ApiResourceDiscovery {
        resource: Arc::clone(&resource.plural),
        response_kind: own_kind(resource, &resource.kind),
        scope: if resource.namespaced { "Namespaced" } else { "Cluster" },
        singular_resource: Arc::clone(&resource.singular),
        verbs: resource.verbs.clone(),
        short_names: resource.short_names.clone(),
        categories: resource.categories.clone(),
        subresources: resource.subresources.iter().map(|sub| sub_entry(resource, sub)).collect(),
    }
}

/// A subresource without a version has the kind of its resource.
fn sub_entry(resource: &Resource, sub: &SubresourceInfo) -> SubEntry {
    let (group, version, kind) = (Arc::clone(&sub.group), Arc::clone(&sub.version), Arc::clone(&sub.kind));
    let response_kind =
        if version.is_empty() { own_kind(resource, &kind) } else { ResponseKind { group, version, kind } };
    SubEntry { subresource: Arc::clone(&sub.name), response_kind, verbs: sub.verbs.clone() }
}

/// Custom resources spell their group and version out.
fn own_kind(resource: &Resource, kind: &Arc<str>) -> ResponseKind {
    let kind = Arc::clone(kind);
    match resource.is_custom() {
        true => {
            ResponseKind { group: Arc::clone(&resource.group), version: Arc::clone(&resource.version), kind }
        }
        false => ResponseKind { group: "".into(), version: "".into(), kind },
    }
}

/// Answers with the document and its hash, or with 304 if the client has it. The hash is that of the JSON in every encoding.
///
/// The document is made before its hash is known, so a 304 saves the transfer and not the work.
fn with_etag(request: &Request, json: Vec<u8>, encoding: Encoding) -> Result<Response, Status> {
    let hash: String = Sha512::digest(&json).iter().map(|b| format!("{b:02X}")).collect();
    let etag = format!("\"{hash}\"");
    let known = request.header(IF_NONE_MATCH).is_some_and(|sent| sent.split(',').any(|e| e.trim() == etag));
    let mut response = match known {
        true => respond::empty(StatusCode::NOT_MODIFIED),
        false => encoded(json, encoding)?,
    };
    let headers = response.headers_mut();
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public"));
    if let Ok(etag) = HeaderValue::from_str(&etag) {
        headers.insert(ETAG, etag);
    }
    Ok(response)
}

/// The document in an encoding, whose media type names its kind.
///
/// # Errors
/// 500 if the JSON cannot be read.
fn encoded(json: Vec<u8>, encoding: Encoding) -> Result<Response, Status> {
    let read = |json: &[u8]| Value::read(json).map_err(Status::internal);
    let mut response = match encoding {
        Encoding::Json => respond::json(StatusCode::OK, json),
        Encoding::Yaml => respond::json(StatusCode::OK, encode::yaml(&read(&json)?)),
        Encoding::Protobuf => respond::json(StatusCode::OK, proto::aggregated_discovery(&read(&json)?)),
    };
    let media_type = format!("{};g={GROUP};v={VERSION};as={KIND}", encoding.media_type());
    if let Ok(media_type) = HeaderValue::from_str(&media_type) {
        response.headers_mut().insert(CONTENT_TYPE, media_type);
    }
    Ok(response)
}
