//! Routing: from an authorized request to its verb, an endpoint outside of resources, or an extension API server.
//!
//! The order of the checks is kube-apiserver's and visible to clients: extension servers first, then the resource,
//! then the path (scope, depth, method), then the name. Built-in kinds have fixed paths with 404 and 405 as Status
//! objects; custom resources share one handler, whose 404 is plain text. A change here changes which of two errors a
//! client sees.
//!
//! Before it comes [`super::service`]; after it [`crate::verbs`] or [`crate::endpoints`].

use std::sync::Arc;

use http::Method;
use listwatch_wire::Status;

use crate::auth::User;
use crate::chain::service::Service;
use crate::endpoints::{debug, discovery, features, health, metrics, openapi, openid, version, zpages};
use crate::fairness::Flow;
use crate::forward::{connect, extension};
use crate::http::body::Response;
use crate::http::request::{BodySource, Request};
use crate::registry::Resource;
use crate::request::ResourceRequest;
use crate::request::info::{RequestInfo, RequestTarget, ResourceInfo, Verb, parts};
use crate::request::stream::StreamRequest;
use crate::respond;
use crate::verbs::{component_status, get, history, list, stream, watch, write};

/// Finds the handler and calls it.
///
/// # Errors
///
/// 404 or 405 for paths and methods that do not exist, and those of the handler.
pub(crate) async fn route(
    service: &Service,
    request: &Arc<RequestInfo>,
    (user, flow): (Arc<User>, Flow),
    body: &mut dyn BodySource,
) -> Result<Response, Status> {
    if let Some(remote) = extension::remote(&service.api, &request.http.path) {
        return Box::pin(extension::forward(&service.api, &remote, request, (user, flow), body)).await;
    }
    match &request.target {
        RequestTarget::NonResource => other(service, &request.http).await,
        RequestTarget::Resource(info) => resource(service, request, info, (user, flow), body).await,
        RequestTarget::Stream(wanted) => streams(service, request, wanted, (user, flow), body).await,
    }
}

/// Health checks answer any method; other endpoints check the path before the method, so that a POST to one is a 405
/// and to an unknown path a 404.
async fn other(service: &Service, request: &Request) -> Result<Response, Status> {
    let path = request.path.trim_end_matches('/');
    if health::serves(path) {
        return Ok(health::answer(&service.api, service.is_stopping(), request));
    }
    let answered = endpoint(service, request, path).await;
    let wrong_method = request.method != Method::GET && !takes_any_method(service, path);
    match answered {
        Ok(None) => Ok(respond::no_such_page()),
        Ok(Some(_)) if wrong_method => Err(Status::method_not_allowed()),
        Err(status) if wrong_method && status.code == 406 => Err(Status::method_not_allowed()),
        Ok(Some(response)) => Ok(response),
        Err(status) => Err(status),
    }
}

/// Calls the endpoint of a path, for any method; `None` for unknown paths.
async fn endpoint(service: &Service, request: &Request, path: &str) -> Result<Option<Response>, Status> {
    let api = &service.api;
    Ok(match path {
        "/version" => Some(version::answer(api, request)?),
        "/metrics" if request.path == path => Some(metrics::answer(api, request).await),
        "/metrics/slis" => Some(health::indicators(api, service.is_stopping())),
        zpages::FLAGS if request.path == path => Some(zpages::flags(api, request)?),
        zpages::STATUS if request.path == path => Some(zpages::status(api, request)?),
        openid::CONFIGURATION => openid::configuration(api, request)?,
        openid::KEYS => openid::keys(api, request)?,
        path if path.starts_with("/debug/listwatch") => debug::answer(api, path),
        // Unlike elsewhere, a slash at the end is significant here.
        _ if request.path.starts_with("/openapi/") => openapi::answer(api, request, &request.path).await,
        _ => discovery::answer(api, request, path)?,
    })
}

