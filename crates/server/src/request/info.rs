//! [`RequestInfo`]: a request as Kubernetes sees it.
//!
//! It is made once, when a request arrives, and passed along: its path is split, its query decoded, its resource looked up and
//! its field selector parsed here and nowhere else. The encoding of the response is negotiated by the verb, because it depends
//! on the result ([`super::negotiate`]). Pure, apart from the lookup in the registry.

use std::sync::Arc;

use http::Method;
use listwatch_wire::options::Query;
use listwatch_wire::selector::FieldSelector;
use smallvec::SmallVec;

use crate::audit::AuditDraft;
use crate::auth::AuthorizerAttributes;
use crate::fairness::width;
use crate::http::request::Request;
use crate::registry::{Registry, Resource};
use crate::request::history::{self, HistoryPart};
use crate::request::stream::StreamRequest;

/// A request, read once and shared by everything that handles it. Nothing in it changes after it was made; identity
/// and the form of the response are added beside it, in [`ResourceRequest`](super::ResourceRequest) and by the verbs.
#[derive(Debug)]
pub(crate) struct RequestInfo {
    /// Method, path, query and headers.
    pub(crate) http: Request,
    /// The resource that the path names, or none.
    pub(crate) target: RequestTarget,
    /// The served resource; `None` if the path names none, or one that is not served.
    pub(crate) resource: Option<Arc<Resource>>,
    /// The audit event in the making, if there is an audit log.
    pub(crate) audit: Option<Arc<AuditDraft>>,
    /// The field selector of a request for several objects, if it has one that can be parsed.
    fields: Option<FieldSelector>,
}

impl RequestInfo {
    /// Reads a request: splits the path, looks up the resource, parses the field selector. Nothing in it fails: a
    /// path that names nothing is routed to a 404 later, after authorization.
    pub(crate) fn new(http: Request, registry: &Registry, audit: Option<Arc<AuditDraft>>) -> Self {
        let history = history::target(&http.method, &http.path, &http.query);
        let stream = || StreamRequest::read(&http.path).map(RequestTarget::Stream);
        let target = history
            .or_else(stream)
            .unwrap_or_else(|| RequestTarget::read(&http.method, &http.path, http.query.flag("watch")));
        Self::of(http, target, registry, audit)
    }

    /// A request whose target is known.
    pub(super) fn of(
        http: Request,
        target: RequestTarget,
        registry: &Registry,
        audit: Option<Arc<AuditDraft>>,
    ) -> Self {
        let (resource, fields) = match &target {
            RequestTarget::Resource(info) => {
                (registry.find(&info.group, &info.version, &info.resource), fields(info, &http.query))
            }
            RequestTarget::Stream(_) | RequestTarget::NonResource => (None, None),
        };
        Self { http, target, resource, audit, fields }
    }

