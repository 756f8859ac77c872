//! Expression rules (`x-kubernetes-validations`): compiled with the definition, evaluated on each write.
//!
//! The language itself is the crate `listwatch-cel`. This module applies it to custom resources: the variables of
//! rules, when each rule runs, how a violation is reported, and the cost limits.
//!
//! Bounds, all as in kube-apiserver: an estimate for each rule and for all of a schema when the definition is written
//! (`costs`), a counted cost for each evaluation and for all rules of one object when an object is (`evaluate`).
//! `compile` makes the tree of nodes, `field_path` checks where a rule reports its error.

mod compile;
mod costs;
mod evaluate;
pub(crate) mod field_path;

use std::sync::Arc;

use listwatch_cel::{Decl, Env, PatternAllowance, Program, Version};
use listwatch_wire::json::{Text, Value};
use listwatch_wire::status::{FieldError, FieldErrorKind};

/// The compiled expression rules of one version of a definition.
///
/// Immutable and shared by all requests. A version without rules has no tree at all.
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
    /// The key fields of the elements of a list.
    list_keys: Option<Vec<Text>>,
    /// Sorted by name, which is the order of errors.
    properties: Vec<(Text, RuleNode)>,
    items: Option<Box<RuleNode>>,
    values: Option<Box<RuleNode>>,
    /// Rules inside of `allOf` apply to the same value and share its type.
    all_of: Vec<RuleNode>,
}

impl RuleNode {
    /// The fields of an object that have rules, in the order of names.
    ///
    /// Looks up those that the object has, if they are fewer: a list may have as many elements as its schema has fields.
    fn present<'a>(&'a self, value: &'a Value) -> Vec<(&'a Text, &'a Self, &'a Value)> {
        let Some(fields) = value.as_object() else { return Vec::new() };
        if fields.len() < self.properties.len() {
            let named = |(name, field)| {
                let place = self.properties.binary_search_by(|(other, _)| other.cmp(name)).ok()?;
                self.properties.get(place).map(|(name, node)| (name, node, field))
            };
            return fields.iter().filter_map(named).collect();
        }
        let named = |(name, node): &'a (Text, Self)| fields.get(name).map(|field| (name, node, field));
        self.properties.iter().filter_map(named).collect()
    }
}

/// One rule.
#[derive(Debug)]
struct ExpressionRule {
    text: String,
    message: String,
    /// From `reason`; `Invalid` if there is none.
    kind: Option<FieldErrorKind>,
    /// The path of the reported field, relative to this place.
    field_path: String,
    /// The rule runs on create too, with `oldSelf` as an empty optional.
    optional_old: bool,
    /// A transition rule. It is never ratcheted: it is about the change.
    uses_old: bool,
    /// The program, or why there is none. An empty rule has neither.
    program: Option<Result<CompiledRule, String>>,
    message_program: Option<Result<CompiledRule, String>>,
    /// The rule as errors show it.
    shown: String,
    /// The declaration as written, since one without a use of `oldSelf` is an error even if it is false.
    declares_optional_old: Option<bool>,
}

/// A program and what it may cost at most.
#[derive(Debug)]
struct CompiledRule {
    program: Program,
    /// For one evaluation; `costs` multiplies it by the number of values.
    max_cost: u64,
}

/// The result of evaluating the rules on a write, with ratcheting: what an update did not change only warns.
///
/// Errors refuse the write, warnings are sent in headers. Both are in the order of evaluation.
#[derive(Debug, Default)]
pub struct RuleVerdict {
    /// Rules that are broken.
    pub errors: Vec<FieldError>,
    /// Rules that are broken by parts that an update did not change.
    pub warnings: Vec<String>,
}

impl Rules {
    /// Compiles every rule in a schema that was stored.
    ///
    /// All functions of the language are available: a rule that an older or newer server accepted must keep working.
    #[must_use]
    pub fn compile(schema: &Value) -> Self {
        Self { root: compile::root(schema, &Env::new(Version::Stored)) }
    }

    /// Compiles every rule in a new schema, which the version before this one must understand, too.
    ///
    /// Keeps a cluster that is rolled back from having definitions it cannot evaluate, as kube-apiserver does it.
    #[must_use]
    pub(crate) fn compile_new(schema: &Value, patterns: PatternAllowance) -> Self {
        Self { root: compile::root(schema, &Env::new(Version::New).with_patterns(patterns)) }
    }

    /// Returns true if there are no rules, so that a write need not build variables for them.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    /// The rules that cannot work or may cost too much, each as an error at its place under `path`.
    ///
    /// Call it for a definition that is written, not for stored ones: limits may have been wider when those were
    /// accepted.
    #[must_use]
    pub fn errors(&self, schema: &Value, path: &str) -> Vec<FieldError> {
        self.root.as_ref().map(|root| costs::errors(root, schema, path)).unwrap_or_default()
    }

    /// Evaluates all rules; those that use `oldSelf` only if there is an old object.
    #[must_use]
    pub fn evaluate(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        self.verdict(object, old).errors
    }

    /// Evaluates all rules. Violations in unchanged parts are returned as warnings.
    ///
    /// The object must have passed [`validate`](crate::validate()) before: rules rely on the declared types, and a
    /// value of another type makes them fail with an error of evaluation.
    #[must_use]
    pub fn verdict(&self, object: &Value, old: Option<&Value>) -> RuleVerdict {
        self.root.as_ref().map(|root| evaluate::evaluate(root, object, old)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
