//! OpenAPI documents: v3, one per group version with an index of hashes, and v2, one for everything.
//!
//! Documents are written on request on a blocking thread: they take milliseconds and are rarely fetched twice, since
//! the URL in the index contains the hash and clients may keep what it names for ever. Built-in groups come from
//! tables in `listwatch_kinds::openapi`, custom ones from their schemas ([`crate::registry::custom::openapi`]), those
//! of extension servers from their own documents. As in kube-apiserver these paths take any method.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_TYPE, ETAG, EXPIRES, HeaderMap, HeaderValue, IF_NONE_MATCH, LOCATION, VARY,
};
use listwatch_kinds::openapi;
use listwatch_wire::json;
use listwatch_wire::json::{Map, Value, json};
use sha2::{Digest, Sha512};

use crate::api::{Api, OpenApiDocument};
use crate::http::body::Response;
use crate::http::gzip;
use crate::http::request::Request;
use crate::registry::custom::openapi as custom_openapi;
use crate::registry::extension::ExtensionServer;
use crate::registry::{Resource, Served};
use crate::request::accept;
use crate::respond;

const JSON: &str = "application/json";
/// The protobuf form of v2. Clients write its name in two ways.
const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const PROTOBUF_OLD: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
/// The protobuf form of v3, and its older name.
const PROTOBUF_V3: &str = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf";
const PROTOBUF_V3_OLD: &str = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf";

/// Answers `/openapi/…`; `None` for what is not there.
pub(crate) async fn answer(api: &Arc<Api>, request: &Request, path: &str) -> Option<Response> {
    let (gzip_above, compressors) = (api.options.requests.gzip_above, Arc::clone(&api.compressors));
    let api = Arc::clone(api);
    let response = match path.strip_prefix("/openapi/")? {
        "v2" => everything(api, request).await?,
        // Not the text of an error, so browsers may take it for what it is.
        "v3" => {
            let index = blocking(move || index(&api)).await?;
            respond::full(StatusCode::OK, "text/plain; charset=utf-8", index.into())
        }
        rest => match group_version(api, request, rest.strip_prefix("v3/")?).await {
            Some(response) => response,
            None => respond::empty(StatusCode::NOT_FOUND),
        },
    };
    let mut response = gzip::compress(response, request, gzip_above, &compressors);
    if path == "/openapi/v2" {
        varies(response.headers_mut());
    }
    Some(response)
}

/// Sets `Vary`, because the v2 document has two media types and may be compressed.
fn varies(headers: &mut HeaderMap) {
    headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    headers.append(VARY, HeaderValue::from_static("Accept"));
}

/// Writing a document takes milliseconds, which the threads that serve connections do not have.
async fn blocking<T: Send + 'static>(write: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(write).await.ok()
}

