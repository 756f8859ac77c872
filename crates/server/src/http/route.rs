//! From a request to its handler.

use std::sync::Arc;

use http::Method;
use listwatch_wire::Status;

use super::body::Response;
use super::request::{BodySource, Request};
use super::request_info::{RequestInfo, ResourceInfo, Verb};
use super::service::Service;
use super::{debug, discovery, health, list, openapi, read, respond, watch, write};
use crate::auth::User;
use crate::registry::Resource;

/// A request for a resource that is served, by somebody who may.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) resource: Arc<Resource>,
    pub(crate) info: ResourceInfo,
    pub(crate) user: Arc<User>,
}

impl Target {
    /// The namespace to look in; `None` for all, and for cluster-scoped resources.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.info.namespace.as_deref().filter(|_| self.resource.namespaced)
    }
}

/// Finds the handler and calls it.
pub(crate) async fn route(
    service: &Service,
    request: &Request,
    info: &RequestInfo,
    user: Arc<User>,
    body: &mut dyn BodySource,
) -> Result<Response, Status> {
    match info {
        RequestInfo::Other => other(service, request).await,
        RequestInfo::Resource(info) => resource(service, request, info.clone(), user, body).await,
    }
}

async fn other(service: &Service, request: &Request) -> Result<Response, Status> {
    let path = request.path.trim_end_matches('/');
    if health::serves(path) {
        return Ok(health::answer(service, request));
    }
    let response = match path {
        "/version" => Some(discovery::version()),
        "/metrics" => Some(debug::metrics(service)),
        path if path.starts_with("/debug/listwatch") => debug::answer(service, path),
        path if path.starts_with("/openapi/") => openapi::answer(service, request, path).await,
        _ => discovery::answer(service, request, path)?,
    };
    match response {
        Some(response) if request.method == Method::GET => Ok(response),
        Some(_) => Err(Status::method_not_allowed()),
        None => Ok(respond::no_such_page()),
    }
}

async fn resource(
    service: &Service,
    request: &Request,
    info: ResourceInfo,
    user: Arc<User>,
    body: &mut dyn BodySource,
) -> Result<Response, Status> {
    let Some(resource) = service.api.registry.find(&info.group, &info.version, &info.resource) else {
        return unknown_resource(service, &info);
    };
    if let Some(refusal) = check_path(&resource, &info) {
        return refusal;
    }
    let target = Target { resource, info, user };
    match target.info.verb {
        Verb::Get if target.info.subresource.is_none() => read::read(service, request, &target).await,
        Verb::List => list::list(service, request, &target).await,
        Verb::Watch => watch::watch(service, request, &target).await,
        _ => write::write(service, request, target, body).await,
    }
}

/// Outside the built-in groups it is like any unknown page; inside it is a Status.
fn unknown_resource(service: &Service, info: &ResourceInfo) -> Result<Response, Status> {
    let served = service.api.registry.served();
    if served.has_builtin_group(&info.group) {
        Err(Status::no_such_path())
    } else {
        Ok(respond::no_such_page())
    }
}

/// Whether path and method fit the resource; if not, what to answer.
fn check_path(resource: &Resource, info: &ResourceInfo) -> Option<Result<Response, Status>> {
    let of_namespaces = &*resource.plural == "namespaces" && resource.group.is_empty();
    let wrong_scope = match (resource.namespaced, &info.namespace, &info.name) {
        (true, None, Some(_)) => true,
        (false, Some(_), _) => !of_namespaces,
        _ => false,
    };
    if wrong_scope || info.too_deep {
        return Some(not_served(resource));
    }
    if let Some(why) = info.name.as_deref().and_then(bad_segment) {
        let name = info.name.as_deref().unwrap_or_default();
        return Some(Err(Status::bad_request(format!("Name parameter invalid: {name:?}: {why}"))));
    }
    if let Some(name) = &info.subresource {
        let Some(subresource) = resource.subresource(name) else { return Some(not_served(resource)) };
        let offered = subresource.verbs.iter().any(|v| &**v == info.verb.as_str());
        return (!offered).then(|| Err(Status::method_not_allowed()));
    }
    let offered = resource.allows(info.verb.as_str())
        && match info.verb {
            Verb::Create => info.name.is_none() && (!resource.namespaced || info.namespace.is_some()),
            Verb::Update | Verb::Patch => info.name.is_some(),
            // Deleting over all namespaces at once is not offered.
            Verb::DeleteCollection => !resource.namespaced || info.namespace.is_some(),
            _ => true,
        };
    if offered {
        None
    } else if resource.is_custom() && info.verb == Verb::Create && info.name.is_none() {
        Some(Ok(respond::no_such_page()))
    } else {
        Some(Err(Status::method_not_allowed()))
    }
}

/// Why a name can be no part of a path, and so no object has it.
fn bad_segment(name: &str) -> Option<&'static str> {
    match name {
        "." => Some("may not be '.'"),
        ".." => Some("may not be '..'"),
        name if name.contains('/') => Some("may not contain '/'"),
        name if name.contains('%') => Some("may not contain '%'"),
        _ => None,
    }
}

fn not_served(resource: &Resource) -> Result<Response, Status> {
    if resource.is_custom() { Ok(respond::no_such_page()) } else { Err(Status::no_such_path()) }
}
