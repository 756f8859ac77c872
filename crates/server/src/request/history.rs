//! Requests for the history of an object: `/listwatch/v1/history` and `/listwatch/v1/history/diff`. Pure.
//!
//! The query names the object as its path would. The result is a GET of that object, so that authorization, audit,
//! fairness and metrics treat it as one: permission to read an object is permission to read its history. The response
//! is [`crate::verbs::history`].

use std::sync::Arc;

use http::Method;
use listwatch_wire::options::Query;

use crate::request::info::{RequestTarget, ResourceInfo, Verb};

/// The versions of an object.
const VERSIONS: &str = "/listwatch/v1/history";
/// The difference of two of them.
const DIFFERENCE: &str = "/listwatch/v1/history/diff";

/// The requested part of the history of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HistoryPart {
    Versions,
    Difference,
}

/// The object that a request for history is about; `None` for other requests.
pub(super) fn target(method: &Method, path: &str, query: &Query<'_>) -> Option<RequestTarget> {
    let part = match path.trim_end_matches('/') {
        VERSIONS => HistoryPart::Versions,
        DIFFERENCE => HistoryPart::Difference,
        _ => return None,
    };
    let text = |key: &str| Some(query.text(key).to_owned()).filter(|text| !text.is_empty());
    Some(RequestTarget::Resource(Arc::new(ResourceInfo {
        group: query.text("group").to_owned(),
        version: query.text("version").to_owned(),
        namespace: text("namespace"),
        resource: query.text("resource").to_owned(),
        name: text("name"),
        verb: if method == Method::GET { Verb::Get } else { Verb::Unknown },
        history: Some(part),
        ..ResourceInfo::default()
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_for_history_is_a_get_of_its_object() {
        let query = Query::parse("group=apps&version=v1&resource=deployments&namespace=n&name=d");
        let asked = target(&Method::GET, "/listwatch/v1/history/", &query);
        let Some(RequestTarget::Resource(asked)) = asked else { panic!("no object") };
        let path = "/apis/apps/v1/namespaces/n/deployments/d";
        let RequestTarget::Resource(get) = RequestTarget::read(&Method::GET, path, false) else {
            panic!("no object")
        };
        assert_eq!(ResourceInfo { history: None, ..ResourceInfo::clone(&asked) }, *get);
        assert!(target(&Method::GET, "/listwatch/v1/historic", &query).is_none());
    }
}
