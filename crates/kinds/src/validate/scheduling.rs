//! Validation of affinities and topology spread constraints.
//!
//! Terms, topology keys and operators are rows of the tables in `rules`. The two checks here compare fields with each
//! other. That an affinity can be satisfied is never checked: it depends on nodes, which only the scheduler knows.

use std::collections::{HashMap, HashSet};

use listwatch_wire::json::Value;

use crate::field::Errors;
use crate::rules::{At, Check};
use crate::tree::Tree;

pub(super) const CHECKS: &[(&str, Check)] = checks![label_keys_are_not_selected, constraints_are_unique];

/// Keys that are added to a selector from the Pod's own labels, and that it has no terms for.
fn label_keys_are_not_selected(at: &At<'_>, errors: &mut Errors) {
    let selector = at.value.at("labelSelector");
    let mut terms: HashMap<&str, usize> = HashMap::new();
    for term in selector.list("matchExpressions") {
        *terms.entry(term.text("key")).or_default() += 1;
    }
    for (index, key) in at.value.list("matchLabelKeys").iter().filter_map(Value::as_str).enumerate() {
        let times = terms.get(key).copied().unwrap_or(0);
        if times > 0 && times + usize::from(selector.at("matchLabels").has(key)) > 1 {
            errors.invalid(&at.path.index(index), key, "exists in both matchLabelKeys and labelSelector");
        }
    }
}

/// Two constraints with the same key and action would overrule each other.
fn constraints_are_unique(at: &At<'_>, errors: &mut Errors) {
    let list = at.value.as_array().map(Vec::as_slice).unwrap_or_default();
    let mut seen = HashSet::new();
    // kube-apiserver reports the earlier of two equal elements as the duplicate.
    for (index, constraint) in list.iter().enumerate().rev() {
        let (key, action) = (constraint.text("topologyKey"), constraint.text("whenUnsatisfiable"));
        if !seen.insert((key, action)) {
            let path = at.path.index(index);
            let pair = path.child("{topologyKey, whenUnsatisfiable}");
            errors.duplicate(&pair, format!("{{{key}, {action}}}"));
        }
    }
}
