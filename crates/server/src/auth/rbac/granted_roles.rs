//! [`GrantedRoles`]: the roles that one subject was given, each with the bindings that grant it.
//!
//! Nearly every subject has a few of them, and a namespace may have a million subjects: a persistent map for each took 2 KB per
//! subject, thirty times as much as its binding. Those with many get the map, so that a change of one binding does not copy all.

use std::sync::Arc;

use imbl::{OrdMap, OrdSet};

use crate::auth::rbac::object::RoleRef;

/// The most pairs of a role and a binding that are kept as a list.
const FEW: usize = 8;

/// The roles of a subject: a role is evaluated once however many bindings grant it.
#[derive(Clone, Debug)]
pub(super) enum GrantedRoles {
    /// Sorted by role and name of the binding.
    Few(Vec<(Arc<RoleRef>, Arc<str>)>),
    Many(OrdMap<Arc<RoleRef>, OrdSet<Arc<str>>>),
}

impl Default for GrantedRoles {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl GrantedRoles {
    /// Adds the role of a binding.
    pub(super) fn add(&mut self, role: &Arc<RoleRef>, binding: &Arc<str>) {
        match self {
            Self::Few(few) => {
                let pair = (Arc::clone(role), Arc::clone(binding));
                let Err(place) = few.binary_search(&pair) else { return };
                few.reserve_exact(1);
                few.insert(place, pair);
                if few.len() > FEW {
                    *self = Self::many(std::mem::take(few));
                }
            }
            Self::Many(many) => {
                many.entry(Arc::clone(role)).or_default().insert(Arc::clone(binding));
            }
        }
    }

    /// Turns the short list into a map: beyond a few roles, a search per binding would be quadratic.
    fn many(few: Vec<(Arc<RoleRef>, Arc<str>)>) -> Self {
        let mut many = OrdMap::<Arc<RoleRef>, OrdSet<Arc<str>>>::new();
        for (role, binding) in few {
            many.entry(role).or_default().insert(binding);
        }
        Self::Many(many)
    }

    /// Removes a binding. The role stays while another binding grants it.
    pub(super) fn remove(&mut self, role: &Arc<RoleRef>, binding: &Arc<str>) {
        match self {
            Self::Few(few) => few.retain(|(known, name)| (known, name) != (role, binding)),
            Self::Many(many) => {
                let Some(names) = many.get_mut(role) else { return };
                names.remove(binding);
                if names.is_empty() {
                    many.remove(role);
                }
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Few(few) => few.is_empty(),
            Self::Many(many) => many.is_empty(),
        }
    }

    /// The roles in order, each with the first of the bindings that grant it.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&RoleRef, &str)> {
        let (few, many) = match self {
            Self::Few(few) => (Some(few), None),
            Self::Many(many) => (None, Some(many)),
        };
        let few = few.into_iter().flat_map(|few| few.chunk_by(|(one, _), (other, _)| one == other));
        let few = few.filter_map(|same| same.first()).map(|(role, binding)| (&**role, &**binding));
        let many = many.into_iter().flatten();
        few.chain(many.filter_map(|(role, names)| Some((&**role, &**names.get_min()?))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_many_roles_iterate_alike() {
        let role = |n: usize| Arc::new(RoleRef { name: format!("r{n}").into(), ..RoleRef::default() });
        let binding = |n: usize| -> Arc<str> { format!("b{n:02}").into() };
        let seen = |roles: &GrantedRoles| -> Vec<String> {
            roles.iter().map(|(role, binding)| format!("{}:{binding}", role.name)).collect()
        };
        let mut roles = GrantedRoles::default();
        for n in (0..FEW * 2).rev() {
            roles.add(&role(n % 2), &binding(n));
            roles.add(&role(n % 2), &binding(n));
        }
        assert!(matches!(roles, GrantedRoles::Many(_)));
        assert_eq!(seen(&roles), ["r0:b00", "r1:b01"]);
        let mut few = GrantedRoles::default();
        for n in [3, 0, 2, 1] {
            few.add(&role(n % 2), &binding(n));
        }
        assert!(matches!(few, GrantedRoles::Few(_)));
        assert_eq!(seen(&few), ["r0:b00", "r1:b01"]);
        for mut roles in [roles, few] {
            roles.remove(&role(0), &binding(0));
            roles.remove(&role(0), &binding(1));
            assert_eq!(seen(&roles), ["r0:b02", "r1:b01"]);
            for n in 0..FEW * 2 {
                roles.remove(&role(n % 2), &binding(n));
            }
            assert!(roles.is_empty() && seen(&roles).is_empty());
        }
    }
}
