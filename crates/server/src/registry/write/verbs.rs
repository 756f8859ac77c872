//! The verbs in their plainest form: no defaults, no validation beyond what the store needs.

use std::sync::Arc;

use bytes::Bytes;
use listwatch_storage::{Expect, Write, Written};
use listwatch_wire::{Revision, Status, json};
use serde_json::Value;

use super::{Answer, AnswerBody, WriteRequest};
use crate::api::Api;
use crate::cache::Object;

/// POST.
///
/// # Errors
/// The Status to answer with.
pub async fn create(api: &Api, request: WriteRequest) -> Result<Answer, Status> {
    let mut object = decode(&request)?;
    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
    prepare(&mut object, &request);
    object["metadata"]["uid"] = uuid::Uuid::new_v4().to_string().into();
    object["metadata"]["creationTimestamp"] =
        jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into();
    let resource = &request.resource;
    match put(api, &request, &name, &object, Expect::Absent).await? {
        Ok(object) => Ok(Answer { code: 201, body: AnswerBody::Object(object), warnings: Vec::new() }),
        Err(_) => Err(Status::already_exists(&resource.group, &resource.plural, &name)),
    }
}

/// PUT.
///
/// # Errors
/// The Status to answer with.
pub async fn update(api: &Api, request: WriteRequest) -> Result<Answer, Status> {
    let (resource, name) = (&request.resource, request.name.clone().unwrap_or_default());
    let object = decode(&request)?;
    let asked = object.pointer("/metadata/resourceVersion").and_then(Value::as_str).map(str::to_owned);
    loop {
        let (stored, revision) = stored(api, &request, &name).await?;
        if asked.as_ref().is_some_and(|asked| *asked != revision.to_string()) {
            return Err(Status::modified(&resource.group, &resource.plural, &name));
        }
        let mut object = object.clone();
        prepare(&mut object, &request);
        for field in ["uid", "creationTimestamp"] {
            object["metadata"][field] = stored["metadata"][field].clone();
        }
        if let Ok(object) = put(api, &request, &name, &object, Expect::At(revision)).await? {
            return Ok(Answer { code: 200, body: AnswerBody::Object(object), warnings: Vec::new() });
        }
    }
}

/// PATCH.
///
/// # Errors
/// The Status to answer with.
pub async fn patch(_api: &Api, _request: WriteRequest) -> Result<Answer, Status> {
    Err(Status::unsupported_media_type(&[]))
}

/// DELETE of one object.
///
/// # Errors
/// The Status to answer with.
pub async fn delete(api: &Api, request: WriteRequest) -> Result<Answer, Status> {
    let (resource, name) = (&request.resource, request.name.clone().unwrap_or_default());
    let (stored, _) = stored(api, &request, &name).await?;
    let key = resource.key(request.namespace.as_deref(), &name);
    api.engine.write(Write { key, value: None, expect: Expect::Any }).await.map_err(Status::internal)?;
    let uid = stored.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default();
    let status = Status::deleted(&resource.group, &resource.plural, &name, uid);
    Ok(Answer { code: 200, body: AnswerBody::Status(status), warnings: Vec::new() })
}

/// DELETE of a collection.
///
/// # Errors
/// The Status to answer with.
pub async fn delete_collection(_api: &Api, _request: WriteRequest) -> Result<Answer, Status> {
    Err(Status::method_not_allowed())
}

/// GET of a subresource.
///
/// # Errors
/// The Status to answer with.
pub async fn read_subresource(api: &Api, request: WriteRequest) -> Result<Answer, Status> {
    let (object, _) = stored(api, &request, request.name.as_deref().unwrap_or_default()).await?;
    Ok(Answer { code: 200, body: AnswerBody::Document(object), warnings: Vec::new() })
}

fn decode(request: &WriteRequest) -> Result<Value, Status> {
    let value: Value = serde_json::from_slice(&request.body).map_err(|error| Status::bad_request(error.to_string()))?;
    if value.pointer("/metadata/name").and_then(Value::as_str).is_none() {
        return Err(Status::bad_request("name is required"));
    }
    Ok(value)
}

fn prepare(object: &mut Value, request: &WriteRequest) {
    object["kind"] = (*request.resource.kind).into();
    object["apiVersion"] = request.resource.api_version().into();
    if let Some(namespace) = &request.namespace {
        object["metadata"]["namespace"] = namespace.as_str().into();
    }
}

/// What is stored, and its revision.
async fn stored(api: &Api, request: &WriteRequest, name: &str) -> Result<(Value, Revision), Status> {
    let resource = &request.resource;
    let key = resource.key(request.namespace.as_deref(), name);
    let found = api.engine.get(&key, None).await.map_err(Status::internal)?;
    let found = found.ok_or_else(|| Status::not_found(&resource.group, &resource.plural, name))?;
    Ok((serde_json::from_slice(&found.value).map_err(Status::internal)?, found.revision))
}

/// Writes; the inner error is what stood in the way.
async fn put(
    api: &Api,
    request: &WriteRequest,
    name: &str,
    object: &Value,
    expect: Expect,
) -> Result<Result<Arc<Object>, ()>, Status> {
    let resource = &request.resource;
    let key = resource.key(request.namespace.as_deref(), name);
    let value = Bytes::from(json::encode_stored(object));
    let write = Write { key: Arc::clone(&key), value: Some(value.clone()), expect };
    match api.engine.write(write).await.map_err(Status::internal)? {
        Written::Done { revision } => {
            let object = resource.collection.object(&key, value, revision);
            object.map(Ok).ok_or_else(|| Status::internal("the written object cannot be read back"))
        }
        Written::Refused { .. } => Ok(Err(())),
    }
}
