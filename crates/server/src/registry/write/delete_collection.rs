//! DELETE of everything that a selector takes.

use std::sync::Arc;

use bytes::BytesMut;
use listwatch_wire::json::{Value, json};
use listwatch_wire::options::{ListOptions, Query};
use listwatch_wire::{Revision, Status};

use super::delete::{delete_target, read_options};
use super::target::Target;
use super::{Answer, WriteRequest};
use crate::api::Api;
use crate::cache::Object;
use crate::http::read::storage_status;
use crate::http::selectors;

/// DELETE of a collection. The answer lists the objects as they were; those that something holds are only marked.
///
/// # Errors
/// The Status to answer with. What was deleted before an error stays deleted.
pub async fn delete_collection(api: &Api, request: WriteRequest) -> Result<Answer, Status> {
    let resource = &*request.resource;
    let listing = ListOptions::parse(&Query::parse(&request.query))?;
    listing.check()?;
    let options = read_options(&request)?;
    let filter = selectors::filter(resource, request.namespace.as_deref(), None, &listing)?;
    let patience = api.options.requests.version_wait;
    api.cache.sync(patience).await.map_err(|error| storage_status(&error))?;
    let (snapshot, revision) = api.cache.read(&resource.collection);
    let limit = usize::try_from(listing.limit).ok().filter(|limit| *limit > 0).unwrap_or(usize::MAX);
    let walk = resource.collection.walk(&filter, None);
    let chosen: Vec<Arc<Object>> =
        snapshot.range(&walk).filter(|object| filter.matches(object)).take(limit).cloned().collect();
    let mut items = Vec::with_capacity(chosen.len());
    for object in chosen {
        let namespace = Some(object.namespace()).filter(|namespace| !namespace.is_empty());
        let target = Target::new(resource, namespace, object.name());
        match delete_target(api, &target, &options).await {
            Ok(_) => items.push(shown(&object, resource.is_custom())?),
            // Somebody else was faster.
            Err(status) if status.code == 404 => {}
            Err(status) => return Err(status),
        }
    }
    Ok(Answer::document(200, list(resource, revision, items)))
}

/// Items of built-in lists do not say what they are.
fn shown(object: &Object, with_type: bool) -> Result<Value, Status> {
    let mut bytes = BytesMut::new();
    object.write(b"{", &mut bytes);
    let mut item = Value::read(&bytes).map_err(Status::internal)?;
    if with_type
        && let (Some(item), Ok(Value::Object(stored))) = (item.as_object_mut(), Value::read(object.stored()))
    {
        item.extend(stored.into_iter().filter(|(key, _)| matches!(key.as_str(), "kind" | "apiVersion")));
    }
    Ok(item)
}

fn list(resource: &crate::registry::Resource, revision: Revision, items: Vec<Value>) -> Value {
    json!({
        "kind": &*resource.list_kind,
        "apiVersion": resource.api_version(),
        "metadata": {"resourceVersion": revision.to_string()},
        "items": items,
    })
}
