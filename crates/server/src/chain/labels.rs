//! Metric labels of a request: verb, group, version, resource, subresource and scope, as `apiserver_request_total`
//! has them.
//!
//! Dashboards and alerts for kube-apiserver select by these values, so the wording is part of the interface: `LIST` and
//! `WATCH` instead of `GET`, `APPLY` for server-side apply, `CONNECT` for logs, exec and proxies. Cardinality is
//! bounded here for paths and in [`super::service`] for resources: names that are not served are replaced, or any
//! client could create series. The counters are in [`crate::observe`].

use http::Method;
use http::header::CONTENT_TYPE;
use listwatch_wire::stream;

use crate::observe::Labels;
use crate::request::info::{RequestInfo, RequestTarget, ResourceInfo, Verb};
use crate::request::stream::StreamRequest;

/// Paths beside the resources that are counted by name; the others are counted as one.
const PATHS: &[&str] = &[
    "/healthz",
    "/livez",
    "/readyz",
    "/metrics",
    "/version",
    "/openapi/v2",
    "/openapi/v3",
    "/api",
    "/apis",
    stream::FEATURES_PATH,
    stream::PATH,
];

/// Pages that kube-apiserver counts as resources.
const DEBUG_PAGES: [&str; 2] = ["flagz", "statusz"];

/// Returns the metric labels of a request.
///
/// Borrows from the request; the series is looked up with it and made only once.
pub(crate) fn labels(request: &RequestInfo) -> Labels<'_> {
    let verb = verb(request);
    match &request.target {
        RequestTarget::Resource(info) => Labels {
            verb,
            dry_run: if request.http.query.text("dryRun").is_empty() { "" } else { "All" },
            group: info.group.as_str().into(),
            version: info.version.as_str().into(),
            resource: info.resource.as_str().into(),
            subresource: info.subresource.as_deref().unwrap_or_default().into(),
            scope: scope(info),
        },
        RequestTarget::Stream(_) | RequestTarget::NonResource => {
            if let Some(page) =
                DEBUG_PAGES.into_iter().find(|page| request.http.path.strip_prefix('/') == Some(page))
            {
                return Labels { verb, resource: page.into(), ..Labels::default() };
            }
            let path = PATHS.iter().copied().find(|path| *path == request.http.path);
            Labels { verb, subresource: path.unwrap_or_default().into(), ..Labels::default() }
        }
    }
}

/// Methods, except that reading a collection, watching and applying have names of their own.
fn verb(request: &RequestInfo) -> &'static str {
    match &request.target {
        RequestTarget::Resource(info) if info.is_connection() => "CONNECT",
        RequestTarget::Resource(info) => match info.verb {
            Verb::Get => "GET",
            Verb::List => "LIST",
            Verb::Watch => "WATCH",
            Verb::Create => "POST",
            Verb::Update => "PUT",
            Verb::Patch if is_apply(request) => "APPLY",
            Verb::Patch => "PATCH",
            Verb::Delete => "DELETE",
            Verb::DeleteCollection => "DELETECOLLECTION",
            Verb::Unknown => "other",
        },
        RequestTarget::Stream(StreamRequest::Open) => "WATCH",
        RequestTarget::Stream(_) | RequestTarget::NonResource => match request.http.method {
            Method::GET => "GET",
            Method::HEAD => "HEAD",
            Method::POST => "POST",
            _ => "other",
        },
    }
}

/// Apply is a separate verb in metrics, although it is a PATCH.
fn is_apply(request: &RequestInfo) -> bool {
    request.http.header(CONTENT_TYPE).is_some_and(|kind| kind.starts_with("application/apply-patch"))
}

/// kube-apiserver's label: `resource`, `namespace` or `cluster`.
fn scope(info: &ResourceInfo) -> &'static str {
    match info {
        ResourceInfo { name: Some(_), .. } | ResourceInfo { verb: Verb::Create, .. } => "resource",
        ResourceInfo { namespace: Some(_), .. } => "namespace",
        _ => "cluster",
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use listwatch_storage::MemoryEngine;

    use super::*;
    use crate::cache::Cache;
    use crate::http::request::Request;
    use crate::registry::Registry;

    fn registry() -> Registry {
        Registry::builtin(&Cache::new(
            std::sync::Arc::new(MemoryEngine::default()),
            crate::CacheLimits::default(),
        ))
    }

    fn labels(method: Method, target: &str) -> String {
        let request = Request::new(method, target, HeaderMap::new(), true);
        super::labels(&RequestInfo::new(request, &registry(), None)).to_string()
    }

    #[test]
    fn requests_are_counted_with_the_labels_of_kube_apiserver() {
        for (method, target, expected) in [
            (
                Method::GET,
                "/api/v1/pods?watch=1",
                r#"verb="WATCH",dry_run="",group="",version="v1",resource="pods",subresource="",scope="cluster",component="apiserver""#,
            ),
            (
                Method::POST,
                "/apis/apps/v1/namespaces/a/deployments?dryRun=All",
                r#"verb="POST",dry_run="All",group="apps",version="v1",resource="deployments",subresource="",scope="resource",component="apiserver""#,
            ),
            (
                Method::GET,
                "/api/v1/namespaces/a/p%22ods",
                r#"verb="LIST",dry_run="",group="",version="v1",resource="p\"ods",subresource="",scope="namespace",component="apiserver""#,
            ),
            (
                Method::GET,
                "/api/v1/namespaces/a/pods/p/log",
                r#"verb="CONNECT",dry_run="",group="",version="v1",resource="pods",subresource="log",scope="resource",component="apiserver""#,
            ),
            (
                Method::GET,
                "/readyz?verbose",
                r#"verb="GET",dry_run="",group="",version="",resource="",subresource="/readyz",scope="",component="apiserver""#,
            ),
            (
                Method::POST,
                "/listwatch/v1/watch",
                r#"verb="WATCH",dry_run="",group="",version="",resource="",subresource="/listwatch/v1/watch",scope="",component="apiserver""#,
            ),
            (
                Method::GET,
                "/anything",
                r#"verb="GET",dry_run="",group="",version="",resource="",subresource="",scope="",component="apiserver""#,
            ),
        ] {
            assert_eq!(labels(method, target), expected, "{target}");
        }
    }
}
