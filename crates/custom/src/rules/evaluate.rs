//! Evaluation of the expression rules on a write.
//!
//! All rules of one object share one budget ([`OBJECT_BUDGET`]); when it is exhausted, that is an error and no further
//! rule runs. Ratcheting: on update, a broken rule at a value that did not change is a warning instead of an error, so
//! that tightening a schema does not lock existing objects. Values are correlated by field name and, in lists, by map
//! keys only. Messages and the kind of error follow kube-apiserver, including what is shown of the value.

use std::collections::HashMap;

use listwatch_cel::{Activation, Budget, EvalError, OBJECT_BUDGET, Program, Value as Cel};
use listwatch_wire::json::Value;
use listwatch_wire::status::{FieldError, FieldErrorKind, FieldErrors};

use super::{ExpressionRule, RuleNode, RuleVerdict};

/// The longest message that an expression may make, in bytes.
const MAX_MESSAGE: usize = 5 * 1024;

/// Errors are collected up to this many, and within the bytes of [`FieldErrors`]: a path may be as long as the object.
const MAX_ERRORS: usize = 100;

/// Warnings are collected up to this many and this many bytes; they are shown in headers, which hold less.
const MAX_WARNINGS: usize = 100;
const MAX_WARNING_BYTES: usize = 64 << 10;

/// Evaluates the rules under a node.
///
/// One pass over the parts of the object that have rules. The budget is shared, because an attacker would otherwise
/// split an expensive rule into many cheap ones.
pub(super) fn evaluate(root: &RuleNode, object: &Value, old: Option<&Value>) -> RuleVerdict {
    let mut walk = EvaluateWalk {
        errors: FieldErrors::new(),
        warnings: Vec::new(),
        warned_bytes: 0,
        budget: Budget::new(OBJECT_BUDGET),
        path: String::new(),
    };
    let ratchet = Ratchet { here: old.map(|old| (object, old)), around: None };
    walk.node(root, object, old, ratchet);
    RuleVerdict { errors: walk.errors.into_vec(), warnings: walk.warnings }
}

/// The values whose equality decides if a violation is an error of this update.
///
/// An element of a list without keys has no old value of its own: the list around it decides.
#[derive(Clone, Copy)]
struct Ratchet<'a> {
    /// New and old value here, if the old one is known.
    here: Option<(&'a Value, &'a Value)>,
    /// Those of the nearest part around, whose old value is known.
    around: Option<(&'a Value, &'a Value)>,
}

impl<'a> Ratchet<'a> {
    /// True if nothing the rule is about has changed, so that ratcheting applies.
    fn unchanged(self) -> bool {
        self.here.or(self.around).is_some_and(|(new, old)| new == old)
    }

    /// Elements of lists that cannot be paired ratchet with what is around them.
    fn below(self, new: &'a Value, old: Option<&'a Value>) -> Self {
        Self {
            here: old.map(|old| (new, old)).filter(|_| self.here.is_some()),
            around: self.here.or(self.around),
        }
    }
}

/// The variables of a rule.
///
/// Borrowed and lazy: a conversion that fails is an error only for rules which read that variable.
#[derive(Clone)]
struct RuleScope<'a> {
    new: Result<Cel<'a>, EvalError>,
    old: Option<Result<Cel<'a>, EvalError>>,
}

impl<'a> RuleScope<'a> {
    /// Returns the values with the old one as an optional, which is empty if there is none.
    fn with_optional_old(self) -> Self {
        let old = self.old.map_or(Ok(Cel::Optional(None)), |old| old.map(Cel::some));
        Self { old: Some(old), ..self }
    }
}

impl<'a> Activation<'a> for RuleScope<'a> {
    fn variable(&self, name: &str) -> Result<Option<Cel<'a>>, EvalError> {
        match name {
            "self" => self.new.clone().map(Some),
            "oldSelf" => self.old.clone().transpose(),
            _ => Ok(None),
        }
    }
}

/// One walk over an object: errors so far, and the remaining budget.
struct EvaluateWalk {
    errors: FieldErrors,
    warnings: Vec<String>,
    warned_bytes: usize,
    budget: Budget,
    /// One buffer for the whole walk, grown and cut at each step.
    path: String,
}

impl EvaluateWalk {
    /// True when nothing more would be reported.
    fn done(&self) -> bool {
        self.budget.is_exhausted() || self.errors.len() >= MAX_ERRORS || self.errors.is_full()
    }

    /// True when no further warning would be reported.
    fn has_warned_enough(&self) -> bool {
        self.warnings.len() >= MAX_WARNINGS || self.warned_bytes >= MAX_WARNING_BYTES
    }

    fn warn(&mut self, text: String) {
        self.warned_bytes += text.len();
        self.warnings.push(text);
    }

