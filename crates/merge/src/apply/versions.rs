//! [`KindVersions`]: the API versions that entries of `managedFields` can name.
//!
//! kube-apiserver converts an object to the version of each entry to compare the two. It drops entries of versions that
//! a built-in kind does not have, such as one that a release removed. Where the conversion fails in another way, which
//! it does for all unknown versions of custom kinds, the record stays as it is stored. So does an object of a custom
//! kind with a field that the version of an entry does not have, and it cannot be applied to. The entries themselves
//! are in `record`.

use std::collections::HashSet;
use std::fmt::Debug;
use std::sync::{Arc, LazyLock};

use listwatch_json::Value;
use listwatch_wire::gvk::GroupVersion;

use super::extract;
use super::record::{self, ManagerEntry};
use crate::patch::MergeSchema;

/// The API versions of a kind, as entries of `managedFields` name them. A copy shares them.
#[derive(Clone, Debug)]
pub struct KindVersions {
    /// `group/version` of each; empty if any version will do.
    known: Arc<[String]>,
    /// The names of the versions, for lookups: there may be thousands of versions and of entries.
    names: Arc<HashSet<String>>,
    /// The schemas of the versions, in their order; empty if objects of all versions have the same fields.
    schemas: Arc<[Arc<dyn VersionSchema>]>,
    is_custom: bool,
}

/// The schema of one version of a kind, as far as entries of that version need it.
pub trait VersionSchema: Debug + Send + Sync {
    /// Returns the first field of an object that the version does not have, as an error; see [`undeclared_field`].
    fn undeclared_field(&self, object: &Value) -> Option<String>;
}

/// Returns the error about the first field of an object that a schema does not declare.
#[must_use]
pub fn undeclared_field<S: MergeSchema>(object: &Value, schema: S) -> Option<String> {
    let mut plain = object.clone();
    record::remove(&mut plain);
    let errors = extract::check(&plain, schema).err().unwrap_or_default();
    errors.into_iter().find(|error| error.ends_with(extract::UNDECLARED))
}

impl KindVersions {
    /// The versions of a kind that is not known: entries can name any.
    #[must_use]
    pub fn any() -> &'static Self {
        static ANY: LazyLock<KindVersions> = LazyLock::new(|| KindVersions::builtin(Vec::new()));
        &ANY
    }

    /// The versions of a built-in kind.
    #[must_use]
    pub fn builtin(known: Vec<String>) -> Self {
        let names = Arc::new(known.iter().cloned().collect());
        Self { names, known: known.into(), schemas: Arc::new([]), is_custom: false }
    }

    /// The versions of a custom kind.
    #[must_use]
    pub fn custom(known: Vec<String>) -> Self {
        Self { is_custom: true, ..Self::builtin(known) }
    }

    /// Sets the schemas of the versions, in their order, if these are converted by name only.
    #[must_use]
    pub fn with_schemas(self, schemas: Vec<Arc<dyn VersionSchema>>) -> Self {
        Self { schemas: schemas.into(), ..self }
    }

    /// True for a custom kind.
    pub(super) fn is_custom(&self) -> bool {
        self.is_custom
    }

    /// Returns the error of converting the objects before and after a write of one version to the version of an entry.
    pub(super) fn conversion_error(
        &self,
        entries: &[ManagerEntry],
        written: &str,
        (before, after): (&Value, &Value),
    ) -> Option<String> {
        // By version: there may be thousands of entries.
        let of_entries: HashSet<&str> = entries.iter().map(|entry| entry.api_version.as_str()).collect();
        let all = self.known.iter().map(String::as_str).zip(self.schemas.iter());
        let named: Vec<_> =
            all.filter(|(known, _)| *known != written && of_entries.contains(known)).collect();
        let checked = checked_versions(named.len(), after);
        named.into_iter().take(checked).find_map(|(_, schema)| {
            let error = |which: &str, object: &Value| {
                let why = schema.undeclared_field(object)?;
                Some(format!("failed to convert {which} object: {why}"))
            };
            error("old", before).or_else(|| error("new", after))
        })
    }

    /// Returns the error of an entry of a version that a custom kind does not have.
    pub(super) fn missing_version(&self, entries: &[ManagerEntry]) -> Option<String> {
        let missing = entries.iter().find(|entry| self.is_custom && !self.has(entry))?;
        Some(format!("request to convert CR to an invalid group/version: {}", missing.api_version))
    }

    /// Returns true if kube-apiserver fails to record ownership because of one of these entries.
    pub(super) fn fail_on(&self, entries: &[ManagerEntry]) -> bool {
        entries.iter().any(|entry| !self.has(entry) && self.is_fatal(&entry.api_version))
    }

    /// Drops the entries of versions that the kind does not have.
    pub(super) fn retain(&self, entries: &mut Vec<ManagerEntry>) {
        entries.retain(|entry| self.has(entry));
    }

    fn has(&self, entry: &ManagerEntry) -> bool {
        self.known.is_empty() || self.names.contains(entry.api_version.as_str())
    }

    /// An unknown version is an error of the conversion if it cannot be parsed, or is empty like the group of a core kind.
    fn is_fatal(&self, version: &str) -> bool {
        let is_core = self.known.iter().all(|known| !known.contains('/'));
        self.is_custom || version.is_empty() && is_core || version.parse::<GroupVersion>().is_err()
    }
}

