//! The expressions of an admission policy, compiled: [`Environments`] declares its variables, [`CompiledExpression`]
//! is one program.
//!
//! Variables of a policy are declared one after the other, so that each may use those before it and none can be
//! recursive. A program that could not be made is kept as its error, because a stored policy must be evaluated (and
//! fail) even if it does not compile any more. Evaluation and cost budgets are `admission/policy/scope.rs`.

use listwatch_cel::{Env, Expression, PatternAllowance, Program, Type, Version};
use listwatch_kinds::tree::Tree;
use listwatch_wire::json::Value;

use super::environment::{Declared, JSON_PATCH, environment};

/// The most variables of a policy. Each expression sees the types of all before it, which is quadratic; kube-apiserver has no
/// such bound.
pub(super) const MAX_VARIABLES: usize = 1000;

/// ValidatingAdmissionPolicy or MutatingAdmissionPolicy: they share everything but their effects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PolicyFamily {
    Validating,
    Mutating,
}

impl PolicyFamily {
    /// The plural of the policies.
    pub(crate) const fn policies(self) -> &'static str {
        match self {
            Self::Validating => "validatingadmissionpolicies",
            Self::Mutating => "mutatingadmissionpolicies",
        }
    }

    /// The plural of the bindings.
    pub(crate) const fn bindings(self) -> &'static str {
        match self {
            Self::Validating => "validatingadmissionpolicybindings",
            Self::Mutating => "mutatingadmissionpolicybindings",
        }
    }
}

/// An expression and its program, or the error of compiling it, which evaluation returns.
///
/// Kept with the policy by `admission/policy`, for all requests until the policy changes.
#[derive(Debug)]
pub(crate) struct CompiledExpression {
    pub(crate) source: String,
    /// The program, or why it could not be made.
    pub(crate) program: Result<Program, String>,
}

impl CompiledExpression {
    /// An expression that cannot be compiled keeps its error, which is reported when it should run.
    pub(crate) fn new(env: &Env, source: &str) -> Self {
        let source = source.trim().to_owned();
        let program = match env.compile(&source) {
            Ok(expression) => expression.program().map_err(|error| error.message().to_owned()),
            Err(issues) => Err(format!("compilation failed: {issues}")),
        };
        Self { source, program }
    }
}

/// The environments of the expressions of a policy.
///
/// Three, because authorizer and variables are not visible everywhere; an expression that uses one in the wrong place
/// does not compile.
#[derive(Debug)]
pub(crate) struct Environments {
    /// The environment of match conditions, which have no variables of the policy.
    pub(crate) conditions: Env,
    /// The environment of validations and mutations.
    pub(crate) full: Env,
    /// The environment of messages and audit annotations.
    pub(crate) without_authorizer: Env,
    pub(crate) variables: Vec<(String, CompiledExpression)>,
    /// The errors of the expressions of variables, with their places.
    pub(crate) problems: Vec<(usize, String)>,
}

impl Environments {
    /// Declares the variables of a policy and compiles their expressions, in order. `version` decides which CEL
    /// libraries may be used: a stored policy may use what a newer server accepted.
    pub(crate) fn new(version: Version, family: PolicyFamily, spec: &Value) -> Self {
        let params = spec.has("paramKind");
        let declared = Declared { params, authorizer: true };
        let patterns = PatternAllowance::default();
        let conditions = environment(version, declared).with_patterns(patterns.clone());
        let mut full = environment(version, declared).with_patterns(patterns.clone());
        if family == PolicyFamily::Mutating {
            full = full.with_mutation().with_type(JSON_PATCH.clone()).with_dynamic_type("Object");
        }
        let mut plain =
            environment(version, Declared { authorizer: false, ..declared }).with_patterns(patterns);
        let (mut variables, mut fields, mut problems) = (Vec::new(), Vec::new(), Vec::new());
        for (index, variable) in spec.list("variables").iter().take(MAX_VARIABLES).enumerate() {
            let (name, source) = (variable.text("name"), variable.text("expression"));
            // A variable without an expression is not declared, so that its uses are errors as well.
            if source.trim().is_empty() {
                continue;
            }
            let ty = match full.compile(source.trim()) {
                Ok(expression) => expression.output_type().clone(),
                Err(issues) => {
                    problems.push((index, format!("compilation failed: {issues}")));
                    Type::Dyn
                }
            };
            variables.push((name.to_owned(), CompiledExpression::new(&full, source)));
            fields.push((name.into(), ty));
            let object = Type::object("kubernetes.variables", fields.clone());
            full = full.with_variable("variables", object.clone());
            plain = plain.with_variable("variables", object);
        }
        Self { conditions, full, without_authorizer: plain, variables, problems }
    }
}

/// Returns true if the type of an expression is one of those. A type that is only known at run time is none.
///
/// `dyn` is not accepted in place of a wanted type.
pub(crate) fn has_type(expression: &Expression, wanted: &[Type]) -> bool {
    let own = expression.output_type();
    wanted.iter().any(|wanted| wanted.is_same(own))
}