/// Paths that answer any method. In kube-apiserver these have plain handlers, all others have one handler per method.
fn takes_any_method(service: &Service, path: &str) -> bool {
    let discovery = match parts(path).as_slice() {
        [] | ["index.html"] | ["apis"] | ["apis", _] => true,
        ["apis", group, _] => !service.api.registry.served().has_builtin_group(group),
        _ => false,
    };
    discovery
        || path.starts_with("/openapi/")
        || ["/metrics", "/metrics/slis", zpages::FLAGS, zpages::STATUS].contains(&path)
}

/// Answers a request about streams of many watches.
async fn streams(
    service: &Service,
    request: &Arc<RequestInfo>,
    wanted: &StreamRequest,
    (user, flow): (Arc<User>, Flow),
    body: &mut dyn BodySource,
) -> Result<Response, Status> {
    match (wanted, &request.http.method) {
        (StreamRequest::Features, &Method::GET) => Ok(features::answer()),
        (StreamRequest::Open, &Method::GET | &Method::POST) => {
            Box::pin(stream::open(&service.api, request, (user, flow), body)).await
        }
        (StreamRequest::Change(id), &Method::POST) => {
            Box::pin(stream::change(&service.api, request, id, (user, flow), body)).await
        }
        _ => Err(Status::method_not_allowed()),
    }
}

/// Calls the verb of a request for a resource, after checking that the path fits the resource.
///
/// All but a get and a watch are boxed: the largest of these futures would be copied at each level for every request.
async fn resource(
    service: &Service,
    request: &Arc<RequestInfo>,
    info: &Arc<ResourceInfo>,
    (user, flow): (Arc<User>, Flow),
    body: &mut dyn BodySource,
) -> Result<Response, Status> {
    let Some(resource) = &request.resource else { return unknown_resource(service, info) };
    if let Some(refusal) = check_path(resource, info, &request.http.method) {
        return refusal;
    }
    let (resource, info, request) = (Arc::clone(resource), Arc::clone(info), Arc::clone(request));
    let target = ResourceRequest { resource, info, request, user, flow };
    if let (Verb::Get, Some(part)) = (target.info.verb, target.info.history) {
        return Box::pin(history::answer(&service.api, &target, part)).await;
    }
    if component_status::serves(&target.resource) {
        return Box::pin(component_status::answer(&service.api, &target)).await;
    }
    if target.info.is_connection() && !target.resource.is_custom() {
        return Box::pin(connect::connect(&service.api, &target, body)).await;
    }
    match target.info.verb {
        Verb::Get if target.info.subresource.is_none() => get::read(&service.api, &target).await,
        Verb::List => Box::pin(list::list(&service.api, &target)).await,
        Verb::Watch => watch::watch(&service.api, &target).await,
        _ => Box::pin(write::write(&service.api, target, body)).await,
    }
}

/// The response for a resource that is not served: a Status in built-in groups, a plain 404 elsewhere, as in kube-apiserver.
fn unknown_resource(service: &Service, info: &ResourceInfo) -> Result<Response, Status> {
    let served = service.api.registry.served();
    if served.has_builtin_group(&info.group) {
        Err(Status::no_such_path())
    } else {
        Ok(respond::no_such_page())
    }
}

/// Checks that path and method fit the resource. Returns the response if they do not.
fn check_path(resource: &Resource, info: &ResourceInfo, method: &Method) -> Option<Result<Response, Status>> {
    let refusal = match resource.is_custom() {
        true => check_custom(resource, info),
        false => check_builtin(resource, info, method),
    };
    if refusal.is_some() {
        return refusal;
    }
    let name = info.name.as_deref()?;
    let why = bad_segment(name)?;
    Some(Err(Status::bad_request(format!("Name parameter invalid: {name:?}: {why}"))))
}

