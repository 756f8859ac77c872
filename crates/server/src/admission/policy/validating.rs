//! ValidatingAdmissionPolicy: evaluates policies that reject a request, warn of it or record it for audit.
//!
//! Runs after the object is final: mutating admission, defaulting and validation are over. All policies are
//! evaluated, but only the first denial is returned, as in kube-apiserver; `Warn` and `Audit` of the others still
//! take effect. Errors deny if `failurePolicy` is `Fail`. Audit annotations and messages of expressions are bounded
//! in bytes. Matching is [`crate::admission`]'s `matching`, variables are [`super::scope`].

use std::sync::Arc;

use async_trait::async_trait;
use listwatch_cel::{Budget, MATCH_CONDITIONS_BUDGET, OBJECT_BUDGET, Value};
use listwatch_wire::Status;
use listwatch_wire::json::{self, Value as Json, json};
use listwatch_wire::status::{StatusReason, aggregate};

use super::binding::PolicyBinding;
use super::definition::{PolicyDefinition, Validation};
use super::scope::{Access, PolicyObjects, PolicyScope};
use super::{BoundPolicy, Policies};
use crate::admission::matching::{MatchForm, is_exempt_from_policies};
use crate::admission::webhook::{in_form, with_version};
use crate::admission::{Attributes, Operation, Plugin};
use crate::api::Api;
use crate::auth::Authorizer;
use crate::registry::Resource;
use crate::registry::expressions::{CompiledExpression, PolicyFamily};

/// Bytes of an audit annotation, as in kube-apiserver.
const ANNOTATION_BYTES: usize = 10 << 10;
/// Bytes of a message that an expression returns.
const MESSAGE_BYTES: usize = 5 << 10;
/// The audit annotation with all failures of the action `Audit`, as one JSON list.
const FAILURES: &str = "validation.policy.admission.k8s.io/validation_failure";

/// The plugin ValidatingAdmissionPolicy, with its policies as they were last read.
#[derive(Debug)]
pub(in crate::admission) struct ValidatingPolicies(Policies);

impl Default for ValidatingPolicies {
    fn default() -> Self {
        Self(Policies::new(PolicyFamily::Validating))
    }
}

/// A decision against a request.
struct Denial {
    message: String,
    reason: String,
    policy: String,
    /// Named in the message, so that the administrator finds where the policy is switched on.
    binding: Option<String>,
}

#[async_trait]
impl Plugin for ValidatingPolicies {
    fn is_interested(&self, resource: &Resource) -> bool {
        !is_exempt_from_policies(resource)
    }

    fn handles(&self, _operation: Operation, _subresource: &str) -> bool {
        true
    }

    fn is_idle(&self, api: &Api) -> bool {
        self.0.is_idle(api)
    }

    async fn validate(&self, request: &Attributes<'_>, object: &Json) -> Result<(), Status> {
        let mut decisions = Decisions::default();
        for policy in self.0.current(request.api).iter() {
            if let Some(form) = policy.definition.matcher.matches(request, object) {
                decisions.evaluate(request, object, policy, &form).await;
            }
        }
        let Decisions { denials, failures } = decisions;
        if !failures.is_empty() {
            let text = json::encode(&Json::from(failures));
            request.record.annotate(FAILURES, String::from_utf8_lossy(&text).into_owned());
        }
        denials.into_iter().next().map_or(Ok(()), |denial| Err(denial.status(request, object)))
    }
}

impl Denial {
    fn new(
        definition: &PolicyDefinition,
        binding: Option<&PolicyBinding>,
        message: String,
        reason: String,
    ) -> Self {
        let (policy, binding) = (definition.name.clone(), binding.map(|binding| binding.name.clone()));
        Self { message, reason, policy, binding }
    }

    /// Returns the response to a denied request. Only the four reasons that the API allows are taken from the policy;
    /// everything else is `Invalid`.
    fn status(self, request: &Attributes<'_>, object: &Json) -> Status {
        let bound = self.binding.map(|binding| format!(" with binding '{binding}'")).unwrap_or_default();
        let message =
            format!("ValidatingAdmissionPolicy '{}'{bound} denied request: {}", self.policy, self.message);
        let mut status = request.forbidden(object, &message);
        (status.reason, status.code) = match self.reason.as_str() {
            "Unauthorized" => (StatusReason::Unauthorized, 401),
            "Forbidden" => (StatusReason::Forbidden, 403),
            "RequestEntityTooLarge" => (StatusReason::RequestEntityTooLarge, 413),
            _ => (StatusReason::Invalid, 422),
        };
        status.with_cause("", message, "")
    }
}

