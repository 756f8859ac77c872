//! POST: a new object.

use listwatch_kinds::meta;
use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::Value;
use listwatch_wire::options::{Query, WriteKind, WriteOptions};

use crate::admission::rights;
use crate::admission::{Operation, RequestOptions};
use crate::allocate::services::{self, Reservation};
use crate::api::Api;
use crate::api::stored::Stored;
use crate::api::stored::fresh;
use crate::auth::certificates;
use crate::pipeline::managed::Tracking;
use crate::pipeline::target::{Target, expected, place};
use crate::pipeline::transaction::{Conflict, Done, insert};
use crate::pipeline::{Answer, WriteRequest, body, now};
use crate::subresources;

/// How often a generated name is tried before giving up.
const NAME_ATTEMPTS: usize = 8;

/// POST.
///
/// # Errors
/// The Status to answer with.
pub(crate) async fn create(api: &Api, request: WriteRequest) -> Result<Answer, Status> {
    if let Some(name) = request.subresource.as_deref() {
        return subresources::create(api, &request, name).await;
    }
    let resource = &*request.resource;
    if resource.builtin.is_some_and(|kind| !kind.flags.stored) {
        return subresources::create_unstored(api, &request).await;
    }
    let options = WriteOptions::parse(&Query::parse(&request.query));
    options.check(WriteKind::Create)?;
    let content_type = request.content_type.as_deref();
    let check = |object: &mut Value| resource.rules.decode(object, None);
    let decoded =
        body::decode(content_type, &request.body, expected(resource), &check, options.validation())?;
    let mut object = decoded.object;
    place(&mut object, request.namespace.as_deref())?;
    if !object.at("metadata").text("resourceVersion").is_empty() {
        return Err(Status::bad_request("resourceVersion should not be set on objects to be created"));
    }
    resource.rules.complete(&mut object, None);
    resource.rules.track(&Tracking::new(&request, &options), None, &mut object);
    admit_new(api, &request, RequestOptions::Create(&options), &mut object).await?;
    let mut warnings = decoded.warnings;
    let done = create_object(api, &request, &options, object, &mut warnings).await?;
    Ok(done.answer().with_warnings(warnings))
}

/// Lets admission change a new object.
pub(crate) async fn admit_new(
    api: &Api,
    request: &WriteRequest,
    options: RequestOptions<'_>,
    object: &mut Value,
) -> Result<(), Status> {
    let name = object.at("metadata").text("name").to_owned();
    let attributes = request.attributes(api, Operation::Create, &name, options, None);
    api.admission.admit(&attributes, object).await
}

/// Asks admission about a new object that is ready to be stored.
pub(crate) async fn validate_new(
    api: &Api,
    request: &WriteRequest,
    options: RequestOptions<'_>,
    object: &Value,
) -> Result<(), Status> {
    let name = object.at("metadata").text("name");
    let attributes = request.attributes(api, Operation::Create, name, options, None);
    api.admission.validate(&attributes, object).await
}

/// Names the object, trying other names if it was left to the server and the first ones are taken.
async fn create_object(
    api: &Api,
    request: &WriteRequest,
    options: &WriteOptions,
    object: Value,
    warnings: &mut Vec<String>,
) -> Result<Done, Status> {
    let meta = object.at("metadata");
    let generated = meta.text("name").is_empty() && !meta.text("generateName").is_empty();
    if !generated {
        return create_named(api, request, options, object, warnings).await;
    }
    let prefix = meta.text("generateName").to_owned();
    let mut attempt = 0;
    loop {
        attempt += 1;
        let mut named = object.clone();
        if let Some(meta) = named.inner("metadata") {
            meta.put("name", meta::generated_name(&prefix, rand::random()));
        }
        let result = create_named(api, request, options, named, warnings).await;
        match result {
            Err(status) if is_taken(&status) && attempt < NAME_ATTEMPTS => {}
            Err(status) if is_taken(&status) => {
                let resource = &request.resource;
                return Err(Status::generate_name_exhausted(&resource.group, &resource.plural, &prefix));
            }
            other => return other,
        }
    }
}

fn is_taken(status: &Status) -> bool {
    status.reason == listwatch_wire::status::StatusReason::AlreadyExists
}

async fn create_named(
    api: &Api,
    request: &WriteRequest,
    options: &WriteOptions,
    mut object: Value,
    warnings: &mut Vec<String>,
) -> Result<Done, Status> {
    let resource = &*request.resource;
    let name = object.at("metadata").text("name").to_owned();
    let target = Target::new(resource, request.namespace.as_deref(), &name);
    rights::may_grant(api, request, &target, &object, None).await?;
    let reservation = Reservation::new(&api.allocator);
    warnings.extend(finish_new(&reservation, &target, request, &mut object)?);
    loop {
        validate_new(api, request, RequestOptions::Create(options), &object).await?;
        if options.is_dry_run() {
            return match fresh(api, &target).await? {
                Some(_) => Err(exists(&target)),
                None => Ok(Done::Dry { object, created: true, removed: false }),
            };
        }
        match insert(api, &target, object.clone(), request.record.take_charges()).await? {
            Ok(done) => {
                reservation.keep();
                return Ok(done);
            }
            Err(Conflict::Object(there)) => return Err(taken(&target, there.as_ref())),
            // Somebody else was charged meanwhile, and there may be no room left.
            Err(Conflict::Charge) => api.wait_for(None).await?,
        }
    }
}

fn taken(target: &Target<'_>, there: Option<&Stored>) -> Status {
    let mut status = exists(target);
    if there.is_some_and(|there| there.value.at("metadata").has("deletionTimestamp")) {
        status.message = format!("object is being deleted: {}", status.message);
    }
    status
}

fn exists(target: &Target<'_>) -> Status {
    Status::already_exists(&target.resource.group, &target.resource.plural, target.name)
}

/// Everything between a decoded object with its owners and one that can be stored; what to warn of.
pub(crate) fn finish_new(
    reservation: &Reservation<'_>,
    target: &Target<'_>,
    request: &WriteRequest,
    object: &mut Value,
) -> Result<Vec<String>, Status> {
    let resource = target.resource;
    let rules = &resource.rules;
    let mut warnings = Vec::new();
    if let Some(meta) = object.inner_or_new("metadata") {
        meta::stamp_new(meta, &uuid::Uuid::new_v4().to_string(), &now());
        warnings.extend(meta::drop_duplicate_owners(meta));
    }
    rules.prepare_create(object);
    match (&*resource.group, &*resource.kind) {
        ("", "Service") => services::allocate(reservation, target, object)?,
        ("certificates.k8s.io", "CertificateSigningRequest") => {
            certificates::name_requester(&request.user, object);
        }
        _ => {}
    }
    let errors = rules.validate_create(object);
    if !errors.is_empty() {
        return Err(target.invalid(&errors));
    }
    warnings.extend(rules.warnings(object, None));
    Ok(warnings)
}
