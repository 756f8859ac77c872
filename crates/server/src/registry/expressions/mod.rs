//! CEL expressions in policies, webhook configurations and claims of devices.
//!
//! [`environment`] declares their variables, [`policy`] compiles those of a policy, [`check`] validates them when
//! they are written, with the rest of a policy ([`shape`]). Evaluating them is `admission/policy`. The rules of
//! custom resources are in `listwatch_custom`.

pub(crate) mod check;
mod device;
pub(crate) mod environment;
mod policy;
mod shape;
pub(crate) mod typed;

pub(crate) use policy::{CompiledExpression, Environments, PolicyFamily};
