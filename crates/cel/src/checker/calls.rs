//! Overloads: which functions a call may mean, and the type of its result.
//!
//! An argument of type `dyn` can leave several overloads, among which the run time decides. The checker records all of
//! them, because the cost estimate is the range over what may be called.

use super::Checker;
use crate::ast::{AstKind, Id, Literal};
use crate::declarations::Overload;
use crate::types::Type;

impl Checker<'_> {
    /// Types a call. `a.b.f(x)` is the function `a.b.f` if there is one, the member `f` of `a.b` otherwise.
    pub(super) fn call(&mut self, id: Id, function: &str, target: Option<Id>, args: &[Id]) {
        if function == "_?._" {
            return self.optional_select(id, args);
        }
        for arg in args {
            self.check(*arg);
        }
        let env = self.env;
        let Some(target) = target else {
            let name = function.strip_prefix('.').unwrap_or(function);
            let Some((name, overloads)) = env.function(name) else { return self.undeclared(id, function) };
            self.rename(id, name, None, args);
            return self.overload(id, name, overloads, None, args);
        };
        if let Some(prefix) = self.qualified(target)
            && let Some((name, overloads)) = env.function(&format!("{prefix}.{function}"))
        {
            self.rename(id, name, None, args);
            return self.overload(id, name, overloads, None, args);
        }
        self.check(target);
        match env.function(function) {
            Some((name, overloads)) => self.overload(id, name, overloads, Some(target), args),
            None => self.undeclared(id, function),
        }
    }

    /// Replaces a call by the function that it resolved to.
    fn rename(&mut self, id: Id, function: &str, target: Option<Id>, args: &[Id]) {
        let kind = AstKind::Call { function: function.into(), target, args: args.to_vec() };
        self.checked.ast.replace(id, kind);
    }

    /// Types `a.?b`, whose field name is a literal and no expression.
    fn optional_select(&mut self, id: Id, args: &[Id]) {
        let [operand, name] = args else { return };
        let AstKind::Literal(Literal::String(field)) = self.checked.ast.kind(*name).clone() else { return };
        self.set(*name, Type::String);
        let ty = self.field(id, *operand, &field, true);
        let ty = self.resolved(&ty);
        self.set(id, ty);
        self.checked.overloads.insert(id, vec!["select_optional_field"]);
    }

    /// Collects the overloads that fit the arguments. Several remain where an argument is `dyn`; the run time then
    /// decides, and the type is `dyn` if their results differ.
    ///
    /// All overloads are tried, since more than one may fit. Substitutions of an attempt that fails are taken back.
    fn overload(&mut self, id: Id, name: &str, overloads: &[Overload], target: Option<Id>, args: &[Id]) {
        let given: Vec<Type> = target.iter().chain(args).map(|arg| self.ty(*arg)).collect();
        if matches!(name, "_&&_" | "_||_") {
            return self.logic(id, name, args, &given);
        }
        let (mut found, mut result): (Vec<&'static str>, Option<Type>) = (Vec::new(), None);
        for overload in overloads.iter().filter(|overload| overload.member == target.is_some()) {
            let Some(returned) = self.mapping.call(overload, &given) else { continue };
            found.push(overload.id);
            result = match result {
                None => Some(returned),
                Some(before) if matches!(before, Type::Dyn) || before.is_same(&returned) => Some(before),
                Some(_) => Some(Type::Dyn),
            };
        }
        match result {
            Some(ty) => {
                self.set(id, ty);
                self.checked.overloads.insert(id, found);
            }
            None => self.no_overload(id, name, &given, target.is_some()),
        }
    }

    /// Reports that no overload fits, with the types of the arguments as far as they are known. A member call is
    /// shown as `target.(arguments)`, as cel-go shows it.
    fn no_overload(&mut self, id: Id, name: &str, given: &[Type], member: bool) {
        let shown: Vec<_> = given.iter().map(|ty| self.mapping.substitute(ty, true).to_string()).collect();
        let signature = match shown.split_first() {
            Some((target, args)) if member => format!("{target}.({})", args.join(", ")),
            _ => format!("({})", shown.join(", ")),
        };
        self.error(id, format!("found no matching overload for '{name}' applied to '{signature}'"));
        self.set(id, Type::Error);
    }

    /// Types `&&` and `||`, which have one overload and an error per operand.
    fn logic(&mut self, id: Id, name: &str, args: &[Id], given: &[Type]) {
        let mut wrong = false;
        for (arg, ty) in args.iter().zip(given) {
            if !self.mapping.assignable(ty, &Type::Bool) {
                self.mismatch(*arg, &Type::Bool, ty);
                wrong = true;
            }
        }
        self.set(id, if wrong { Type::Error } else { Type::Bool });
        self.checked.overloads.insert(id, vec![if name == "_&&_" { "logical_and" } else { "logical_or" }]);
    }
}
