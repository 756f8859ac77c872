//! Annotations that hold fields of kube-apiserver's internal types, for versions without such fields.
//!
//! kube-apiserver makes tables and metadata-only responses from its internal types, whose metadata does not have these
//! annotations; whole objects have them. The conversion of objects between versions is `listwatch_kinds::convert`.

use listwatch_kinds::tree::Tree;
use listwatch_wire::json::{Value, raw};

use crate::registry::Resource;

/// `spec.templateGeneration` of DaemonSets and `spec.rollbackTo` of Deployments.
const ANNOTATIONS: [&str; 2] =
    ["deprecated.daemonset.template.generation", "deprecated.deployment.rollback.revision"];

/// Returns true if an object of the resource, as JSON, has such an annotation. Costs nothing for all other kinds.
pub(super) fn may_hold_fields(resource: &Resource, object: &[u8]) -> bool {
    resource.builtin.is_some_and(|kind| kind.group == "apps")
        && ANNOTATIONS.iter().any(|key| raw::lookup(object, &["metadata", "annotations", key]).is_some())
}

/// Drops the annotations. Returns true if there were any.
pub(super) fn drop_fields(object: &mut Value) -> bool {
    let Some(meta) = object.inner("metadata") else { return false };
    let Some(annotations) = meta.inner("annotations") else { return false };
    let before = annotations.len();
    ANNOTATIONS.iter().for_each(|key| drop(annotations.remove(key)));
    let dropped = annotations.len() != before;
    if annotations.is_empty() {
        meta.remove("annotations");
    }
    dropped
}
