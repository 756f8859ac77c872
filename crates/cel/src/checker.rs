//! Type checking: finds the type of every node and the overloads of every call.
//!
//! Follows cel-go's checker: types of lists and maps are unified, `dyn` fits everything, names are resolved as variables
//! of comprehensions, declared variables and types, in this order. It reports errors with cel-go's text.
//!
//! Recursion follows the tree, whose height the parser has bounded. Types are bounded by
//! [`MAX_PARTS`](crate::types::MAX_PARTS), because a list of pairs of pairs doubles its type with each level.
//!
//! This file has the walk, names, selections and comprehensions. `calls` chooses overloads, `literals` types lists, maps
//! and objects that an expression constructs, `unify` has the rules by which types fit.

mod calls;
mod literals;
mod unify;

use std::collections::HashMap;

use listwatch_wire::json::Text;

use crate::ast::{Ast, AstKind, Fold, Id, Literal};
use crate::env::Env;
use crate::issues::Issues;
use crate::types::Type;
use unify::Mapping;

/// An expression with its types.
///
/// Everything after this step works on it: validators, estimate and plan. The source text is no longer needed.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) ast: Ast,
    /// By node; without type variables once checking is through.
    pub(crate) types: Vec<Type>,
    /// The overloads that each call may mean; more than one if a type is only known at run time.
    pub(crate) overloads: HashMap<Id, Vec<&'static str>>,
    /// Names that turned out to be types.
    pub(crate) type_names: HashMap<Id, Text>,
    /// The declared variables that the expression reads.
    pub(crate) variables: Vec<Text>,
}

impl Checked {
    pub(crate) fn ty(&self, id: Id) -> &Type {
        self.types.get(id).unwrap_or(&Type::Dyn)
    }

    /// The overload of a call, if there is only one.
    pub(crate) fn overload(&self, id: Id) -> &'static str {
        match self.overloads.get(&id).map(Vec::as_slice) {
            Some([only]) => only,
            _ => "",
        }
    }
}

/// Checks an expression in an environment.
///
/// # Errors
///
/// All errors that were found, in the order of the walk; displaying them sorts by place.
pub(crate) fn check(ast: Ast, env: &Env, source: &str) -> Result<Checked, Issues> {
    let types = vec![Type::Error; ast.len()];
    let checked =
        Checked { ast, types, overloads: HashMap::new(), type_names: HashMap::new(), variables: Vec::new() };
    let mut checker = Checker {
        checked,
        env,
        issues: Issues::new(source),
        scopes: Vec::new(),
        mapping: Mapping::default(),
    };
    let root = checker.checked.ast.root;
    checker.check(root);
    let mapping = &checker.mapping;
    for ty in &mut checker.checked.types {
        *ty = mapping.substitute(ty, true);
    }
    if checker.issues.is_empty() { Ok(checker.checked) } else { Err(checker.issues) }
}

/// The state of one check: the tree as far as it is typed, the scopes around the present node, and the substitutions of
/// type variables.
struct Checker<'e> {
    checked: Checked,
    env: &'e Env,
    issues: Issues,
    /// Variables of comprehensions, the innermost last.
    scopes: Vec<(Text, Type)>,
    mapping: Mapping,
}

