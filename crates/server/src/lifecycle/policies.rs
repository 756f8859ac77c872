//! The status of ValidatingAdmissionPolicies: `observedGeneration` and the warnings of type checking.
//!
//! Type checking compares a policy with the schemas of the kinds it matches; it runs once per generation and only
//! informs, since admission evaluates the policy anyway. In a cluster it is part of kube-controller-manager. The
//! checks are `registry/expressions/typed.rs`; errors that reject a policy are found when it is written, in
//! `registry/expressions/check.rs`.

use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::{Value, json};

use crate::api::Api;
use crate::pipeline::internal::amend;
use crate::registry::expressions::typed;

/// The collection of ValidatingAdmissionPolicies in storage keys.
pub(super) const COLLECTION: &str = "validatingadmissionpolicies.admissionregistration.k8s.io";

/// Returns true if a policy has changed since its status was written.
pub(super) fn is_outdated(policy: &[u8]) -> bool {
    Value::read(policy).is_ok_and(|policy| generation(&policy) > observed(&policy))
}

/// The generation that the spec has.
fn generation(policy: &Value) -> i64 {
    policy.at("metadata").int("generation").unwrap_or(0)
}

/// The generation that the status is about; the types are checked again where they differ.
fn observed(policy: &Value) -> i64 {
    policy.at("status").int("observedGeneration").unwrap_or(0)
}

/// Checks the types of a policy and writes its status.
///
/// # Errors
///
/// The store fails: try again.
pub(super) async fn check(api: &Api, name: &str) -> Result<(), Status> {
    let resource = api.registry.find("admissionregistration.k8s.io", "v1", "validatingadmissionpolicies");
    let Some(resource) = resource else { return Ok(()) };
    amend(api, &resource, None, name, |policy| checked(api, policy)).await
}

/// `None` if the status is up to date by now: another replica may have written it.
fn checked(api: &Api, policy: &Value) -> Option<Value> {
    if generation(policy) <= observed(policy) {
        return None;
    }
    let warnings: Vec<Value> = typed::check(&api.registry, policy)
        .into_iter()
        .map(|warning| json!({"fieldRef": warning.field, "warning": warning.text}))
        .collect();
    let mut new = policy.clone();
    let status = new.inner_or_new("status")?;
    let checking = if warnings.is_empty() { json!({}) } else { json!({"expressionWarnings": warnings}) };
    status.put("typeChecking", checking);
    status.put("observedGeneration", generation(policy));
    Some(new)
}
