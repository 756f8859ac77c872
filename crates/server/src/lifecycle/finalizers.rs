//! Removing a finalizer once its work is done.
//!
//! A list that becomes empty is removed with its field, as Go leaves it out of an object. The write that removes the last
//! finalizer of an object in deletion deletes the object (`pipeline/change.rs`).

use listwatch_kinds::tree::Tree;
use listwatch_wire::json::Map;

/// Removes a finalizer from `metadata`, or from the `spec` of a Namespace.
pub(super) fn remove_finalizer(parent: &mut Map, name: &str) {
    let mut finalizers = parent.list("finalizers").to_vec();
    finalizers.retain(|finalizer| finalizer != name);
    if finalizers.is_empty() {
        drop(parent.remove("finalizers"));
    } else {
        parent.put("finalizers", finalizers);
    }
}
