//! Warnings about affinities: deprecated node labels, values that no label has, and terms that match no Pod.
//!
//! None of them keeps an object from being stored: such a Pod is valid, and waits for ever. Errors about affinities are
//! in `rules` and in `validate/scheduling.rs`.

use listwatch_wire::json::Value;

use super::pod::{MAX_WARNINGS, deprecated_label};
use crate::field::Path;
use crate::rules;
use crate::tree::Tree;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Warns of the affinity to nodes of a Pod's spec at a path.
pub(super) fn nodes(spec: &Value, path: &Path<'_>, found: &mut Vec<String>) {
    let affinity = spec.at("affinity").at("nodeAffinity");
    let path = path.child("affinity");
    let path = path.child("nodeAffinity");
    required(affinity.at(REQUIRED), &path.child(REQUIRED), found);
    let preferred = path.child(PREFERRED);
    for (index, term) in affinity.list(PREFERRED).iter().enumerate() {
        node_term(term.at("preference"), true, &preferred.index(index).child("preference"), found);
    }
}

/// Warns of the terms of a node selector.
pub(super) fn required(selector: &Value, path: &Path<'_>, found: &mut Vec<String>) {
    let terms = path.child("nodeSelectorTerms");
    for (index, term) in selector.list("nodeSelectorTerms").iter().enumerate() {
        node_term(term, false, &terms.index(index), found);
    }
}

/// Warns of deprecated labels and invalid values in one term. The number of warnings is bounded, since a term may
/// have thousands of values.
fn node_term(term: &Value, check_values: bool, path: &Path<'_>, found: &mut Vec<String>) {
    let path = path.child("matchExpressions");
    for (index, expression) in term.list("matchExpressions").iter().enumerate() {
        let (path, key) = (path.index(index), expression.text("key"));
        if let Some(text) = deprecated_label(key) {
            found.push(format!("{}: {key} is {text}", path.child("key")));
        }
        let path = path.child("values");
        let values = expression.list("values").iter().filter_map(Value::as_str).enumerate();
        for (index, value) in values.filter(|_| check_values) {
            let room = MAX_WARNINGS.saturating_sub(found.len());
            for why in rules::form_errors("label-value", value).into_iter().take(room) {
                found.push(format!("{}: {value} is invalid, {why}", path.index(index)));
            }
        }
    }
}

/// Warns of terms about other Pods that have no selector.
pub(super) fn pods(spec: &Value, path: &Path<'_>, found: &mut Vec<String>) {
    let path = path.child("affinity");
    for name in ["podAffinity", "podAntiAffinity"] {
        let affinity = spec.at("affinity").at(name);
        let path = path.child(name);
        let required = path.child(REQUIRED);
        for (index, term) in affinity.list(REQUIRED).iter().enumerate() {
            selector(term, &required.index(index), found);
        }
        let preferred = path.child(PREFERRED);
        for (index, term) in affinity.list(PREFERRED).iter().enumerate() {
            selector(term.at("podAffinityTerm"), &preferred.index(index).child("podAffinityTerm"), found);
        }
    }
}

/// Warns of a term without a selector.
fn selector(term: &Value, path: &Path<'_>, found: &mut Vec<String>) {
    if !term.has("labelSelector") && found.len() < MAX_WARNINGS {
        found.push(format!(
            "{}: a null labelSelector results in matching no pod",
            path.child("labelSelector")
        ));
    }
}
