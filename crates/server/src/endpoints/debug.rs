//! Looking inside: metrics, every watch, every collection.

use http::StatusCode;
use listwatch_wire::json;
use listwatch_wire::json::{Value, json};

use crate::chain::service::Service;
use crate::http::body::Response;
use crate::observe;
use crate::respond;

/// `/metrics`, in the text form of Prometheus.
pub(crate) fn metrics(service: &Service) -> Response {
    let text = observe::prometheus(&service.api);
    respond::full(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text.into())
}

/// `/debug/listwatch/…`; `None` for what is not there.
pub(crate) fn answer(service: &Service, path: &str) -> Option<Response> {
    let document = match path {
        "/debug/listwatch/watches" => watches(service),
        "/debug/listwatch/cache" => cache(service),
        _ => return None,
    };
    Some(respond::json(StatusCode::OK, json::encode(&document)))
}

fn watches(service: &Service) -> Value {
    let position = service.api.cache.position().get();
    let watches: Vec<Value> =
        service.api.metrics.watches.list().iter().map(|watch| watch.describe(position)).collect();
    json!({"position": position.0, "count": watches.len(), "watches": watches})
}

fn cache(service: &Service) -> Value {
    let cache = &service.api.cache;
    let mut collections: Vec<Value> = Vec::new();
    let mut all = cache.collections();
    all.sort_by(|a, b| a.name().cmp(b.name()));
    for collection in all {
        let (snapshot, _) = cache.read(&collection);
        let (events, views, floor) = collection.log_state();
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
