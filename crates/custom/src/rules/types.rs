//! Whether the fields that an expression names exist, and whether it ends in a yes or no.
//!
//! This is no full type checker: where a type is not plain from the schema, anything is taken to be right. It finds what
//! people get wrong: a misspelt field, a field of a scalar, a comparison of text with a number, a rule that is no question.

use std::collections::HashMap;

use kube_cel::cel::Program;
use kube_cel::cel::common::ast::{Expr, LiteralValue};
use listwatch_wire::json::Value;

/// What is known of the value of an expression.
#[derive(Clone, Copy)]
enum Known<'a> {
    /// It is described by this node of the schema.
    Node(&'a Value),
    /// It is of a simple type, called as in schemas.
    Simple(&'static str),
    Nothing,
}

/// Names bound around an expression.
type Scope<'a> = HashMap<String, Known<'a>>;

/// Operators and functions that answer yes or no.
const QUESTIONS: [&str; 15] = [
    "_==_",
    "_!=_",
    "_<_",
    "_<=_",
    "_>_",
    "_>=_",
    "_&&_",
    "_||_",
    "!_",
    "@in",
    "_in_",
    "contains",
    "startsWith",
    "endsWith",
    "matches",
];
const COMPARISONS: [&str; 6] = ["_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_"];

/// Checks a rule that stands at a node of a schema.
///
/// # Errors
/// What does not fit, in words.
pub(super) fn check(program: &Program, schema: &Value, root: bool) -> Result<(), String> {
    check_as("boolean", "bool", program, schema, root)
}

/// The same for the words that a broken rule is told with.
///
/// # Errors
/// What does not fit, in words.
pub(super) fn check_message(program: &Program, schema: &Value, root: bool) -> Result<(), String> {
    check_as("string", "string", program, schema, root)
}

fn check_as(wanted: &str, called: &str, program: &Program, schema: &Value, root: bool) -> Result<(), String> {
    let mut scope = Scope::new();
    scope.insert("self".to_owned(), Known::Node(schema));
    scope.insert("oldSelf".to_owned(), Known::Nothing);
    let result = Walk { root: root.then_some(schema) }.expression(&program.expression().expr, &scope)?;
    match class(result) {
        Some(found) if found != wanted => Err(format!("cel expression must evaluate to a {called}")),
        _ => Ok(()),
    }
}

struct Walk<'a> {
    /// The whole object's schema, which has fields that it need not name.
    root: Option<&'a Value>,
}

