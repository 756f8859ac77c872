//! MutatingAdmissionWebhook and ValidatingAdmissionWebhook: external HTTPS services that change or reject requests.
//!
//! [`hook`] is a webhook as its configuration describes it, read once per change of the configurations. [`review`] is the request to it,
//! [`answer`] its response, `outbound/` the HTTPS client. Mutating webhooks are called one after the other, validating ones at the same
//! time.

mod answer;
mod answer_types;
mod hook;
mod review;

use std::sync::Arc;

use async_trait::async_trait;
use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::Value;
use parking_lot::Mutex;

use self::hook::{Webhook, WebhookFailure};
use super::config_source::ConfigSource;
use super::matching::{MatchForm, is_exempt};
use super::{Attributes, Operation, Plugin};
use crate::api::Api;
use crate::api::convert::convert;
use crate::cache::CollectionSnapshot;
use crate::registry::Resource;

const GROUP: &str = "admissionregistration.k8s.io";

/// Webhooks, with the configurations they were read from.
type ReadWebhooks = (Arc<CollectionSnapshot>, Arc<[Webhook]>);

/// The webhooks of one kind of configuration.
#[derive(Debug)]
struct Hooks {
    configurations: ConfigSource,
    /// `None` before the first request.
    read: Mutex<Option<ReadWebhooks>>,
}

impl Hooks {
    fn new(plural: &'static str) -> Self {
        Self { configurations: ConfigSource::new((GROUP, "v1", plural)), read: Mutex::default() }
    }

    /// Returns the webhooks, read again if a configuration has changed.
    ///
    /// Compared by identity of the snapshot, so an unchanged configuration costs a lock and a comparison.
    /// Configurations are in the order of their names, as in kube-apiserver, and webhooks in the order within each.
    fn current(&self, api: &Api) -> Arc<[Webhook]> {
        let Some(resource) = self.configurations.resource(api) else { return Arc::new([]) };
        let snapshot = resource.collection.snapshot();
        let mut read = self.read.lock();
        if let Some((from, hooks)) = &*read
            && Arc::ptr_eq(from, &snapshot)
        {
            return Arc::clone(hooks);
        }
        let all = resource.collection.walk(&crate::cache::Filter::default(), None);
        let hooks: Arc<[Webhook]> = snapshot
            .range(&all)
            .filter_map(|object| Value::read(object.stored()).ok())
            .flat_map(|configuration| Webhook::read_all(&configuration))
            .collect();
        *read = Some((snapshot, Arc::clone(&hooks)));
        hooks
    }
}

/// The plugin MutatingAdmissionWebhook: calls webhooks one after the other, each with the result of the one before.
#[derive(Debug)]
pub(super) struct MutatingWebhooks(Hooks);

impl Default for MutatingWebhooks {
    fn default() -> Self {
        Self(Hooks::new("mutatingwebhookconfigurations"))
    }
}

/// The plugin ValidatingAdmissionWebhook: calls webhooks concurrently, since none may change the object.
///
/// The calls share the task of the request and all run to their end, even if one rejects: others may want to record
/// something. The first rejection in the order of configurations is the response.
#[derive(Debug)]
pub(super) struct ValidatingWebhooks(Hooks);

impl Default for ValidatingWebhooks {
    fn default() -> Self {
        Self(Hooks::new("validatingwebhookconfigurations"))
    }
}

#[async_trait]
impl Plugin for MutatingWebhooks {
    fn is_interested(&self, resource: &Resource) -> bool {
        !is_exempt(resource)
    }

    fn handles(&self, _operation: Operation, _subresource: &str) -> bool {
        true
    }

    fn is_idle(&self, api: &Api) -> bool {
        self.0.configurations.is_empty(api)
    }

