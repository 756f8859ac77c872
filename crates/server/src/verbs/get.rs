//! GET of one object.

use std::sync::Arc;

use http::StatusCode;
use http::header::ACCEPT;
use listwatch_wire::{Revision, Status};

use crate::api::Api;
use crate::cache::Object;
use crate::chain::route::Target;
use crate::chain::service::{Service, wants_pretty};
use crate::http::body::Response;
use crate::http::gzip;
use crate::http::request::Request;
use crate::registry::Resource;
use crate::request::negotiate;
use crate::request::negotiate::{Form, Subject};
use crate::respond;
use crate::verbs::write;

/// Answers a GET of one object.
pub(crate) async fn read(service: &Service, request: &Request, target: &Target) -> Result<Response, Status> {
    let form = negotiated(request, Subject::Object, !target.resource.is_custom())?;
    if request.query().flag("export") {
        return Err(Status::bad_request(
            "the export parameter, deprecated since v1.14, is no longer supported",
        ));
    }
    let version = parse_version(request.query().text("resourceVersion"))?;
    let name = target.info.name.as_deref().unwrap_or_default();
    let object = find(&service.api, &target.resource, target.namespace(), name, version).await?;
    let body = write::show(&object, &target.resource, form, request)?;
    let response = respond::full(StatusCode::OK, form.content_type(), body);
    Ok(gzip::compress(response, request, service.api.options.requests.gzip_above))
}

/// The form to answer in, or 406. What is `typed` can be had as protobuf.
pub(crate) fn negotiated(request: &Request, subject: Subject, typed: bool) -> Result<Form, Status> {
    let form = negotiate::negotiate(request.header(ACCEPT), subject, typed)
        .ok_or_else(|| Status::not_acceptable(subject.offered()))?;
    Ok(Form { pretty: form.pretty || wants_pretty(request), ..form })
}

/// A resourceVersion parameter: `None` for none.
///
/// # Errors
/// 400 if it is no number.
pub(crate) fn parse_version(text: &str) -> Result<Option<Revision>, Status> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| {
        let quoted = listwatch_wire::go::quote(text);
        let why = format!("strconv.ParseUint: parsing {quoted}: invalid syntax");
        Status::bad_request(format!(
            "invalid resource version: resourceVersion: Invalid value: {quoted}: {why}"
        ))
    })
}

/// One object, as new as asked for: the latest without a version, any for zero, else at least as new as it says.
///
/// # Errors
/// 404, or 504 for a version that does not come in time.
pub(crate) async fn find(
    api: &Api,
    resource: &Resource,
    namespace: Option<&str>,
    name: &str,
    version: Option<Revision>,
) -> Result<Arc<Object>, Status> {
    wait_for(api, version).await?;
    let snapshot = resource.collection.snapshot();
    let object = snapshot.get(&resource.key(namespace, name)).cloned();
    object.ok_or_else(|| Status::not_found(&resource.group, &resource.plural, name))
}

/// Waits until the cache is as new as asked for.
pub(crate) async fn wait_for(api: &Api, version: Option<Revision>) -> Result<(), Status> {
    let patience = api.options.requests.version_wait;
    let position = api.cache.position();
    match version {
        Some(Revision::ZERO) => Ok(()),
        Some(version) if position.wait_for(version, patience).await => Ok(()),
        Some(version) => Err(Status::too_large_resource_version(version.0, position.get().0, 1)),
        None => match api.cache.sync(patience).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(Status::timeout("the cache does not keep up with the store", 1)),
            Err(error) => Err(storage_status(&error)),
        },
    }
}

/// What a failing store means to a client.
pub(crate) fn storage_status(error: &listwatch_storage::Error) -> Status {
    use listwatch_storage::Error;
    match error {
        Error::Compacted { .. } => Status::expired("The resourceVersion for the provided list is too old."),
        Error::Future { asked, current } => Status::too_large_resource_version(asked.0, current.0, 1),
        Error::Unavailable(_) | Error::Closed => {
            Status::service_unavailable(error.to_string()).with_retry_after(1)
        }
        _ => Status::internal(error),
    }
}
