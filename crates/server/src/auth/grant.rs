//! Who may write roles and bindings may still not give more than he has.

use listwatch_wire::Status;
use listwatch_wire::json::Value;

use crate::auth::rbac::{PolicyRule, RoleRef, uncovered};
use crate::auth::{Attributes, Authorizer, Decision, User};

/// A role or binding about to be written.
#[derive(Clone, Copy, Debug)]
pub struct Grant<'a> {
    /// `roles`, `clusterroles`, `rolebindings` or `clusterrolebindings`.
    pub resource: &'a str,
    /// The namespace; empty for the cluster-wide kinds.
    pub namespace: &'a str,
    /// The object's name.
    pub name: &'a str,
    /// The object.
    pub object: &'a Value,
}

const GROUP: &str = "rbac.authorization.k8s.io";

/// Whether the user may grant what the object grants: he holds it himself, or has the right to give more.
///
/// # Errors
/// 403 that names what he does not hold.
pub fn check(authorizer: &dyn Authorizer, user: &User, grant: Grant<'_>) -> Result<(), Status> {
    let (wanted, verb, target) = match grant.resource {
        "roles" | "clusterroles" => {
            (rules_of(grant.object), "escalate", (grant.resource, grant.name.to_owned()))
        }
        "rolebindings" | "clusterrolebindings" => {
            let Some(role) = role_of(grant.object) else { return Ok(()) };
            let resource = if role.kind == "ClusterRole" { "clusterroles" } else { "roles" };
            (authorizer.role(&role, grant.namespace), "bind", (resource, role.name))
        }
        _ => return Ok(()),
    };
    let exempt = Attributes {
        verb,
        group: GROUP,
        resource: target.0,
        namespace: grant.namespace,
        name: &target.1,
        ..Attributes::default()
    };
    if authorizer.authorize(user, &exempt) == Decision::Allow {
        return Ok(());
    }
    let missing = uncovered(&authorizer.rules(user, grant.namespace), &wanted);
    if missing.is_empty() { Ok(()) } else { Err(refusal(user, grant, &missing)) }
}

fn rules_of(object: &Value) -> Vec<PolicyRule> {
    object.get("rules").and_then(|rules| rules.to_type().ok()).unwrap_or_default()
}

fn role_of(object: &Value) -> Option<RoleRef> {
    object.get("roleRef")?.to_type().ok()
}

fn refusal(user: &User, grant: Grant<'_>, missing: &[PolicyRule]) -> Status {
    let groups = user.groups.iter().map(|group| format!("{group:?}")).collect::<Vec<_>>().join(" ");
    let rules = missing.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    let why = format!(
        "user {:?} (groups=[{groups}]) is attempting to grant RBAC permissions not currently held:\n{rules}",
        user.name
    );
    Status::forbidden(GROUP, grant.resource, grant.name, &why)
}
