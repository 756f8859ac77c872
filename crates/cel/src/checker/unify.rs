//! Unification of types: substitutions for the type variables of an expression.
//!
//! The rules are cel-go's, including two that surprise: `dyn` fits everything in both directions, and a variable that
//! fits two types keeps the more general one. An attempt that fails takes back its substitutions, because overloads are
//! tried one after another. Types can double in size with each step of an expression, so every walk has a budget of
//! parts and answers conservatively when it runs out.

use std::sync::Arc;

use crate::declarations::Overload;
use crate::types::{MAX_PARTS, Type, same};

/// The substitutions of type variables.
///
/// Belongs to one check. Variables are numbered in the order in which they are made and never reused.
#[derive(Debug, Default)]
pub(super) struct Mapping {
    /// By the number of the variable.
    known: Vec<Option<Type>>,
    /// Changes since the last attempt began, to be taken back if it fails.
    trail: Vec<(usize, Option<Type>)>,
}

impl Mapping {
    /// A type of which nothing is known yet.
    pub(super) fn fresh(&mut self) -> Type {
        self.known.push(None);
        Type::Var(self.known.len() - 1)
    }

    fn find(&self, var: usize) -> Option<&Type> {
        self.known.get(var)?.as_ref()
    }

    fn set(&mut self, var: usize, ty: Type) {
        if let Some(slot) = self.known.get_mut(var) {
            self.trail.push((var, slot.replace(ty)));
        }
    }

    /// Returns true if a value of one type is assignable to the other. Records the substitutions that this needs.
    ///
    /// Symmetric where `dyn` is involved, as in cel-go: `dyn` can be assigned to `int`, and evaluation finds out.
    pub(super) fn assignable(&mut self, a: &Type, b: &Type) -> bool {
        self.attempt(|mapping, budget| mapping.fits(a, b, budget))
    }

    /// The result of an overload for arguments of these types, if they fit.
    ///
    /// Each attempt makes fresh variables for the parameters, so that two calls of one function do not share their
    /// types.
    pub(super) fn call(&mut self, overload: &Overload, given: &[Type]) -> Option<Type> {
        if overload.args.len() != given.len() {
            return None;
        }
        let mut params = Vec::new();
        let wanted: Vec<Type> = overload.args.iter().map(|arg| self.instantiate(arg, &mut params)).collect();
        let result = self.instantiate(&overload.result, &mut params);
        let fits = self.attempt(|mapping, budget| {
            given.iter().zip(&wanted).all(|(given, wanted)| mapping.fits(given, wanted, budget))
        });
        fits.then(|| self.substitute(&result, false))
    }

    /// Trails do not nest: an attempt is never made inside another one.
    fn attempt(&mut self, attempt: impl FnOnce(&mut Self, &mut usize) -> bool) -> bool {
        self.trail.clear();
        let fits = attempt(self, &mut MAX_PARTS.clone());
        if !fits {
            while let Some((var, before)) = self.trail.pop() {
                if let Some(slot) = self.known.get_mut(var) {
                    *slot = before;
                }
            }
        }
        fits
    }

    /// A declared type with fresh unknown types for its parameters.
    fn instantiate(&mut self, ty: &Type, params: &mut Vec<(char, Type)>) -> Type {
        match ty {
            Type::Param(name) => {
                if let Some((_, var)) = params.iter().find(|(known, _)| known == name) {
                    return var.clone();
                }
                let var = self.fresh();
                params.push((*name, var.clone()));
                var
            }
            Type::List(element) => Type::list(self.instantiate(element, params)),
            Type::Map(map) => {
                let key = self.instantiate(&map.0, params);
                Type::map(key, self.instantiate(&map.1, params))
            }
            Type::Optional(value) => Type::optional(self.instantiate(value, params)),
            Type::Type(of) => Type::Type(Arc::new(self.instantiate(of, params))),
            other => other.clone(),
        }
    }

    /// Returns true if a value of type `b` can be used where `a` is expected, substituting type variables on the way.
    /// The budget bounds types that double with each step; beyond it, everything fits and evaluation decides.
    fn fits(&mut self, a: &Type, b: &Type, budget: &mut usize) -> bool {
        if *budget == 0 {
            return true;
        }
        *budget -= 1;
        if let Type::Var(var) = b {
            let (valid, known) = self.stands_for(a, *var, b, budget);
            if valid || known {
                return valid;
            }
        }
        if let Type::Var(var) = a {
            return self.stands_for(b, *var, a, budget).0;
        }
        if a.is_dyn_or_error() || b.is_dyn_or_error() {
            return true;
        }
        match (a, b) {
            (Type::Null, other) | (other, Type::Null) => nullable(other),
            (Type::Type(_), Type::Type(_)) => true,
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => {
                self.fits(a, b, budget)
            }
            (Type::Map(a), Type::Map(b)) => self.fits(&a.0, &b.0, budget) && self.fits(&a.1, &b.1, budget),
            _ => same(a, b, budget),
        }
    }