    /// Calls `ask` with the attributes that authorizers, flow schemas and audit policies decide by.
    pub(crate) fn with_attributes<T>(&self, ask: impl FnOnce(&AuthorizerAttributes<'_>) -> T) -> T {
        match &self.target {
            RequestTarget::NonResource => {
                let method = self.http.method.as_str().to_ascii_lowercase();
                ask(&AuthorizerAttributes {
                    verb: &method,
                    path: &self.http.path,
                    ..AuthorizerAttributes::default()
                })
            }
            RequestTarget::Stream(stream) => {
                let verb = stream.verb(&self.http.method);
                ask(&AuthorizerAttributes {
                    verb: &verb,
                    path: &self.http.path,
                    ..AuthorizerAttributes::default()
                })
            }
            RequestTarget::Resource(info) => ask(&AuthorizerAttributes {
                verb: info.verb.as_str(),
                group: &info.group,
                version: &info.version,
                resource: &info.resource,
                subresource: info.subresource.as_deref().unwrap_or_default(),
                namespace: info.namespace.as_deref().unwrap_or_default(),
                name: info.name.as_deref().or(self.selected_name(info.verb)).unwrap_or_default(),
                // A request with an empty resource must not be authorized as a path by the permissions for discovery.
                path: if info.resource.is_empty() { "" } else { &self.http.path },
                fields: self.fields.as_ref(),
                labels: self.http.query.first("labelSelector").filter(|_| selects(info.verb)),
            }),
        }
    }

    /// The name that a list or watch selects. Such a request counts as one for that name, so that permissions for single
    /// names apply to it. A deletion of a collection does not: permission to delete one object is none to delete collections.
    fn selected_name(&self, verb: Verb) -> Option<&str> {
        let fields = self.fields.as_ref().filter(|_| verb != Verb::DeleteCollection)?;
        let name = fields.exact("metadata.name")?;
        listwatch_kinds::names::path_segment(name, false).is_empty().then_some(name)
    }

    /// True for watches and connections, which have no deadline and take no part in the count of requests in flight.
    #[doc(alias = "BasicLongRunningRequestCheck")]
    pub(crate) fn is_long_running(&self) -> bool {
        match &self.target {
            RequestTarget::Resource(info) => info.verb == Verb::Watch || info.is_connection(),
            RequestTarget::Stream(stream) => *stream == StreamRequest::Open,
            RequestTarget::NonResource => false,
        }
    }

    /// Returns true for a request that takes its seats only once its body has been read: a slow upload would otherwise
    /// hold seats of API priority and fairness while nothing is done. Connections take none.
    pub(crate) fn waits_for_body(&self) -> bool {
        let info = match &self.target {
            RequestTarget::Resource(info) => info,
            RequestTarget::Stream(_) => return self.http.method == Method::POST,
            RequestTarget::NonResource => return false,
        };
        match info.verb {
            Verb::Get => info.subresource.is_some(),
            Verb::List | Verb::Watch => false,
            _ => true,
        }
    }

    /// The seats that it takes: more than one if it reads a collection.
    ///
    /// The number follows kube-apiserver's work estimator: by the objects that the list has to look at.
    pub(crate) fn seats(&self) -> u32 {
        let (RequestTarget::Resource(info), Some(resource)) = (&self.target, &self.resource) else {
            return 1;
        };
        let query = &self.http.query;
        let reads_collection = match info.verb {
            Verb::List => true,
            // A watch that does not begin with the state is cheap.
            Verb::Watch => {
                query.flag("sendInitialEvents") || matches!(query.text("resourceVersion"), "" | "0")
            }
            _ => false,
        };
        if reads_collection && info.name.is_none() { width::seats(query, &resource.collection) } else { 1 }
    }
}

/// The field selector of a request for several objects.
///
/// A selector that cannot be parsed is left out here and rejected by the verb, after authorization.
fn fields(info: &ResourceInfo, query: &Query<'_>) -> Option<FieldSelector> {
    if !selects(info.verb) {
        return None;
    }
    query.first("fieldSelector")?.parse().ok()
}

/// Returns true for verbs of several objects, which selectors restrict.
fn selects(verb: Verb) -> bool {
    matches!(verb, Verb::List | Verb::Watch | Verb::DeleteCollection)
}

/// The resource that a path names, or another target. Authorization treats the last kind by path and the others by
/// resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RequestTarget {
    /// A resource, or a collection of them.
    Resource(Arc<ResourceInfo>),
    /// Many watches in one stream.
    Stream(StreamRequest),
    /// Everything else: health, discovery, the root.
    NonResource,
}

