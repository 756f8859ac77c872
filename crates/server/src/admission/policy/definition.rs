//! [`PolicyDefinition`]: a ValidatingAdmissionPolicy or MutatingAdmissionPolicy with its compiled CEL expressions.
//!
//! Compiled once per change of the policies ([`super::Policies`]), not per request. An expression that does not
//! compile is kept with its error, which shows at evaluation and is subject to `failurePolicy`: the object may be
//! older than the current type information. Which variables each kind of expression may use is
//! [`crate::registry::expressions`].

use std::fmt;

use listwatch_cel::{Env, Version};
use listwatch_kinds::tree::Tree;
use listwatch_wire::json::{Value, encode};

use crate::admission::matching::Matcher;
use crate::registry::expressions::{CompiledExpression, Environments, PolicyFamily};

/// The kind of the parameters of a policy.
#[derive(Clone, Debug)]
pub(super) struct ParamKind {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) kind: String,
}

impl fmt::Display for ParamKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slash = if self.group.is_empty() { "" } else { "/" };
        write!(f, "&ParamKind{{APIVersion:{}{slash}{},Kind:{},}}", self.group, self.version, self.kind)
    }
}

impl ParamKind {
    /// Reads `spec.paramKind`; none for a policy without parameters.
    fn read(kind: &Value) -> Option<Self> {
        let (group, version) = match kind.text("apiVersion").split_once('/') {
            Some((group, version)) => (group, version),
            None => ("", kind.text("apiVersion")),
        };
        kind.is_object().then(|| Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.text("kind").to_owned(),
        })
    }
}

/// A validation: an expression that must be true.
#[derive(Debug)]
pub(super) struct Validation {
    pub(super) expression: CompiledExpression,
    pub(super) message: String,
    /// Preferred to `message`; falls back to it if it fails or returns something unusable.
    pub(super) message_expression: Option<CompiledExpression>,
    /// One of kube-apiserver's reasons, which decides the code of the 4xx.
    pub(super) reason: String,
}

impl Validation {
    /// Reads an element of `spec.validations`. The message may use everything but the authorizer.
    fn read(validation: &Value, full: &Env, without_authorizer: &Env) -> Self {
        let message = Some(validation.text("messageExpression")).filter(|source| !source.is_empty());
        Self {
            expression: CompiledExpression::new(full, validation.text("expression")),
            message: validation.text("message").to_owned(),
            message_expression: message.map(|source| CompiledExpression::new(without_authorizer, source)),
            reason: validation.text("reason").to_owned(),
        }
    }
}

/// A mutation: an expression that returns a change.
#[derive(Debug)]
pub(super) enum Mutation {
    /// Returns an object with the fields to set, merged as by server-side apply.
    Apply(CompiledExpression),
    /// Returns a list of JSON patch operations.
    Patch(CompiledExpression),
}

impl Mutation {
    /// Reads an element of `spec.mutations`.
    fn read(mutation: &Value, env: &Env) -> Self {
        let compiled = |part| CompiledExpression::new(env, mutation.at(part).text("expression"));
        match mutation.text("patchType") {
            "JSONPatch" => Self::Patch(compiled("jsonPatch")),
            _ => Self::Apply(compiled("applyConfiguration")),
        }
    }
}

/// A policy with its compiled expressions.
#[derive(Debug)]
pub(super) struct PolicyDefinition {
    pub(super) name: String,
    pub(super) matcher: Matcher,
    /// True if errors deny the request (`failurePolicy: Fail`).
    pub(super) fail_closed: bool,
    pub(super) param_kind: Option<ParamKind>,
    /// Match conditions: all must be true for the policy to be evaluated.
    pub(super) conditions: Vec<CompiledExpression>,
    /// Named expressions that the others may use, in order.
    pub(super) variables: Vec<(String, CompiledExpression)>,
    pub(super) validations: Vec<Validation>,
    /// Audit annotations of a validating policy, evaluated for any result of the validations.
    pub(super) annotations: Vec<(String, CompiledExpression)>,
    /// Changes in order; each expression sees the object that the one before has made.
    pub(super) mutations: Vec<Mutation>,
    /// Called again if others changed the object after it.
    pub(super) reinvoke: bool,
    /// An expression may read `resourceVersion`, which objects are stored without; others are spared the copy.
    pub(super) reads_version: bool,
}

impl PolicyDefinition {
    /// Reads a stored policy and compiles its expressions. It cannot fail: errors are kept with the expressions and
    /// show at evaluation.
    pub(super) fn read(family: PolicyFamily, policy: &Value) -> Self {
        let spec = policy.at("spec");
        let environments = Environments::new(Version::Stored, family, spec);
        let texts = |value: &Value, key: &str| value.text(key).to_owned();
        let (plain, full) = (&environments.without_authorizer, &environments.full);
        let condition =
            |one: &Value| CompiledExpression::new(&environments.conditions, one.text("expression"));
        Self {
            name: texts(policy.at("metadata"), "name"),
            matcher: Matcher::of_policy(spec.at("matchConstraints")),
            fail_closed: spec.text("failurePolicy") != "Ignore",
            param_kind: ParamKind::read(spec.at("paramKind")),
            conditions: spec.list("matchConditions").iter().map(condition).collect(),
            validations: spec
                .list("validations")
                .iter()
                .map(|validation| Validation::read(validation, full, plain))
                .collect(),
            annotations: spec
                .list("auditAnnotations")
                .iter()
                .map(|one| (texts(one, "key"), CompiledExpression::new(plain, one.text("valueExpression"))))
                .collect(),
            mutations: spec.list("mutations").iter().map(|mutation| Mutation::read(mutation, full)).collect(),
            reinvoke: spec.text("reinvocationPolicy") == "IfNeeded",
            reads_version: encode(spec).windows(15).any(|part| part == b"resourceVersion"),
            variables: environments.variables,
        }
    }
}
