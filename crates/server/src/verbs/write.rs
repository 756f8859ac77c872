//! The common part of the write verbs: body, seats and options before; content negotiation, conversion and warnings
//! after.
//!
//! The order is about resources: memory for the body is reserved per user before it is read, seats are taken after
//! it, so that a slow upload holds none, and work on large objects moves to blocking threads. GETs of subresources
//! come here as well, since they share the response's form. The rules of writing are in [`crate::pipeline`]; before
//! this is [`crate::chain::route`].

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use http::header::{CONTENT_TYPE, USER_AGENT};
use listwatch_wire::Status;

use crate::api::convert::{self, ConversionFreshness};
use crate::api::{Api, BodyReservation};
use crate::auth::User;
use crate::cache::CachedObject;
use crate::http::body::Response;
use crate::http::request::{BodyProblem, BodySource, Request};
use crate::pipeline::{Answer, AnswerBody, WriteRequest};
use crate::registry::Resource;
use crate::request::ResourceRequest;
use crate::request::info::Verb;
use crate::request::negotiate::{self, Encoding, ResponseForm, ResponseShape, ResponseSubject, Serving};
use crate::request::selectors::parse_version;
use crate::respond;
use crate::respond::{encode, protobuf, table};
use crate::subresources;
use crate::verbs::{create, delete, delete_collection, patch, unfit, update};

/// Answers a write, or a request for a subresource.
///
/// Reads the body, decides on the thread, performs the verb and encodes the response. `weight` above the bound of
/// `api/blocking.rs` moves the whole verb beside the async workers.
///
/// # Errors
/// 406, 413, 400 or 504 for the body, 429 without seats, and those of the verb. If admission added warnings, an error
/// is a response with them instead.
pub(crate) async fn write(
    api: &Arc<Api>,
    target: ResourceRequest,
    body: &mut dyn BodySource,
) -> Result<Response, Status> {
    let request = &target.request.http;
    let form = response_form(&target)?;
    let limit = api.options.requests.body_bytes;
    let (body, _room) = read_body(api, &target.user.name, body, limit).await?;
    target.request.audit.iter().for_each(|audit| audit.read(&body));
    // Taken after the body is read: a slow upload would otherwise hold the seat.
    let _seats = target.flow.enter(1).await?;
    let (resource, verb) = (&target.resource, target.info.verb);
    let writing = write_request(&target, body);
    let record = Arc::clone(&writing.record);
    let is_slow = api.slow_writes.contains(resource.collection.name());
    let answer = if is_slow || api.blocking.takes(weight(&writing)) {
        let (beside, resource, request) =
            (Arc::clone(api), Arc::clone(resource), Arc::clone(&target.request));
        let work = async move {
            let write = perform(&beside, verb, writing, &resource, form, &request.http);
            // A slow one of a small object makes the next one come here again.
            match is_slow {
                true => beside.slow_writes.timed(resource.collection.name(), write).await,
                false => write.await,
            }
        };
        api.blocking_for(&target.user.name).run(work).await
    } else {
        let write = perform(api, verb, writing, resource, form, request);
        api.slow_writes.timed(resource.collection.name(), write).await
    };
    target.request.audit.iter().for_each(|audit| audit.annotate(record.annotations()));
    answer
}

/// Negotiates the form of the response.
///
/// # Errors
/// 406 if there is none that the client accepts.
fn response_form(target: &ResourceRequest) -> Result<ResponseForm, Status> {
    let subject = match target.info.verb {
        Verb::DeleteCollection => ResponseSubject::List,
        _ if is_answered_only(target) => ResponseSubject::Plain,
        _ => ResponseSubject::of_object(target.info.subresource.as_deref()),
    };
    negotiate::negotiated(&target.request.http, subject, Serving::of(&target.resource))
}

/// The request as the verbs take it.
fn write_request(target: &ResourceRequest, body: Bytes) -> WriteRequest {
    let (resource, info, request) = (&target.resource, &target.info, &target.request.http);
    // A custom object that is created is named by its body alone: kube-apiserver ignores a name in the path.
    let names_itself = resource.is_custom() && info.verb == Verb::Create && info.subresource.is_none();
    WriteRequest {
        resource: Arc::clone(resource),
        namespace: info.namespace.clone().filter(|_| resource.namespaced),
        name: info.name.clone().filter(|_| !names_itself),
        subresource: info.subresource.clone(),
        query: Arc::clone(&request.query),
        content_type: request.header(CONTENT_TYPE).map(str::to_owned),
        body,
        user: Arc::clone(&target.user),
        user_agent: request.header(USER_AGENT).unwrap_or_default().to_owned(),
        record: Arc::default(),
    }
}

