//! The `scale` subresource: reads and changes replicas without knowing the kind.
//!
//! A Scale is made from its target on every read and never stored; writing one changes the field at [`ScalePaths`].
//! Admission sees the Scale, not the target, as in kube-apiserver, while the target is prepared and validated by its
//! own strategy. Server-side apply of a Scale owns the one field of the target that it sets. HorizontalPodAutoscalers
//! and `kubectl scale` are the users.

mod change;
mod owners;

use listwatch_kinds::columns::selector_text;
use listwatch_kinds::tree::Tree;
use listwatch_kinds::{schema, typecheck};
use listwatch_merge::patch::merge_patch;
use listwatch_wire::json::{Map, Value, json};
use listwatch_wire::options::{PatchType, WriteKind, WriteOptions};
use listwatch_wire::status::FieldError;
use listwatch_wire::{Revision, Status};

use self::change::{Proposal, Scaling};
use self::owners::{is_owned, keep_times};
use crate::api::Api;
use crate::api::stored::{Stored, fresh};
use crate::pipeline::body;
use crate::pipeline::body::Expected;
use crate::pipeline::change::{OwnersChecked, carry_over};
use crate::pipeline::managed::Tracking;
use crate::pipeline::patch::{self, Patch, check_patched};
use crate::pipeline::target::Target;
use crate::pipeline::transaction::{self, Done};
use crate::pipeline::{Answer, WriteRequest, yaml};
use crate::registry::Resource;
use crate::registry::scale_paths::ScalePaths;

const SCALE: Expected<'static> =
    Expected { group: "autoscaling", version: "v1", kind: "Scale", builtin: true };

/// The value at a path of field names; null if any of them is missing.
fn walk<'a>(object: &'a Value, path: &[String]) -> &'a Value {
    path.iter().fold(object, |value, key| value.at(key))
}

/// Makes the objects on the way. A path through something else than an object changes nothing.
fn set(object: &mut Value, path: &[String], value: Value) {
    let Some((last, parents)) = path.split_last() else { return };
    let mut place = object.as_object_mut();
    for key in parents {
        place = place.and_then(|fields| fields.inner_or_new(key));
    }
    if let Some(fields) = place {
        fields.put(last, value);
    }
}

/// Removes the value at a path, if it is there.
fn unset(object: &mut Value, path: &[String]) {
    let Some((last, parents)) = path.split_last() else { return };
    let mut place = object.as_object_mut();
    for key in parents {
        place = place.and_then(|fields| fields.inner(key));
    }
    place.into_iter().for_each(|fields| drop(fields.remove(last.as_str())));
}

/// The Scale of an object.
fn scale_of(paths: &ScalePaths, object: &Value, revision: Option<Revision>) -> Value {
    let mut meta = Map::new();
    for key in ["name", "namespace", "uid", "creationTimestamp"] {
        let value = object.at("metadata").at(key);
        if !value.is_null() {
            meta.put(key, value.clone());
        }
    }
    if let Some(revision) = revision {
        meta.put("resourceVersion", revision.to_string());
    }
    let wanted = walk(object, &paths.spec).as_i64().unwrap_or(0);
    let mut status = json!({"replicas": walk(object, &paths.status).as_i64().unwrap_or(0)});
    let chosen = match paths.selector.as_deref().map(|path| walk(object, path)) {
        Some(Value::String(text)) => text.to_string(),
        Some(selector) if selector.is_object() => selector_text(selector),
        _ => String::new(),
    };
    if !chosen.is_empty() {
        status.put("selector", chosen);
    }
    let spec = if wanted == 0 { json!({}) } else { json!({"replicas": wanted}) };
    json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": meta, "spec": spec, "status": status})
}

/// Finds the fields behind the scale of the resource.
///
/// # Errors
///
/// 404 for a kind without a scale.
fn paths_of(request: &WriteRequest) -> Result<ScalePaths, Status> {
    request.resource.rules.scale().ok_or_else(Status::no_such_path)
}

