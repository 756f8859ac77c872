//! Errors in the rules of a definition: those that do not compile, and those whose estimated cost is too high.
//!
//! The limits are kube-apiserver's: 10,000,000 per expression and 100,000,000 per schema, each estimate multiplied by
//! the number of values that an object can have at that place. Lists, maps and strings without a bound count with the
//! largest that fits a request of 3 MiB, which is why the message asks for `maxItems`, `maxProperties` and `maxLength`.
//! `oldSelf` is refused where elements of old and new lists cannot be correlated. Costs at run time are limited
//! separately, in `evaluate`.

use listwatch_wire::json::Value;
use listwatch_wire::status::{FieldError, FieldErrorKind, FieldErrors};

use super::{CompiledRule, ExpressionRule, RuleNode};

/// The most that one expression may cost for all values of an object.
const EXPRESSION_LIMIT: u64 = 10_000_000;

/// The most that all expressions of a schema may cost together.
const SCHEMA_LIMIT: u64 = 100_000_000;

/// The number of rules that are blamed for a total that is too high.
const BLAMED: usize = 4;

/// Checks all rules under a node.
///
/// Rules that do not compile have no cost, so a schema can have both kinds of errors.
pub(super) fn errors(root: &RuleNode, schema: &Value, path: &str) -> Vec<FieldError> {
    let mut check = CostCheck { errors: FieldErrors::new(), total: 0, expensive: Vec::new() };
    check.node(root, schema, &CostPlace { path: path.to_owned(), cardinality: Some(1), apart: None });
    check.finish(path)
}

/// The place in a schema at which rules are checked.
///
/// Passed down by value: a schema is walked once per write of a definition.
#[derive(Clone)]
struct CostPlace {
    path: String,
    /// The number of values that an object can have here, if containers around it are bounded.
    ///
    /// `None` below a container without a bound; the node's own declaration then gives the number that fits a
    /// request.
    cardinality: Option<u64>,
    /// The part of the schema around this one whose old and new elements cannot be distinguished, if there is one.
    apart: Option<String>,
}

impl CostPlace {
    /// The place of a child. Its cardinality is unknown as soon as one container on the way has no bound.
    fn below(&self, step: &str, schema: &Value, apart: bool) -> Self {
        let here = apart.then(|| self.path.clone());
        Self {
            path: format!("{}.{step}", self.path),
            cardinality: self
                .cardinality
                .and_then(|count| Some(count.saturating_mul(most_elements(schema)?))),
            apart: self.apart.clone().or(here),
        }
    }
}

/// The number of children of one kind that a value can have.
fn most_elements(schema: &Value) -> Option<u64> {
    let most =
        |key: &str| schema.get(key).and_then(Value::as_i64).map(|most| u64::try_from(most).unwrap_or(0));
    match schema.get("type").and_then(Value::as_str) {
        Some("object") if schema.get("additionalProperties").is_some() => most("maxProperties"),
        Some("array") => most("maxItems"),
        _ => Some(1),
    }
}

/// The costs of all rules of a schema, as they are added up.
struct CostCheck {
    errors: FieldErrors,
    /// Saturates, so that estimates of unbounded nested lists stay comparable.
    total: u64,
    /// The rules that cost most, with their costs.
    expensive: Vec<(u64, String)>,
}

impl CostCheck {
    /// Adds up the costs of a node and of everything below it. Children come first, as in kube-apiserver, so that
    /// errors are in its order.
    fn node(&mut self, node: &RuleNode, schema: &Value, place: &CostPlace) {
        let empty = Value::Null;
        let child = |key: &str| schema.get(key).unwrap_or(&empty);
        if let Some(values) = &node.values {
            let place = place.below("additionalProperties", schema, false);
            self.node(values, child("additionalProperties"), &place);
        }
        for (name, property) in &node.properties {
            let place = place.below(&format!("properties[{name}]"), schema, false);
            self.node(property, child("properties").get(name).unwrap_or(&empty), &place);
        }
        for (index, part) in node.all_of.iter().enumerate() {
            let path = format!("{}.allOf[{index}]", place.path);
            self.node(part, schema, &CostPlace { path, ..place.clone() });
        }
        if let Some(items) = &node.items {
            let place = place.below("items", schema, node.list_keys.is_none());
            self.node(items, child("items"), &place);
        }
        if node.decl.is_none() && !node.rules.is_empty() {
            let why = "internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations";
            let at = format!("{}.x-kubernetes-validations", place.path);
            self.errors.push(FieldError::new(FieldErrorKind::Internal, at, Value::Null, why));
            return;
        }
        for (index, rule) in node.rules.iter().enumerate() {
            self.rule(rule, node, place, &format!("{}.x-kubernetes-validations[{index}]", place.path));
        }
    }