    async fn admit(&self, request: &Attributes<'_>, object: &mut Value) -> Result<(), Status> {
        let hooks = self.0.current(request.api);
        request.record.reinvocation().begin(object);
        let round = usize::from(request.record.reinvocation().is_second());
        for (index, hook) in hooks.iter().enumerate() {
            let annotation = format!("mutation.webhook.admission.k8s.io/round_{round}_index_{index}");
            let Some(form) = hook.applies(request, object).await? else { continue };
            if !request.record.reinvocation().should_call(&hook.uid) {
                continue;
            }
            let changed = match mutate(request, hook, &form, object).await {
                Ok(changed) => {
                    request.record.annotate(&annotation, hook.mutation(changed));
                    changed
                }
                Err(failure) => failure.settle(request, hook, &annotation).map(|()| false)?,
            };
            let mut reinvocation = request.record.reinvocation();
            if changed {
                reinvocation.changed();
            }
            if hook.reinvoke {
                reinvocation.called(&hook.uid);
            }
        }
        request.record.reinvocation().end(object);
        Ok(())
    }
}

/// Calls a mutating webhook; returns true if it changed the object.
///
/// # Errors
///
/// A patch that cannot be applied, and an object that the webhook has broken, are rejections and no failed calls:
/// ignoring them would store something half changed.
async fn mutate(
    request: &Attributes<'_>,
    hook: &Webhook,
    form: &MatchForm,
    object: &mut Value,
) -> Result<bool, WebhookFailure> {
    let shown =
        with_version(request, in_form(request, form, object).await.map_err(WebhookFailure::Rejected)?);
    let (mut shown, old) = shown;
    let answer = hook.call(request, form, &shown, &old, true).await?;
    let Some(patch) = answer.patch()? else { return Ok(false) };
    if shown.is_null() {
        return Err(WebhookFailure::Rejected(Status::internal(format!(
            "admission webhook {:?} attempted to modify the object, which is not supported for this operation",
            hook.name
        ))));
    }
    let before = shown.clone();
    patch.apply(&mut shown).map_err(|error| WebhookFailure::Rejected(Status::internal(error)))?;
    if shown == before {
        return Ok(false);
    }
    accept(request, form, &mut shown, &before, UnknownFields::Dropped).await?;
    *object = shown;
    Ok(true)
}

/// The treatment of fields that a patched object has and its kind does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::admission) enum UnknownFields {
    /// For webhooks, which may know another version of the kind.
    Dropped,
    /// For policies, whose expressions are written for this one.
    Refused,
}

/// Checks the types of a patched object, fills in defaults, and brings it into the version of the request.
///
/// Parts that the object shares with the one `before` the patch have passed all of that and are skipped, unless a conversion has
/// come between. The namespace, repeated owners and what no update may change are settled by the pipeline.
pub(in crate::admission) async fn accept(
    request: &Attributes<'_>,
    form: &MatchForm,
    object: &mut Value,
    before: &Value,
    unknown: UnknownFields,
) -> Result<(), WebhookFailure> {
    let own = form.resource(request);
    if is_whole(request) {
        take_version(request, object)?;
        check_kind(own, object)?;
        let passed = Some(before).filter(|_| !matches!(form, MatchForm::Converted(_)));
        let report = own.rules.decode(object, passed);
        let refused = unknown == UnknownFields::Refused && own.builtin.is_some();
        let strange = report.unknown.iter().map(|field| format!("unknown field {field:?}"));
        let strange = strange.collect::<Vec<_>>().join(", ");
        let strange = (refused && !strange.is_empty()).then(|| format!("strict decoding error: {strange}"));
        let error = report.error.or(strange);
        if let Some(error) = error {
            return Err(WebhookFailure::Rejected(Status::internal(error)));
        }
        own.rules.complete(object, passed);
    }
    if let MatchForm::Converted(resource) = form {
        convert(request.api, object, resource, request.resource).await.map_err(WebhookFailure::Rejected)?;
    }
    Ok(())
}

