//! Create: the steps of a POST, from its body to the commit, with a given or a generated name.
//!
//! A generated name that is taken is generated again, a few times, as in kube-apiserver. A name that was given and is
//! taken is a 409.
//!
//! `verbs/create.rs` decides what is created for a path; [`super::change`] has the steps that create and update share.

use listwatch_kinds::meta;
use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::Value;
use listwatch_wire::options::{WriteKind, WriteOptions};
use listwatch_wire::status::StatusReason;

use crate::allocate::reservation::Reservation;
use crate::api::stored::{Stored, fresh};
use crate::api::{Api, RequestOptions, TemplateKey, TemplateObject, convert};
use crate::pipeline::change::ObjectChange;
use crate::pipeline::commit::{CommitConflict, insert};
use crate::pipeline::managed::Tracking;
use crate::pipeline::target::{Target, expected, place};
use crate::pipeline::transaction::Done;
use crate::pipeline::{Answer, WriteRequest, body};
use crate::registry::Resource;
use crate::registry::view::ObjectView;

/// Attempts with a generated name before giving up.
///
/// kube-apiserver's number.
const NAME_ATTEMPTS: usize = 8;

/// Decodes and stores a new object.
///
/// Mutating admission runs once, before the name is generated; preparation and validation run for each name that is
/// tried.
///
/// # Errors
/// The Status to answer with.
pub(crate) async fn create(api: &Api, request: &WriteRequest) -> Result<Answer, Status> {
    body::check_media_type(request.content_type.as_deref(), expected(&request.resource))?;
    let options = WriteOptions::parse(&request.query);
    options.check(WriteKind::Create)?;
    let tracking = Tracking::new(request, &options);
    let TemplateObject { object, mut warnings } = decoded(api, request, &options, &tracking)?;
    let change = ObjectChange {
        api,
        request,
        options: RequestOptions::Create(&options),
        tracking,
        view: ObjectView::Whole,
        reservation: Reservation::new(&api.allocator),
    };
    match admit_and_create(&change, options.is_dry_run(), object, &mut warnings).await {
        Ok(done) => Ok(done.answer().with_warnings(warnings)),
        Err(status) => {
            // Warnings about the body are returned although the write failed for another reason.
            warnings.into_iter().for_each(|warning| request.record.warn(warning));
            Err(status)
        }
    }
}

/// Returns the object of the body with defaults and field ownership, shared with an equal request of the same second if there
/// was one.
fn decoded(
    api: &Api,
    request: &WriteRequest,
    options: &WriteOptions,
    tracking: &Tracking<'_>,
) -> Result<TemplateObject, Status> {
    let key = TemplateKey {
        resource: &request.resource,
        namespace: request.namespace.as_deref(),
        query: &request.query,
        content_type: request.content_type.as_deref(),
        body: &request.body,
        manager: &tracking.manager,
        time: &tracking.time,
    };
    if let Some(made) = api.templates.get(key) {
        return Ok(made);
    }
    let made = decode(request, options, tracking)?;
    api.templates.note(key, || made.clone());
    Ok(made)
}

/// Decodes the body, fills in defaults and records the owner of the fields.
fn decode(
    request: &WriteRequest,
    options: &WriteOptions,
    tracking: &Tracking<'_>,
) -> Result<TemplateObject, Status> {
    let resource = &*request.resource;
    let content_type = request.content_type.as_deref();
    let check = |object: &mut Value| resource.rules.decode(object, None);
    let body::Decoded { mut object, warnings } =
        body::decode(content_type, &request.body, expected(resource), &check, options.validation())?;
    place(&mut object, request.namespace.as_deref()).inspect_err(|_| request.record.warn_all(&warnings))?;
    resource.rules.complete(&mut object, None);
    object.inner("metadata").into_iter().for_each(meta::wipe_deletion);
    resource.rules.track(tracking, None, &mut object);
    Ok(TemplateObject { object, warnings })
}

/// Apart from [`create`] so that warnings of admission reach the client also if it fails.
async fn admit_and_create(
    change: &ObjectChange<'_>,
    dry_run: bool,
    mut object: Value,
    warnings: &mut Vec<String>,
) -> Result<Done, Status> {
    change.admit_new(&mut object, warnings).await?;
    create_object(change, dry_run, object, warnings).await
}

