//! `metadata`: the fields that a client may set and those that only the server sets.
//!
//! These rules hold for every kind, custom ones included. They work on the `metadata` object alone; the rest of the
//! object is checked in [`crate::validate`].

mod finalizers;
mod managers;

use std::collections::{BTreeSet, HashSet};

use listwatch_wire::json::{Map, Value};
use listwatch_wire::names::{label_errors, label_key_errors, label_value_errors};

use crate::NameRule;
use crate::field::{Errors, Path};
use crate::tree::Tree;

pub use finalizers::unqualified_finalizers;
pub(crate) use finalizers::{finalizer_errors, validate_qualified_finalizers};
use finalizers::{validate_finalizers, validate_no_new_finalizers};
use managers::validate_managers;

/// The longest prefix of a generated name; five letters follow.
const MAX_GENERATED_PREFIX: usize = 58;
/// Letters of generated names: no vowels and no look-alikes, so that no words come about.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// The sum of all annotations' keys and values.
///
/// 256 KiB, apimachinery's `TotalAnnotationSizeLimitB`. Values have no other bound.
const MAX_ANNOTATIONS: usize = 256 * 1024;

/// The name for a `generateName` prefix, from five random numbers.
///
/// Not unique by itself: 27 letters in five places make 14 million names. The server tries again if the name exists.
///
/// ```
/// use listwatch_kinds::meta::generated_name;
///
/// let name = generated_name("web-", [0, 1, 2, 3, 4]);
/// assert!(name.starts_with("web-") && name.len() == 9);
/// ```
#[must_use]
pub fn generated_name(prefix: &str, random: [u8; 5]) -> String {
    let mut end = prefix.len().min(MAX_GENERATED_PREFIX);
    while !prefix.is_char_boundary(end) {
        end -= 1;
    }
    let mut name = prefix.get(..end).unwrap_or_default().to_owned();
    name.extend(
        random
            .iter()
            .filter_map(|number| ALPHABET.get(usize::from(*number) % ALPHABET.len()))
            .map(|b| *b as char),
    );
    name
}

/// Clears the metadata that a client may not set in a new object and sets its identity.
///
/// `managedFields`, labels and the rest of what a client sent stay.
///
/// ```
/// use listwatch_kinds::meta::stamp_new;
/// use listwatch_wire::json::json;
///
/// let mut object = json!({"name": "a", "resourceVersion": "7"});
/// stamp_new(object.as_object_mut().unwrap(), "u-1", "2026-01-01T00:00:00Z");
/// assert_eq!(object, json!({"name": "a", "uid": "u-1", "creationTimestamp": "2026-01-01T00:00:00Z"}));
/// ```
pub fn stamp_new(meta: &mut Map, uid: &str, now: &str) {
    wipe_deletion(meta);
    for key in ["selfLink", "resourceVersion"] {
        meta.remove(key);
    }
    meta.insert("uid", uid.into());
    meta.insert("creationTimestamp", now.into());
}

/// Removes the mark of a deletion: nothing new has been deleted yet. A POST does this before field owners are recorded,
/// a PUT or an apply that creates after that.
pub fn wipe_deletion(meta: &mut Map) {
    for key in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        meta.remove(key);
    }
}

/// Copies the metadata that an update may leave out, or whose changes are ignored.
///
/// A uid or deletion mark that differs is left for [`validate_update`] to refuse.
pub fn carry_over(new: &mut Map, old: &Map) {
    new.remove("selfLink");
    for key in ["creationTimestamp", "generation"] {
        carry(new, old, key);
    }
    new.fill_text("uid", old.text("uid"));
    if old.has("deletionTimestamp") {
        carry(new, old, "deletionTimestamp");
        if !new.has("deletionGracePeriodSeconds") {
            carry(new, old, "deletionGracePeriodSeconds");
        }
    }
}

/// The stored value wins, also if it is absent.
fn carry(new: &mut Map, old: &Map, key: &str) {
    match old.get(key) {
        Some(value) => new.insert(key, value.clone()),
        None => new.remove(key),
    };
}

