//! OpenAPI documents: an index with hashes, one document per group and version, and the old document of everything.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use http::StatusCode;
use http::header::{CACHE_CONTROL, ETAG, HeaderValue, LOCATION};
use listwatch_kinds::openapi;
use listwatch_wire::json;
use listwatch_wire::json::{Map, Value, json};

use crate::api::Api;
use crate::http::body::Response;
use crate::http::gzip;
use crate::http::request::Request;
use crate::registry::custom::openapi as custom_openapi;
use crate::registry::{Resource, Served};
use crate::respond;

/// Answers `/openapi/…`; `None` for what is not there.
pub(crate) async fn answer(api: &Arc<Api>, request: &Request, path: &str) -> Option<Response> {
    let response = match path.strip_prefix("/openapi/")? {
        "v2" => respond::json(StatusCode::OK, blocking(openapi::v2).await?),
        "v3" => {
            let api = Arc::clone(api);
            respond::json(StatusCode::OK, blocking(move || index(&api)).await?)
        }
        rest => group_version(Arc::clone(api), request, rest.strip_prefix("v3/")?).await?,
    };
    Some(gzip::compress(response, request, api.options.requests.gzip_above))
}

/// Writing a document takes milliseconds, which the threads that serve connections do not have.
async fn blocking<T: Send + 'static>(write: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(write).await.ok()
}

fn index(api: &Api) -> Vec<u8> {
    let served = api.registry.served();
    let mut paths = Map::new();
    let mut known = HashSet::new();
    for resources in by_version(&served) {
        let Some(first) = resources.first() else { continue };
        let (group, version) = (&*first.group, &*first.version);
        let path =
            if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") };
        let hash = match is_custom(&resources) {
            true => api.openapi.of(&resources, || custom_openapi::document(&resources)),
            false => openapi::hash(group, version).into(),
        };
        let url = format!("/openapi/v3/{path}?hash={hash}");
        paths.insert(path, json!({"serverRelativeURL": url}));
        known.insert((group, version));
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

/// The document of a group and version and its hash; an empty one for what is not there.
fn written(api: &Api, group: &str, version: &str) -> (Arc<str>, Vec<u8>) {
    let served = api.registry.served();
    let here = |resource: &&Arc<Resource>| &*resource.group == group && &*resource.version == version;
    let resources: Vec<_> = served.resources().iter().filter(here).collect();
    if !is_custom(&resources) {
        let document = openapi::v3(group, version).unwrap_or_default();
        return (openapi::hash(group, version).into(), document);
    }
    let document = custom_openapi::document(&resources);
    (api.openapi.of(&resources, || &document), document)
}

async fn group_version(api: Arc<Api>, request: &Request, path: &str) -> Option<Response> {
    let (group, version) = match path.split('/').collect::<Vec<_>>().as_slice() {
        ["api", version] => (String::new(), (*version).to_owned()),
        ["apis", group, version] => ((*group).to_owned(), (*version).to_owned()),
        _ => return None,
    };
    let (hash, document) = blocking(move || written(&api, &group, &version)).await?;
    if document.is_empty() {
        return None;
    }
    let query = request.query();
    let asked = query.first("hash");
    let mut response = respond::json(StatusCode::OK, document);
    response.headers_mut().insert(ETAG, HeaderValue::from_str(&format!("\"{hash}\"")).ok()?);
    if asked.is_some_and(|asked| *asked != *hash) {
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
