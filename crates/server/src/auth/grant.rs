//! Privilege-escalation checks: a user may only grant permissions they already hold, unless they have `escalate` or
//! `bind`.
//!
//! RBAC on `roles` and `rolebindings` decides who may write them; without this check, that right would be the right
//! to everything. It runs on create and on every update of a role or binding, except for the changes of owners and
//! finalizers that the garbage collector makes. An aggregation rule can gather anything, so it needs everything.
//!
//! The comparison of rules is [`crate::auth::rbac::uncovered`], bounded in work. The caller is the plugin in
//! `admission/rights.rs`. Bootstrap roles pass because the server writes them as a member of `system:masters`.

use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::go::quote;
use listwatch_wire::json::Value;
use listwatch_wire::status::FieldError;

use crate::auth::rbac::{PolicyRule, Role, RoleRef, describe, quoted, uncovered};
use crate::auth::{Authorizer, AuthorizerAttributes, Decision, MASTERS, User};

/// A role or binding that is about to be written: the input of [`check`].
#[doc(alias = "ConfirmNoEscalation")]
#[doc(alias = "EscalationAllowed")]
#[derive(Clone, Copy, Debug)]
pub struct Grant<'a> {
    /// `roles`, `clusterroles`, `rolebindings` or `clusterrolebindings`.
    pub resource: &'a str,
    /// The namespace; empty for the cluster-wide kinds.
    pub namespace: &'a str,
    /// The object's name.
    pub name: &'a str,
    /// The name in the path of the request; empty when a collection is posted to.
    pub asked: &'a str,
    /// The object.
    pub object: &'a Value,
    /// The object that it replaces.
    pub old: Option<&'a Value>,
}

const GROUP: &str = "rbac.authorization.k8s.io";

/// Checks that the user may grant the permissions of a role or binding: they hold them, or may `escalate` (roles) or
/// `bind` (bindings).
///
/// # Errors
/// 403 that lists the rules not held, 404 for a binding of a role that does not exist, 422 for a `roleRef` of an
/// unknown kind.
pub fn check(authorizer: &dyn Authorizer, user: &User, grant: Grant<'_>) -> Result<(), Status> {
    if user.is_in(MASTERS) || grant.old.is_some_and(|old| only_releases(grant.object, old)) {
        return Ok(());
    }
    match grant.resource {
        "roles" | "clusterroles" => check_role(authorizer, user, grant),
        "rolebindings" | "clusterrolebindings" => check_binding(authorizer, user, grant),
        _ => Ok(()),
    }
}

/// Checks a role: `escalate`, or all of its rules held; with an aggregation rule, cluster-admin.
///
/// The name asked about is the one in the path, so that `escalate` on a name does not allow creating a role of that
/// name by a POST to the collection. kube-apiserver has the same rule.
fn check_role(authorizer: &dyn Authorizer, user: &User, grant: Grant<'_>) -> Result<(), Status> {
    check_size(authorizer, &grant)?;
    let escalate = AuthorizerAttributes {
        verb: "escalate",
        group: GROUP,
        version: "*",
        resource: grant.resource,
        namespace: grant.namespace,
        name: grant.asked,
        ..AuthorizerAttributes::default()
    };
    if authorizer.authorize(user, &escalate) == Decision::Allow {
        return Ok(());
    }
    let role: Role = grant.object.to_type().map_err(|error| grant.refuse(&error.to_string()))?;
    grant.check_held(authorizer, user, role.rules())?;
    // An aggregation rule can select any role, so a user who sets, keeps or drops one needs all permissions. A rule
    // that selects nothing is refused by validation.
    let gathers = |role: &Value| role.at("aggregationRule").count("clusterRoleSelectors") > 0;
    let aggregated = gathers(grant.object) || grant.old.is_some_and(gathers);
    if aggregated && grant.check_held(authorizer, user, &all_permissions()).is_err() {
        return Err(grant.refuse("must have cluster-admin privileges to use the aggregationRule"));
    }
    Ok(())
}

/// The number of texts that the rules of all Roles of a namespace may have together, about 2 MB. A decision about a request in the
/// namespace may compare all of them, which takes about a millisecond; kube-apiserver has no such bound.
const MAX_ROLE_TEXTS: usize = 200_000;

