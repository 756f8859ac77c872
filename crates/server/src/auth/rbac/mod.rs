//! Role-based access control: rules, and the policy formed by all roles and bindings.
//!
//! Pure. `roles.rs` in the folder above feeds it from the cache, one changed object at a time, and calls it for each
//! request.
//!
//! * [`rule`] is one rule and what it allows; [`cover`] compares rules with each other.
//! * [`object`] reads roles and bindings from their JSON.
//! * [`policy`] is the set of all of them at one moment; [`grants`] finds the roles of a user in it, [`aggregate`] the
//!   rules that a ClusterRole takes from others.

mod aggregate;
mod cover;
mod granted_roles;
mod grants;
#[cfg(test)]
mod naive_tests;
mod object;
mod policy;
mod rule;
#[cfg(test)]
mod table_tests;

pub use cover::{describe, uncovered};
pub use object::{Binding, Role, RoleRef};
pub use policy::{Policy, RuleSource};
pub use rule::PolicyRule;
pub(in crate::auth) use rule::quoted;
