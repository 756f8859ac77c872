//! `/listwatch/v1`: the list of features beyond Kubernetes, for clients that can use them.
//!
//! Clients ask before they use a feature and fall back to plain Kubernetes if it is missing, so one is added here
//! when clients may rely on it and not before. Resources and verbs are not listed: discovery ([`super::discovery`])
//! has them.

use listwatch_wire::json::json;
use listwatch_wire::{delta, stream};

use crate::endpoints::discovery::json_of;
use crate::http::body::Response;

/// Answers `/listwatch/v1`. Kubernetes has nothing there and answers 403 or 404.
pub(crate) fn answer() -> Response {
    json_of(&json!({
        "kind": "FeatureList",
        "apiVersion": "listwatch/v1",
        "features": [
            {"name": stream::FEATURE, "path": stream::PATH},
            {"name": "history", "path": "/listwatch/v1/history"},
            {"name": "delta", "mediaType": delta::MEDIA_TYPE},
        ],
    }))
}
