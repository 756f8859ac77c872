//! Namespaces.

use listwatch_wire::json::Value;
use listwatch_wire::names::label_key_errors;

use crate::field::{Errors, Path};
use crate::meta;
use crate::tree::Tree;

pub(super) fn namespace(new: &Value, errors: &mut Errors) {
    let path = Path::root("spec");
    let path = path.child("finalizers");
    for name in new.at("spec").list("finalizers").iter().filter_map(Value::as_str) {
        errors.invalid_all(&path, name, label_key_errors(name));
        meta::qualified_finalizer(name, &path, errors);
    }
}

/// What a namespace says of itself must fit whether it is going. The reference spells the field with a capital.
pub(super) fn status(new: &Value, errors: &mut Errors) {
    let path = Path::root("status");
    let (path, phase) = (path.child("Phase"), new.at("status").text("phase"));
    match (new.at("metadata").has("deletionTimestamp"), phase) {
        (false, "Active") | (true, "Terminating") => {}
        (false, _) => errors.invalid(&path, phase, "may only be 'Active' if `deletionTimestamp` is empty"),
        (true, _) => {
            errors.invalid(&path, phase, "may only be 'Terminating' if `deletionTimestamp` is not empty");
        }
    }
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::super::tests::fields;
    use super::*;

    #[test]
    fn the_phase_fits_the_mark() {
        assert_eq!(fields(status, json!({"status": {"phase": "Active"}})), [""; 0]);
        assert_eq!(fields(status, json!({"status": {"phase": "Terminating"}})), ["status.Phase"]);
        let marked = json!({"metadata": {"deletionTimestamp": "t"}, "status": {"phase": "Active"}});
        assert_eq!(fields(status, marked), ["status.Phase"]);
    }

    #[test]
    fn finalizers_have_domains() {
        let spec = json!({"spec": {"finalizers": ["kubernetes", "a.b/c", "plain"]}});
        assert_eq!(fields(namespace, spec), ["spec.finalizers"]);
    }
}