/// Answers a GET of a Scale, made from the stored object.
///
/// # Errors
/// 404; 500 for a custom resource whose object has no replicas at the path of its definition.
pub(crate) async fn read(api: &Api, request: &WriteRequest) -> Result<Answer, Status> {
    let (paths, target) = (paths_of(request)?, request.target());
    let stored = fresh(api, &target).await?.ok_or_else(|| target.not_found())?;
    // Built-in kinds default `replicas`; a custom object may not have the field.
    if walk(&stored.value, &paths.spec).is_null() && request.resource.is_custom() {
        let field = paths.spec.join(".");
        return Err(Status::internal(format!("the spec replicas field \".{field}\" does not exist")));
    }
    Ok(Answer::document(200, scale_of(&paths, &stored.value, Some(stored.revision))))
}

/// Answers a PUT of a Scale: changes the replicas of its target.
///
/// # Errors
/// 400, 404, 409 for a `resourceVersion` or uid that is not the target's, 422 for negative replicas.
pub(crate) async fn update(api: &Api, request: &WriteRequest) -> Result<Answer, Status> {
    let options = WriteOptions::parse(&request.query);
    options.check(WriteKind::Update)?;
    let decoded =
        body::decode(request.content_type.as_deref(), &request.body, SCALE, &decode, options.validation())?;
    request.record.warn_all(&decoded.warnings);
    let mut sent = decoded.object;
    request.target().check_identity(&mut sent)?;
    write(api, request, &options, |_, stored| {
        request.target().check_uid(sent.at("metadata").text("uid"), &stored.value)?;
        Ok(sent.clone())
    })
    .await
}

/// Answers a PATCH of a Scale. The patch is applied to the Scale, not to its target.
///
/// # Errors
/// As for an update, and those of the patch.
pub(crate) async fn patch(
    api: &Api,
    request: &WriteRequest,
    kind: PatchType,
    options: &WriteOptions,
) -> Result<Answer, Status> {
    if kind == PatchType::Apply {
        return apply(api, request, options).await;
    }
    let parsed = patch::parse(kind, request)?;
    write(api, request, options, |paths, stored| {
        let mut scale = scale_of(paths, &stored.value, Some(stored.revision));
        match &parsed.patch {
            Patch::Json(patch) => patch.apply(&mut scale)?,
            Patch::Merge(patch) | Patch::Apply(patch) => merge_patch(&mut scale, patch.clone()),
            // The result is a Scale, whatever `kind` and `apiVersion` the patch has set.
            Patch::Strategic(patch) => {
                merge_patch(&mut scale, patch.clone());
                scale.put("kind", SCALE.kind);
                scale.put("apiVersion", SCALE.api_version().into_owned());
            }
        }
        check_type(&scale)?;
        let told = check_patched(&mut scale, &parsed.strict_decoding_errors, options.validation(), decode)?;
        request.record.warn_all(&told);
        request.target().check_identity(&mut scale)?;
        Ok(scale)
    })
    .await
}

/// Apply: the applied Scale owns the one field of its target that it sets.
///
/// Not by merging Scales: the field is translated to its path in the target, and ownership is recorded there under
/// the subresource `scale`.
async fn apply(api: &Api, request: &WriteRequest, options: &WriteOptions) -> Result<Answer, Status> {
    let mut applied = yaml::read(&request.body).map_err(Status::bad_request)?.value;
    let (version, kind) = (applied.text("apiVersion"), applied.text("kind"));
    let named = !version.is_empty() && !kind.is_empty();
    if named && (version, kind) != ("autoscaling/v1", "Scale") {
        return Err(Status::bad_request(format!("invalid object type: {version}, Kind={kind}")));
    }
    let (paths, target) = (paths_of(request)?, request.target());
    if applied.at("metadata").text("name").is_empty()
        && let Some(meta) = applied.inner_or_new("metadata")
    {
        meta.put("name", target.name);
    }
    target.check_identity(&mut applied)?;
    // Decoding leaves out a zero, which is applied like any other number.
    let replicas = applied.at("spec").int("replicas");
    check_patched(&mut applied, &[], options.validation(), decode)?;
    let resource = &*request.resource;
    let mut owned = json!({"apiVersion": resource.api_version(), "kind": &*resource.kind, "metadata": {"name": target.name}});
    if let Some(replicas) = replicas {
        set(&mut owned, &paths.spec, replicas.into());
    }
    let (tracking, force) = (Tracking::new(request, options), options.force.unwrap_or(false));
    let applying = |stored: &Stored| -> Result<Proposal, Status> {
        check_owned(resource, &stored.value, &paths)?;
        let merged = resource.rules.apply(&tracking, Some(&stored.value), &owned, force);
        let mut new = merged.map_err(|status| about_scale(status, resource, &paths))?.object;
        if replicas.is_some() && walk(&new, &paths.spec) != walk(&stored.value, &paths.spec) {
            check_convertible(resource, &applied)?;
        }
        give_up(&mut new, &stored.value, &paths);
        // The order of errors is kube-apiserver's: conflicts, validation, uid, resourceVersion.
        check_replicas(&target, replicas.unwrap_or(0))?;
        check_patched_uid(&target, &applied, &stored.value)?;
        target.check_version(applied.at("metadata").text("resourceVersion"), stored.revision)?;
        keep_times(&mut new, &stored.value);
        resource.rules.complete(&mut new, Some(&stored.value));
        carry_over(&mut new, &stored.value, OwnersChecked::AsSent, &mut Vec::new());
        Ok(Some(new))
    };
    let scaling = Scaling { api, request, target: &target, paths: &paths, options, propose: applying };
    let done = transaction::change(api, &target, options.is_dry_run(), scaling).await?;
    shown(&paths, done)
}