/// Names the object, trying other names if it was left to the server and the first ones are taken.
async fn create_object(
    change: &ObjectChange<'_>,
    dry_run: bool,
    mut object: Value,
    warnings: &mut Vec<String>,
) -> Result<Done, Status> {
    let resource = &change.request.resource;
    name_limit_range(resource, &mut object);
    let meta = object.at("metadata");
    let (name, prefix) = (meta.text("name").to_owned(), meta.text("generateName").to_owned());
    let exhausted =
        |name: &str| Status::generate_name_exhausted(resource.stored_group(), &resource.plural, name);
    if !name.is_empty() || prefix.is_empty() {
        let result = create_named(change, dry_run, object, warnings).await;
        return result.map_err(|status| match is_taken(&status) && !prefix.is_empty() {
            true => exhausted(&name),
            false => status,
        });
    }
    let mut attempt = 0;
    loop {
        attempt += 1;
        let mut named = object.clone();
        if let Some(meta) = named.inner("metadata") {
            meta.put("name", meta::generated_name(&prefix, rand::random()));
        }
        // A namespace has its name as a label, too.
        if &*resource.kind == "Namespace" {
            resource.rules.complete(&mut named, None);
        }
        let result = create_named(change, dry_run, named, warnings).await;
        match result {
            Err(status) if is_taken(&status) && attempt < NAME_ATTEMPTS => {}
            Err(status) if is_taken(&status) => return Err(exhausted(&prefix)),
            other => return other,
        }
    }
}

/// A LimitRange without a name gets a unique one, as in kube-apiserver.
fn name_limit_range(resource: &Resource, object: &mut Value) {
    if &*resource.kind != "LimitRange" || !resource.group.is_empty() {
        return;
    }
    if let Some(meta) = object.inner_or_new("metadata")
        && meta.text("name").is_empty()
        && meta.text("generateName").is_empty()
    {
        meta.put("name", uuid::Uuid::new_v4().to_string());
    }
}

/// A generated name that exists is tried again with another.
fn is_taken(status: &Status) -> bool {
    status.reason == StatusReason::AlreadyExists
}

/// Creates an object under a name. Preparation and validating admission are repeated if a quota or claim has changed,
/// because the decision depends on them.
async fn create_named(
    change: &ObjectChange<'_>,
    dry_run: bool,
    sent: Value,
    warnings: &mut Vec<String>,
) -> Result<Done, Status> {
    let ObjectChange { api, request, .. } = *change;
    let name = sent.at("metadata").text("name").to_owned();
    let target = Target::new(&request.resource, request.namespace.as_deref(), &name).by(&request.user.name);
    let reservation = Reservation::new(&api.allocator);
    let version = sent.at("metadata").text("resourceVersion");
    // A version that is not a positive number is ignored by kube-apiserver's store.
    let names_version = version.parse::<u64>().is_ok_and(|version| version > 0);
    let before = warnings.len();
    loop {
        let mut object = sent.clone();
        warnings.truncate(before);
        // Warnings are returned even if admission refuses the object or its name exists.
        warnings.extend(change.prepare_new(&reservation, &target, &mut object).await?);
        change.validate_new(&object).await?;
        if dry_run {
            return end_dry_run(api, &target, object, &sent).await;
        }
        // kube-apiserver's store refuses a version, so this error comes after all others.
        if names_version {
            return Err(Status::bad_request("resourceVersion should not be set on objects to be created"));
        }
        match insert(api, &target, object, request.record.take_charges()).await? {
            Ok(done) => return Ok(done),
            Err(CommitConflict::Object(there)) => return Err(taken(&target, there.as_ref())),
            // Another write was charged or got the same value, and there may be no quota left.
            Err(CommitConflict::Charge) => api.wait_for(None).await?,
        }
    }
}

/// The result of a dry run, which does not reach the store: it would refuse an existing name, and a version, which is returned.
async fn end_dry_run(
    api: &Api,
    target: &Target<'_>,
    mut object: Value,
    sent: &Value,
) -> Result<Done, Status> {
    if fresh(api, target).await?.is_some() {
        return Err(exists(target));
    }
    convert::round_trip(api, target.resource, &mut object).await?;
    let version = sent.at("metadata").at("resourceVersion");
    let has_version = version.as_str().is_some_and(|version| !version.is_empty());
    if let Some(meta) = object.inner("metadata").filter(|_| has_version) {
        meta.put("resourceVersion", version.clone());
    }
    Ok(Done::Dry { object, created: true, removed: false })
}

/// An object that is being deleted still has its name; the message mentions it, because waiting helps.
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
