//! The writes that a store takes when its disk is full, besides deletions.

use listwatch_wire::json::raw;

/// A Lease has a few hundred bytes.
const LEASE_BYTES: usize = 4 << 10;

/// Tells whether a write keeps a cluster alive or ends a deletion: a Lease, without which leaders and nodes are given up, and an
/// object that is going, whose finalizers must be able to let it go.
#[must_use]
pub fn is_essential(key: &str, value: &[u8]) -> bool {
    let lease = key.starts_with("/registry/leases.coordination.k8s.io/") && value.len() <= LEASE_BYTES;
    lease || raw::lookup(value, &["metadata", "deletionTimestamp"]).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_and_what_is_going_are_essential() {
        let going = br#"{"metadata":{"name":"a","deletionTimestamp":"2026-01-01T00:00:00Z"}}"#;
        assert!(is_essential("/registry/configmaps/default/a", going));
        assert!(is_essential(
            "/registry/leases.coordination.k8s.io/kube-node-lease/n",
            br#"{"metadata":{"name":"n"}}"#
        ));
        assert!(!is_essential("/registry/configmaps/default/a", br#"{"metadata":{"name":"a"}}"#));
        assert!(!is_essential("/registry/leases.coordination.k8s.io/kube-node-lease/n", &[b' '; 5000]));
        assert!(!is_essential("/registry/configmaps/default/a", b"\xff not json"));
    }
}
