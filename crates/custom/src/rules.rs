//! Expression rules (`x-kubernetes-validations`): compiled with the definition, evaluated on each write.
//!
//! The language itself is the crate `listwatch-cel`. Here is what it means for custom resources: which variables rules
//! have, which of them run when, what a broken one answers, and what they may cost.

mod compile;
mod costs;
mod evaluate;
pub(crate) mod field_path;

use std::sync::Arc;

use listwatch_cel::{Decl, Env, Program, Version};
use listwatch_wire::json::{Text, Value};
use listwatch_wire::status::{FieldError, FieldErrorKind};

/// The compiled expression rules of one version of a definition.
#[derive(Debug)]
pub struct Rules {
    /// The nodes of the schema that have rules at or below them.
    root: Option<RuleNode>,
}

/// A node of the schema with rules at or below it.
#[derive(Debug)]
struct RuleNode {
    /// The schema of values here as expressions see it, if they can read them.
    decl: Option<Arc<Decl>>,
    type_name: Text,
    rules: Vec<ExpressionRule>,
    /// The fields that tell the elements of a list apart.
    list_keys: Option<Vec<Text>>,
    properties: Vec<(Text, RuleNode)>,
    items: Option<Box<RuleNode>>,
    values: Option<Box<RuleNode>>,
    all_of: Vec<RuleNode>,
}

/// One rule.
#[derive(Debug)]
struct ExpressionRule {
    text: String,
    message: String,
    kind: Option<FieldErrorKind>,
    /// The path of the reported field, relative to this place.
    field_path: String,
    optional_old: bool,
    uses_old: bool,
    /// The program, or why there is none. An empty rule has neither.
    program: Option<Result<CompiledRule, String>>,
    message_program: Option<Result<CompiledRule, String>>,
    /// The rule as errors show it.
    shown: String,
    declares_optional_old: Option<bool>,
}

/// A program and what it may cost at most.
#[derive(Debug)]
struct CompiledRule {
    program: Program,
    max_cost: u64,
}

/// The result of evaluating the rules on a write, with ratcheting: what an update did not change only warns.
#[derive(Debug, Default)]
pub struct Verdict {
    /// Rules that are broken.
    pub errors: Vec<FieldError>,
    /// Rules that are broken by parts that an update did not change.
    pub warnings: Vec<String>,
}

impl Rules {
    /// Compiles every rule in a schema that was stored.
    #[must_use]
    pub fn compile(schema: &Value) -> Self {
        Self { root: compile::root(schema, &Env::new(Version::Stored)) }
    }

    /// Compiles every rule in a new schema, which the version before this one must understand, too.
    #[must_use]
    pub fn compile_new(schema: &Value) -> Self {
        Self { root: compile::root(schema, &Env::new(Version::New)) }
    }

    /// Returns true if there are no rules, so that a write need not build variables for them.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    /// The rules that cannot work or may cost too much, each as an error at its place under `path`.
    #[must_use]
    pub fn errors(&self, schema: &Value, path: &str) -> Vec<FieldError> {
        self.root.as_ref().map(|root| costs::errors(root, schema, path)).unwrap_or_default()
    }

    /// Evaluates all rules; those that speak of `oldSelf` only if there is an old object.
    #[must_use]
    pub fn evaluate(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        self.judge(object, old).errors
    }

    /// Evaluates all rules and tells what unchanged parts break as warnings.
    #[must_use]
    pub fn judge(&self, object: &Value, old: Option<&Value>) -> Verdict {
        self.root.as_ref().map(|root| evaluate::evaluate(root, object, old)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
