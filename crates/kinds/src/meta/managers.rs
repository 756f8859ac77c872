//! Validation of `metadata.managedFields` as a client wrote it.
//!
//! Entries that cannot be read are dropped when ownership is recorded, which is `listwatch_merge::apply`'s; only what
//! kube-apiserver refuses is checked here.

use listwatch_merge::apply::DEFAULT_MANAGER_MAX;
use listwatch_wire::json::Value;

use crate::field::{Errors, Path};
use crate::tree::Tree;

/// Checks the names of field managers that a client wrote itself. Other errors make an entry unreadable.
pub(super) fn validate_managers(entries: &[Value], path: &Path<'_>, errors: &mut Errors) {
    for (index, entry) in entries.iter().enumerate() {
        if entry.text("manager").len() > DEFAULT_MANAGER_MAX {
            errors.too_long(&path.index(index).child("manager"), DEFAULT_MANAGER_MAX);
        }
    }
}
