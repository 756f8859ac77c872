//! Finalizers: their names, and the ones that may be added to an object.
//!
//! The names are rules of every kind; a kind of the built-in ones refuses names without a domain where others are warned of them.
//! Removing a finalizer is how a deletion ends, which is the server's (`pipeline/delete.rs`).

use std::collections::HashSet;

use listwatch_wire::json::Value;
use listwatch_wire::names::label_key_errors;

use crate::field::{Errors, Path};
use crate::tree::Tree;

/// Removing is always allowed: it is how a deletion ends.
pub(super) fn validate_no_new_finalizers(new: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    let known: HashSet<&Value> = old.list("finalizers").iter().collect();
    let added: Vec<_> =
        new.list("finalizers").iter().filter(|f| !known.contains(f)).filter_map(Value::as_str).collect();
    if !added.is_empty() {
        let quoted: Vec<_> = added.iter().map(|name| format!("{name:?}")).collect();
        let detail = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            quoted.join(", ")
        );
        errors.forbidden(path, detail);
    }
}

/// Two policies of deletion at once would contradict each other.
pub(super) fn validate_finalizers(finalizers: &[Value], path: &Path<'_>, errors: &mut Errors) {
    let has = |name: &str| finalizers.iter().any(|finalizer| finalizer == name);
    for finalizer in finalizers.iter().filter_map(Value::as_str) {
        errors.invalid_all(path, finalizer, label_key_errors(finalizer));
    }
    if has("orphan") && has("foregroundDeletion") {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.invalid(path, finalizers.to_vec(), detail);
    }
}

/// Finalizers that need no domain in their name.
const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

/// Built-in kinds take finalizers of others only under a domain; [`unqualified_finalizers`] warns of the same elsewhere.
pub(crate) fn validate_qualified_finalizers(meta: &Value, errors: &mut Errors) {
    let path = Path::root("metadata");
    let path = path.child("finalizers");
    for (index, name) in meta.list("finalizers").iter().filter_map(Value::as_str).enumerate() {
        errors.invalid_all(&path.index(index), name, finalizer_errors(name));
    }
}

/// The name of a finalizer has a domain, except for Kubernetes' own finalizers.
pub(crate) fn finalizer_errors(name: &str) -> Vec<String> {
    let detail = "name is neither a standard finalizer name nor is it fully qualified";
    is_unqualified(name).then(|| detail.to_owned()).into_iter().collect()
}

/// Warnings about finalizers without a domain, where they are allowed.
///
/// Only for those that an update adds, so that an old object does not warn for ever.
#[must_use]
pub fn unqualified_finalizers(meta: &Value, before: Option<&Value>) -> Vec<String> {
    let known = before.map(|meta| meta.list("finalizers")).unwrap_or_default();
    let known: HashSet<&Value> = known.iter().collect();
    let new = meta.list("finalizers").iter().filter(|name| !known.contains(name)).filter_map(Value::as_str);
    let mut names: Vec<&str> = new.filter(|name| is_unqualified(name)).collect();
    names.sort_unstable();
    let advice = |name: &str| {
        // A name with a dot may be a domain that lacks a path.
        let path = if name.contains('.') { " including a path (/)" } else { "" };
        format!(
            "prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other finalizer writers"
        )
    };
    names.into_iter().map(|name| format!("metadata.finalizers: {name:?}: {}", advice(name))).collect()
}

fn is_unqualified(finalizer: &str) -> bool {
    !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(&finalizer)
}