/// Refuses a Role that grows beyond what all Roles of its namespace may have together.
fn check_size(authorizer: &dyn Authorizer, grant: &Grant<'_>) -> Result<(), Status> {
    /// The lists of a rule, whose lengths are added up.
    const LISTS: [&str; 4] = ["verbs", "apiGroups", "resources", "resourceNames"];
    if grant.resource != "roles" {
        return Ok(());
    }
    let texts = |rule: &Value| LISTS.iter().map(|list| rule.list(list).len()).sum::<usize>();
    let size = |role: &Value| role.list("rules").iter().map(texts).sum::<usize>();
    let (new, old) = (size(grant.object), grant.old.map_or(0, size));
    let others = authorizer.size_in(grant.namespace).saturating_sub(old);
    if new > old && others + new > MAX_ROLE_TEXTS {
        let text = format!("the rules of all Roles of a namespace may have {MAX_ROLE_TEXTS} texts together");
        return Err(grant.refuse(&text));
    }
    Ok(())
}

/// Checks a binding: `bind` on the role, or all of the role's rules held.
fn check_binding(authorizer: &dyn Authorizer, user: &User, grant: Grant<'_>) -> Result<(), Status> {
    let role: RoleRef =
        grant.object.at("roleRef").to_type().map_err(|error| grant.refuse(&error.to_string()))?;
    let resource = match role.kind.as_str() {
        "ClusterRole" => "clusterroles",
        "Role" => "roles",
        other => {
            let error = FieldError::not_supported("roleRef.kind", other, &["ClusterRole", "Role"]);
            return Err(Status::invalid(GROUP, grant.object.text("kind"), grant.name, &[error]));
        }
    };
    let bind = AuthorizerAttributes {
        verb: "bind",
        group: &role.api_group,
        version: "*",
        resource,
        namespace: grant.namespace,
        name: &role.name,
        ..AuthorizerAttributes::default()
    };
    if authorizer.authorize(user, &bind) == Decision::Allow {
        return Ok(());
    }
    if resource == "roles" && grant.namespace.is_empty() {
        return Err(Status::bad_request("Namespace parameter required."));
    }
    let rules = authorizer.role(&role, grant.namespace);
    // As in kube-apiserver, the 404 names the resource of the request, the binding, with the name of the role.
    let missing = || Status::not_found(GROUP, grant.resource, &role.name);
    grant.check_held(authorizer, user, &rules.ok_or_else(missing)?)
}

/// Everything that RBAC can give.
fn all_permissions() -> [PolicyRule; 2] {
    [PolicyRule::resources("*", &["*"], &["*"]), PolicyRule::paths(&["*"], &["*"])]
}

impl Grant<'_> {
    /// Checks that the user holds all of these rules.
    ///
    /// # Errors
    ///
    /// 403 that lists the missing rules in kube-apiserver's format, or one for rules with too many combinations
    /// ([`uncovered`]).
    fn check_held(
        &self,
        authorizer: &dyn Authorizer,
        user: &User,
        wanted: &[PolicyRule],
    ) -> Result<(), Status> {
        let missing = uncovered(&authorizer.held(user, self.namespace), wanted)
            .ok_or_else(|| self.refuse("its rules have too many combinations to be checked"))?;
        if missing.is_empty() {
            return Ok(());
        }
        Err(self.refuse(&format!(
            "user {} (groups=[{}]) is attempting to grant RBAC permissions not currently held:\n{}",
            quote(&user.name),
            quoted(&user.groups),
            describe(&missing)
        )))
    }

    fn refuse(&self, why: &str) -> Status {
        Status::forbidden(GROUP, self.resource, self.name, why)
    }
}

/// Returns true if nothing changes but owners and finalizers, which the garbage collector writes.
/// Such a change must pass without the check: the collector runs with few permissions, and a role that it cannot
/// write would keep its owner from being deleted. Both objects are copied, which is bearable because roles change
/// rarely.
pub(crate) fn only_releases(new: &Value, old: &Value) -> bool {
    /// Metadata that a write may change without granting anything.
    const OWN: [&str; 4] = ["ownerReferences", "finalizers", "managedFields", "resourceVersion"];
    let without = |object: &Value| {
        let mut object = object.clone();
        if let Some(meta) = object.inner("metadata") {
            OWN.iter().for_each(|key| drop(meta.drop_field(key)));
        }
        object
    };
    without(new) == without(old)
}
