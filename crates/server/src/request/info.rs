//! [`RequestInfo`]: what a request is about, from its method and path alone. Pure.

use http::Method;

/// What a request is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RequestInfo {
    /// A resource, or a collection of them.
    Resource(ResourceInfo),
    /// Everything else: health, discovery, the root.
    Other,
}

/// A request for a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResourceInfo {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) namespace: Option<String>,
    pub(crate) resource: String,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
    pub(crate) verb: Verb,
    /// The old form with `/watch/` in the path.
    pub(crate) legacy_watch: bool,
    /// More path than any resource has.
    pub(crate) too_deep: bool,
    /// Only the head of the answer is asked for.
    pub(crate) head: bool,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Verb {
    #[default]
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
    /// A method that no resource knows.
    Unknown,
}

impl Verb {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
            Self::Unknown => "",
        }
    }

    fn of(method: &Method, named: bool, watch: bool) -> Self {
        match (method, named) {
            (&Method::GET | &Method::HEAD, false) if watch => Self::Watch,
            (&Method::GET | &Method::HEAD, false) => Self::List,
            (&Method::GET | &Method::HEAD, true) => Self::Get,
            (&Method::POST, _) => Self::Create,
            (&Method::PUT, _) => Self::Update,
            (&Method::PATCH, _) => Self::Patch,
            (&Method::DELETE, true) => Self::Delete,
            (&Method::DELETE, false) => Self::DeleteCollection,
            _ => Self::Unknown,
        }
    }
}

/// The parts of a path. Slashes at its end do not count; two in a row have an empty part between them.
pub(crate) fn parts(path: &str) -> Vec<&str> {
    let path = path.strip_prefix('/').unwrap_or(path).trim_end_matches('/');
    if path.is_empty() { Vec::new() } else { path.split('/').collect() }
}

/// Subresources of namespaces themselves; any other third segment is a resource inside the namespace.
const OF_NAMESPACES: &[&str] = &["status", "finalize"];

impl RequestInfo {
    /// Reads a decoded path. `watch` says whether the query asks for a watch.
    pub(crate) fn new(method: &Method, path: &str, watch: bool) -> Self {
        let parts = parts(path);
        let (group, version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return Self::Other,
        };
        let (legacy_watch, rest) = match rest {
            ["watch", rest @ ..] if !rest.is_empty() => (true, rest),
            rest => (false, rest),
        };
        let mut info = ResourceInfo {
            group: group.to_owned(),
            version: version.to_owned(),
            legacy_watch,
            ..ResourceInfo::default()
        };
        let rest = match rest {
            [] => return Self::Other,
            ["namespaces", name, sub, ..] if OF_NAMESPACES.contains(sub) => {
                info.namespace = Some((*name).to_owned());
                rest
            }
            ["namespaces", namespace, inside @ ..] if !inside.is_empty() => {
                info.namespace = Some((*namespace).to_owned()).filter(|namespace| !namespace.is_empty());
                inside
            }
            ["namespaces", name] => {
                info.namespace = Some((*name).to_owned());
                rest
            }
            rest => rest,
        };
        info.resource = rest.first().copied().unwrap_or_default().to_owned();
        info.name = rest.get(1).map(|part| (*part).to_owned());
        info.subresource = rest.get(2).map(|part| (*part).to_owned());
        info.too_deep = rest.len() > 3;
        info.head = method == Method::HEAD;
        info.verb = match (legacy_watch, method) {
            (true, &Method::GET) => Verb::Watch,
            // Nothing is written through a path that is there to be watched.
            (true, _) => Verb::Unknown,
            (false, _) => Verb::of(method, info.name.is_some(), watch),
        };
        Self::Resource(info)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(method: Method, path: &str) -> String {
        match RequestInfo::new(&method, path, path.contains("watch=1")) {
            RequestInfo::Other => "other".to_owned(),
            RequestInfo::Resource(i) => format!(
                "{} {}/{} ns={} {} name={} sub={}{}",
                i.verb.as_str(),
                i.group,
                i.version,
                i.namespace.as_deref().unwrap_or("-"),
                i.resource,
                i.name.as_deref().unwrap_or("-"),
                i.subresource.as_deref().unwrap_or("-"),
                if i.legacy_watch { " legacy" } else { "" },
            ),
        }
    }

    #[test]
    fn all_forms_of_paths() {
        for (method, path, expected) in [
            (Method::GET, "/api/v1/pods", "list /v1 ns=- pods name=- sub=-"),
            (Method::GET, "/api/v1/namespaces", "list /v1 ns=- namespaces name=- sub=-"),
            (Method::GET, "/api/v1/namespaces/a", "get /v1 ns=a namespaces name=a sub=-"),
            (Method::PUT, "/api/v1/namespaces/a/finalize", "update /v1 ns=a namespaces name=a sub=finalize"),
            (Method::GET, "/api/v1/namespaces/a/pods", "list /v1 ns=a pods name=- sub=-"),
            (Method::DELETE, "/api/v1/namespaces/a/pods", "deletecollection /v1 ns=a pods name=- sub=-"),
            (Method::GET, "/api/v1/namespaces/a/pods/p", "get /v1 ns=a pods name=p sub=-"),
            (Method::POST, "/api/v1/namespaces/a/pods/p/binding", "create /v1 ns=a pods name=p sub=binding"),
            (
                Method::PATCH,
                "/apis/apps/v1/namespaces/a/deployments/d/scale",
                "patch apps/v1 ns=a deployments name=d sub=scale",
            ),
            (Method::GET, "/apis/apps/v1/deployments", "list apps/v1 ns=- deployments name=- sub=-"),
            (Method::GET, "/api/v1/watch/pods", "watch /v1 ns=- pods name=- sub=- legacy"),
            (Method::GET, "/api/v1/watch/namespaces/a/pods/p", "watch /v1 ns=a pods name=p sub=- legacy"),
            (Method::POST, "/api/v1/watch/namespaces/a/pods", " /v1 ns=a pods name=- sub=- legacy"),
            (Method::DELETE, "/api/v1/watch/namespaces/a/pods/p", " /v1 ns=a pods name=p sub=- legacy"),
            (Method::GET, "/api/v1", "other"),
            (Method::GET, "/apis/apps/v1/", "other"),
            (Method::GET, "/healthz", "other"),
            (Method::OPTIONS, "/api/v1/pods", " /v1 ns=- pods name=- sub=-"),
            (Method::HEAD, "/api/v1/pods/", "list /v1 ns=- pods name=- sub=-"),
            (Method::GET, "/api/v1//pods", "get /v1 ns=-  name=pods sub=-"),
            (Method::GET, "/api/v1/namespaces//pods", "list /v1 ns=- pods name=- sub=-"),
        ] {
            assert_eq!(info(method, path), expected, "{path}");
        }
    }
}
