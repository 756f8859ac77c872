//! OpenAPI documents: an index with hashes, one document per group and version, and the old document of everything.

use http::StatusCode;
use http::header::{CACHE_CONTROL, ETAG, HeaderValue, LOCATION};
use listwatch_kinds::openapi;
use listwatch_wire::json;
use listwatch_wire::json::{Map, Value, json};
use sha2::{Digest, Sha512};

use super::body::Response;
use super::request::Request;
use super::service::Service;
use super::{gzip, respond};
use crate::registry::custom::openapi as custom_openapi;
use crate::registry::{Resource, Served};

/// Answers `/openapi/…`; `None` for what is not there.
pub(crate) async fn answer(service: &Service, request: &Request, path: &str) -> Option<Response> {
    let response = match path.strip_prefix("/openapi/")? {
        "v2" => document(String::new(), openapi::v2).await?,
        "v3" => index(service),
        rest => group_version(service, request, rest.strip_prefix("v3/")?).await?,
    };
    Some(gzip::compress(response, request, service.api.options.requests.gzip_above))
}

fn index(service: &Service) -> Response {
    let served = service.api.registry.served();
    let mut paths = Map::new();
    for resource in served.resources() {
        let path = match resource.group.is_empty() {
            true => format!("api/{}", resource.version),
            false => format!("apis/{}/{}", resource.group, resource.version),
        };
        if paths.contains_key(&path) {
            continue;
        }
        let hash = match custom(&served, &resource.group, &resource.version) {
            Some(document) => hash_of(&document),
            None => openapi::hash(&resource.group, &resource.version),
        };
        let url = format!("/openapi/v3/{path}?hash={hash}");
        paths.insert(path, json!({"serverRelativeURL": url}));
    }
    respond::json(StatusCode::OK, json::encode(&json!({"paths": Value::Object(paths)})))
}

/// The document of a group and version that has custom resources only.
fn custom(served: &Served, group: &str, version: &str) -> Option<Vec<u8>> {
    let all = served.resources().iter().filter(|r| &*r.group == group && &*r.version == version);
    let resources: Vec<&Resource> = all.map(|resource| &**resource).collect();
    let described = resources.iter().all(|resource| resource.is_custom()) && !resources.is_empty();
    described.then(|| custom_openapi::document(&resources))
}

fn hash_of(document: &[u8]) -> String {
    Sha512::digest(document).iter().map(|byte| format!("{byte:02X}")).collect()
}

async fn group_version(service: &Service, request: &Request, path: &str) -> Option<Response> {
    let (group, version) = match path.split('/').collect::<Vec<_>>().as_slice() {
        ["api", version] => (String::new(), (*version).to_owned()),
        ["apis", group, version] => ((*group).to_owned(), (*version).to_owned()),
        _ => return None,
    };
    let custom = custom(&service.api.registry.served(), &group, &version);
    let hash = custom.as_deref().map_or_else(|| openapi::hash(&group, &version), hash_of);
    let query = request.query();
    let asked = query.first("hash");
    let mut response =
        document(hash.clone(), move || custom.or_else(|| openapi::v3(&group, &version)).unwrap_or_default())
            .await?;
    if asked.is_some_and(|asked| asked != hash) {
        let url = format!("/openapi/v3/{path}?hash={hash}");
        response = respond::empty(StatusCode::MOVED_PERMANENTLY);
        response.headers_mut().insert(LOCATION, HeaderValue::from_str(&url).ok()?);
    } else if asked.is_some() {
        // The address names the content, so it can be kept for ever.
        response
            .headers_mut()
            .insert(CACHE_CONTROL, HeaderValue::from_static("public, immutable, max-age=31536000"));
    }
    Some(response)
}

/// Writing a document takes milliseconds, which the threads that serve connections do not have.
async fn document(etag: String, write: impl FnOnce() -> Vec<u8> + Send + 'static) -> Option<Response> {
    let body = tokio::task::spawn_blocking(write).await.ok().filter(|body| !body.is_empty())?;
    let mut response = respond::json(StatusCode::OK, body);
    if !etag.is_empty() {
        response.headers_mut().insert(ETAG, HeaderValue::from_str(&format!("\"{etag}\"")).ok()?);
    }
    Some(response)
}