/// Drops exact repetitions among the owner references; the text of the `Warning` if there were any.
///
/// Linear: owners are compared by hash, because a client may send very many.
///
/// ```
/// use listwatch_kinds::meta::drop_duplicate_owners;
/// use listwatch_wire::json::json;
///
/// let mut meta = json!({"ownerReferences": [{"uid": "u"}, {"uid": "u"}]});
/// assert!(drop_duplicate_owners(meta.as_object_mut().unwrap()).unwrap().ends_with("observed: u"));
/// assert_eq!(meta, json!({"ownerReferences": [{"uid": "u"}]}));
/// ```
pub fn drop_duplicate_owners(meta: &mut Map) -> Option<String> {
    // Looks before it copies: nearly all objects have one owner or none.
    if meta.get("ownerReferences")?.as_array()?.len() < 2 {
        return None;
    }
    let owners = meta.get_mut("ownerReferences")?.as_array_mut()?;
    let (mut repeated, mut seen) = (BTreeSet::new(), HashSet::with_capacity(owners.len()));
    owners.retain(|owner| {
        let first = seen.insert(owner.clone());
        if !first {
            repeated.insert(owner.text("uid").to_owned());
        }
        first
    });
    (!repeated.is_empty()).then(|| {
        let uids = repeated.into_iter().collect::<Vec<_>>().join(", ");
        format!(".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {uids}")
    })
}

/// Checks the metadata of a new object.
///
/// Names of the body and of the path have been compared before; `generateName` has become a name.
pub fn validate_new(meta: &Value, namespaced: bool, rule: NameRule, errors: &mut Errors) {
    let path = Path::root("metadata");
    let name = meta.text("name");
    validate_prefix(meta, rule, errors);
    if name.is_empty() {
        errors.required(&path.child("name"), "name or generateName is required");
    } else {
        errors.invalid_all(&path.child("name"), name, rule.check(name, false));
    }
    validate_namespace(meta.text("namespace"), namespaced, &path, errors);
    errors.non_negative(&path.child("generation"), meta.int("generation"));
    validate_parts(meta, &path, errors);
    validate_finalizers(meta.list("finalizers"), &path.child("finalizers"), errors);
}

/// Checks the prefix that a name was generated from.
pub(crate) fn validate_prefix(meta: &Value, rule: NameRule, errors: &mut Errors) {
    let prefix = meta.text("generateName");
    if !prefix.is_empty() {
        errors.invalid_all(&Path::root("metadata").child("generateName"), prefix, rule.check(prefix, true));
    }
}

/// The server has put the namespace of the path into the body before, so these errors are about kinds and names, not
/// about clients that left it out.
fn validate_namespace(namespace: &str, namespaced: bool, path: &Path<'_>, errors: &mut Errors) {
    let path = path.child("namespace");
    match (namespaced, namespace.is_empty()) {
        (true, true) => errors.required(&path, ""),
        (true, false) => errors.invalid_all(&path, namespace, label_errors(namespace)),
        (false, false) => errors.forbidden(&path, "not allowed on this type"),
        (false, true) => {}
    }
}

/// Checks the metadata of a changed object against the stored one.
///
/// Labels, annotations and owners are checked in full even if they did not change, as in kube-apiserver.
pub fn validate_update(new: &Value, old: &Value, errors: &mut Errors) {
    if new.at("finalizers") != old.at("finalizers") {
        validate_finalizers(new.list("finalizers"), &Path::root("metadata").child("finalizers"), errors);
    }
    validate_change(new, old, errors);
}

/// Checks the parts of metadata that are checked for every write, new or not.
pub fn validate_again(meta: &Value, errors: &mut Errors) {
    let path = Path::root("metadata");
    validate_parts(meta, &path, errors);
    validate_finalizers(meta.list("finalizers"), &path.child("finalizers"), errors);
}

