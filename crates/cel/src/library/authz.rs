//! The `authorizer` library: authorization checks inside policies.
//!
//! An expression builds a request step by step (`authorizer.group('apps').resource('deployments').check('create')`);
//! the host is called by `check` only, which costs 350,000 because it may call a webhook. The host decides through
//! [`ExpressionAuthorizer`], about the user of the request or about a service account. Whether the variable exists at all is the
//! host's: custom resource rules do not have it.

use std::fmt;
use std::sync::Arc;

use listwatch_wire::names::{label_errors, subdomain_errors};

use super::{Evaluated, Native, no_overload};
use crate::error::EvalError;
use crate::value::{Str, Value};

/// A question to the authorizer, as an expression has built it step by step.
///
/// The server makes an authorization attribute of it; see `auth` there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessRequest {
    /// Another user to check: namespace and name of a service account. None for the user of the request.
    pub service_account: Option<(String, String)>,
    /// The path of a request that is not for a resource.
    pub path: Option<String>,
    /// The API group; empty for the core group.
    pub group: String,
    /// The resource, in the plural.
    pub resource: String,
    /// The subresource, or nothing.
    pub subresource: String,
    /// The namespace, or nothing.
    pub namespace: String,
    /// The name of the object, or nothing.
    pub name: String,
    /// The field selector, or nothing.
    ///
    /// As written in the expression.
    pub field_selector: String,
    /// The label selector, or nothing.
    pub label_selector: String,
    /// The verb, as in RBAC rules: `get`, `create`, `use`.
    pub verb: String,
}

/// The decision of the authorizer. An error does not fail the expression; it can ask for it with `errored()`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessDecision {
    /// True if the request is allowed.
    pub allowed: bool,
    /// The authorizer's reason, which `authorizer…reason()` returns.
    pub reason: String,
    /// The error in deciding.
    pub error: Option<String>,
}

/// The authorizer of the host. Called during evaluation, so it must answer from memory or within the time that the host
/// allows.
///
/// The cost of a check is charged by the evaluator, 350,000 of the 1,000,000 that one evaluation has, so two fit and
/// a third does not.
pub trait ExpressionAuthorizer: fmt::Debug + Send + Sync {
    /// Decides on a request of the user whose request is evaluated, or of a service account.
    fn authorize(&self, request: &AccessRequest) -> AccessDecision;
}

/// A value of the authorizer library: one stage of a check, or its decision.
///
/// Immutable: each step of the builder makes a new one, so that an expression can branch from a common part.
#[derive(Clone, Debug)]
pub struct AccessCheck {
    stage: CheckStage,
    authorizer: Arc<dyn ExpressionAuthorizer>,
    request: AccessRequest,
}

/// The stages are types of their own to the checker; at run time one enum serves, since `dyn` can hold any of them.
#[derive(Clone, Debug, PartialEq, Eq)]
enum CheckStage {
    Authorizer,
    Path,
    Group,
    Resource,
    Decision(AccessDecision),
}

impl PartialEq for AccessCheck {
    fn eq(&self, other: &Self) -> bool {
        self.stage == other.stage && self.request == other.request
    }
}

impl AccessCheck {
    /// The name of the type in the environment: it changes as a check is built.
    pub(crate) fn type_name(&self) -> &'static str {
        match self.stage {
            CheckStage::Authorizer => "kubernetes.authorization.Authorizer",
            CheckStage::Path => "kubernetes.authorization.PathCheck",
            CheckStage::Group => "kubernetes.authorization.GroupCheck",
            CheckStage::Resource => "kubernetes.authorization.ResourceCheck",
            CheckStage::Decision(_) => "kubernetes.authorization.Decision",
        }
    }

    /// The next stage of a check. Checks are values: the one before can be used again.
    fn to<'a>(&self, stage: CheckStage, change: impl FnOnce(&mut AccessRequest)) -> Value<'a> {
        let mut request = self.request.clone();
        change(&mut request);
        Value::Check(Arc::new(Self { stage, authorizer: self.authorizer.clone(), request }))
    }
}

impl Value<'_> {
    /// The value of the variable `authorizer`.
    #[must_use]
    pub fn authorizer(authorizer: Arc<dyn ExpressionAuthorizer>) -> Self {
        let request = AccessRequest::default();
        Self::Check(Arc::new(AccessCheck { stage: CheckStage::Authorizer, authorizer, request }))
    }

    /// The value of the variable `authorizer.requestResource`: a check of the resource of the request.
    #[must_use]
    pub fn resource_check(authorizer: Arc<dyn ExpressionAuthorizer>, request: AccessRequest) -> Self {
        Self::Check(Arc::new(AccessCheck { stage: CheckStage::Resource, authorizer, request }))
    }
}

