//! [`Labels`]: what a request is counted under, in the words of kube-apiserver.

use std::borrow::Cow;
use std::fmt;

use http::Method;
use http::header::CONTENT_TYPE;

use crate::http::request::Request;
use crate::request::info::{RequestInfo, ResourceInfo, Verb};

/// The part of kube-apiserver that would have answered.
pub(crate) const COMPONENT: &str = "apiserver";

/// Paths beside the resources that are counted by name; the others are counted as one.
const PATHS: [&str; 9] =
    ["/healthz", "/livez", "/readyz", "/metrics", "/version", "/openapi/v2", "/openapi/v3", "/api", "/apis"];

/// What a request is counted under.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Labels<'a> {
    pub(crate) verb: &'static str,
    pub(crate) dry_run: &'static str,
    pub(crate) group: Cow<'a, str>,
    pub(crate) version: Cow<'a, str>,
    pub(crate) resource: Cow<'a, str>,
    pub(crate) subresource: Cow<'a, str>,
    pub(crate) scope: &'static str,
}

impl<'a> Labels<'a> {
    pub(crate) fn new(request: &Request, info: &'a RequestInfo) -> Self {
        let verb = verb(request, info);
        match info {
            RequestInfo::Resource(info) => Self {
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
                Self { verb, subresource: path.unwrap_or_default().into(), ..Self::default() }
            }
        }
    }

    /// The same verb on anything.
    pub(crate) fn anything(&self) -> Self {
        Self { verb: self.verb, ..Self::default() }
    }

    pub(crate) fn into_owned(self) -> Labels<'static> {
        let owned = |text: Cow<'a, str>| Cow::Owned(text.into_owned());
        Labels {
            verb: self.verb,
            dry_run: self.dry_run,
            group: owned(self.group),
            version: owned(self.version),
            resource: owned(self.resource),
            subresource: owned(self.subresource),
            scope: self.scope,
        }
    }
}

impl fmt::Display for Labels<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { verb, dry_run, scope, .. } = self;
        write!(
            f,
            "verb=\"{verb}\",dry_run=\"{dry_run}\",{}",
            Resource(&self.group, &self.version, &self.resource)
        )?;
        write!(
            f,
            ",subresource=\"{}\",scope=\"{scope}\",component=\"{COMPONENT}\"",
            escape(&self.subresource)
        )
    }
}

/// The labels of a resource: group, version and plural.
pub(crate) struct Resource<'a>(pub(crate) &'a str, pub(crate) &'a str, pub(crate) &'a str);

impl fmt::Display for Resource<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(group, version, resource) = self;
        let [group, version, resource] = [group, version, resource].map(|text| escape(text));
        write!(f, "group=\"{group}\",version=\"{version}\",resource=\"{resource}\"")
    }
}

/// Text as it stands between the quotes of a label.
pub(crate) fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(['\\', '"', '\n']) {
        return text.into();
    }
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").into()
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
        Labels::new(&request, &info).to_string()
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
