//! Compilation of `x-kubernetes-validations` into programs, one tree of nodes per schema.
//!
//! Only nodes with rules at or below them are kept, so a walk over an object touches no field without rules. A rule
//! that does not compile is kept with its error: the definition is refused if it is new, and a stored one answers each
//! write with the error, as kube-apiserver does. `oldSelf` makes a transition rule; with `optionalOldSelf` it is an
//! optional and the rule also runs on create. Costs are checked in `costs`.

use std::sync::Arc;

use listwatch_cel::{Decl, Env, Expression, Type};
use listwatch_wire::json::{Text, Value};
use listwatch_wire::status::FieldErrorKind;

use super::field_path::normalized;
use super::{CompiledRule, ExpressionRule, RuleNode};

/// Compiles all rules of a schema.
///
/// The root counts as an embedded resource, so that rules there can read `apiVersion`, `kind` and names in
/// `metadata`.
pub(super) fn root(schema: &Value, env: &Env) -> Option<RuleNode> {
    if !has_rules(schema) {
        return None;
    }
    let decl = Decl::from_schema(schema, true);
    node(schema, schema, decl, env)
}

/// Searches names and defaults, too, so it may return true without need, which costs an empty node.
fn has_rules(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => {
            fields.contains_key("x-kubernetes-validations") || fields.values().any(has_rules)
        }
        Value::Array(items) => items.iter().any(has_rules),
        _ => false,
    }
}

/// Compiles what is at a node and below it. `rules` is the schema with the rules: that of the node, or one of its `allOf`.
///
/// A part of the schema without a declaration is one that expressions cannot read, for example one that preserves
/// unknown fields without a type: its rules are kept with an error.
fn node(rules: &Value, schema: &Value, decl: Option<Arc<Decl>>, env: &Env) -> Option<RuleNode> {
    let below = |key: &str| {
        let (rules, schema) = (rules.get(key)?, schema.get(key)?);
        if !rules.is_object() || !has_rules(rules) {
            return None;
        }
        let decl = decl.as_ref().and_then(|decl| decl.elements().cloned());
        let decl = decl.or_else(|| declaration(schema));
        node(rules, schema, decl, env).map(Box::new)
    };
    let mut properties = Vec::new();
    for (name, rules) in rules.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let Some(schema) = schema.get("properties").and_then(|all| all.get(name)) else { continue };
        if !has_rules(rules) {
            continue;
        }
        let own = decl.as_ref().and_then(|decl| decl.property(name).cloned());
        let own = own.or_else(|| declaration(schema));
        properties.extend(node(rules, schema, own, env).map(|node| (name.clone(), node)));
    }
    let all_of = rules.get("allOf").and_then(Value::as_array).into_iter().flatten();
    let all_of = all_of.filter(|part| has_rules(part));
    let all_of: Vec<_> = all_of.filter_map(|part| node(part, schema, decl.clone(), env)).collect();
    let items = below("items");
    let values = below("additionalProperties");
    let compiled = compile_rules(rules, schema, decl.as_deref(), env);
    let any = !compiled.is_empty() || !properties.is_empty() || !all_of.is_empty();
    (any || items.is_some() || values.is_some()).then(|| RuleNode {
        type_name: schema.get("type").and_then(Value::as_str).unwrap_or_default().into(),
        rules: compiled,
        list_keys: list_keys(schema),
        decl,
        properties,
        items,
        values,
        all_of,
    })
}

fn declaration(schema: &Value) -> Option<Arc<Decl>> {
    let embedded = schema.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true));
    Decl::from_schema(schema, embedded)
}

/// The keys of a list whose elements can be distinguished.
fn list_keys(schema: &Value) -> Option<Vec<Text>> {
    schema.get("x-kubernetes-list-type").filter(|kind| **kind == "map")?;
    let keys = schema.get("x-kubernetes-list-map-keys")?.as_array()?;
    Some(keys.iter().filter_map(Value::as_str).map(Text::from).collect())
}