impl<'a> Walk<'a> {
    fn expression(&self, expression: &Expr, scope: &Scope<'a>) -> Result<Known<'a>, String> {
        Ok(match expression {
            Expr::Ident(name) => scope.get(name).copied().unwrap_or(Known::Nothing),
            Expr::Literal(literal) => simple(literal),
            Expr::Select(select) => {
                let operand = self.expression(&select.operand.expr, scope)?;
                let field = self.field(operand, &select.field)?;
                if select.test { Known::Simple("boolean") } else { field }
            }
            Expr::Call(call) => {
                let target = call.target.iter().map(|target| &**target);
                let parts = target.chain(&call.args).map(|part| self.expression(&part.expr, scope));
                let parts = parts.collect::<Result<Vec<_>, _>>()?;
                self.call(&call.func_name, &parts)?
            }
            Expr::Comprehension(walk) => {
                let range = self.expression(&walk.iter_range.expr, scope)?;
                let mut inner = scope.clone();
                inner.insert(walk.iter_var.clone(), element(range));
                inner.insert(walk.accu_var.clone(), Known::Nothing);
                if let Some(second) = &walk.iter_var2 {
                    inner.insert(walk.iter_var.clone(), Known::Nothing);
                    inner.insert(second.clone(), Known::Nothing);
                }
                for part in [&walk.loop_cond, &walk.loop_step, &walk.result] {
                    self.expression(&part.expr, &inner)?;
                }
                Known::Nothing
            }
            Expr::List(_) => Known::Simple("array"),
            Expr::Map(_) | Expr::Struct(_) | Expr::Unspecified => Known::Nothing,
        })
    }

    fn call(&self, name: &str, parts: &[Known<'a>]) -> Result<Known<'a>, String> {
        if let ([left, right], true) = (parts, COMPARISONS.contains(&name))
            && let (Some(left), Some(right)) = (class(*left), class(*right))
            && left != right
        {
            return Err(format!("found no matching overload for '{name}' applied to '({left}, {right})'"));
        }
        Ok(match (name, parts) {
            (name, _) if QUESTIONS.contains(&name) => Known::Simple("boolean"),
            ("size", _) => Known::Simple("integer"),
            ("_[_]", [list, _]) => element(*list),
            ("_?_:_", [_, yes, _]) => *yes,
            _ => Known::Nothing,
        })
    }

    /// The field of a value.
    fn field(&self, operand: Known<'a>, name: &str) -> Result<Known<'a>, String> {
        let node = match operand {
            Known::Node(node) => node,
            Known::Simple("boolean" | "string" | "integer" | "number") => {
                return Err("type does not support field selection".to_owned());
            }
            Known::Simple(_) | Known::Nothing => return Ok(Known::Nothing),
        };
        let own = self.root.is_some_and(|root| std::ptr::eq(root, node))
            || node.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true));
        let given = |key: &str| node.get(key) == Some(&Value::Bool(true));
        // Names that are no identifiers are written with escapes, and what is kept unknown may be anything.
        if name.contains("__")
            || given("x-kubernetes-preserve-unknown-fields")
            || given("x-kubernetes-int-or-string")
            || (own && matches!(name, "metadata" | "kind" | "apiVersion"))
        {
            return Ok(Known::Nothing);
        }
        if let Some(property) = node.get("properties").and_then(|properties| properties.get(name)) {
            return Ok(Known::Node(property));
        }
        match node.get("additionalProperties") {
            Some(any) if any.is_object() => Ok(Known::Node(any)),
            Some(_) => Ok(Known::Nothing),
            None => match node.get("type").and_then(Value::as_str) {
                None => Ok(Known::Nothing),
                Some("object") => Err(format!("undefined field '{name}'")),
                Some(other) => Err(format!("type '{other}' does not support field selection")),
            },
        }
    }
}

fn simple(literal: &LiteralValue) -> Known<'static> {
    match literal {
        LiteralValue::Boolean(_) => Known::Simple("boolean"),
        LiteralValue::String(_) => Known::Simple("string"),
        LiteralValue::Int(_) | LiteralValue::UInt(_) => Known::Simple("integer"),
        LiteralValue::Double(_) => Known::Simple("number"),
        LiteralValue::Bytes(_) | LiteralValue::Null => Known::Nothing,
    }
}

/// What a list holds; what a map is walked by is its keys.
fn element(known: Known<'_>) -> Known<'_> {
    match known {
        Known::Node(node) => node.get("items").map_or(Known::Nothing, Known::Node),
        _ => Known::Nothing,
    }
}

/// Types that can be compared with each other, if that is plain.
fn class(known: Known<'_>) -> Option<&str> {
    let name = match known {
        Known::Simple(name) => name,
        // Formats such as dates have types of their own.
        Known::Node(node) if node.get("format").is_some() || node.get("nullable").is_some() => return None,
        Known::Node(node) if node.get("x-kubernetes-int-or-string").is_some() => return None,
        Known::Node(node) => node.get("type").and_then(Value::as_str)?,
        Known::Nothing => return None,
    };
    Some(if name == "integer" { "number" } else { name })
}

#[cfg(test)]
mod tests {
    use super::*;
    use listwatch_wire::json::json;

    fn verdict(rule: &str) -> Result<(), String> {
        let schema = json!({"type": "object", "properties": {
            "text": {"type": "string"}, "count": {"type": "integer"}, "on": {"type": "boolean"},
            "list": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}},
            "map": {"type": "object", "additionalProperties": {"type": "string"}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "either": {"x-kubernetes-int-or-string": true}}});
        check(&Program::compile(rule).unwrap(), &schema, true)
    }

    #[test]
    fn what_fits() {
        for rule in [
            "self.text == 'a'",
            "has(self.text) && self.count > 1",
            "self.on",
            "self.list.all(x, x.n > 0)",
            "self.list[0].n == 1",
            "self.map.foo == 'x'",
            "self.map['foo'] == 'x'",
            "self.free.anything == 1",
            "self.either == 5",
            "self.metadata.name == 'a'",
            "self.count >= 1.5",
            "size(self.text) > 3",
            "self.text.startsWith('a')",
            "self.on ? self.count > 1 : true",
            "oldSelf.text == self.text",
        ] {
            assert_eq!(verdict(rule), Ok(()), "{rule}");
        }
    }

    #[test]
    fn a_message_is_text() {
        let schema = json!({"type": "object", "properties": {"text": {"type": "string"}, "count": {"type": "integer"}}});
        let message = |text: &str| check_message(&Program::compile(text).unwrap(), &schema, true).is_ok();
        assert!(message("self.text") && message("'a' + self.text"));
        assert!(!message("self.count") && !message("self.count > 1"));
    }

    #[test]
    fn what_does_not_fit() {
        for rule in [
            "self.missing == 1",
            "has(self.missing)",
            "self.text.length > 1",
            "self.text == 1",
            "self.text",
            "1",
            "self.list.all(x, x.missing > 0)",
            "size(self.text)",
        ] {
            assert!(verdict(rule).is_err(), "{rule}");
        }
    }
}