/// Returns the functions of Kubernetes' authorizer library. Each adds to a check that is being described; only
/// `check` calls the host.
pub(super) fn native(name: &str) -> Option<Native> {
    Some(match name {
        "path" => |_, args| step(args, "path", to_path),
        "group" => |_, args| step(args, "group", to_group),
        "resource" => |_, args| step(args, "resource", to_resource),
        "subresource" => |_, args| part(args, "subresource", |request, value| request.subresource = value),
        "namespace" => |_, args| part(args, "namespace", |request, value| request.namespace = value),
        "name" => |_, args| part(args, "name", |request, value| request.name = value),
        "fieldSelector" => {
            |_, args| part(args, "fieldSelector", |request, value| request.field_selector = value)
        }
        "labelSelector" => {
            |_, args| part(args, "labelSelector", |request, value| request.label_selector = value)
        }
        "serviceAccount" => |_, args| service_account(args),
        "check" => |_, args| step(args, "check", decide),
        "errored" => |_, args| decision(args, "errored", |decision| Value::Bool(decision.error.is_some())),
        "error" => |_, args| {
            decision(args, "error", |decision| {
                Value::String(Str::from(decision.error.clone().unwrap_or_default()))
            })
        },
        "allowed" => |_, args| decision(args, "allowed", |decision| Value::Bool(decision.allowed)),
        "reason" => {
            |_, args| decision(args, "reason", |decision| Value::String(Str::from(decision.reason.clone())))
        }
        _ => return None,
    })
}

/// `authorizer.path("/healthz")`: a check of a path outside of resources.
fn to_path<'a>(check: &AccessCheck, path: &str) -> Option<Evaluated<'a>> {
    match check.stage {
        CheckStage::Authorizer if path.trim().is_empty() => {
            Some(Err(EvalError::new("path must not be empty")))
        }
        CheckStage::Authorizer => {
            Some(Ok(check.to(CheckStage::Path, |request| request.path = Some(path.to_owned()))))
        }
        _ => None,
    }
}

/// `authorizer.group("apps")`: the beginning of a check of a resource.
fn to_group<'a>(check: &AccessCheck, group: &str) -> Option<Evaluated<'a>> {
    matches!(check.stage, CheckStage::Authorizer)
        .then(|| Ok(check.to(CheckStage::Group, |request| request.group = group.to_owned())))
}

/// `….resource("deployments")`.
fn to_resource<'a>(check: &AccessCheck, name: &str) -> Option<Evaluated<'a>> {
    match check.stage {
        CheckStage::Group if name.trim().is_empty() => {
            Some(Err(EvalError::new("resource must not be empty")))
        }
        CheckStage::Group => {
            Some(Ok(check.to(CheckStage::Resource, |request| request.resource = name.to_owned())))
        }
        _ => None,
    }
}

/// `….check("get")`: the host decides.
fn decide<'a>(check: &AccessCheck, verb: &str) -> Option<Evaluated<'a>> {
    matches!(check.stage, CheckStage::Path | CheckStage::Resource).then(|| {
        let request = AccessRequest { verb: verb.to_owned(), ..check.request.clone() };
        let decision = check.authorizer.authorize(&request);
        Ok(check.to(CheckStage::Decision(decision), |_| {}))
    })
}

/// Applies a step to a check. `None` from it means that the stage of the check has no such step.
fn step<'a>(
    args: &[Value<'a>],
    name: &str,
    step: fn(&AccessCheck, &str) -> Option<Evaluated<'a>>,
) -> Evaluated<'a> {
    match args {
        [Value::Check(check), Value::String(text)] => {
            step(check, text).unwrap_or_else(|| Err(no_overload(name, args)))
        }
        _ => Err(no_overload(name, args)),
    }
}

/// Sets a part of a resource check.
fn part<'a>(args: &[Value<'a>], name: &str, set: fn(&mut AccessRequest, String)) -> Evaluated<'a> {
    match args {
        [Value::Check(check), Value::String(text)] if check.stage == CheckStage::Resource => {
            Ok(check.to(CheckStage::Resource, |request| set(request, text.to_string())))
        }
        _ => Err(no_overload(name, args)),
    }
}

/// Asks for a service account instead of the user. Names that cannot exist are errors.
fn service_account<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::Check(check), Value::String(namespace), Value::String(name)] = args else {
        return Err(no_overload("serviceAccount", args));
    };
    if check.stage != CheckStage::Authorizer {
        return Err(no_overload("serviceAccount", args));
    }
    if !subdomain_errors(name).is_empty() {
        return Err(EvalError::new("Invalid service account name"));
    }
    if !label_errors(namespace).is_empty() {
        return Err(EvalError::new("Invalid service account namespace"));
    }
    let account = Some((namespace.to_string(), name.to_string()));
    Ok(check.to(CheckStage::Authorizer, |request| request.service_account = account))
}

/// Reads a decision that has been made.
fn decision<'a>(args: &[Value<'a>], name: &str, part: fn(&AccessDecision) -> Value<'a>) -> Evaluated<'a> {
    match args {
        [Value::Check(check)] => match &check.stage {
            CheckStage::Decision(decision) => Ok(part(decision)),
            _ => Err(no_overload(name, args)),
        },
        _ => Err(no_overload(name, args)),
    }
}
