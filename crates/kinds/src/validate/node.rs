//! Nodes, and the ways in which Pods run on them.

use std::collections::HashSet;

use listwatch_wire::json::Value;
use listwatch_wire::names::{label_errors, label_key_errors};

use crate::field::{Errors, Path};
use crate::tree::Tree;

const EFFECTS: &[&str] = &["NoExecute", "NoSchedule", "PreferNoSchedule"];

pub(super) fn node(new: &Value, errors: &mut Errors) {
    let path = Path::root("metadata");
    // The reference checks them where a Node has had them before they were fields.
    let path = path.child("taints");
    let mut seen = HashSet::new();
    for (index, taint) in new.at("spec").list("taints").iter().enumerate() {
        let path = path.index(index);
        let (key, effect) = (taint.text("key"), taint.text("effect"));
        errors.invalid_all(&path.child("key"), key, label_key_errors(key));
        errors.required_one_of(&path.child("effect"), effect, EFFECTS);
        if !seen.insert((key, effect)) {
            errors.duplicate(&path, taint.clone());
        }
    }
}

/// Where a node is and which addresses its Pods have is said once.
pub(super) fn change(new: &Value, old: &Value, errors: &mut Errors) {
    let path = Path::root("spec");
    let (new, old) = (new.at("spec"), old.at("spec"));
    for (key, shown, what) in [("podCIDR", "podCIDRs", "podCIDR"), ("providerID", "providerID", "providerID")]
    {
        if !old.text(key).is_empty() && new.text(key) != old.text(key) {
            let detail = format!("node updates may not change {what} except from \"\" to valid");
            errors.forbidden(&path.child(shown), detail);
        }
    }
}

pub(super) fn runtime_class(new: &Value, errors: &mut Errors) {
    let handler = new.text("handler");
    errors.invalid_all(&Path::root("handler"), handler, label_errors(handler));
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    #[test]
    fn a_node_stays_where_it_is() {
        let node = |id: &str| json!({"spec": {"providerID": id}});
        for (old, new, complaints) in [("", "a", 0), ("a", "a", 0), ("a", "b", 1), ("a", "", 1)] {
            let mut errors = Errors::new();
            change(&node(new), &node(old), &mut errors);
            assert_eq!(errors.into_vec().len(), complaints, "{old} {new}");
        }
    }

    #[test]
    fn taints_are_told_apart() {
        let taint = |key: &str, effect: &str| json!({"key": key, "effect": effect});
        let taints =
            json!([taint("a", "NoSchedule"), taint("a", "NoSchedule"), taint("b", "Odd"), taint("c", "")]);
        let mut errors = Errors::new();
        node(&json!({"spec": {"taints": taints}}), &mut errors);
        let found: Vec<String> = errors.into_fields();
        assert_eq!(found, ["metadata.taints[1]", "metadata.taints[2].effect", "metadata.taints[3].effect"]);
    }
}