/// The first of the types on offer that `Accept` allows, in the client's order.
pub(super) fn accepted(request: &Request, offered: &[&'static str]) -> Option<&'static str> {
    let Some(accept) = request.header(ACCEPT).filter(|accept| !accept.is_empty()) else {
        return offered.first().copied();
    };
    accept::clauses(accept)
        .iter()
        .find_map(|clause| offered.iter().copied().find(|offer| clause.allows(offer)))
}

/// The v2 document.
///
/// Several megabytes and the most expensive document there is, so concurrent requests share one (`api.documents`),
/// which is dropped soon afterwards.
async fn everything(api: Arc<Api>, request: &Request) -> Option<Response> {
    let Some(ty) = accepted(request, &[JSON, PROTOBUF, PROTOBUF_OLD]) else {
        return Some(respond::empty(StatusCode::NOT_ACCEPTABLE));
    };
    let served = api.registry.served();
    let extensions = extensions(&api);
    let hash = {
        let (api, served, extensions) = (Arc::clone(&api), Arc::clone(&served), extensions.clone());
        blocking(move || hash_of_all(&api, &served, &extensions)).await?
    };
    if let Some(response) = unchanged(request, &hash) {
        return Some(response);
    }
    let (name, ty) = if ty == JSON { ("v2", JSON) } else { ("v2 protobuf", PROTOBUF) };
    let (tag, of): (Arc<str>, _) = (hash.as_str().into(), Arc::clone(&served));
    let write = move || {
        let parts: Vec<&[u8]> = extensions.iter().map(|(_, part)| &**part).collect();
        let text = match ty {
            JSON => custom_openapi::v2(&of, &parts),
            _ => custom_openapi::v2_protobuf(&of, &parts),
        };
        Some((tag, text.into()))
    };
    let (_, document) = api.documents.get(name, &served, &hash, write).await?;
    tagged(respond::full(StatusCode::OK, ty, document), &hash)
}

/// The v2 parts of extension API servers with their hashes, those of higher priority first.
fn extensions(api: &Api) -> Vec<(String, Bytes)> {
    let mut left = api.options.admission.webhooks.merged_openapi_bytes;
    let all = api.registry.remotes.all();
    let parts = all.iter().filter_map(|remote| remote.openapi().v2.clone());
    let fits = |(_, part): &(String, Bytes)| {
        left.checked_sub(part.len()).is_some_and(|rest| {
            left = rest;
            true
        })
    };
    parts.filter(fits).collect()
}

/// A name for the content of the v2 document: it changes when one of the v3 documents does.
fn hash_of_all(api: &Api, served: &Served, extensions: &[(String, Bytes)]) -> String {
    let mut hash = Sha512::new();
    hash.update(openapi::hash("v2"));
    for resources in by_version(served).iter().filter(|resources| is_custom(resources)) {
        hash.update(api.openapi.of(resources, || custom_openapi::document(resources)).as_bytes());
    }
    extensions.iter().for_each(|(part, _)| hash.update(part));
    hash.finalize().iter().map(|byte| format!("{byte:02X}")).collect()
}

/// The response to a client that has this content already.
fn unchanged(request: &Request, hash: &str) -> Option<Response> {
    let known = request.header(IF_NONE_MATCH)?;
    let same = |tag: &str| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag).trim_matches('"') == hash;
    known
        .split(',')
        .map(str::trim)
        .any(same)
        .then(|| tagged(respond::empty(StatusCode::NOT_MODIFIED), hash))?
}

/// The hash is the ETag, and part of the URLs that the index names.
fn tagged(mut response: Response, hash: &str) -> Option<Response> {
    response.headers_mut().insert(ETAG, HeaderValue::from_str(&format!("\"{hash}\"")).ok()?);
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    Some(response)
}

/// The index of v3: a URL with the hash of each document. Hashes of groups that are no longer served are dropped here.
///
/// Custom documents are hashed here and not written out: the hash of each is kept until its definitions change.
fn index(api: &Api) -> Vec<u8> {
    let served = api.registry.served();
    let mut paths = Map::new();
    let mut put = |path: String, hash: &str| {
        let url = format!("/openapi/v3/{path}?hash={hash}");
        paths.insert(path, json!({"serverRelativeURL": url}));
    };
    for name in openapi::names() {
        let hash = openapi::hash(&name);
        put(name, &hash);
    }
    let mut known = HashSet::new();
    for resources in by_version(&served).iter().filter(|resources| is_custom(resources)) {
        let Some(first) = resources.first() else { continue };
        let hash = api.openapi.of(resources, || custom_openapi::document(resources));
        put(format!("apis/{}/{}", first.group, first.version), &hash);
        known.insert((&*first.group, &*first.version));
    }
    for remote in api.registry.remotes.all().iter() {
        if let Some((hash, _)) = v3_of(remote) {
            put(format!("apis/{}/{}", remote.group, remote.version), &hash);
        }
    }
    api.openapi.retain(|group, version| known.contains(&(group, version)));
    json::encode(&json!({"paths": Value::Object(paths)}))
}

/// The resources of each group and version, in the order of discovery.
fn by_version(served: &Served) -> Vec<Vec<&Arc<Resource>>> {
    let mut places = HashMap::new();
    let mut all: Vec<Vec<_>> = Vec::new();
    for resource in served.resources() {
        let place = *places.entry((&*resource.group, &*resource.version)).or_insert(all.len());
        match all.get_mut(place) {
            Some(resources) => resources.push(resource),
            None => all.push(vec![resource]),
        }
    }
    all
}

/// A group and version that has custom resources only is described by them, any other by the table of kinds.
fn is_custom(resources: &[&Arc<Resource>]) -> bool {
    !resources.is_empty() && resources.iter().all(|resource| resource.is_custom())
}

/// The document of a path and its hash; `None` for what is not there.
///
/// Names of built-in documents are tried first, so a definition cannot replace the document of a built-in group.
fn written(api: &Api, served: &Served, path: &str) -> Option<OpenApiDocument> {
    if let Some(document) = openapi::v3(path) {
        return Some((openapi::hash(path).into(), document.into()));
    }
    let (group, version) = path.strip_prefix("apis/")?.split_once('/')?;
    let here = |resource: &&Arc<Resource>| &*resource.group == group && &*resource.version == version;
    let resources: Vec<_> = served.resources().iter().filter(here).collect();
    if !is_custom(&resources) {
        return None;
    }
    let document = custom_openapi::document(&resources);
    Some((api.openapi.of(&resources, || &document), document.into()))
}

/// The document of an extension API server, which is kept as it came.
fn of_extension(api: &Api, path: &str) -> Option<OpenApiDocument> {
    let (group, version) = path.strip_prefix("apis/")?.split_once('/')?;
    let (hash, document) = v3_of(&*api.registry.remotes.find(group, version)?)?;
    Some((hash.into(), document))
}

/// The v3 document of an extension API server that is available.
fn v3_of(remote: &ExtensionServer) -> Option<(String, Bytes)> {
    remote.documents().and_then(|_| remote.openapi().v3.clone())
}

/// Answers the document of one group and version. A hash that is not current redirects to the current one; a current
/// one may be cached for ever.
async fn group_version(api: Arc<Api>, request: &Request, path: &str) -> Option<Response> {
    let name = path.to_owned();
    let (served, shared) = (api.registry.served(), api.documents.clone());
    let of = Arc::clone(&served);
    let (hash, document) = match of_extension(&api, path) {
        Some(document) => document,
        None => shared.get(path, &served, "", move || written(&api, &of, &name)).await?,
    };
    let query = &request.query;
    let asked = query.first("hash").filter(|asked| !asked.is_empty());
    if asked.is_some_and(|asked| *asked != *hash) {
        return redirect(path, &hash);
    }
    let Some(ty) = accepted(request, &[JSON, PROTOBUF_V3, PROTOBUF_V3_OLD]) else {
        let mut response = respond::empty(StatusCode::NOT_ACCEPTABLE);
        response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
        return Some(response);
    };
    let mut response = match unchanged(request, &hash) {
        Some(response) => response,
        None if ty == JSON => tagged(respond::full(StatusCode::OK, JSON, document), &hash)?,
        None => {
            let name = format!("{path} protobuf");
            let (tag, json) = (Arc::clone(&hash), document.clone());
            let write = move || Some((tag, openapi::v3_protobuf(&json)?.into()));
            let (_, document) = shared.get(&name, &served, &hash, write).await?;
            tagged(respond::full(StatusCode::OK, PROTOBUF_V3, document), &hash)?
        }
    };
    if asked.is_some() {
        mark_immutable(&mut response)?;
    }
    Some(response)
}

/// Redirects to the current hash of a document.
fn redirect(path: &str, hash: &str) -> Option<Response> {
    let url = format!("/openapi/v3/{path}?hash={hash}");
    let mut response = respond::empty(StatusCode::MOVED_PERMANENTLY);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    response.headers_mut().insert(LOCATION, HeaderValue::from_str(&url).ok()?);
    Some(response)
}

/// Allows caches to keep a response for ever: its address has the hash of the content.
fn mark_immutable(response: &mut Response) -> Option<()> {
    let year = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(365 * 24);
    let date = jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&year);
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
    headers.insert(EXPIRES, HeaderValue::from_str(&date.ok()?).ok()?);
    Some(())
}