impl Checker<'_> {
    /// The number of errors is bounded by [`Issues`].
    fn error(&mut self, id: Id, message: impl Into<String>) {
        let at = self.checked.ast.node(id).at;
        self.issues.push(Some(at), message);
    }

    /// Nodes that are never set keep `Error`, which fits everywhere.
    fn set(&mut self, id: Id, ty: Type) {
        if let Some(slot) = self.checked.types.get_mut(id) {
            *slot = ty;
        }
    }

    fn ty(&self, id: Id) -> Type {
        self.checked.ty(id).clone()
    }

    /// The type with the substitutions found so far; unknown variables stay.
    fn resolved(&self, ty: &Type) -> Type {
        self.mapping.substitute(ty, false)
    }

    fn mismatch(&mut self, id: Id, expected: &Type, actual: &Type) {
        self.error(id, format!("expected type '{expected}' but found '{actual}'"));
    }

    /// The container is always empty: Kubernetes' environments have none.
    fn undeclared(&mut self, id: Id, name: &str) {
        self.error(id, format!("undeclared reference to '{name}' (in container '')"));
        self.set(id, Type::Error);
    }

    /// Infers the type of a node and of everything below it. Errors do not stop the walk: a node with an error has the
    /// type `Error`, which fits everywhere, so that each mistake is reported once.
    fn check(&mut self, id: Id) {
        match self.checked.ast.kind(id).clone() {
            AstKind::Literal(literal) => self.set(id, literal_type(&literal)),
            AstKind::Ident(name) => self.ident(id, &name),
            AstKind::Select { operand, field, test } => self.select(id, operand, &field, test),
            AstKind::Call { function, target, args } => self.call(id, &function, target, &args),
            AstKind::List { items, optional } => self.list(id, &items, &optional),
            AstKind::Map(entries) => self.map(id, &entries),
            AstKind::Struct { name, fields } => self.structure(id, &name, &fields),
            AstKind::Fold(fold) => self.fold(id, &fold),
            AstKind::Missing => {}
        }
    }

    /// Resolves a name. Returns whether it is declared.
    ///
    /// A leading dot skips the variables of comprehensions, as in cel-go. The resolved name is written into the tree,
    /// so that later steps need no environment.
    fn resolve(&mut self, id: Id, name: &str) -> bool {
        let rooted = name.strip_prefix('.');
        if rooted.is_none()
            && let Some((_, ty)) = self.scopes.iter().rev().find(|(scoped, _)| scoped == name)
        {
            let ty = ty.clone();
            self.set(id, ty);
            return true;
        }
        let name = rooted.unwrap_or(name);
        if let Some(ty) = self.env.variable(name) {
            if !self.checked.variables.iter().any(|known| known == name) {
                self.checked.variables.push(name.into());
            }
            self.checked.ast.replace(id, AstKind::Ident(name.into()));
            self.set(id, ty.clone());
            return true;
        }
        if let Some(ty) = self.env.type_named(name) {
            self.checked.type_names.insert(id, ty.runtime_name().into());
            self.checked.ast.replace(id, AstKind::Ident(name.into()));
            self.set(id, Type::Type(ty.into()));
            return true;
        }
        false
    }

    fn ident(&mut self, id: Id, name: &str) {
        if !self.resolve(id, name) {
            self.undeclared(id, name);
        }
    }

    /// Types a selection. A dotted name may be a declared variable or type (`a.b`) as a whole, which takes precedence
    /// over the field of a variable.
    fn select(&mut self, id: Id, operand: Id, field: &str, test: bool) {
        if !test && let Some(name) = self.qualified(id) {
            let first = name.split('.').next().unwrap_or("");
            if !self.scopes.iter().any(|(scoped, _)| scoped == first) && self.resolve(id, &name) {
                return;
            }
        }
        let ty = self.field(id, operand, field, false);
        let ty = if test { Type::Bool } else { self.resolved(&ty) };
        self.set(id, ty);
    }

    /// The dotted name that a chain of selections spells.
    ///
    /// Walks in a loop: chains are long rather than nested. Costs as much as the chain for each of its links, which
    /// the limit on nesting of members keeps small.
    fn qualified(&self, mut id: Id) -> Option<String> {
        let mut parts = Vec::new();
        loop {
            match self.checked.ast.kind(id) {
                AstKind::Select { operand, field, test: false } => {
                    parts.push(field.as_str());
                    id = *operand;
                }
                AstKind::Ident(name) => {
                    parts.push(name.as_str());
                    parts.reverse();
                    return Some(parts.join("."));
                }
                _ => return None,
            }
        }
    }

    /// The type of a field. Types that are not known yet become `dyn` by being selected from.
    fn field(&mut self, id: Id, operand: Id, field: &str, optional: bool) -> Type {
        self.check(operand);
        let operand = self.resolved(&self.ty(operand));
        let (target, was_optional) = operand.unwrapped();
        let result = match target {
            Type::Map(map) => map.1.clone(),
            Type::Object(object) => match object.field(field) {
                Some(ty) => ty.clone(),
                None => {
                    self.error(id, format!("undefined field '{field}'"));
                    Type::Error
                }
            },
            Type::Var(_) => {
                self.mapping.assignable(&Type::Dyn, target);
                Type::Dyn
            }
            other => {
                if !other.is_dyn_or_error() {
                    self.error(id, format!("type '{other}' does not support field selection"));
                }
                Type::Dyn
            }
        };
        if was_optional || optional { Type::optional(result) } else { result }
    }

    /// Types a comprehension. Its variables are in scope in the condition and the step; the accumulator also in the
    /// result.
    ///
    /// The order of checks is that of cel-go, since type variables are substituted on the way.
    fn fold(&mut self, id: Id, fold: &Fold) {
        self.check(fold.range);
        self.check(fold.init);
        let range = self.resolved(&self.ty(fold.range));
        let accumulator = self.ty(fold.init);
        let depth = self.scopes.len();
        self.scopes.push((fold.accumulator.clone(), accumulator.clone()));
        let (first, second) = self.variables(fold, &range);
        self.scopes.push((fold.variable.clone(), first));
        self.scopes.extend(fold.second.clone().map(|name| (name, second)));
        self.check(fold.condition);
        self.assert(fold.condition, &Type::Bool);
        self.check(fold.step);
        self.assert(fold.step, &accumulator);
        self.scopes.truncate(depth + 1);
        self.check(fold.result);
        self.scopes.truncate(depth);
        let ty = self.resolved(&self.ty(fold.result));
        self.set(id, ty);
    }

    /// The types of the variables of a comprehension over a range.
    fn variables(&mut self, fold: &Fold, range: &Type) -> (Type, Type) {
        match range {
            Type::List(element) if fold.second.is_some() => (Type::Int, (**element).clone()),
            Type::List(element) => ((**element).clone(), Type::Dyn),
            Type::Map(map) => map.as_ref().clone(),
            Type::Dyn | Type::Error | Type::Var(_) => {
                self.mapping.assignable(&Type::Dyn, range);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.error(fold.range, message);
                (Type::Error, Type::Error)
            }
        }
    }

    /// Requires a type, and substitutes type variables for it.
    fn assert(&mut self, id: Id, expected: &Type) {
        let actual = self.ty(id);
        if !self.mapping.assignable(expected, &actual) {
            let (expected, actual) = (self.resolved(expected), self.resolved(&actual));
            self.mismatch(id, &expected, &actual);
        }
    }
}

/// Returns the type of a literal. Literals are the only nodes whose type does not depend on others.
fn literal_type(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::String(_) => Type::String,
        Literal::Bytes(_) => Type::Bytes,
    }
}