/// Checks how metadata changed, and its parts, without the form of finalizers.
pub fn validate_change(new: &Value, old: &Value, errors: &mut Errors) {
    let path = Path::root("metadata");
    if old.has("deletionTimestamp") {
        validate_no_new_finalizers(new, old, &path.child("finalizers"), errors);
    }
    if new.int("generation").unwrap_or(0) < old.int("generation").unwrap_or(0) {
        errors.invalid(&path.child("generation"), new.at("generation").clone(), "must not be decremented");
    }
    for key in ["name", "namespace", "uid", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        errors.immutable(&path.child(key), new.at(key), old.at(key));
    }
    validate_parts(new, &path, errors);
}

fn validate_parts(meta: &Value, path: &Path<'_>, errors: &mut Errors) {
    validate_labels(meta, &path.child("labels"), errors);
    validate_annotations(meta, &path.child("annotations"), errors);
    validate_owners(meta.at("ownerReferences"), &path.child("ownerReferences"), errors);
    validate_managers(meta.list("managedFields"), &path.child("managedFields"), errors);
}

/// Checks a map of labels found at `labels` of the given object.
///
/// Also used for the labels of templates and selectors, with their own paths.
pub fn validate_labels(meta: &Value, path: &Path<'_>, errors: &mut Errors) {
    for (key, value) in meta.entries("labels") {
        errors.invalid_all(path, key, label_key_errors(key));
        let value = value.as_str().unwrap_or_default();
        errors.invalid_all(path, value, label_value_errors(value));
    }
}

/// Checks annotations found at `annotations` of the given object.
pub fn validate_annotations(meta: &Value, path: &Path<'_>, errors: &mut Errors) {
    let mut size = 0;
    for (key, value) in meta.entries("annotations") {
        size += key.len() + value.as_str().map_or(0, str::len);
        // Keys of annotations may have capitals in their prefix, unlike those of labels.
        let lower = key.to_ascii_lowercase();
        errors.invalid_all(path, key, label_key_errors(&lower));
    }
    if size > MAX_ANNOTATIONS {
        errors.too_long(path, MAX_ANNOTATIONS);
    }
}

/// At most one controller. Objects with two would be adopted by two controllers in turn.
fn validate_owners(owners: &Value, path: &Path<'_>, errors: &mut Errors) {
    let mut controller: Option<&Value> = None;
    for (index, owner) in owners.as_array().into_iter().flatten().enumerate() {
        validate_owner(owner, &path.index(index), errors);
        if owner.flag("controller") {
            if let Some(first) = controller {
                let named = |owner: &Value| format!("{}/{}", owner.text("kind"), owner.text("name"));
                let detail = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {} and {}",
                    named(first),
                    named(owner)
                );
                errors.invalid(path, owners.clone(), detail);
            } else {
                controller = Some(owner);
            }
        }
    }
}

/// Existence is not checked: the garbage collector handles owners that do not exist.
fn validate_owner(owner: &Value, path: &Path<'_>, errors: &mut Errors) {
    for key in ["apiVersion", "kind", "name", "uid"] {
        if owner.text(key).is_empty() {
            errors.required(&path.child(key), "must not be empty");
        } else if key == "apiVersion" && !is_group_version(owner.text(key)) {
            errors.invalid(&path.child(key), owner.text(key), "must be <group>/<version> or <version>");
        }
    }
    if owner.text("kind") == "Event" && matches!(owner.text("apiVersion"), "v1" | "events.k8s.io/v1") {
        let kind = match owner.text("apiVersion") {
            "v1" => "/v1, Kind=Event",
            _ => "events.k8s.io/v1, Kind=Event",
        };
        errors.invalid(path, owner.clone(), format!("{kind} is disallowed from being an owner"));
    }
}