/// Compiles the rules of one node. A rule with `optionalOldSelf` sees `oldSelf` as an optional and so also runs on
/// creation; the others are transition rules if they use it, and run on updates only.
fn compile_rules(rules: &Value, schema: &Value, decl: Option<&Decl>, env: &Env) -> Vec<ExpressionRule> {
    let rules = rules.get("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten();
    let ty = decl.map_or(Type::Dyn, |decl| decl.ty().clone());
    let plain = env.clone().with_variable("self", ty.clone()).with_variable("oldSelf", ty.clone());
    let optional = env.clone().with_variable("self", ty.clone()).with_variable("oldSelf", Type::optional(ty));
    rules
        .map(|rule| {
            let env =
                if rule.get("optionalOldSelf") == Some(&Value::Bool(true)) { &optional } else { &plain };
            compile_rule(rule, schema, decl, env)
        })
        .collect()
}

/// Compiles one rule and its message expression. Failures are kept in the result, not returned: a stored definition
/// stays usable, and each object is then refused with the compile error.
fn compile_rule(rule: &Value, schema: &Value, decl: Option<&Decl>, env: &Env) -> ExpressionRule {
    let text = |key: &str| rule.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let declares = rule.get("optionalOldSelf").and_then(Value::as_bool);
    let mut compiled = ExpressionRule {
        text: text("rule"),
        message: text("message"),
        kind: rule.get("reason").and_then(Value::as_str).map(kind),
        field_path: normalized(schema, &text("fieldPath")).unwrap_or_default(),
        optional_old: declares == Some(true),
        uses_old: false,
        program: None,
        message_program: None,
        shown: shown(rule),
        declares_optional_old: declares,
    };
    if compiled.text.trim().is_empty() {
        return compiled;
    }
    let Some(decl) = decl else {
        let why =
            "rule compiler initialization error: failed to convert to declType for CEL validation rules";
        compiled.program = Some(Err(why.to_owned()));
        return compiled;
    };
    let wanted = "cel expression must evaluate to a bool";
    let is_bool = |ty: &Type| matches!(ty, Type::Bool);
    let (program, expression) = compile(&compiled.text, env, decl, ["compilation failed", wanted], is_bool);
    compiled.uses_old = expression.is_some_and(|expression| expression.uses("oldSelf"));
    let message = text("messageExpression");
    if program.is_ok() && !message.is_empty() {
        let words = ["messageExpression compilation failed", "messageExpression must evaluate to a string"];
        let is_string = |ty: &Type| matches!(ty, Type::String);
        compiled.message_program = Some(compile(&message, env, decl, words, is_string).0);
    }
    compiled.program = Some(program);
    compiled
}

/// Compiles an expression and checks the type of its value. `failed` and `wrong_type` are kube-apiserver's texts for
/// the two failures.
///
/// Parsing, type checking and estimating happen here, once; evaluation repeats none of it.
fn compile(
    source: &str,
    env: &Env,
    decl: &Decl,
    [failed, wrong_type]: [&str; 2],
    wanted: fn(&Type) -> bool,
) -> (Result<CompiledRule, String>, Option<Expression>) {
    let expression = match env.compile(source) {
        Ok(expression) => expression,
        Err(issues) => return (Err(format!("{failed}: {issues}")), None),
    };
    if !wanted(expression.output_type()) {
        return (Err(wrong_type.to_owned()), None);
    }
    let max_cost = expression.estimate_cost(decl).max;
    let program = expression.program().map_err(|error| format!("program instantiation failed: {error}"));
    (program.map(|program| CompiledRule { program, max_cost }), Some(expression))
}

/// Returns the type of field error for a rule's `reason`; `Invalid` is the default.
fn kind(reason: &str) -> FieldErrorKind {
    match reason {
        "FieldValueForbidden" => FieldErrorKind::Forbidden,
        "FieldValueRequired" => FieldErrorKind::Required,
        "FieldValueDuplicate" => FieldErrorKind::Duplicate,
        _ => FieldErrorKind::Invalid,
    }
}

/// A rule as errors show it: as Go writes it, with its names and its escapes.
///
/// `&`, `<` and `>` are written as Go's encoder does it for HTML.
fn shown(rule: &Value) -> String {
    let part = |key: &str| rule.get(key).unwrap_or(&Value::Null).to_string();
    let text = |key: &str| rule.get(key).map_or_else(|| "\"\"".to_owned(), Value::to_string);
    let shown = format!(
        r#"{{"Rule":{},"Message":{},"MessageExpression":{},"Reason":{},"FieldPath":{},"OptionalOldSelf":{}}}"#,
        text("rule"),
        text("message"),
        text("messageExpression"),
        part("reason"),
        text("fieldPath"),
        part("optionalOldSelf"),
    );
    shown.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}
