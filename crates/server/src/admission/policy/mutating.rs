//! MutatingAdmissionPolicy: evaluates policies that change objects, in order, before the mutating webhooks.
//!
//! Each mutation is an apply configuration or a JSON patch that a CEL expression returns; each sees the result of the
//! one before. Policies and webhooks share the reinvocation state ([`crate::api`]): with `IfNeeded`, a policy is
//! evaluated a second time if something changed the object after it. A result that is not a valid object of its kind
//! fails the request under any failure policy.
//!
//! Applying results is [`mod@super::patch`], policies that reject [`super::validating`].

use std::sync::Arc;

use async_trait::async_trait;
use listwatch_cel::{Budget, ExpressionAuthorizer, OBJECT_BUDGET};
use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::Value as Json;
use listwatch_wire::status::StatusReason;

use super::binding::PolicyBinding;
use super::definition::{Mutation, PolicyDefinition};
use super::patch;
use super::scope::{Access, PolicyObjects, PolicyScope};
use super::validating::matches_conditions;
use super::{BoundPolicy, Policies};
use crate::admission::matching::{MatchForm, is_exempt};
use crate::admission::webhook::{UnknownFields, accept, in_form, with_version};
use crate::admission::{Attributes, Operation, Plugin};
use crate::api::Api;
use crate::registry::Resource;
use crate::registry::expressions::PolicyFamily;

/// The plugin MutatingAdmissionPolicy, with its policies as they were last read.
#[derive(Debug)]
pub(in crate::admission) struct MutatingPolicies(Policies);

impl Default for MutatingPolicies {
    fn default() -> Self {
        Self(Policies::new(PolicyFamily::Mutating))
    }
}

/// The reason a mutation failed, by what decides about it.
enum MutationFailure {
    /// A matter of the failure policy.
    Policy(String),
    /// The result is not an object of the resource.
    Result(Status),
}

#[async_trait]
impl Plugin for MutatingPolicies {
    fn is_interested(&self, resource: &Resource) -> bool {
        !is_exempt(resource)
    }

    fn handles(&self, operation: Operation, _subresource: &str) -> bool {
        operation != Operation::Delete
    }

    fn is_idle(&self, api: &Api) -> bool {
        self.0.is_idle(api)
    }

    async fn admit(&self, request: &Attributes<'_>, object: &mut Json) -> Result<(), Status> {
        request.record.reinvocation().begin(object);
        let mut errors: Vec<MutationError> = Vec::new();
        for policy in self.0.current(request.api).iter() {
            if let Some(form) = policy.definition.matcher.matches(request, object) {
                apply(request, policy, &form, object, &mut errors).await?;
            }
        }
        request.record.reinvocation().end(object);
        if errors.is_empty() { Ok(()) } else { Err(denied(request, object, errors)) }
    }
}

/// The text of an error, and the reason of the Status made from it.
type MutationError = (String, StatusReason);

/// Several errors become causes of one status; the message is the first.
fn denied(request: &Attributes<'_>, object: &Json, errors: Vec<MutationError>) -> Status {
    let mut status = request.forbidden(object, "admission request denied by policy");
    if let Some((message, reason)) = errors.first() {
        (status.message, status.reason) = (message.clone(), reason.clone());
    }
    errors.into_iter().fold(status, |status, (error, _)| status.with_cause("", error, ""))
}

/// Applies a policy with all its bindings.
///
/// # Errors
///
/// A result that cannot be accepted. Errors that are a matter of the failure policy go to `errors`, so that the
/// remaining policies still run.
async fn apply(
    request: &Attributes<'_>,
    policy: &BoundPolicy,
    form: &MatchForm,
    object: &mut Json,
    errors: &mut Vec<MutationError>,
) -> Result<(), Status> {
    let definition = &policy.definition;
    if let Some(why) = policy.misconfigured(request) {
        let text = format!("policy '{}' denied request: {why}", definition.name);
        errors.extend(definition.fail_closed.then_some((text, StatusReason::Forbidden)));
        return Ok(());
    }
    for binding in &policy.bindings {
        if !binding.matches(request, object) {
            continue;
        }
        let mut fail = |why: String, reason: StatusReason| {
            let (policy, binding) = (&definition.name, &binding.name);
            let text = format!("policy '{policy}' with binding '{binding}' denied request: {why}");
            errors.extend(definition.fail_closed.then_some((text, reason)));
        };
        let params = match binding.params(request, definition.param_kind.as_ref()).await {
            Ok(params) => params,
            Err(why) => {
                fail(format!("failed to configure binding: {why}"), StatusReason::Forbidden);
                continue;
            }
        };
        for param in params {
            match mutate(request, definition, binding, form, object, param).await {
                Ok(()) => {}
                Err(MutationFailure::Result(status)) => return Err(status),
                Err(MutationFailure::Policy(why)) => fail(why, StatusReason::Invalid),
            }
        }
    }
    Ok(())
}

/// Applies the mutations of a policy with one parameter.
///
/// Counts as called for reinvocation only after it has run to the end. Match conditions are evaluated before that
/// test, on the object as it is now.
async fn mutate(
    request: &Attributes<'_>,
    definition: &PolicyDefinition,
    binding: &PolicyBinding,
    form: &MatchForm,
    object: &mut Json,
    param: Json,
) -> Result<(), MutationFailure> {
    let shown = in_form(request, form, object).await.map_err(MutationFailure::Result)?;
    let (new, old) = if definition.reads_version { with_version(request, shown) } else { shown };
    let mut objects = PolicyObjects::new(request, form, new, old);
    objects.params = param;
    let access: Arc<dyn ExpressionAuthorizer> = Access::new(request);
    let scope = || PolicyScope::of_conditions(&objects, Arc::clone(&access));
    if !definition.conditions.is_empty()
        && !matches_conditions(&scope(), &definition.conditions).map_err(MutationFailure::Policy)?
    {
        return Ok(());
    }
    let name = objects.params.at("metadata").text("name");
    let uid = format!("{}/{}/{name}", definition.name, binding.name);
    if !request.record.reinvocation().should_call(&uid) {
        return Ok(());
    }
    let before = objects.object.clone();
    for mutation in &definition.mutations {
        objects.object = change(form.resource(request), definition, mutation, &objects, Arc::clone(&access))?;
    }
    if objects.object != before {
        request.record.reinvocation().changed();
        let mut result = objects.object;
        let accepted = accept(request, form, &mut result, &before, UnknownFields::Refused).await;
        accepted.map_err(|failure| MutationFailure::Result(failure.into_status()))?;
        *object = result;
    }
    if definition.reinvoke {
        request.record.reinvocation().called(&uid);
    }
    Ok(())
}

/// Returns the object after one mutation.
///
/// Each mutation has a budget of its own, while validations of one policy share theirs, as in kube-apiserver.
fn change(
    resource: &Resource,
    definition: &PolicyDefinition,
    mutation: &Mutation,
    objects: &PolicyObjects<'_>,
    access: Arc<dyn ExpressionAuthorizer>,
) -> Result<Json, MutationFailure> {
    let scope = PolicyScope::new(objects, access, &definition.variables);
    scope.close();
    let mut budget = Budget::new(OBJECT_BUDGET);
    let result = match mutation {
        Mutation::Apply(expression) => scope
            .evaluate(expression, &mut budget)
            .and_then(|value| patch::apply(resource, &objects.object, &value)),
        Mutation::Patch(expression) => scope
            .evaluate(expression, &mut budget)
            .and_then(|value| patch::json_patch(&objects.object, &value)),
    };
    result.map_err(MutationFailure::Policy)
}