/// A request for a resource, by its method and path.
/// Nothing in it has been checked against the registry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResourceInfo {
    /// API group; empty for the core group.
    pub(crate) group: String,
    pub(crate) version: String,
    /// The namespace in the path. For a Namespace itself it is its own name, as in kube-apiserver.
    pub(crate) namespace: Option<String>,
    /// The plural in the path, which need not be served.
    pub(crate) resource: String,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
    /// The verb, from method, path and the `watch` parameter.
    pub(crate) verb: Verb,
    /// The old form with `/watch/` in the path.
    pub(crate) legacy_watch: bool,
    /// More path than any resource has.
    pub(crate) too_deep: bool,
    /// True for HEAD requests.
    pub(crate) head: bool,
    /// Set if the history of the object is requested rather than the object.
    pub(crate) history: Option<HistoryPart>,
}

/// Subresources that are connections rather than requests: another server answers, until that one ends it.
const CONNECTIONS: [&str; 5] = ["attach", "exec", "log", "portforward", "proxy"];

impl ResourceInfo {
    /// True for logs, exec, attach, port-forward and proxies.
    pub(crate) fn is_connection(&self) -> bool {
        self.subresource.as_deref().is_some_and(|name| CONNECTIONS.contains(&name))
    }
}

/// The verb of a request, as authorizers and admission name it.
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
    /// A method that no resource supports.
    Unknown,
}

impl Verb {
    /// The verb as RBAC rules write it; empty for unknown methods, which no rule allows.
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

    /// The verb of a method. HEAD counts as GET; POST to a name is a create, as for subresources.
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
pub(crate) fn parts(path: &str) -> SmallVec<[&str; 8]> {
    let path = path.strip_prefix('/').unwrap_or(path).trim_end_matches('/');
    let mut parts = SmallVec::new();
    let mut start = 0;
    for slash in memchr::memchr_iter(b'/', path.as_bytes()) {
        parts.extend(path.get(start..slash));
        start = slash + 1;
    }
    parts.extend(path.get(start..).filter(|_| !path.is_empty()));
    parts
}

/// Subresources of namespaces themselves; any other third segment is a resource inside the namespace.
const OF_NAMESPACES: &[&str] = &["status", "finalize"];

impl RequestTarget {
    /// Reads a decoded path. `watch` is true if the query asks for a watch.
    pub(super) fn read(method: &Method, path: &str, watch: bool) -> Self {
        let parts = parts(path);
        let (group, version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return Self::NonResource,
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
        if rest.is_empty() {
            return Self::NonResource;
        }
        // A Namespace is not itself in a namespace.
        let nested = group.is_empty() && matches!(rest, ["namespaces", _, "namespaces", ..]);
        let (namespace, rest) = split_namespace(rest);
        info.namespace = namespace.map(str::to_owned);
        info.resource = rest.first().copied().unwrap_or_default().to_owned();
        info.name = rest.get(1).map(|part| (*part).to_owned());
        info.subresource = rest.get(2).map(|part| (*part).to_owned());
        info.too_deep = nested || rest.len() > 3;
        info.head = method == Method::HEAD;
        info.verb = match (legacy_watch, method) {
            (true, &Method::GET) => Verb::Watch,
            // The deprecated paths under `/watch/` are for GET only.
            (true, _) => Verb::Unknown,
            (false, _) => Verb::of(method, info.name.is_some(), watch),
        };
        Self::Resource(Arc::new(info))
    }
}

/// Splits the parts below a group and version into the namespace and what is in it. A Namespace is in itself.
fn split_namespace<'a, 'p>(parts: &'a [&'p str]) -> (Option<&'p str>, &'a [&'p str]) {
    match parts {
        ["namespaces", name, sub, ..] if OF_NAMESPACES.contains(sub) => (Some(name), parts),
        ["namespaces", namespace, inside @ ..] if !inside.is_empty() => {
            (Some(*namespace).filter(|namespace| !namespace.is_empty()), inside)
        }
        ["namespaces", name] => (Some(name), parts),
        parts => (None, parts),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(method: Method, path: &str) -> String {
        match RequestTarget::read(&method, path, path.contains("watch=1")) {
            RequestTarget::NonResource | RequestTarget::Stream(_) => "other".to_owned(),
            RequestTarget::Resource(i) => format!(
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
