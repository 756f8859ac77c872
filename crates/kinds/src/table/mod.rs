//! Every built-in kind of the stable API groups, one entry each.
//!
//! The files group the kinds by use: the core group (`core`), workloads and networking (`workloads`), access control
//! (`policy`), and cluster infrastructure (`cluster`). To add a kind, add an entry; its fields come from the schema
//! table, its rules from the rule tables. [`all`] sorts them as discovery shows them; the order in the files is for readers.

mod cluster;
mod core;
mod policy;
mod workloads;

use std::sync::LazyLock;

use crate::kind::Kind;

/// All kinds, grouped by API group in the order of [`GROUPS`].
#[must_use]
pub fn all() -> &'static [Kind] {
    static ALL: LazyLock<Vec<Kind>> = LazyLock::new(|| {
        let tables = [core::KINDS, workloads::KINDS, policy::KINDS, cluster::KINDS];
        let mut kinds: Vec<Kind> = tables.into_iter().flatten().copied().collect();
        kinds.sort_by_key(|k| (group_position(k.group), version_rank(k.version), k.plural));
        kinds
    });
    &ALL
}

/// The kind served at `/apis/GROUP/VERSION/PLURAL` (`/api/v1/PLURAL` for the empty group).
///
/// ```
/// let pods = listwatch_kinds::by_resource("", "v1", "pods").unwrap();
/// assert_eq!((pods.kind, pods.short_names), ("Pod", &["po"][..]));
/// ```
#[must_use]
pub fn by_resource(group: &str, version: &str, plural: &str) -> Option<&'static Kind> {
    all().iter().find(|k| k.plural == plural && k.group == group && k.version == version)
}

/// The kind of that group, version and kind.
#[must_use]
pub fn by_kind(group: &str, version: &str, kind: &str) -> Option<&'static Kind> {
    all().iter().find(|k| k.kind == kind && k.group == group && k.version == version)
}

/// The groups with built-in kinds, in the order in which discovery lists them.
///
/// Clients resolve a bare resource name to the first group that has it, so the order is behaviour: `events` is the core
/// group's before it is `events.k8s.io`'s.
pub const GROUPS: &[&str] = &[
    "",
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "storagemigration.k8s.io",
];

/// The position of a built-in group in `/apis`, which is kube-apiserver's group priority; `None` for groups that are
/// not built in.
#[must_use]
pub(crate) fn group_position(group: &str) -> Option<usize> {
    GROUPS.iter().position(|g| *g == group)
}

/// Newer versions first: the first version of a group is its preferred one.
fn version_rank(version: &str) -> u8 {
    if version == "v2" { 0 } else { 1 }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_kind_is_there_once_and_found_by_resource_and_by_kind() {
        let mut seen = HashSet::new();
        for kind in all() {
            assert!(seen.insert((kind.group, kind.version, kind.plural)), "{kind:?} twice");
            assert!(seen.insert((kind.group, kind.version, kind.kind)), "{kind:?} twice");
            assert_eq!(by_resource(kind.group, kind.version, kind.plural), Some(kind));
            assert_eq!(by_kind(kind.group, kind.version, kind.kind), Some(kind));
            assert!(group_position(kind.group).is_some(), "{} has no place in discovery", kind.group);
        }
    }

    #[test]
    fn singular_names_are_the_kind_in_lower_case() {
        for kind in all() {
            assert_eq!(kind.singular, kind.kind.to_lowercase());
        }
    }

    #[test]
    fn verbs_and_subresources_are_sorted_as_discovery_shows_them() {
        for kind in all() {
            assert!(kind.verbs.is_sorted(), "{}", kind.plural);
            assert!(kind.subresources.iter().map(|s| s.name).is_sorted(), "{}", kind.plural);
        }
    }

    #[test]
    fn a_kind_that_is_stored_elsewhere_names_a_kind_that_exists() {
        for kind in all() {
            let Some((group, version)) = kind.stored_as else { continue };
            assert!(by_kind(group, version, kind.kind).is_some_and(|k| k.stored_as.is_none()));
        }
    }

    #[test]
    fn the_first_version_of_a_group_is_the_preferred_one() {
        let autoscaling = all().iter().find(|k| k.group == "autoscaling");
        assert_eq!(autoscaling.map(|k| k.version), Some("v2"));
    }
}