    /// Tries to substitute a type for a type variable: the result, and true if a substitution existed.
    fn stands_for(&mut self, ty: &Type, var: usize, unknown: &Type, budget: &mut usize) -> (bool, bool) {
        if matches!(ty, Type::Var(other) if *other == var) {
            return (true, true);
        }
        if let Some(known) = self.find(var).cloned() {
            if same(ty, &known, &mut budget.clone()) {
                return (true, true);
            }
            if self.fits(ty, &known, budget) {
                let general = most_general(ty, &known).clone();
                if !self.occurs(unknown, &general, budget) {
                    self.set(var, general);
                }
                return (true, true);
            }
            return (false, true);
        }
        if !self.occurs(unknown, ty, budget) {
            self.set(var, ty.clone());
            return (true, false);
        }
        (false, false)
    }

    /// Returns true if a type variable is part of another type.
    ///
    /// Keeps a variable from being substituted by a type that contains it, which would never end. Answers true beyond
    /// the budget, so that nothing is substituted there.
    fn occurs(&self, unknown: &Type, within: &Type, budget: &mut usize) -> bool {
        if *budget == 0 {
            return true;
        }
        *budget -= 1;
        match (unknown, within) {
            (Type::Var(a), Type::Var(b)) if a == b => true,
            (_, Type::Var(var)) => match self.find(*var) {
                Some(known) => self.occurs(unknown, known, budget),
                None => false,
            },
            (_, Type::List(part) | Type::Optional(part) | Type::Type(part)) => {
                self.occurs(unknown, part, budget)
            }
            (_, Type::Map(map)) => {
                self.occurs(unknown, &map.0, budget) || self.occurs(unknown, &map.1, budget)
            }
            _ => false,
        }
    }

    /// A type with its variables substituted. Unknown ones become `dyn` if `to_dyn` is set.
    pub(super) fn substitute(&self, ty: &Type, to_dyn: bool) -> Type {
        self.put_in(ty, to_dyn, &mut MAX_PARTS.clone())
    }

    /// Substitutes known types. Types beyond the budget become `dyn`.
    fn put_in(&self, ty: &Type, to_dyn: bool, budget: &mut usize) -> Type {
        if *budget == 0 {
            return Type::Dyn;
        }
        *budget -= 1;
        match ty {
            Type::Var(var) => match self.find(*var) {
                Some(known) => self.put_in(known, to_dyn, budget),
                None if to_dyn => Type::Dyn,
                None => ty.clone(),
            },
            Type::List(element) => Type::list(self.put_in(element, to_dyn, budget)),
            Type::Map(map) => {
                let key = self.put_in(&map.0, to_dyn, budget);
                Type::map(key, self.put_in(&map.1, to_dyn, budget))
            }
            Type::Optional(value) => Type::optional(self.put_in(value, to_dyn, budget)),
            Type::Type(of) => Type::Type(Arc::new(self.put_in(of, to_dyn, budget))),
            other => other.clone(),
        }
    }
}

/// Returns true if `null` is assignable to a type.
///
/// Scalars are not: `null` can be compared with an `int` only if that is `dyn`.
fn nullable(ty: &Type) -> bool {
    matches!(
        ty,
        Type::Null | Type::Opaque(_) | Type::Object(_) | Type::Optional(_) | Type::Duration | Type::Timestamp
    )
}

/// The more general of two types that fit each other.
pub(super) fn most_general<'t>(a: &'t Type, b: &'t Type) -> &'t Type {
    if less_specific(a, b, &mut MAX_PARTS.clone()) { a } else { b }
}

/// Returns true if `a` is at least as general as `b`.
fn less_specific(a: &Type, b: &Type, budget: &mut usize) -> bool {
    if *budget == 0 {
        return true;
    }
    *budget -= 1;
    match (a, b) {
        (Type::Dyn | Type::Var(_), _) => true,
        (_, Type::Dyn | Type::Var(_)) => false,
        (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => {
            less_specific(a, b, budget)
        }
        (Type::Map(a), Type::Map(b)) => {
            less_specific(&a.0, &b.0, budget) && less_specific(&a.1, &b.1, budget)
        }
        (Type::Type(_), Type::Type(_)) => true,
        _ => same(a, b, budget),
    }
}
