//! GET of one object, from the watch cache.
//!
//! Without `resourceVersion` it is a consistent read: the cache is waited for until it has the store's revision, so a
//! client sees its own writes. With 0 any state will do, with a number one at least as new. The stored bytes are
//! copied to the response; only tables, YAML, protobuf and indented JSON are encoded, and large ones beside the async
//! workers (`api/blocking.rs`). Old versions of an object are [`super::history`].

use std::sync::Arc;

use http::StatusCode;
use listwatch_wire::{Revision, Status};

use crate::api::{Api, convert, unreadable};
use crate::cache::CachedObject;
use crate::http::body::Response;
use crate::http::gzip;
use crate::http::request::Request;
use crate::registry::Resource;
use crate::request::ResourceRequest;
use crate::request::negotiate::{
    Encoding, ResponseForm, ResponseShape, ResponseSubject, Serving, negotiated,
};
use crate::request::selectors::parse_version;
use crate::respond;
use crate::verbs::list::source::about_version;
use crate::verbs::write;

/// Answers a GET of one object.
///
/// # Errors
///
/// As [`find`], and 406.
pub(crate) async fn read(api: &Arc<Api>, target: &ResourceRequest) -> Result<Response, Status> {
    let request = &target.request.http;
    let subject = ResponseSubject::of_object(target.info.subresource.as_deref());
    let form = negotiated(request, subject, Serving::of(&target.resource))?;
    if request.query.flag("export") {
        return Err(Status::bad_request(
            "the export parameter, deprecated since v1.14, is no longer supported",
        ));
    }
    let version = parse_version(request.query.text("resourceVersion"))?;
    let name = target.info.name.as_deref().unwrap_or_default();
    let object = find(api, &target.resource, target.namespace(), name, version).await?;
    let shown = convert::shown_one(api, &target.resource, Arc::clone(&object)).await;
    let object = shown.map_err(|why| unreadable::of_object(&target.resource, &object, &why))?;
    let length = object.stored().len();
    if is_copied(form) && length > api.options.requests.piece_bytes {
        api.fairness.turns_for_pieces(&target.user.name).enter().await;
    }
    if is_copied(form) || !api.blocking.takes(length) {
        return show(api, request, &target.resource, form, &object);
    }
    let (beside, request, resource) =
        (Arc::clone(api), Arc::clone(&target.request), Arc::clone(&target.resource));
    api.blocking_for(&target.user.name)
        .run(async move { show(&beside, &request.http, &resource, form, &object) })
        .await
}

/// Returns true if the bytes are sent as they are stored.
fn is_copied(form: ResponseForm) -> bool {
    form.encoding == Encoding::Json && !form.pretty && !matches!(form.shape, ResponseShape::Table(_))
}

/// The response with an object, in the negotiated form and compressed if it is worth it.
fn show(
    api: &Api,
    request: &Request,
    resource: &Resource,
    form: ResponseForm,
    object: &Arc<CachedObject>,
) -> Result<Response, Status> {
    let body = write::show(api, object, resource, form, request)?;
    let response = respond::full(StatusCode::OK, form.content_type(), body);
    Ok(gzip::compress(response, request, api.options.requests.gzip_above, &api.compressors))
}

/// One object, as new as requested: the latest without a version, any for zero, else at least that version.
///
/// A lookup in a snapshot; without a version it is preceded by a wait for the store's revision, which is a lookup in
/// memory for the embedded engine and a round trip for etcd.
///
/// # Errors
/// 404, 500 if it is there and cannot be read, 504 for a version that does not come in time.
pub(crate) async fn find(
    api: &Api,
    resource: &Resource,
    namespace: Option<&str>,
    name: &str,
    version: Option<Revision>,
) -> Result<Arc<CachedObject>, Status> {
    api.wait_for(version).await.map_err(|status| about_version(&resource.collection, status))?;
    let (snapshot, key) = (resource.collection.snapshot(), resource.key(namespace, name));
    if let Some(object) = snapshot.get(&key) {
        return Ok(Arc::clone(object));
    }
    api.cache.damage.check_one(&key)?;
    Err(Status::not_found(&resource.group, &resource.plural, name))
}