/// Versions whose schema is always compared with the object.
const ALWAYS_CHECKED: usize = 8;

/// The most values that are compared with the schemas of further versions, all together.
const MAX_CHECKED_VALUES: usize = 1_000_000;

/// Returns how many of the versions that entries name are compared with the object. With the others the record is kept as if they
/// had all of its fields; the entries of an object may name all versions of its kind, which would multiply its size.
fn checked_versions(named: usize, object: &Value) -> usize {
    if named <= ALWAYS_CHECKED {
        return named;
    }
    ALWAYS_CHECKED.max(MAX_CHECKED_VALUES / values_in(object))
}

/// The values in an object, itself included.
fn values_in(value: &Value) -> usize {
    1 + match value {
        Value::Object(fields) => fields.values().map(values_in).sum(),
        Value::Array(items) => items.iter().map(values_in).sum(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use listwatch_json::{Value, json};

    use super::super::{FieldManager, FieldSet};
    use super::*;
    use crate::patch::Schemaless;

    fn managers(versions: &KindVersions, given: &str, live: Option<&Value>) -> Vec<String> {
        let mut new = json!({"metadata": {"managedFields": [
            {"manager": "x", "operation": "Update", "apiVersion": given, "fieldsType": "FieldsV1", "fieldsV1": {"f:x": {}}},
        ]}, "size": 1});
        let manager = FieldManager {
            schema: Schemaless,
            zero: &json!({"metadata": {}}),
            ignored: &FieldSet::new(),
            versions,
            manager: "me",
            api_version: "g/v1",
            subresource: "",
            now: "2026-01-01T00:00:00Z",
        };
        manager.update(live, &mut new);
        let entries = new["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        entries.iter().map(|entry| entry["manager"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Entries of other versions once stayed, and made every later apply compare with them.
    #[test]
    fn a_built_in_kind_drops_entries_of_versions_it_does_not_have() {
        let versions = KindVersions::builtin(vec!["g/v1".to_owned()]);
        assert_eq!(managers(&versions, "g/v1", None), ["x", "me"]);
        assert_eq!(managers(&versions, "g/v1beta1", None), ["me"]);
        assert_eq!(managers(&versions, "", None), ["me"]);
        assert!(managers(&versions, "a/b/c", None).is_empty());
    }

    /// A small patch of a large object took as long as there were versions in its record.
    #[test]
    fn many_versions_of_a_large_object_are_not_all_checked() {
        assert_eq!(checked_versions(3, &json!([])), 3);
        assert_eq!(checked_versions(3000, &json!(vec![1; 300_000])), ALWAYS_CHECKED);
        assert!(checked_versions(3000, &json!({"size": 1})) > 3000);
    }

    #[test]
    fn a_version_that_cannot_be_converted_to_leaves_the_stored_record() {
        let stored = json!({"metadata": {"managedFields": [{"manager": "stored", "operation": "Update", "apiVersion": "g/v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:y": {}}}]}});
        // An entry without a version is ignored, and the stored record is kept.
        let builtin = KindVersions::builtin(vec!["g/v1".to_owned()]);
        assert_eq!(managers(&builtin, "", Some(&stored)), ["stored", "me"]);
        let custom = KindVersions::custom(vec!["g/v1".to_owned(), "g/v2".to_owned()]);
        assert_eq!(managers(&custom, "g/v2", Some(&stored)), ["x", "me"]);
        assert_eq!(managers(&custom, "v1", Some(&stored)), ["stored"]);
        assert!(managers(&custom, "v1", None).is_empty());
    }
}