    /// Evaluates a node and everything below it. Parents come first, as in kube-apiserver, so that the budget runs out
    /// at the same rule.
    fn node<'a>(
        &mut self,
        node: &'a RuleNode,
        value: &'a Value,
        old: Option<&'a Value>,
        ratchet: Ratchet<'a>,
    ) {
        if value.is_null() || self.done() {
            return;
        }
        let old = old.filter(|old| !old.is_null());
        self.rules(node, value, old, ratchet);
        for part in &node.all_of {
            self.node(part, value, old, Ratchet { here: None, around: ratchet.around });
        }
        match value {
            Value::Array(items) => self.items(node, items, old, ratchet),
            Value::Object(_) => self.fields(node, value, old, ratchet),
            _ => {}
        }
    }

    /// Pairs new and old elements by the keys of a `map` list. Elements of other lists cannot be correlated and have no
    /// old value.
    fn items<'a>(
        &mut self,
        node: &'a RuleNode,
        items: &'a [Value],
        old: Option<&'a Value>,
        ratchet: Ratchet<'a>,
    ) {
        let Some(child) = &node.items else { return };
        // Only elements with keys have an old value; the others have one only if the lists are equally long.
        let old = old.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let known: HashMap<_, _> = match &node.list_keys {
            Some(keys) => old.iter().map(|item| (identity(item, keys), item)).collect(),
            None => HashMap::new(),
        };
        for (index, item) in items.iter().enumerate() {
            if self.done() {
                return;
            }
            let before = node.list_keys.as_ref().and_then(|keys| known.get(&identity(item, keys)).copied());
            self.field(&format!("[{index}]"), child, item, before, ratchet);
        }
    }

    /// Evaluates named and unnamed fields. Absent fields are skipped: their rules hold, and the schema's validation checks
    /// `required`.
    fn fields<'a>(
        &mut self,
        node: &'a RuleNode,
        value: &'a Value,
        old: Option<&'a Value>,
        ratchet: Ratchet<'a>,
    ) {
        let before = |name: &str| old.and_then(|old| old.get(name));
        if let Some(child) = &node.values {
            for (name, field) in value.as_object().into_iter().flatten() {
                self.field(&format!("[{name}]"), child, field, before(name), ratchet);
            }
        }
        for (name, child, field) in node.present(value) {
            let dot = if self.path.is_empty() { "" } else { "." };
            self.field(&format!("{dot}{name}"), child, field, before(name), ratchet);
        }
    }

    /// Evaluates the rules of a field or element, with its step appended to the path for the duration.
    fn field<'a>(
        &mut self,
        step: &str,
        child: &'a RuleNode,
        field: &'a Value,
        old: Option<&'a Value>,
        ratchet: Ratchet<'a>,
    ) {
        let length = self.path.len();
        self.path.push_str(step);
        self.node(child, field, old, ratchet.below(field, old));
        self.path.truncate(length);
    }

    /// Evaluates the rules of one place. Values are converted once for all of them.
    fn rules<'a>(
        &mut self,
        node: &'a RuleNode,
        value: &'a Value,
        old: Option<&'a Value>,
        ratchet: Ratchet<'a>,
    ) {
        if node.rules.is_empty() {
            return;
        }
        if self.budget.left() == Some(0) {
            self.exhausted(node);
            return;
        }
        let cel = |value: &'a Value| match &node.decl {
            Some(decl) => Cel::from_typed(value, decl),
            None => Ok(Cel::from_json(value)),
        };
        let (new, before) = (cel(value), old.map(cel));
        for rule in &node.rules {
            if rule.uses_old && before.is_none() && !rule.optional_old {
                continue;
            }
            let scope = RuleScope { new: new.clone(), old: before.clone() };
            self.rule(node, rule, value, &scope, ratchet);
            if self.done() {
                return;
            }
        }
    }

    /// Adds an error that shows the type of the place instead of its value, as in kube-apiserver.
    fn invalid(&mut self, node: &RuleNode, detail: String) {
        self.errors.push(FieldError::invalid(self.path.clone(), node.type_name.as_str(), detail));
    }

    /// Reports the exhausted budget once and ends the evaluation.
    fn exhausted(&mut self, node: &RuleNode) {
        let detail =
            "validation failed due to running out of cost budget, no further validation rules will be run";
        self.invalid(node, detail.to_owned());
        self.budget.exhaust();
    }

    /// Evaluates one rule and spends its cost. An error of evaluation refuses the object; ratcheting applies only to a rule
    /// that evaluates to false.
    ///
    /// An exhausted budget and a rule over its own limit both end the evaluation for the whole object, so that the
    /// cost of a refused write is bounded too.
    fn rule<'a>(
        &mut self,
        node: &RuleNode,
        rule: &ExpressionRule,
        value: &Value,
        scope: &RuleScope<'a>,
        ratchet: Ratchet<'_>,
    ) {
        let program = match &rule.program {
            None => return,
            Some(Err(why)) => return self.invalid(node, format!("rule compile error: {why}")),
            Some(Ok(compiled)) => &compiled.program,
        };
        // kube-apiserver evaluates messages with an old value that is never optional.
        let outcome = match rule.optional_old {
            true => program.evaluate(&scope.clone().with_optional_old()),
            false => program.evaluate(scope),
        };
        if !self.budget.pay(&outcome) {
            return self.exhausted(node);
        }
        let text = rule_text(rule);
        match outcome.result {
            Ok(Cel::Bool(true)) => {}
            Err(error) if error.is_over_limit() => {
                self.invalid(node, format!(
                    "'{error}': no further validation rules will be run due to call cost exceeds limit for rule: {text}"
                ));
                self.budget.exhaust();
            }
            Err(error) if error.message().starts_with("no such overload") => self.invalid(node, format!(
                "'{error}': call arguments did not match a supported operator, function or macro signature for rule: {text}"
            )),
            Err(error) => self.invalid(node, format!("{error} evaluating rule: {text}")),
            Ok(_) => self.broken(node, rule, value, scope, ratchet),
        }
    }

    /// Reports a broken rule with its message, the result of its message expression, or its text.
    fn broken<'a>(
        &mut self,
        node: &RuleNode,
        rule: &ExpressionRule,
        value: &Value,
        scope: &RuleScope<'a>,
        ratchet: Ratchet<'_>,
    ) {
        let is_warning = !rule.uses_old && ratchet.unchanged();
        if is_warning && self.has_warned_enough() {
            return;
        }
        let path = self.path_of(rule);
        let made = rule.message_program.as_ref().and_then(|program| program.as_ref().ok());
        let error = match made.map(|made| self.message(&made.program, scope)) {
            Some(Err(why)) => {
                self.budget.exhaust();
                FieldError::invalid(path, node.type_name.as_str(), why)
            }
            Some(Ok(Some(text))) => rule_error(rule, node, path, value, text),
            Some(Ok(None)) | None => rule_error(rule, node, path, value, default_message(rule)),
        };
        match is_warning {
            true => self.warn(error.to_string()),
            false => self.errors.push(error),
        }
    }

    /// The path of an error: that of the node, or the field below it that the rule names.
    fn path_of(&self, rule: &ExpressionRule) -> String {
        match rule.field_path.as_str() {
            "" => self.path.clone(),
            below if self.path.is_empty() || below.starts_with('[') => format!("{}{below}", self.path),
            below => format!("{}.{below}", self.path),
        }
    }

    /// The text that an expression makes, if it makes a usable one.
    ///
    /// # Errors
    /// If it cost too much.
    fn message<'a>(&mut self, program: &Program, scope: &RuleScope<'a>) -> Result<Option<String>, String> {
        let outcome = program.evaluate(scope);
        if !self.budget.pay(&outcome) {
            let why = "messageExpression evaluation failed due to running out of cost budget, no further validation rules \
                       will be run";
            return Err(why.to_owned());
        }
        match outcome.result {
            Err(error) if error.is_over_limit() => {
                let why = "no further validation rules will be run due to call cost exceeds limit for messageExpression";
                Err(why.to_owned())
            }
            Ok(Cel::String(text)) => {
                let text = text.trim();
                let usable = !text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n');
                Ok(usable.then(|| text.to_owned()))
            }
            _ => Ok(None),
        }
    }
}

