//! CEL expressions in policies and webhook configurations.
//!
//! [`environment`] declares their variables, [`policy`] compiles those of a policy, [`check`] validates them when they are
//! written, with the rest of a policy ([`shape`]). Evaluating them is `admission/policy`. The rules of custom resources are in `listwatch_custom`.

pub(crate) mod check;
pub(crate) mod environment;
mod policy;
mod shape;

pub(crate) use policy::{Compiled, Environments, Family};