/// Checks that the replicas of a custom resource have an owner.
///
/// # Errors
/// 500: kube-apiserver then makes a record of the existing Scale, and cannot convert a Scale to the version of a custom resource.
fn check_owned(resource: &Resource, object: &Value, paths: &ScalePaths) -> Result<(), Status> {
    if !resource.is_custom() || is_owned(object, &paths.spec) {
        return Ok(());
    }
    Err(Status::unknown_reason(
        "failed to create manager for existing fields: failed to convert live object (/; autoscaling/v1, Kind=Scale) to proper version: request to convert CR to an invalid group/version: autoscaling/v1",
    ))
}

/// Checks that an applied Scale that changes replicas is not of a custom resource.
///
/// # Errors
/// 500: kube-apiserver cannot convert the merged Scale to the version of a custom resource.
fn check_convertible(resource: &Resource, applied: &Value) -> Result<(), Status> {
    if !resource.is_custom() {
        return Ok(());
    }
    let meta = applied.at("metadata");
    Err(Status::unknown_reason(format!(
        "failed to convert new object ({}/{}; autoscaling/v1, Kind=Scale) to proper version: request to convert CR to an invalid group/version: autoscaling/v1",
        meta.text("namespace"),
        meta.text("name")
    )))
}

/// Checks the uid of a patched Scale. That of a custom resource may be any.
///
/// # Errors
/// 409 if it is another than that of the target.
fn check_patched_uid(target: &Target<'_>, scale: &Value, stored: &Value) -> Result<(), Status> {
    let (asked, found) = (scale.at("metadata").text("uid"), stored.at("metadata").text("uid"));
    let resource = target.resource;
    if asked.is_empty() || asked == found || resource.is_custom() {
        return Ok(());
    }
    let why = format!("Precondition failed: UID in precondition: {asked}, UID in object meta: {found}");
    Err(Status::conflict(&resource.group, &format!("{}/scale", resource.plural), target.name, &why))
}

/// Completes an apply that left the replicas without an owner: there are none then, and the record stays as it was, because
/// kube-apiserver writes that of a Scale back only if it has entries.
fn give_up(new: &mut Value, old: &Value, paths: &ScalePaths) {
    if walk(new, &paths.spec).is_null() {
        set(new, &paths.spec, 0.into());
    }
    if !is_owned(new, &paths.spec)
        && let Some(meta) = new.inner("metadata")
    {
        meta.put("managedFields", old.at("metadata").at("managedFields").clone());
    }
}

/// Checks that a patch leaves a Scale what it is.
///
/// # Errors
/// 422.
fn check_type(scale: &Value) -> Result<(), Status> {
    let (version, kind) = (scale.text("apiVersion"), scale.text("kind"));
    match (version, kind) {
        ("autoscaling/v1", "" | "Scale") => Ok(()),
        _ => Err(patch::refused(format!("a patch cannot make a {version} {kind} of a Scale"))),
    }
}

/// Scale has its own schema, whatever its target.
fn decode(object: &mut Value) -> typecheck::TypeReport {
    schema::node(SCALE.group, SCALE.version, SCALE.kind)
        .map(|node| typecheck::decode(node, object, None))
        .unwrap_or_default()
}