/// The decisions of all policies about one request.
#[derive(Default)]
struct Decisions {
    denials: Vec<Denial>,
    /// The failed validations for the audit event.
    failures: Vec<Json>,
}

impl Decisions {
    /// Evaluates a policy with all its bindings.
    ///
    /// Nothing is returned early: each binding may have another action, and the audit event has all of them. Audit
    /// annotations of several bindings are joined, equal values once.
    async fn evaluate(
        &mut self,
        request: &Attributes<'_>,
        object: &Json,
        policy: &BoundPolicy,
        form: &MatchForm,
    ) {
        let definition = &policy.definition;
        if let Some(message) = policy.misconfigured(request) {
            return self.fail(definition, None, message);
        }
        let mut annotations: Vec<(String, Vec<String>)> = Vec::new();
        for binding in policy.bindings.iter().filter(|binding| binding.matches(request, object)) {
            let (params, mut objects) = match inputs(request, object, definition, binding, form).await {
                Ok(inputs) => inputs,
                Err(message) => {
                    self.fail(definition, Some(binding), message);
                    continue;
                }
            };
            for param in params {
                objects.params = param;
                let decided = |authorizer: &Arc<dyn Authorizer>| {
                    evaluate(Access::new(authorizer, request.user), definition, &objects)
                };
                let mut outcome = request.api.authorizer.decide(decided).await;
                let found = std::mem::take(&mut outcome.annotations);
                found.into_iter().for_each(|annotation| join(&mut annotations, annotation));
                self.record(request, definition, binding, outcome);
            }
        }
        add_annotations(request, definition, annotations);
    }

    /// Denies a request whose policy cannot be evaluated, unless its failure policy is `Ignore`.
    fn fail(&mut self, definition: &PolicyDefinition, binding: Option<&PolicyBinding>, message: String) {
        if definition.fail_closed {
            self.denials.push(Denial::new(definition, binding, message, String::new()));
        }
    }

    /// Performs the actions of a binding.
    fn record(
        &mut self,
        request: &Attributes<'_>,
        definition: &PolicyDefinition,
        binding: &PolicyBinding,
        outcome: PolicyOutcome,
    ) {
        let deny = |message, reason| Denial::new(definition, Some(binding), message, reason);
        for (index, message, reason) in outcome.denied {
            for action in &binding.actions {
                match action.as_str() {
                    "Deny" => self.denials.push(deny(message.clone(), reason.clone())),
                    "Warn" => request.record.warn(warning(definition, binding, &message)),
                    _ => self.failures.push(failure(definition, binding, index, &message)),
                }
            }
        }
        self.denials.extend(outcome.errors.into_iter().map(|message| deny(message, String::new())));
    }
}

/// Adds the audit annotations of a policy, whose name is their prefix.
fn add_annotations(
    request: &Attributes<'_>,
    definition: &PolicyDefinition,
    annotations: Vec<(String, Vec<String>)>,
) {
    for (key, values) in annotations {
        request.record.annotate(&format!("{}/{key}", definition.name), values.join(", "));
    }
}

/// Reads the inputs of a policy's expressions: the parameters of a binding, and the objects in the form that the policy matches.
///
/// # Errors
///
/// The message of a denial, if parameters cannot be found or a conversion webhook fails.
async fn inputs<'r>(
    request: &'r Attributes<'r>,
    object: &Json,
    definition: &PolicyDefinition,
    binding: &PolicyBinding,
    form: &'r MatchForm,
) -> Result<(Vec<Json>, PolicyObjects<'r>), String> {
    let params = binding.params(request, definition.param_kind.as_ref()).await;
    let params = params.map_err(|why| format!("failed to configure binding: {why}"))?;
    let shown = in_form(request, form, object).await.map_err(|status| status.message)?;
    let (new, old) = if definition.reads_version { with_version(request, shown) } else { shown };
    Ok((params, PolicyObjects::new(request, form, new, old)))
}

/// Adds the value of an audit annotation to those of other bindings and parameters, equal values once.
fn join(annotations: &mut Vec<(String, Vec<String>)>, (key, value): (String, String)) {
    match annotations.iter_mut().find(|(known, _)| *known == key) {
        Some((_, values)) if values.contains(&value) => {}
        Some((_, values)) => values.push(value),
        None => annotations.push((key, vec![value])),
    }
}

/// The warning of the action `Warn`.
fn warning(definition: &PolicyDefinition, binding: &PolicyBinding, message: &str) -> String {
    format!(
        "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {message}",
        definition.name, binding.name
    )
}

