//! Checks of literals after types are known: durations, timestamps, patterns, format strings, and lists and maps of one
//! type.
//!
//! They are cel-go's AST validators, which Kubernetes enables so that a constant that can never work is an error when
//! the expression is stored and not at its first use. A list whose elements have different types is refused although
//! the language allows it; arguments of `format` are exempt.

use crate::ast::{Ast, AstKind, Id, Literal, each_part};
use crate::checker::Checked;
use crate::env::Env;
use crate::issues::Issues;
use crate::library::formatting::{FormatClause, FormatPiece, pieces};
use crate::library::{regexes, time};
use crate::types::Type;

/// Checks the literals of an expression.
///
/// # Errors
///
/// The errors of all literals.
pub(crate) fn validate(checked: &Checked, env: &Env, source: &str) -> Result<(), Issues> {
    let mut issues = Issues::new(source);
    walk(checked, env, checked.ast.root, false, &mut issues);
    if issues.is_empty() { Ok(()) } else { Err(issues) }
}

/// Checks a node and everything below it. Arguments of `format` may be of mixed types, so the check of literals is off
/// inside them.
fn walk(checked: &Checked, env: &Env, id: Id, in_format: bool, issues: &mut Issues) {
    let kind = checked.ast.kind(id);
    let mut in_format = in_format;
    match kind {
        AstKind::Call { function, target, args } => {
            literal_pattern(&checked.ast, env, function, args, issues);
            literal_argument(&checked.ast, function, args, issues);
            if function == "format" {
                in_format = true;
                format_call(checked, id, *target, args, issues);
            }
        }
        AstKind::List { items, optional } if !in_format => {
            let items = items.iter().enumerate().map(|(at, item)| (*item, optional.contains(&at)));
            same_types(checked, items, issues);
        }
        AstKind::Map(entries) if !in_format => {
            same_types(checked, entries.iter().map(|entry| (entry.key, false)), issues);
            same_types(checked, entries.iter().map(|entry| (entry.value, entry.optional)), issues);
        }
        _ => {}
    }
    each_part(kind, |part| walk(checked, env, part, in_format, issues));
}

fn text(ast: &Ast, id: Id) -> Option<&str> {
    if let AstKind::Literal(Literal::String(text)) = ast.kind(id) { Some(text) } else { None }
}

/// Counts a literal that is a pattern.
fn literal_pattern(ast: &Ast, env: &Env, function: &str, args: &[Id], issues: &mut Issues) {
    let argument = match (function, args) {
        ("matches", [.., pattern]) => pattern,
        ("find" | "findAll", [pattern] | [pattern, _]) => pattern,
        _ => return,
    };
    if text(ast, *argument).is_some_and(|text| !env.admits_pattern(text)) {
        issues.push(Some(ast.node(*argument).at), "too many regular expressions");
    }
}

/// Refuses literals that would fail at run time: durations, timestamps and regular expressions.
fn literal_argument(ast: &Ast, function: &str, args: &[Id], issues: &mut Issues) {
    let (argument, valid): (_, fn(&str) -> bool) = match function {
        "duration" => (args.first(), |text| time::parse_duration(text).is_some()),
        "timestamp" => (args.first(), |text| time::parse_timestamp(text).is_some()),
        "matches" => (args.last(), |text| regexes::pattern(text).is_ok()),
        _ => return,
    };
    if let Some(argument) = argument
        && let Some(text) = text(ast, *argument)
        && !valid(text)
    {
        issues.push(Some(ast.node(*argument).at), format!("invalid {function} argument"));
    }
}

/// Refuses list and map literals with elements of several types. cel-go calls it the homogeneous aggregate literal
/// validator.
///
/// Reports the first element that differs and ends: further errors would repeat it.
fn same_types(checked: &Checked, items: impl Iterator<Item = (Id, bool)>, issues: &mut Issues) {
    let mut first: Option<&Type> = None;
    for (item, optional) in items {
        let ty = checked.ty(item);
        let ty = if optional { ty.unwrapped().0 } else { ty };
        match first {
            None => first = Some(ty),
            Some(first) if equivalent(first, ty, &mut 1000) => {}
            Some(first) => {
                let at = checked.ast.node(item).at;
                issues.push(Some(at), format!("expected type '{first}' but found '{ty}'"));
                return;
            }
        }
    }
}

/// Returns true if two types are the same up to their unknown parts.
fn equivalent(a: &Type, b: &Type, budget: &mut usize) -> bool {
    if *budget == 0 {
        return true;
    }
    *budget -= 1;
    match (a, b) {
        (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => equivalent(a, b, budget),
        (Type::Map(a), Type::Map(b)) => equivalent(&a.0, &b.0, budget) && equivalent(&a.1, &b.1, budget),
        (Type::Type(_), Type::Type(_)) => true,
        _ => a.is_same(b),
    }
}

/// Checks the clauses of a literal format against the types of literal arguments.
fn format_call(checked: &Checked, id: Id, target: Option<Id>, args: &[Id], issues: &mut Issues) {
    let (Some(target), [list]) = (target, args) else { return };
    let (Some(format), AstKind::List { items, .. }) = (text(&checked.ast, target), checked.ast.kind(*list))
    else {
        return;
    };
    let at = |id: Id| Some(checked.ast.node(id).at);
    let pieces = match pieces(format) {
        Ok(pieces) => pieces,
        Err(why) => return issues.push(at(id), why),
    };
    let clauses = pieces
        .iter()
        .filter_map(|piece| if let FormatPiece::Clause(clause) = piece { Some(*clause) } else { None });
    let clauses: Vec<FormatClause> = clauses.collect();
    for (n, clause) in clauses.iter().enumerate() {
        let Some(item) = items.get(n) else {
            return issues.push(at(id), format!("index {n} out of range"));
        };
        let ty = checked.ty(*item);
        if !fits(*clause, ty) {
            let why = clause.refusal(ty.runtime_name());
            return issues.push(at(*item), format!("error during formatting: {why}"));
        }
    }
    if items.len() > clauses.len() {
        let (expected, given) = (clauses.len(), items.len());
        let message =
            format!("too many arguments supplied to string.format (expected {expected}, got {given})");
        issues.push(at(id), message);
    }
}

/// True if a value of this type can be formatted by a clause. `dyn` fits every clause: the run time decides.
fn fits(clause: FormatClause, ty: &Type) -> bool {
    match (clause, ty) {
        (_, Type::Dyn) => true,
        (FormatClause::String, Type::Object(_) | Type::Opaque(_) | Type::Optional(_)) => false,
        (FormatClause::String, _) => true,
        (FormatClause::Decimal | FormatClause::Octal, ty) => matches!(ty, Type::Int | Type::Uint),
        (FormatClause::Fixed(_) | FormatClause::Scientific(_), ty) => {
            matches!(ty, Type::Double | Type::String)
        }
        (FormatClause::Binary, ty) => matches!(ty, Type::Int | Type::Uint | Type::Bool),
        (FormatClause::Hex(_), ty) => matches!(ty, Type::Int | Type::Uint | Type::String | Type::Bytes),
    }
}
