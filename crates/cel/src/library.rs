//! The functions of CEL and of Kubernetes: declarations for the checker, implementations for evaluation.
//!
//! Implementations are found by name; they look at the types of their arguments themselves, because the checker does not
//! know them where a value is `dyn`.
//!
//! To add a function: a line in `declared`, an implementation in the file of its library, a rule in both cost tables
//! if it costs more than one, and a test with the value, the cost and the error that kube-apiserver gives.

pub(crate) mod authz;
pub(crate) mod cidr;
pub(crate) mod convert;
mod declared;
pub(crate) mod format;
pub(crate) mod formatting;
mod ip;
mod lists;
mod netip;
mod operators;
mod optional;
pub(crate) mod quantity;
pub(crate) mod regexes;
pub(crate) mod semver;
mod sets;
mod strings;
pub(crate) mod time;
pub(crate) mod url;

use crate::error::EvalError;
use crate::meter::Meter;
use crate::value::Value;

pub(crate) use declared::tables;

pub(crate) type Evaluated<'a> = Result<Value<'a>, EvalError>;

/// The implementation of a function.
///
/// A plain function pointer: implementations have no state, and a program stores one per call. It must announce work
/// that is not constant to the meter before doing it.
pub(crate) type Native = for<'a> fn(&mut Meter, &[Value<'a>]) -> Evaluated<'a>;

/// The implementation of a function by its name.
///
/// A chain of matches on the name, walked once per call in an expression when it is planned, never at run time.
pub(crate) fn native(name: &str) -> Option<Native> {
    operators::native(name)
        .or_else(|| convert::native(name))
        .or_else(|| time::native(name))
        .or_else(|| strings::native(name))
        .or_else(|| lists::native(name))
        .or_else(|| sets::native(name))
        .or_else(|| optional::native(name))
        .or_else(|| regexes::native(name))
        .or_else(|| url::native(name))
        .or_else(|| ip::native(name))
        .or_else(|| cidr::native(name))
        .or_else(|| quantity::native(name))
        .or_else(|| semver::native(name))
        .or_else(|| format::native(name))
        .or_else(|| authz::native(name))
}

/// The implementation of a function that is declared but not implemented.
///
/// An expression that calls it compiles and fails when it is evaluated.
pub(crate) fn missing<'a>(_: &mut Meter, _: &[Value<'a>]) -> Evaluated<'a> {
    Err(EvalError::no_such_overload())
}

/// The error of a call whose arguments no overload takes.
///
/// Reached where types were `dyn`; otherwise the checker has found it before.
pub(crate) fn no_overload(function: &str, args: &[Value<'_>]) -> EvalError {
    let types: Vec<_> = args.iter().map(|arg| arg.type_name()).collect();
    EvalError::new(format!("no such overload: {function}({})", types.join(", ")))
}