/// The larger of the body and the stored object: the cost of a write grows with both.
/// The stored size comes from the cache and may be behind; it only decides on which thread the work is done.
fn weight(writing: &WriteRequest) -> usize {
    let stored = writing.name.as_deref().and_then(|name| {
        let key = writing.resource.key(writing.namespace.as_deref(), name);
        writing.resource.collection.snapshot().get(&key).map(|object| object.stored().len())
    });
    let sent = if has_anchors(writing) { usize::MAX } else { writing.body.len() };
    sent.max(stored.unwrap_or(0))
}

/// Returns true for YAML with anchors, which can expand to many times its length.
fn has_anchors(writing: &WriteRequest) -> bool {
    let yaml = writing.content_type.as_deref().is_some_and(|kind| kind.contains("yaml"));
    yaml && memchr::memchr(b'&', &writing.body).is_some()
}

/// The write itself, and its response.
async fn perform(
    api: &Arc<Api>,
    verb: Verb,
    writing: WriteRequest,
    resource: &Arc<Resource>,
    form: ResponseForm,
    request: &Request,
) -> Result<Response, Status> {
    let (record, user) = (Arc::clone(&writing.record), Arc::clone(&writing.user));
    // Boxed, so that this is the only copy of the large futures: see `Service::serve`.
    let answer = Box::pin(perform_verb(api, verb, writing)).await;
    let warnings = record.warnings();
    match answer {
        Ok(mut answer) => {
            answer.warnings.extend(warnings);
            answer.body = in_version(api, resource, answer.body).await?;
            respond_with(api, &user, answer, resource, form, request).await
        }
        Err(status) if warnings.is_empty() => Err(status),
        // Admission may add a warning and still reject the request.
        Err(status) => {
            let mut response = respond::status(&status, negotiate::status_form(request));
            respond::warn(&mut response, warnings.iter().map(String::as_str));
            Ok(response)
        }
    }
}

/// One match for all verbs, so that the large futures exist once.
async fn perform_verb(api: &Api, verb: Verb, writing: WriteRequest) -> Result<Answer, Status> {
    match verb {
        Verb::Get => {
            api.wait_for(parse_version(writing.query.text("resourceVersion"))?).await?;
            subresources::read_subresource(api, writing).await
        }
        Verb::Create => create::create(api, writing).await,
        Verb::Update => update::update(api, writing).await,
        Verb::Patch => patch::patch(api, writing).await,
        Verb::Delete => delete::delete(api, writing).await,
        Verb::DeleteCollection => delete_collection::delete_collection(api, writing).await,
        Verb::List | Verb::Watch | Verb::Unknown => Err(Status::method_not_allowed()),
    }
}

/// Stored objects of a response as the resource shows them, where a webhook converts them.
async fn in_version(api: &Api, resource: &Resource, body: AnswerBody) -> Result<AnswerBody, Status> {
    Ok(match body {
        AnswerBody::Object(object) => AnswerBody::Object(convert::shown_one(api, resource, object).await?),
        AnswerBody::List(mut list) => {
            list.objects = convert::shown(api, resource, list.objects, ConversionFreshness::Own).await?;
            AnswerBody::List(list)
        }
        other => other,
    })
}

/// Reviews, bindings and the like are answered and not kept. They have no rows to show.
fn is_answered_only(target: &ResourceRequest) -> bool {
    target.resource.builtin.is_some_and(|kind| !kind.flags.stored)
        || matches!(target.info.subresource.as_deref(), Some("binding" | "eviction" | "token"))
}

/// The memory to reserve for a body: its declared length, or the limit if it is chunked.
///
/// A chunked body is reserved with the limit, because its length is not known before it is read.
pub(crate) fn body_bytes(body: &dyn BodySource, limit: usize) -> usize {
    body.most().and_then(|most| usize::try_from(most).ok()).map_or(limit, |most| most.min(limit))
}

/// Reads a body of at most `limit` bytes, once its user has memory for it. The memory is returned with it.
///
/// # Errors
///
/// 413 above the limit, 504 for one that is too slow, 400 for one that breaks off, 429 if it can neither wait nor be waited
/// for ([`crate::api::BodyMemory`]).
pub(crate) async fn read_body(
    api: &Api,
    user: &str,
    body: &mut dyn BodySource,
    limit: usize,
) -> Result<(Bytes, Option<BodyReservation>), Status> {
    let room = api.bodies.enter(user, body_bytes(body, limit)).await?;
    let reading = arrival(api, body, limit);
    let body = match &room {
        Some(room) => room.read(reading).await?,
        None => reading.await?,
    };
    Ok((body, room))
}

