//! OpenAPI documents: an index with hashes, one document per group and version, and the old document of everything.

use http::StatusCode;
use http::header::{CACHE_CONTROL, ETAG, HeaderValue, LOCATION};
use listwatch_kinds::openapi;
use listwatch_wire::json;
use serde_json::{Map, Value, json};

use super::body::Response;
use super::request::Request;
use super::service::Service;
use super::{gzip, respond};

/// Answers `/openapi/…`; `None` for what is not there.
pub(crate) async fn answer(service: &Service, request: &Request, path: &str) -> Option<Response> {
    let response = match path.strip_prefix("/openapi/")? {
        "v2" => document(String::new(), openapi::v2).await?,
        "v3" => index(service),
        rest => group_version(request, rest.strip_prefix("v3/")?).await?,
    };
    Some(gzip::compress(response, request, service.api.options.requests.gzip_above))
}

fn index(service: &Service) -> Response {
    let served = service.api.registry.served();
    let mut paths = Map::new();
    for resource in served.resources().iter().filter(|r| !r.is_custom()) {
        let path = match resource.group.is_empty() {
            true => format!("api/{}", resource.version),
            false => format!("apis/{}/{}", resource.group, resource.version),
        };
        let url = format!("/openapi/v3/{path}?hash={}", openapi::hash(&resource.group, &resource.version));
        paths.entry(path).or_insert_with(|| json!({"serverRelativeURL": url}));
    }
    respond::json(StatusCode::OK, json::encode(&json!({"paths": Value::Object(paths)})))
}

async fn group_version(request: &Request, path: &str) -> Option<Response> {
    let (group, version) = match path.split('/').collect::<Vec<_>>().as_slice() {
        ["api", version] => (String::new(), (*version).to_owned()),
        ["apis", group, version] => ((*group).to_owned(), (*version).to_owned()),
        _ => return None,
    };
    let hash = openapi::hash(&group, &version);
    let query = request.query();
    let asked = query.first("hash");
    let mut response =
        document(hash.clone(), move || openapi::v3(&group, &version).unwrap_or_default()).await?;
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