/// Shows the version of the stored object, which objects are stored without, in the old and the new object.
pub(in crate::admission) fn with_version(
    request: &Attributes<'_>,
    (mut new, mut old): (Value, Value),
) -> (Value, Value) {
    if let Some(version) = request.old_version.filter(|_| is_whole(request)) {
        let version = version.to_string();
        for meta in [&mut new, &mut old].into_iter().filter_map(|object| object.inner("metadata")) {
            meta.put("resourceVersion", version.as_str());
        }
    }
    (new, old)
}

/// Takes the version from an object that was shown with one.
///
/// # Errors
/// 409 if it is another now: that would be an update of another version.
fn take_version(request: &Attributes<'_>, object: &mut Value) -> Result<(), WebhookFailure> {
    let Some(version) = request.old_version else { return Ok(()) };
    let taken = object.inner("metadata").and_then(|meta| meta.remove("resourceVersion"));
    let text = taken.as_ref().and_then(Value::as_str).unwrap_or_default();
    if text.is_empty() || text == version.to_string() {
        return Ok(());
    }
    let resource = request.resource;
    let status = Status::modified(&resource.group, &resource.plural, request.name);
    Err(WebhookFailure::Rejected(status))
}

/// Refuses a patch that made another kind of the object. One that left out its kind did not.
fn check_kind(own: &Resource, object: &Value) -> Result<(), WebhookFailure> {
    let (version, kind) = (object.text("apiVersion"), object.text("kind"));
    if version.is_empty() || kind.is_empty() || (version == own.api_version() && kind == &*own.kind) {
        return Ok(());
    }
    let scheme = "pkg/api/legacyscheme/scheme.go:30";
    Err(WebhookFailure::Rejected(Status::internal(format!(
        "no kind {kind:?} is registered for version {version:?} in scheme {scheme:?}"
    ))))
}

/// Returns true if the object of the request is one of its resource, not of a kind of the subresource's own.
fn is_whole(request: &Attributes<'_>) -> bool {
    request.subresource.is_empty()
        || request
            .resource
            .subresource(request.subresource)
            .is_some_and(|subresource| subresource.kind == request.resource.kind)
}

/// Returns the new and the old object in the version that a webhook receives.
///
/// # Errors
/// If a conversion webhook fails.
pub(in crate::admission) async fn in_form(
    request: &Attributes<'_>,
    form: &MatchForm,
    object: &Value,
) -> Result<(Value, Value), Status> {
    let (mut new, mut old) = (object.clone(), request.old.cloned().unwrap_or_default());
    if let MatchForm::Converted(resource) = form
        && is_whole(request)
    {
        convert(request.api, &mut new, request.resource, resource).await?;
        convert(request.api, &mut old, request.resource, resource).await?;
    }
    Ok((new, old))
}

#[async_trait]
impl Plugin for ValidatingWebhooks {
    fn is_interested(&self, resource: &Resource) -> bool {
        !is_exempt(resource)
    }

    fn handles(&self, _operation: Operation, _subresource: &str) -> bool {
        true
    }

    fn is_idle(&self, api: &Api) -> bool {
        self.0.configurations.is_empty(api)
    }

    async fn validate(&self, request: &Attributes<'_>, object: &Value) -> Result<(), Status> {
        let hooks = self.0.current(request.api);
        let mut calls = Vec::new();
        for hook in hooks.iter() {
            if let Some(form) = hook.applies(request, object).await? {
                calls.push(validate(request, hook, form, object, calls.len()));
            }
        }
        futures::future::join_all(calls).await.into_iter().collect()
    }
}

/// One call and the failure policy. `index` counts the webhooks that match, and names the audit annotation.
async fn validate(
    request: &Attributes<'_>,
    hook: &Webhook,
    form: MatchForm,
    object: &Value,
    index: usize,
) -> Result<(), Status> {
    let (new, old) = with_version(request, in_form(request, &form, object).await?);
    match hook.call(request, &form, &new, &old, false).await {
        Ok(_) => Ok(()),
        Err(failure) => {
            let annotation = format!("validating.webhook.admission.k8s.io/round_0_index_{index}");
            failure.settle(request, hook, &annotation)
        }
    }
}