/// Reads a body for as long as it may take.
async fn arrival(api: &Api, body: &mut dyn BodySource, limit: usize) -> Result<Bytes, Status> {
    let patience = api.options.http.body_timeout;
    match tokio::time::timeout(patience, body.read(limit)).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(BodyProblem::TooLarge)) => Err(Status::too_large(&format!("limit is {limit}"))),
        Ok(Err(BodyProblem::Malformed)) => Err(Status::bad_request("the request body is malformed")),
        Ok(Err(BodyProblem::Cut)) => Err(Status::bad_request("the request body broke off")),
        Err(_) => Err(Status::timeout("the request body took too long to arrive", 0)),
    }
}

/// Objects are encoded from stored bytes where they were stored, and from the tree where nothing was: dry runs and
/// subresources.
async fn respond_with(
    api: &Api,
    user: &User,
    answer: Answer,
    resource: &Arc<Resource>,
    form: ResponseForm,
    request: &Request,
) -> Result<Response, Status> {
    let code = StatusCode::from_u16(answer.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = match answer.body {
        AnswerBody::Object(object) => {
            respond::full(code, form.content_type(), show(api, &object, resource, form, request)?)
        }
        AnswerBody::Document(value) => {
            let json = document(&value, resource, form, request)?;
            respond::full(code, form.content_type(), encode::document(json, form)?)
        }
        AnswerBody::List(list) => {
            let include = table::Include::wanted(form, request)?;
            let blocking = api.blocking_for(&user.name);
            let body = Box::pin(list.body(api, &blocking, resource, form, include)).await?;
            respond::with_type(code, form.content_type(), body)
        }
        AnswerBody::Status(status) => {
            let mut response = respond::status(&status, form);
            *response.status_mut() = code;
            response
        }
    };
    respond::warn(&mut response, answer.warnings.iter().map(String::as_str));
    Ok(response)
}

/// One object in the negotiated encoding.
///
/// Protobuf is made from the tree, if that is known: after a write it always is.
pub(crate) fn show(
    api: &Api,
    object: &Arc<CachedObject>,
    resource: &Resource,
    form: ResponseForm,
    request: &Request,
) -> Result<Bytes, Status> {
    if form.encoding == Encoding::Protobuf
        && form.shape == ResponseShape::Whole
        && let Some(document) = known_protobuf(api, object, resource)
    {
        return document;
    }
    let object = &resource.present(object);
    let json = match form.shape {
        ResponseShape::Whole => encode::object(object, resource),
        ResponseShape::Metadata(meta) => encode::partial(object, resource, object.revision(), meta),
        ResponseShape::Table(meta) => {
            let include = table::Include::wanted(form, request)?;
            table::single(resource, &encode::object(object, resource), meta, include)
        }
        ResponseShape::Unfit => return Err(unfit::object(resource)),
    };
    encode::document(json, form)
}

/// The protobuf form of an object whose tree is known. That of the stored version is shared with watchers.
fn known_protobuf(
    api: &Api,
    object: &Arc<CachedObject>,
    resource: &Resource,
) -> Option<Result<Bytes, Status>> {
    let (trees, revision) = (&api.cache.trees, object.revision());
    let make = |tree| protobuf::object(resource, tree, revision);
    match resource.present.is_none() {
        true => trees.protobuf(object, revision, make),
        false => trees.peek(object).map(make),
    }
}

/// A document that is not an object of the resource's collection: dry runs and subresources.
fn document(
    value: &listwatch_wire::json::Value,
    resource: &Resource,
    form: ResponseForm,
    request: &Request,
) -> Result<Bytes, Status> {
    let json = Bytes::from(listwatch_wire::json::encode(value));
    let kind = value.get("kind").and_then(|k| k.as_str()).unwrap_or_default();
    let (own, scale) = (kind == &*resource.kind, kind == "Scale");
    Ok(match form.shape {
        ResponseShape::Table(meta) if scale => {
            table::scale(value, resource.custom.is_some(), meta, table::Include::wanted(form, request)?)
        }
        ResponseShape::Table(meta) if own => {
            table::single(resource, &json, meta, table::Include::wanted(form, request)?)
        }
        ResponseShape::Metadata(meta) if own || scale => {
            let metadata = value.get("metadata").cloned().unwrap_or_default();
            let partial = listwatch_wire::json::json!({
                "kind": "PartialObjectMetadata", "apiVersion": meta.api_version(), "metadata": metadata,
            });
            listwatch_wire::json::encode(&partial).into()
        }
        ResponseShape::Unfit if own => return Err(unfit::object(resource)),
        ResponseShape::Unfit if scale => return Err(unfit::scale(resource)),
        _ => json,
    })
}