/// The identity of the elements of a list with keys.
///
/// JSON text rather than values, so that `1` and `"1"` are different keys.
fn identity(item: &Value, keys: &[listwatch_wire::json::Text]) -> Vec<String> {
    keys.iter().map(|key| item.get(key).map(Value::to_string).unwrap_or_default()).collect()
}

/// The text by which errors name a rule.
fn rule_text(rule: &ExpressionRule) -> &str {
    if rule.message.is_empty() { rule.text.trim() } else { rule.message.trim() }
}

/// The error of a broken rule, of the reason that the rule has.
fn rule_error(
    rule: &ExpressionRule,
    node: &RuleNode,
    path: String,
    value: &Value,
    detail: String,
) -> FieldError {
    match rule.kind.unwrap_or(FieldErrorKind::Invalid) {
        kind @ (FieldErrorKind::Forbidden | FieldErrorKind::Required) => {
            FieldError::new(kind, path, Value::Null, detail)
        }
        kind => {
            let detail = if kind == FieldErrorKind::Duplicate { String::new() } else { detail };
            let error = FieldError::new(kind, path, value.clone(), detail);
            // Objects and lists are not shown: they may be large.
            let is_large = matches!(node.type_name.as_str(), "object" | "array");
            if is_large { error.without_value() } else { error }
        }
    }
}

/// kube-apiserver's message for a rule without one.
fn default_message(rule: &ExpressionRule) -> String {
    match rule.message.is_empty() {
        true => format!("failed rule: {}", rule.text.trim()),
        false => rule.message.trim().to_owned(),
    }
}