/// A version, or a group and a version.
fn is_group_version(text: &str) -> bool {
    match text.split_once('/') {
        Some((_, version)) => !version.is_empty() && !version.contains('/'),
        None => true,
    }
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    fn fields(check: impl FnOnce(&mut Errors)) -> Vec<String> {
        let mut errors = Errors::new();
        check(&mut errors);
        errors.into_fields()
    }

    #[test]
    fn new_metadata_rules() {
        for (meta, namespaced, expected) in [
            (json!({"name": "a", "namespace": "n"}), true, vec![]),
            (json!({"namespace": "n"}), true, vec!["metadata.name"]),
            (json!({"name": "A", "namespace": "n"}), true, vec!["metadata.name"]),
            (json!({"name": "a"}), true, vec!["metadata.namespace"]),
            (json!({"name": "a", "namespace": "n"}), false, vec!["metadata.namespace"]),
            (json!({"name": "a", "generation": -1}), false, vec!["metadata.generation"]),
            (json!({"name": "a", "labels": {"bad key": "v"}}), false, vec!["metadata.labels"]),
            (json!({"name": "a", "finalizers": ["x y"]}), false, vec!["metadata.finalizers"]),
            (
                json!({"name": "a", "finalizers": ["orphan", "foregroundDeletion"]}),
                false,
                vec!["metadata.finalizers"],
            ),
            (
                json!({"name": "a", "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p"}]}),
                false,
                vec!["metadata.ownerReferences[0].uid"],
            ),
            (json!({"name": "a", "annotations": {"A.b/c": "x"}}), false, vec![]),
            (
                json!({"name": "a", "annotations": {"a": "x".repeat(262_145)}}),
                false,
                vec!["metadata.annotations"],
            ),
        ] {
            assert_eq!(
                fields(|errors| validate_new(&meta, namespaced, NameRule::Subdomain, errors)),
                expected,
                "{meta}"
            );
        }
    }

    #[test]
    fn finalizers_of_others_need_a_domain() {
        let meta = json!({"finalizers": ["a/b", "orphan", "mine"]});
        assert_eq!(fields(|errors| validate_qualified_finalizers(&meta, errors)), ["metadata.finalizers[2]"]);
        assert_eq!(unqualified_finalizers(&meta, None).len(), 1);
        assert_eq!(unqualified_finalizers(&meta, Some(&meta)), [""; 0]);
    }

    #[test]
    fn update_rules() {
        let old = json!({"name": "a", "uid": "u", "generation": 3, "deletionTimestamp": "t", "finalizers": ["a/b"]});
        for (change, expected) in [
            (json!({}), vec![]),
            (json!({"uid": "v"}), vec!["metadata.uid"]),
            (json!({"generation": 2}), vec!["metadata.generation"]),
            (json!({"finalizers": ["a/b", "c/d"]}), vec!["metadata.finalizers"]),
            (json!({"finalizers": []}), vec![]),
            (json!({"name": "b"}), vec!["metadata.name"]),
        ] {
            let mut new = old.clone();
            new.fields_mut().unwrap().extend(change.as_object().unwrap().clone());
            assert_eq!(fields(|errors| validate_update(&new, &old, errors)), expected, "{change}");
        }
    }

    #[test]
    fn metadata_left_out_by_a_client_is_carried_over() {
        let old = json!({"name": "a", "uid": "u", "creationTimestamp": "t0", "generation": 2, "deletionTimestamp": "t1", "deletionGracePeriodSeconds": 0});
        let mut new = json!({"name": "a", "creationTimestamp": "t9", "selfLink": "/x"});
        carry_over(new.as_object_mut().unwrap(), old.as_object().unwrap());
        assert_eq!(new, old);
    }

    #[test]
    fn repeated_owners_are_dropped_with_a_warning() {
        let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"});
        let mut meta = json!({"ownerReferences": [owner, owner]});
        let warning = drop_duplicate_owners(meta.as_object_mut().unwrap()).unwrap();
        assert!(warning.ends_with("duplicate UID(s) observed: u"));
        assert_eq!(meta.list("ownerReferences").len(), 1);
        assert_eq!(drop_duplicate_owners(meta.as_object_mut().unwrap()), None);
    }

    #[test]
    fn a_generated_name_fits_into_a_label() {
        assert_eq!(generated_name("gen-", [0, 1, 2, 3, 255]), "gen-bcdfq");
        assert_eq!(generated_name(&"x".repeat(100), [0; 5]).len(), 63);
    }
}