    /// Checks one rule: its cost times the number of values it may run on, its message expression, and that `oldSelf`
    /// is used only where old and new values can be correlated.
    fn rule(&mut self, rule: &ExpressionRule, node: &RuleNode, place: &CostPlace, path: &str) {
        let at = format!("{path}.rule");
        match &rule.program {
            Some(Ok(compiled)) => {
                let count = place.cardinality.or(node.decl.as_ref().map(|decl| decl.max_cardinality()));
                let cost = compiled.max_cost.saturating_mul(count.unwrap_or(u64::MAX));
                self.cost("estimated rule cost", cost, at.clone());
            }
            Some(Err(why)) => self.refuse(at.clone(), rule, why),
            None => {}
        }
        let message = format!("{path}.messageExpression");
        match &rule.message_program {
            Some(Ok(CompiledRule { max_cost, .. })) => {
                self.cost("estimated messageExpression cost", *max_cost, message);
            }
            Some(Err(why)) => self.refuse(message, rule, why),
            None => {}
        }
        match (&place.apart, rule.declares_optional_old) {
            (Some(apart), _) if rule.uses_old => {
                let detail = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within {apart}"
                );
                self.errors.push(FieldError::invalid(at, rule.text.clone(), detail));
            }
            (_, Some(declared)) if !rule.uses_old => {
                let detail = "may not be set if oldSelf is not used in rule";
                self.errors.push(FieldError::invalid(format!("{path}.optionalOldSelf"), declared, detail));
            }
            _ => {}
        }
    }

    /// Reports a rule that does not compile. The error shows its text as the value.
    fn refuse(&mut self, path: String, rule: &ExpressionRule, why: &str) {
        let detail = format!("{}: {why}", rule.shown);
        self.errors.push(FieldError::invalid(path, Value::Null, detail).without_value());
    }

    /// Adds a cost to that of the whole schema, and keeps the most expensive rules to name them if the total is too
    /// high.
    fn cost(&mut self, name: &str, cost: u64, path: String) {
        self.total = self.total.saturating_add(cost);
        if cost > EXPRESSION_LIMIT {
            self.errors.push(FieldError::forbidden(path.clone(), exceeds(name, cost, EXPRESSION_LIMIT)));
        }
        if cost >= SCHEMA_LIMIT / 100 {
            self.expensive.push((cost, path));
            self.expensive.sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
            self.expensive.truncate(BLAMED);
        }
    }

    /// Returns the errors. A total above the limit blames the most expensive rules, since no single one need be too
    /// expensive.
    fn finish(mut self, path: &str) -> Vec<FieldError> {
        if self.total > SCHEMA_LIMIT {
            let detail =
                "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            let blamed = self.expensive.into_iter().map(|(_, path)| FieldError::forbidden(path, detail));
            self.errors.extend(blamed);
            let name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
            self.errors.push(FieldError::forbidden(path, exceeds(name, self.total, SCHEMA_LIMIT)));
        }
        self.errors.into_vec()
    }
}

/// Texts and rounding are kube-apiserver's.
#[expect(clippy::cast_precision_loss, reason = "a factor for people to read")]
fn exceeds(name: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = match factor {
        _ if factor > 100.0 => "more than 100x".to_owned(),
        _ if factor < 1.5 => format!("{factor:.6}x"),
        _ => format!("{factor:.1}x"),
    };
    format!(
        "{name} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and \
         maxLength where arrays, maps, and strings are declared)"
    )
}