/// A failure as the audit annotation has it.
fn failure(definition: &PolicyDefinition, binding: &PolicyBinding, index: usize, message: &str) -> Json {
    json!({
        "message": message, "policy": definition.name.as_str(), "binding": binding.name.as_str(),
        "expressionIndex": i64::try_from(index).unwrap_or(0), "validationActions": binding.actions.clone()
    })
}

/// The outcome of a policy with one parameter.
#[derive(Default)]
struct PolicyOutcome {
    /// Index of the validation, message and reason.
    denied: Vec<(usize, String, String)>,
    /// Errors of audit annotations.
    errors: Vec<String>,
    annotations: Vec<(String, String)>,
}

/// Evaluates a policy with one parameter. All validations are evaluated, since each may have another action; they
/// share one cost budget.
fn evaluate(
    access: Arc<Access>,
    definition: &PolicyDefinition,
    objects: &PolicyObjects<'_>,
) -> PolicyOutcome {
    let mut verdict = PolicyOutcome::default();
    if !definition.conditions.is_empty() {
        let scope = PolicyScope::of_conditions(objects, access.clone());
        match matches_conditions(&scope, &definition.conditions) {
            Ok(true) => {}
            Ok(false) => return verdict,
            Err(why) => {
                if definition.fail_closed {
                    verdict.denied.push((0, why, String::new()));
                }
                return verdict;
            }
        }
    }
    let scope = PolicyScope::new(objects, access, &definition.variables);
    scope.close();
    let mut budget = Budget::new(OBJECT_BUDGET);
    for (index, validation) in definition.validations.iter().enumerate() {
        match scope.evaluate(&validation.expression, &mut budget) {
            Ok(Value::Bool(true)) => {}
            Ok(_) => {
                let message = message(&scope, validation, &mut budget);
                verdict.denied.push((index, message, validation.reason.clone()));
            }
            Err(why) if definition.fail_closed => verdict.denied.push((index, why, String::new())),
            Err(_) => {}
        }
    }
    annotate(&scope, definition, &mut verdict);
    verdict
}

/// Evaluates match conditions: one that is false decides, whatever errors others have.
///
/// Conditions have a budget apart from that of validations (`MATCH_CONDITIONS_BUDGET`). Webhooks use the same
/// function for theirs.
///
/// # Errors
///
/// The errors of conditions, if none is false.
pub(in crate::admission) fn matches_conditions(
    scope: &PolicyScope<'_>,
    conditions: &[CompiledExpression],
) -> Result<bool, String> {
    let (mut budget, mut errors) = (Budget::new(MATCH_CONDITIONS_BUDGET), Vec::new());
    for condition in conditions {
        match scope.evaluate(condition, &mut budget) {
            Ok(Value::Bool(false)) => return Ok(false),
            Ok(_) => {}
            Err(why) => errors.push(why),
        }
    }
    if errors.is_empty() { Ok(true) } else { Err(aggregate(errors)) }
}

/// The message of a validation that failed: of its expression, else its own, else one made of the expression.
///
/// An expression that fails, or returns several lines or more than [`MESSAGE_BYTES`], does not count: the denial
/// itself must not depend on its wording.
fn message(scope: &PolicyScope<'_>, validation: &Validation, budget: &mut Budget) -> String {
    let computed = validation
        .message_expression
        .as_ref()
        .and_then(|expression| scope.evaluate(expression, budget).ok())
        .and_then(|value| value.as_str().map(|text| text.trim().to_owned()))
        .filter(|text| text.len() <= MESSAGE_BYTES && !text.contains('\n') && !text.is_empty());
    let fixed = || Some(validation.message.trim().to_owned()).filter(|text| !text.is_empty());
    let made = || format!("failed expression: {}", validation.expression.source);
    computed.or_else(fixed).unwrap_or_else(made)
}

/// Evaluates audit annotations, with a budget of their own. `null` leaves one out.
fn annotate(scope: &PolicyScope<'_>, definition: &PolicyDefinition, verdict: &mut PolicyOutcome) {
    let mut budget = Budget::new(OBJECT_BUDGET);
    for (key, expression) in &definition.annotations {
        match scope.evaluate(expression, &mut budget) {
            Ok(Value::Null) => {}
            Ok(value) => {
                let mut text = value.as_str().unwrap_or_default().trim().to_owned();
                text.truncate(text.floor_char_boundary(ANNOTATION_BYTES));
                if !text.is_empty() {
                    verdict.annotations.push((key.clone(), text));
                }
            }
            Err(why) if definition.fail_closed => verdict.errors.push(why),
            Err(_) => {}
        }
    }
}
