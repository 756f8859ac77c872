//! DELETE of one object: the DeleteOptions of the request, and the form of its response.
//!
//! Options come from the body, or from the query if there is none, as in kube-apiserver; they are not merged. The
//! response is a Status for most kinds and the object for those whose strategy says so, and the object while
//! finalizers hold it. Removal, grace periods and finalizers are `pipeline/before_delete.rs`; a whole collection is
//! [`super::delete_collection`].

use listwatch_kinds::tree::Tree;
use listwatch_kinds::{schema, typecheck};
use listwatch_wire::options::DeleteOptions;
use listwatch_wire::{Status, json};

use crate::api::Api;
use crate::pipeline::delete::{DeletionAdmission, delete_target};
use crate::pipeline::target::Target;
use crate::pipeline::transaction::{Done, shown};
use crate::pipeline::{Answer, AnswerBody, WriteRequest, body, type_meta, yaml};
use crate::subresources;

/// DELETE of one object.
///
/// # Errors
/// The Status to answer with.
pub(crate) async fn delete(api: &Api, request: WriteRequest) -> Result<Answer, Status> {
    if request.subresource.is_some() {
        return Err(subresources::unsupported(&request));
    }
    let options = read_options(&request)?;
    warn_of_orphans(&request, &options);
    let target = request.target();
    if target.is_system_class() {
        let why = "this is a system priority class and cannot be deleted";
        return Err(Status::forbidden(&target.resource.group, &target.resource.plural, target.name, why));
    }
    let done = delete_target(api, &target, &options, request.writer(), DeletionAdmission::Named).await?;
    answer(&target, &options, done)
}

/// Warns of the Pods that a Job leaves behind unless its deletion says otherwise.
pub(super) fn warn_of_orphans(request: &WriteRequest, options: &DeleteOptions) {
    let resource = &request.resource;
    let is_job = (&*resource.group, &*resource.kind) == ("batch", "Job");
    if is_job && options.propagation().is_none() {
        let text = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to \
                    remove them or set propagationPolicy=Orphan to suppress this warning";
        request.record.warn(text.to_owned());
    }
}

/// The options of a DELETE: in the body, or in the query if there is none.
///
/// # Errors
///
/// 400 for options that cannot be read, 422 for values that contradict each other.
pub(crate) fn read_options(request: &WriteRequest) -> Result<DeleteOptions, Status> {
    let options =
        if request.body.is_empty() { DeleteOptions::parse(&request.query)? } else { from_body(request)? };
    options.check()?;
    Ok(options)
}

/// Reads DeleteOptions from a body in JSON, YAML or protobuf.
fn from_body(request: &WriteRequest) -> Result<DeleteOptions, Status> {
    let value = match &*body::media_type(request.content_type.as_deref()) {
        "application/vnd.kubernetes.protobuf" => {
            listwatch_kinds::proto::decode(&request.body, ("v1", "DeleteOptions"))
                .map_err(|error| Status::bad_request(error.to_string()))?
        }
        "application/yaml" => yaml::read(&request.body).map_err(Status::bad_request)?.value,
        "" | "application/json" => {
            let parsed = json::parse(&request.body);
            parsed
                .map_err(|error| {
                    Status::bad_request(format!("couldn't get version/kind; json parse error: {error}"))
                })?
                .value
        }
        _ => return Err(Status::unsupported_media_type(&[body::JSON, body::YAML, body::PROTOBUF])),
    };
    if value.is_null() {
        return Ok(DeleteOptions::default());
    }
    let Some(fields) = value.as_object() else {
        return Err(Status::bad_request(type_meta::no_type(&value)));
    };
    let text = |key: &str| type_meta::type_text(fields, key).map_err(Status::bad_request);
    let (kind, version) = (text("kind")?, text("apiVersion")?);
    let version = if version.is_empty() { "meta.k8s.io/v1" } else { version };
    if !matches!(kind, "" | "DeleteOptions") {
        return Err(Status::bad_request(format!(
            "no kind {kind:?} is registered for version {version:?} in scheme \"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27\""
        )));
    }
    let typed =
        schema::node("", "v1", "DeleteOptions").map(|node| typecheck::decode(node, &mut value.clone(), None));
    if let Some(error) = typed.and_then(|report| report.error) {
        return Err(Status::bad_request(error));
    }
    value.to_type().map_err(|error| Status::bad_request(error.to_string()))
}

/// The response to a deletion: a Status or the object, by the strategy of the kind, and the object while something
/// holds it.
///
/// An object that is held is shown as it is now, with its deletion timestamp.
fn answer(target: &Target<'_>, options: &DeleteOptions, done: Done) -> Result<Answer, Status> {
    let resource = target.resource;
    let gone = |uid: &str| {
        let status = Status::deleted(&resource.group, &resource.plural, target.name, uid);
        Answer::status(200, status)
    };
    Ok(match done {
        Done::Removed { object, .. } if !resource.rules.returns_deleted_object() => {
            gone(object.field("metadata.uid").unwrap_or_default())
        }
        Done::Removed { object, at } => {
            let object = shown(target, object.stored().clone(), at)?;
            Answer { code: 200, body: AnswerBody::Object(object), warnings: Vec::new() }
        }
        Done::Dry { object, removed: true, .. } if !resource.rules.returns_deleted_object() => {
            gone(object.at("metadata").text("uid"))
        }
        Done::Dry { object, removed: false, .. } if options.orphan_dependents == Some(false) => {
            Answer::document(202, object)
        }
        Done::Stored { object, .. } => {
            // The code for the deprecated `orphanDependents: false`.
            let code = if options.orphan_dependents == Some(false) { 202 } else { 200 };
            Answer { code, body: AnswerBody::Object(object), warnings: Vec::new() }
        }
        other => other.answer(),
    })
}
