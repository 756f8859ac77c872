//! Role-based access control: rules, and the policy that all roles and bindings make together.
//!
//! Pure: it knows objects and questions, not requests. `roles.rs` in the folder above feeds it from the cache and asks
//! it on each request.

mod policy;
mod rule;

pub use policy::{Binding, Policy, Role, RoleRef};
pub use rule::{PolicyRule, uncovered};