/// Built-in kinds have a fixed set of paths, each with its methods.
///
/// The table of kinds has the verbs; nothing is registered per path.
fn check_builtin(
    resource: &Resource,
    info: &ResourceInfo,
    method: &Method,
) -> Option<Result<Response, Status>> {
    let of_namespaces = &*resource.plural == "namespaces" && resource.group.is_empty();
    let wrong_scope = match (resource.namespaced, &info.namespace, &info.name) {
        (true, None, Some(_)) => true,
        // The request was authorized for this namespace, so it must not name another one.
        (false, Some(namespace), name) => !of_namespaces || name.as_ref() != Some(namespace),
        _ => false,
    };
    // The path after `proxy` is not interpreted, and any of the usual methods is forwarded.
    let proxied = info.subresource.as_deref() == Some("proxy") && resource.subresource("proxy").is_some();
    // Reviews are answered and not stored: there is no path with a name.
    let nameless = !["get", "update", "delete"].iter().any(|verb| resource.allows(verb));
    let no_object = nameless && info.name.is_some() && info.subresource.is_none();
    if wrong_scope || no_object || (info.too_deep && !proxied) {
        return Some(Err(Status::no_such_path()));
    }
    if proxied {
        let passed_on = info.verb != Verb::Unknown || *method == Method::OPTIONS;
        return (!passed_on).then(|| Err(Status::method_not_allowed()));
    }
    let offered = match &info.subresource {
        Some(name) => match resource.subresource(name) {
            Some(subresource) => subresource.verbs.iter().any(|v| &**v == info.verb.as_str()),
            None => return Some(Err(Status::no_such_path())),
        },
        None => is_offered(resource, info),
    };
    if info.verb == Verb::Watch && !offered && resource.allows("list") {
        return Some(Err(Status::method_not_supported(&resource.group, &resource.plural, "watch")));
    }
    (!offered || info.head).then(|| Err(Status::method_not_allowed()))
}

/// Verbs of the kind, at the paths where kube-apiserver registers them: a collection over all namespaces can only be
/// read.
fn is_offered(resource: &Resource, info: &ResourceInfo) -> bool {
    resource.allows(info.verb.as_str())
        && match info.verb {
            Verb::Create => info.name.is_none() && (!resource.namespaced || info.namespace.is_some()),
            Verb::Update | Verb::Patch => info.name.is_some(),
            // Deleting over all namespaces at once is not offered.
            Verb::DeleteCollection => !resource.namespaced || info.namespace.is_some(),
            _ => true,
        }
}

/// Custom resources share one handler in kube-apiserver. Requests it does not serve get a 404 without a Status body.
fn check_custom(resource: &Resource, info: &ResourceInfo) -> Option<Result<Response, Status>> {
    let over_all = resource.namespaced && info.namespace.is_none();
    let wrong_scope = !resource.namespaced && info.namespace.is_some();
    if wrong_scope || (over_all && !matches!(info.verb, Verb::List | Verb::Watch)) {
        return Some(Ok(respond::no_such_page()));
    }
    let unsupported = || Status::method_not_supported(&resource.group, &resource.plural, info.verb.as_str());
    let refusal = match (&info.subresource, info.verb) {
        (Some(name), verb) => match resource.subresource(name) {
            Some(subresource) if subresource.verbs.iter().any(|v| &**v == verb.as_str()) => return None,
            Some(_) => unsupported(),
            None => {
                let name = info.name.as_deref().unwrap_or_default();
                Status::not_found(&resource.group, &resource.plural, name)
            }
        },
        (None, Verb::Unknown) => unsupported(),
        (None, Verb::Update | Verb::Patch) if info.name.is_none() => {
            Status::bad_request("name must be provided")
        }
        _ => return None,
    };
    Some(Err(refusal))
}

/// Returns the reason why a name cannot be a path segment; no object has such a name.
fn bad_segment(name: &str) -> Option<&'static str> {
    match name {
        "." => Some("may not be '.'"),
        ".." => Some("may not be '..'"),
        name if name.contains('/') => Some("may not contain '/'"),
        name if name.contains('%') => Some("may not contain '%'"),
        _ => None,
    }
}
