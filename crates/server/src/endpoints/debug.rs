//! Debug pages under `/debug/listwatch`: every open watch, every collection of the watch cache, recent errors.
//!
//! JSON for people and for `listwatch top`; the same authorization as other non-resource URLs applies, so only users
//! with that permission see other users' watches. The pages are computed on request and hold no state. Counters for
//! monitoring belong in [`super::metrics`].

use http::StatusCode;
use listwatch_wire::json;
use listwatch_wire::json::{Value, json};

use crate::api::Api;
use crate::cache::CollectionLogState;
use crate::http::body::Response;
use crate::respond;

/// The pages and their content. The index lists them.
const PAGES: [(&str, &str); 3] = [
    (
        "/debug/listwatch/watches",
        "every open watch: user, resource, selectors, position, lag, events and bytes sent",
    ),
    (
        "/debug/listwatch/cache",
        "every collection of the watch cache: objects, bytes, kept events, watch views",
    ),
    (
        "/debug/listwatch/errors",
        "the last requests that failed (5xx) or were rejected (4xx), the newest first",
    ),
];

/// `/debug/listwatch/…`; `None` for what is not there.
pub(crate) fn answer(api: &Api, path: &str) -> Option<Response> {
    let document = match path {
        "/debug/listwatch" => index(),
        "/debug/listwatch/errors" => api.metrics.errors.describe(),
        "/debug/listwatch/watches" => watches(api),
        "/debug/listwatch/cache" => cache(api),
        _ => return None,
    };
    Some(respond::json(StatusCode::OK, json::encode(&document)))
}

fn index() -> Value {
    let pages: Vec<Value> =
        PAGES.iter().map(|(path, about)| json!({"path": *path, "about": *about})).collect();
    json!({"pages": pages})
}

/// One document of all watches: with 100,000 of them it has tens of megabytes, and it is not paged.
fn watches(api: &Api) -> Value {
    let position = api.cache.position().get();
    let watches: Vec<Value> =
        api.metrics.watches.list().iter().map(|watch| watch.describe(position)).collect();
    json!({"position": position.0, "count": watches.len(), "watches": watches})
}

/// Collections without objects, events and views are left out, which is most of them.
fn cache(api: &Api) -> Value {
    let cache = &api.cache;
    let mut collections: Vec<Value> = Vec::new();
    let mut all = cache.collections();
    all.sort_by(|a, b| a.name().cmp(b.name()));
    for collection in all {
        let (snapshot, _) = cache.read(&collection);
        let CollectionLogState { events, views, floor } = collection.log_state();
        if snapshot.is_empty() && events == 0 && views == 0 {
            continue;
        }
        collections.push(json!({
            "collection": collection.name(), "objects": snapshot.len(), "bytes": snapshot.bytes(),
            "newest": snapshot.revision().0, "events": events, "eventsAfter": floor.0, "views": views,
        }));
    }
    json!({"position": cache.position().get().0, "logBytesLimit": cache.limits().log_bytes, "collections": collections})
}
