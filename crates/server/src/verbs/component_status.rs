//! GET and LIST of ComponentStatus, a deprecated kind that is computed on request.
//!
//! Nothing is stored, so its objects have no uid, creation time or resourceVersion, and options about revisions and pages
//! are checked but have no effect, as in kube-apiserver. The components are checked in `api/components.rs`.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::join_all;
use http::StatusCode;
use listwatch_kinds::tree::Tree;
use listwatch_wire::json::{Value, encode, json};
use listwatch_wire::options::ListOptions;
use listwatch_wire::{Revision, Status};

use crate::api::{Api, COMPONENTS, ComponentHealth};
use crate::cache::CachedObject;
use crate::http::body::Response;
use crate::pipeline::collected::CollectedPage;
use crate::registry::Resource;
use crate::request::ResourceRequest;
use crate::request::info::Verb;
use crate::request::negotiate::{ResponseSubject, Serving, negotiated};
use crate::request::selectors;
use crate::respond;
use crate::respond::table::Include;
use crate::verbs::write;

/// Returns true for the resource that is answered here.
pub(crate) fn serves(resource: &Resource) -> bool {
    resource.group.is_empty() && &*resource.plural == "componentstatuses"
}

/// Answers a GET or LIST.
///
/// # Errors
/// 404, 406, and those of the options of a list.
pub(crate) async fn answer(api: &Arc<Api>, target: &ResourceRequest) -> Result<Response, Status> {
    match target.info.verb {
        Verb::Get => get(api, target).await,
        Verb::List => list(api, target).await,
        _ => Err(Status::method_not_allowed()),
    }
}

/// Answers a GET of one component.
async fn get(api: &Api, target: &ResourceRequest) -> Result<Response, Status> {
    let request = &target.request.http;
    let form = negotiated(request, ResponseSubject::Object, Serving::Routed)?;
    let name = target.info.name.as_deref().unwrap_or_default();
    let missing = || Status::not_found("", "componentstatus", name);
    let object = component(api, &target.resource, name).await.ok_or_else(missing)?;
    let body = write::show(api, &object, &target.resource, form, request)?;
    Ok(respond::full(StatusCode::OK, form.content_type(), body))
}

/// Answers a list. The components are checked concurrently, since one that does not answer takes its whole timeout.
async fn list(api: &Api, target: &ResourceRequest) -> Result<Response, Status> {
    let (request, resource) = (&target.request.http, &target.resource);
    let form = negotiated(request, ResponseSubject::List, Serving::Routed)?;
    let options = ListOptions::parse(&request.query)?;
    options.check()?;
    let filter = selectors::filter(resource, None, None, &options)?;
    let include = Include::wanted(form, request)?;
    let all = join_all(COMPONENTS.map(|name| component(api, resource, name))).await;
    let objects = all.into_iter().flatten().filter(|object| filter.matches(object)).collect();
    let page = CollectedPage { objects, revision: Revision(0), more: None };
    let blocking = api.blocking_for(&target.user.name);
    let body = page.body(api, &blocking, resource, form, include).await?;
    Ok(respond::with_type(StatusCode::OK, form.content_type(), body))
}

/// The status of one component as an object; `None` if there is no such component.
async fn component(api: &Api, resource: &Resource, name: &str) -> Option<Arc<CachedObject>> {
    let health = api.component(name).await?;
    let key = resource.key(None, name);
    let path = key.len().saturating_sub(name.len());
    let value = Bytes::from(encode(&document(name, &health)));
    CachedObject::new(key, path, value, Revision(0)).map(Arc::new)
}

/// A ComponentStatus, made for each request.
fn document(name: &str, health: &ComponentHealth) -> Value {
    let status = if health.healthy { "True" } else { "False" };
    let mut condition = json!({"type": "Healthy", "status": status});
    for (key, text) in [("message", &health.message), ("error", &health.error)] {
        if !text.is_empty() {
            condition.put(key, text.as_str());
        }
    }
    json!({"kind": "ComponentStatus", "apiVersion": "v1", "metadata": {"name": name}, "conditions": [condition]})
}
