//! Permission to read what policies take as parameters: who writes a policy with a `paramKind`, or a binding with a `paramRef`,
//! must be allowed to read it.
//!
//! The server reads parameters by itself, and messages of expressions can show all of them; without this check the right to
//! write policies would be one to read every Secret. kube-apiserver checks it in the strategies of these kinds, after validation
//! and for all but administrators; here it is the first of the validating plugins, which is the same point of a write, and it
//! cannot be disabled.

use async_trait::async_trait;
use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::gvk::GroupVersion;
use listwatch_wire::json::Value;
use listwatch_wire::status::FieldError;

use super::{Attributes, Operation, Plugin};
use crate::auth::{self, MASTERS, User};
use crate::registry::{Registry, Resource};

const GROUP: &str = "admissionregistration.k8s.io";

/// The check of policies and their bindings.
#[derive(Debug)]
pub(super) struct ParamAccess;

/// The kinds that name parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ParamHolder {
    Policy,
    /// A binding, and the resource of its policies.
    Binding(&'static str),
}

impl ParamHolder {
    /// The part of a policy that a resource is; none for other resources.
    fn of(resource: &Resource) -> Option<Self> {
        match &*resource.plural {
            _ if &*resource.group != GROUP => None,
            "validatingadmissionpolicies" | "mutatingadmissionpolicies" => Some(Self::Policy),
            "validatingadmissionpolicybindings" => Some(Self::Binding("validatingadmissionpolicies")),
            "mutatingadmissionpolicybindings" => Some(Self::Binding("mutatingadmissionpolicies")),
            _ => None,
        }
    }
}

#[async_trait]
impl Plugin for ParamAccess {
    fn is_interested(&self, resource: &Resource) -> bool {
        ParamHolder::of(resource).is_some()
    }

    fn handles(&self, operation: Operation, subresource: &str) -> bool {
        matches!(operation, Operation::Create | Operation::Update) && subresource.is_empty()
    }

    async fn validate(&self, request: &Attributes<'_>, object: &Value) -> Result<(), Status> {
        if request.user.is_in(MASTERS) {
            return Ok(());
        }
        // The cache is brought up to the store, so that the latest policies and roles are found.
        request.api.wait_for(None).await?;
        let error = match ParamHolder::of(request.resource) {
            Some(ParamHolder::Policy) => of_policy(request, object).await,
            Some(ParamHolder::Binding(policies)) => of_binding(request, object, policies).await,
            None => None,
        };
        let Some(error) = error else { return Ok(()) };
        let name = object.at("metadata").text("name");
        Err(Status::invalid(GROUP, object.text("kind"), name, &[error]))
    }
}

/// A `paramKind` needs `get` on all of its objects, unless it stays as it is.
async fn of_policy(request: &Attributes<'_>, policy: &Value) -> Option<FieldError> {
    let kind = policy.at("spec").at("paramKind");
    let stays = request.old.is_some_and(|old| old.at("spec").at("paramKind") == kind);
    if !kind.is_object() || stays {
        return None;
    }
    let params = ParamResource::of(&request.api.registry, kind);
    if params.allows(request, "get", "*", "*").await {
        return None;
    }
    let detail = format!(
        "user {} must have \"get\" permission on all objects of the referenced paramKind (kind={}, apiVersion={})",
        shown(request.user),
        kind.text("kind"),
        kind.text("apiVersion"),
    );
    Some(FieldError::forbidden("spec.paramKind", detail))
}

/// A `paramRef` needs `get` on the object, or `list` for a selector. As in kube-apiserver every update is checked, also one that
/// leaves the reference as it is.
async fn of_binding(request: &Attributes<'_>, binding: &Value, policies: &str) -> Option<FieldError> {
    let (spec, reference) = (binding.at("spec"), binding.at("spec").at("paramRef"));
    if !reference.is_object() {
        return None;
    }
    let (policy_name, version) = (spec.text("policyName"), &*request.resource.version);
    let policy = request.find((GROUP, version, policies), None, policy_name);
    let kind = policy.as_ref().map(|policy| policy.at("spec").at("paramKind"));
    let params =
        kind.filter(|kind| kind.is_object()).map(|kind| ParamResource::of(&request.api.registry, kind));
    let params = params.unwrap_or_default();
    let name = reference.text("name");
    let verb = if name.is_empty() { "list" } else { "get" };
    if params.allows(request, verb, reference.text("namespace"), name).await {
        return None;
    }
    let user = shown(request.user);
    let unknown = |what: String| {
        format!(
            "unable to {what} to determine minimum required permissions and user {user} does not have \"{verb}\" permission for all groups, versions and resources"
        )
    };
    let kind = kind.unwrap_or(&Value::Null);
    let kind = format!("&ParamKind{{APIVersion:{},Kind:{},}}", kind.text("apiVersion"), kind.text("kind"));
    let detail = match params.unknown {
        _ if policy.is_none() => unknown(format!("get policy {policy_name}")),
        Some(UnknownParams::Version) => unknown(format!("parse paramKind {kind}")),
        Some(UnknownParams::Kind) => unknown(format!("resolve paramKind {kind}")),
        None => {
            format!("user {user} does not have \"{verb}\" permission on the object referenced by paramRef")
        }
    };
    Some(FieldError::forbidden("spec.paramRef", detail))
}

/// The resource of parameters. What is not known of it is a wildcard, so that permission for everything is needed.
struct ParamResource {
    group: String,
    version: String,
    plural: String,
    unknown: Option<UnknownParams>,
}

/// The part of a `paramKind` that leads nowhere.
#[derive(Clone, Copy)]
enum UnknownParams {
    Version,
    Kind,
}

impl Default for ParamResource {
    fn default() -> Self {
        let all = || "*".to_owned();
        Self { group: all(), version: all(), plural: all(), unknown: None }
    }
}

impl ParamResource {
    /// Resolves the parameter kind of a policy. An unknown kind needs the permission for all resources of its group.
    fn of(registry: &Registry, kind: &Value) -> Self {
        let Ok(version) = kind.text("apiVersion").parse::<GroupVersion>() else {
            return Self { unknown: Some(UnknownParams::Version), ..Self::default() };
        };
        let found = registry.find_kind(&version.group, &version.version, kind.text("kind"));
        let unknown = found.is_none().then_some(UnknownParams::Kind);
        let plural = found.map_or_else(|| "*".to_owned(), |resource| resource.plural.to_string());
        Self { group: version.group.to_string(), version: version.version.to_string(), plural, unknown }
    }

    /// Returns true if the user may read the parameters.
    async fn allows(&self, request: &Attributes<'_>, verb: &str, namespace: &str, name: &str) -> bool {
        let wanted = auth::AuthorizerAttributes {
            verb,
            group: &self.group,
            version: &self.version,
            resource: &self.plural,
            namespace,
            name,
            ..auth::AuthorizerAttributes::default()
        };
        request.api.authorizer.allows(request.user, &wanted).await
    }
}

/// A user as Go prints one.
fn shown(user: &User) -> String {
    let extra: Vec<String> =
        user.extra.iter().map(|(key, values)| format!("{key}:[{}]", values.join(" "))).collect();
    format!("&{{{} {} [{}] map[{}]}}", user.name, user.uid, user.groups.join(" "), extra.join(" "))
}
