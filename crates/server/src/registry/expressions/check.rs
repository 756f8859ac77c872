//! Validation of CEL expressions when a policy, a webhook configuration or a device selector is written.
//!
//! Every expression is compiled and its result type checked, so that most mistakes show at once and not at the first
//! request. Expressions that are shared with the stored object are not compiled again with the rules for new ones: an
//! object stored by an older server must stay updatable. Checks of the other fields are `shape.rs`; type checks
//! against the schemas of matched kinds are warnings in `typed.rs`. The caller is the strategy
//! ([`crate::registry::strategy`]).

use listwatch_cel::{Env, PatternAllowance, Type, Version};
use listwatch_kinds::field::Errors;
use listwatch_kinds::tree::Tree;
use listwatch_wire::json::Value;
use listwatch_wire::status::FieldError;

use super::environment::{Declared, JSON_PATCH, environment};
use super::policy::{Environments, PolicyFamily, has_type};
use super::{device, shape};

/// Returns the errors of the expressions in a policy or a webhook configuration; none for other kinds. What is shared with
/// the stored object is valid.
///
/// Compiling takes some tens of microseconds per expression; it happens when such an object is written, and once more
/// when admission first uses it.
pub(crate) fn errors(group: &str, kind: &str, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    if group == "resource.k8s.io" && old.is_none_or(|old| old.at("spec") != object.at("spec")) {
        return device::errors(kind, object, old.is_some());
    }
    if group != "admissionregistration.k8s.io"
        || old.is_some_and(|old| {
            old.at("spec") == object.at("spec") && old.at("webhooks") == object.at("webhooks")
        })
    {
        return Vec::new();
    }
    // A stored object may use what an older or newer version accepted.
    let version = if old.is_some() { Version::Stored } else { Version::New };
    match kind {
        "ValidatingAdmissionPolicy" => policy_errors(version, PolicyFamily::Validating, object),
        "MutatingAdmissionPolicy" => policy_errors(version, PolicyFamily::Mutating, object),
        "ValidatingAdmissionPolicyBinding" => binding_errors(PolicyFamily::Validating, object),
        "MutatingAdmissionPolicyBinding" => binding_errors(PolicyFamily::Mutating, object),
        "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => webhook_errors(version, object),
        _ => Vec::new(),
    }
}

/// One environment for all webhooks: conditions see the request and the authorizer, and no parameters.
fn webhook_errors(version: Version, configuration: &Value) -> Vec<FieldError> {
    let env = environment(version, Declared { authorizer: true, ..Declared::default() })
        .with_patterns(PatternAllowance::default());
    let mut errors = Vec::new();
    for (index, hook) in configuration.list("webhooks").iter().enumerate() {
        conditions(&env, hook, &format!("webhooks[{index}]"), &mut errors);
    }
    errors
}

/// Empty expressions are reported by other rules.
fn conditions(env: &Env, holder: &Value, path: &str, errors: &mut Vec<FieldError>) {
    for (index, condition) in holder.list("matchConditions").iter().enumerate() {
        let path = format!("{path}.matchConditions[{index}].expression");
        check(env, &path, condition.text("expression"), (&[Type::Bool], "bool"), errors);
    }
}

/// Bindings have no expressions, only a shape.
fn binding_errors(family: PolicyFamily, binding: &Value) -> Vec<FieldError> {
    let mut errors = Errors::new();
    shape::binding(family, binding.at("spec"), &mut errors);
    errors.into_vec()
}

/// The errors of a policy: its shape, its variables, then each expression with the type it must have.
fn policy_errors(version: Version, family: PolicyFamily, policy: &Value) -> Vec<FieldError> {
    let spec = policy.at("spec");
    let mut shape = Errors::new();
    shape::policy(family, policy.at("metadata").text("name"), spec, &mut shape);
    let environments = Environments::new(version, family, spec);
    let mut errors = shape.into_vec();
    for (index, problem) in &environments.problems {
        let source = spec.list("variables").get(*index).map(|variable| variable.text("expression"));
        let path = format!("spec.variables[{index}].expression");
        errors.push(FieldError::invalid(path, source.unwrap_or_default().trim(), problem.clone()));
    }
    conditions(&environments.conditions, spec, "spec", &mut errors);
    for (index, validation) in spec.list("validations").iter().enumerate() {
        let path = format!("spec.validations[{index}]");
        let (expression, message) = (validation.text("expression"), validation.text("messageExpression"));
        check(
            &environments.full,
            &format!("{path}.expression"),
            expression,
            (&[Type::Bool], "bool"),
            &mut errors,
        );
        let path = format!("{path}.messageExpression");
        check(&environments.without_authorizer, &path, message, (&[Type::String], "string"), &mut errors);
    }
    for (index, annotation) in spec.list("auditAnnotations").iter().enumerate() {
        let path = format!("spec.auditAnnotations[{index}].valueExpression");
        let wanted: (&[Type], &str) = (&[Type::String, Type::Null], "one of [string null_type]");
        let source = annotation.text("valueExpression");
        check(&environments.full, &path, source, wanted, &mut errors);
    }
    for (index, mutation) in spec.list("mutations").iter().enumerate() {
        check_mutation(&environments.full, mutation, &format!("spec.mutations[{index}]"), &mut errors);
    }
    errors
}

/// Checks the expression that `patchType` names. The other one must be absent, which is a matter of other rules.
fn check_mutation(env: &Env, mutation: &Value, path: &str, errors: &mut Vec<FieldError>) {
    match mutation.text("patchType") {
        "JSONPatch" => {
            let patches = [Type::list(JSON_PATCH.clone())];
            let source = mutation.at("jsonPatch").text("expression");
            let path = format!("{path}.jsonPatch.expression");
            check(env, &path, source, (&patches[..], "list(JSONPatch)"), errors);
        }
        "ApplyConfiguration" => {
            let source = mutation.at("applyConfiguration").text("expression");
            check_applied(env, &format!("{path}.applyConfiguration.expression"), source, errors);
        }
        _ => {}
    }
}

/// Compiles an expression and checks its type. An absent one is a matter of other rules.
///
/// An expression of type `dyn` is refused, because kube-apiserver refuses it.
pub(super) fn check(
    env: &Env,
    path: &str,
    source: &str,
    wanted: (&[Type], &str),
    errors: &mut Vec<FieldError>,
) {
    let (source, (types, text)) = (source.trim(), wanted);
    if source.is_empty() {
        return;
    }
    match env.compile(source) {
        Err(issues) => {
            errors.push(FieldError::invalid(path, source, format!("compilation failed: {issues}")));
        }
        Ok(expression) if !has_type(&expression, types) => {
            let found = expression.output_type();
            errors.push(FieldError::invalid(
                path,
                source,
                format!("must evaluate to {text} but got {found}"),
            ));
        }
        Ok(_) => {}
    }
}

/// An apply configuration is an `Object`.
fn check_applied(env: &Env, path: &str, source: &str, errors: &mut Vec<FieldError>) {
    let source = source.trim();
    if source.is_empty() {
        return;
    }
    match env.compile(source) {
        Err(issues) => {
            errors.push(FieldError::invalid(path, source, format!("compilation failed: {issues}")));
        }
        Ok(expression) => {
            let found = expression.output_type().to_string();
            if found != "Object" {
                let detail = format!("must evaluate to Object but got {found}");
                errors.push(FieldError::invalid(path, source, detail));
            }
        }
    }
}
