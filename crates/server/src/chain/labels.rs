//! The metric labels of a request, as kube-apiserver counts them.

use http::Method;
use http::header::CONTENT_TYPE;

use crate::http::request::Request;
use crate::observe::Labels;
use crate::request::info::{RequestInfo, ResourceInfo, Verb};

/// Paths beside the resources that are counted by name; the others are counted as one.
const PATHS: [&str; 9] =
    ["/healthz", "/livez", "/readyz", "/metrics", "/version", "/openapi/v2", "/openapi/v3", "/api", "/apis"];

/// Returns the metric labels of a request.
pub(crate) fn labels<'a>(request: &Request, info: &'a RequestInfo) -> Labels<'a> {
    let verb = verb(request, info);
    match info {
        RequestInfo::Resource(info) => Labels {
            verb,
            dry_run: dry_run(request),
            group: info.group.as_str().into(),
            version: info.version.as_str().into(),
            resource: info.resource.as_str().into(),
            subresource: info.subresource.as_deref().unwrap_or_default().into(),
            scope: scope(info),
        },
        RequestInfo::Other => {
            let path = PATHS.into_iter().find(|path| *path == request.path);
            Labels { verb, subresource: path.unwrap_or_default().into(), ..Labels::default() }
        }
    }
}

/// Methods, except that reading a collection, watching and applying have names of their own.
fn verb(request: &Request, info: &RequestInfo) -> &'static str {
    match info {
        RequestInfo::Resource(ResourceInfo { verb, .. }) => match verb {
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
        RequestInfo::Other => match request.method {
            Method::GET => "GET",
            Method::HEAD => "HEAD",
            Method::POST => "POST",
            _ => "other",
        },
    }
}

fn is_apply(request: &Request) -> bool {
    request.header(CONTENT_TYPE).is_some_and(|kind| kind.starts_with("application/apply-patch"))
}

fn dry_run(request: &Request) -> &'static str {
    // Most requests have no query, and reading one costs more than all of this.
    if request.query.contains("dryRun=") && !request.query().text("dryRun").is_empty() { "All" } else { "" }
}

fn scope(info: &ResourceInfo) -> &'static str {
    match info {
        ResourceInfo { name: Some(_), .. } | ResourceInfo { verb: Verb::Create, .. } => "resource",
        ResourceInfo { namespace: Some(_), .. } => "namespace",
        _ => "cluster",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderMap;

    fn labels(method: Method, target: &str) -> String {
        let request = Request::new(method, target, HeaderMap::new(), true);
        let info = RequestInfo::new(&request.method, &request.path, request.query().flag("watch"));
        super::labels(&request, &info).to_string()
    }

    #[test]
    fn requests_are_counted_in_the_words_of_the_reference() {
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
                "/readyz?verbose",
                r#"verb="GET",dry_run="",group="",version="",resource="",subresource="/readyz",scope="",component="apiserver""#,
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