/// Puts the replicas of a Scale into its target.
///
/// The whole decision is repeated if the target has changed, with the Scale of the new version.
async fn write(
    api: &Api,
    request: &WriteRequest,
    options: &WriteOptions,
    wanted: impl Fn(&ScalePaths, &Stored) -> Result<Value, Status> + Send + Sync,
) -> Result<Answer, Status> {
    let (paths, target) = (paths_of(request)?, request.target());
    let tracking = Tracking::new(request, options);
    let writing = |stored: &Stored| -> Result<Proposal, Status> {
        let scale = wanted(&paths, stored)?;
        let replicas = scale.at("spec").int("replicas").unwrap_or(0);
        check_replicas(&target, replicas)?;
        check_patched_uid(&target, &scale, &stored.value)?;
        target.check_version(scale.at("metadata").text("resourceVersion"), stored.revision)?;
        if walk(&stored.value, &paths.spec).as_i64() == Some(replicas) {
            return Ok(None);
        }
        let mut new = stored.value.clone();
        set(&mut new, &paths.spec, replicas.into());
        if is_owned(&stored.value, &paths.spec) {
            record_owner(request, &tracking, &paths, stored, &mut new);
        }
        Ok(Some(new))
    };
    let scaling = Scaling { api, request, target: &target, paths: &paths, options, propose: writing };
    let done = transaction::change(api, &target, options.is_dry_run(), scaling).await?;
    shown(&paths, done)
}

/// Records the owner of replicas that were changed. Zero replicas have no owner: Go leaves zero out of a Scale, so that the field is
/// absent, as in kube-apiserver.
fn record_owner(
    request: &WriteRequest,
    tracking: &Tracking<'_>,
    paths: &ScalePaths,
    stored: &Stored,
    new: &mut Value,
) {
    let replicas = walk(new, &paths.spec).clone();
    if replicas.as_i64() == Some(0) {
        unset(new, &paths.spec);
    }
    request.resource.rules.track(tracking, Some(&stored.value), new);
    set(new, &paths.spec, replicas);
    keep_times(new, &stored.value);
}

/// Rewrites a conflict to the version and the field of the Scale, which is what was applied.
fn about_scale(mut status: Status, resource: &Resource, paths: &ScalePaths) -> Status {
    let field = format!(".{}", paths.spec.join("."));
    let version = format!(" using {}", resource.api_version());
    let reword = |text: &str| {
        let text = text.replace(&version, &format!(" using {}/{}", SCALE.group, SCALE.version));
        text.strip_suffix(&field).map(|text| format!("{text}.spec.replicas")).unwrap_or(text)
    };
    status.message = reword(&status.message);
    for cause in status.details.iter_mut().flat_map(|details| &mut details.causes) {
        cause.message = reword(&cause.message);
        cause.field = reword(&cause.field);
    }
    status
}

/// Checks the replicas of a Scale. Those of a custom resource are checked with the resource itself, by its schema and its definition.
///
/// # Errors
/// 422 for less than none.
fn check_replicas(target: &Target<'_>, replicas: i64) -> Result<(), Status> {
    if replicas >= 0 || target.resource.is_custom() {
        return Ok(());
    }
    let error = FieldError::invalid("spec.replicas", replicas, "must be greater than or equal to 0");
    Err(Status::invalid(SCALE.group, SCALE.kind, target.name, &[error]))
}

/// Returns the Scale of the written object.
fn shown(paths: &ScalePaths, done: Done) -> Result<Answer, Status> {
    let (object, revision) = match done {
        Done::Stored { object, .. } | Done::Removed { object, .. } => {
            (Value::read(object.stored()).map_err(Status::internal)?, Some(object.revision()))
        }
        Done::Dry { object, .. } => {
            let revision = object.at("metadata").text("resourceVersion").parse().ok().map(Revision);
            (object, revision)
        }
    };
    Ok(Answer::document(200, scale_of(paths, &object, revision)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_shares_the_identity_of_its_target() {
        let object = json!({"metadata": {"name": "d", "uid": "u", "labels": {"l": "1"}}, "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "d"}}}, "status": {}});
        assert_eq!(
            scale_of(&ScalePaths::builtin(), &object, Some(Revision(7))),
            json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {"name": "d", "uid": "u", "resourceVersion": "7"}, "spec": {"replicas": 3}, "status": {"replicas": 0, "selector": "app=d"}})
        );
    }
}
