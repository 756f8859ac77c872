//! Requests for streams of many watches: `/listwatch/v1/watch`, and the list of features at `/listwatch/v1`. Pure.
//!
//! A stream itself grants nothing: each of its subscriptions is authorized as a watch, when it is added and again while it lasts.
//! So every authenticated user may open one.

use std::sync::Arc;

use http::header::{ACCEPT, HeaderValue};
use http::{Method, StatusCode};
use listwatch_wire::Status;
use listwatch_wire::gvk::GroupVersion;
use listwatch_wire::stream::{FEATURES_PATH, PATH, Subscription};

use crate::audit::AuditStage;
use crate::http::request::Request;
use crate::registry::Registry;
use crate::request::info::{RequestInfo, RequestTarget, ResourceInfo, Verb};

/// A request about streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StreamRequest {
    /// The features of this server beyond Kubernetes.
    Features,
    /// A stream.
    Open,
    /// A change of the subscriptions of the stream with this identifier.
    Change(String),
}

impl StreamRequest {
    /// The request of a path; `None` for other paths.
    pub(super) fn read(path: &str) -> Option<Self> {
        match path.trim_end_matches('/') {
            FEATURES_PATH => Some(Self::Features),
            PATH => Some(Self::Open),
            path => {
                let id = path.strip_prefix(PATH)?.strip_prefix('/')?.strip_suffix("/subscriptions")?;
                Some(Self::Change(id.to_owned()))
            }
        }
    }

    /// The verb, as authorizers, flow schemas and audit policies name it.
    pub(crate) fn verb(&self, method: &Method) -> String {
        match self {
            Self::Open => Verb::Watch.as_str().to_owned(),
            Self::Features | Self::Change(_) => method.as_str().to_ascii_lowercase(),
        }
    }
}

/// The ordinary watch that is equivalent to a subscription, in one of its namespaces. It is audited like one.
pub(crate) fn watch_of(
    stream: &RequestInfo,
    asked: &Subscription,
    namespace: Option<&str>,
    registry: &Registry,
) -> RequestInfo {
    let version = GroupVersion { group: asked.group.clone().into(), version: asked.version.clone().into() };
    let path = version.with_resource(asked.resource.clone()).path(namespace);
    let query = asked.to_query();
    let mut headers = stream.http.headers.clone();
    headers.remove(ACCEPT);
    if let Ok(accept) = HeaderValue::from_str(&asked.accept) {
        headers.insert(ACCEPT, accept);
    }
    let info = ResourceInfo {
        group: asked.group.clone(),
        version: asked.version.clone(),
        namespace: namespace.map(str::to_owned),
        resource: asked.resource.clone(),
        verb: Verb::Watch,
        ..ResourceInfo::default()
    };
    let audit = stream.audit.as_ref().map(|draft| Arc::new(draft.part(format!("{path}?{query}"))));
    // The names are plain text: they must not be percent-decoded.
    let http = Request { path, ..Request::new(Method::GET, &format!("/?{query}"), headers, false) };
    let watch = RequestInfo::of(http, RequestTarget::Resource(Arc::new(info)), registry, audit);
    let sender = stream.audit.as_ref().and_then(|draft| draft.sender());
    if let (Some(audit), Some(sender)) = (&watch.audit, sender) {
        watch.with_attributes(|attributes| audit.authenticated(sender, attributes));
    }
    watch
}

/// Records the response to a subscription in the audit log.
pub(crate) fn audit_answer(watch: &RequestInfo, refused: Option<&Status>) {
    let Some(audit) = &watch.audit else { return };
    match refused {
        None => audit.answered(AuditStage::ResponseStarted, StatusCode::OK, None),
        Some(status) => {
            let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            audit.answered(AuditStage::ResponseComplete, code, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_streams() {
        let change = |id: &str| Some(StreamRequest::Change(id.to_owned()));
        for (path, expected) in [
            ("/listwatch/v1", Some(StreamRequest::Features)),
            ("/listwatch/v1/", Some(StreamRequest::Features)),
            ("/listwatch/v1/watch", Some(StreamRequest::Open)),
            ("/listwatch/v1/watch/7/subscriptions", change("7")),
            ("/listwatch/v1/watch/7", None),
            ("/listwatch/v1/watches", None),
            ("/listwatch/v1/history", None),
            ("/listwatch", None),
        ] {
            assert_eq!(StreamRequest::read(path), expected, "{path}");
        }
    }
}
