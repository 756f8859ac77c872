//! The writes that a store accepts when its disk is nearly full, besides deletions.
//!
//! Without Leases, nodes and leaders are given up and a full disk becomes an outage of the cluster; without the
//! removal of finalizers nothing can be deleted to make room. The storage engine takes this function as an option,
//! because it knows no objects: `listwatch serve` passes it in.

use listwatch_wire::json::raw;

/// A Lease has a few hundred bytes.
const LEASE_BYTES: usize = 4 << 10;

/// Returns true for a write that keeps a cluster alive or finishes a deletion: a small Lease, or an object with a
/// `deletionTimestamp`.
///
/// ```
/// use listwatch_server::is_essential;
///
/// assert!(is_essential("/registry/leases.coordination.k8s.io/kube-node-lease/a", b"{}"));
/// assert!(!is_essential("/registry/configmaps/default/a", b"{\"metadata\":{}}"));
/// ```
#[must_use]
pub fn is_essential(key: &str, value: &[u8]) -> bool {
    let lease = key.starts_with("/registry/leases.coordination.k8s.io/") && value.len() <= LEASE_BYTES;
    lease || raw::lookup(value, &["metadata", "deletionTimestamp"]).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_and_objects_in_deletion_are_essential() {
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
