//! [`KindVersions`]: the API versions that entries of `managedFields` can name.
//!
//! kube-apiserver converts an object to the version of each entry to compare the two. It drops entries of versions that a built-in kind
//! does not have, such as one that a release removed. Where the conversion fails in another way, which it does for all unknown versions
//! of custom kinds, the record stays as it is stored. The entries themselves are in `record`.

use listwatch_wire::gvk::GroupVersion;

use super::record::ManagerEntry;

/// The API versions of a kind, as entries of `managedFields` name them.
#[derive(Clone, Debug)]
pub struct KindVersions {
    /// `group/version` of each; empty if any version will do.
    known: Vec<String>,
    is_custom: bool,
}

impl KindVersions {
    /// The versions of a kind that is not known: entries can name any.
    #[must_use]
    pub fn any() -> &'static Self {
        static ANY: KindVersions = KindVersions { known: Vec::new(), is_custom: false };
        &ANY
    }

    /// The versions of a built-in kind.
    #[must_use]
    pub fn builtin(known: Vec<String>) -> Self {
        Self { known, is_custom: false }
    }

    /// The versions of a custom kind.
    #[must_use]
    pub fn custom(known: Vec<String>) -> Self {
        Self { known, is_custom: true }
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
        self.known.is_empty() || self.known.iter().any(|known| *known == *entry.api_version)
    }

    /// An unknown version is an error of the conversion if it cannot be parsed, or is empty like the group of a core kind.
    fn is_fatal(&self, version: &str) -> bool {
        let is_core = self.known.iter().all(|known| !known.contains('/'));
        self.is_custom || version.is_empty() && is_core || version.parse::<GroupVersion>().is_err()
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

    #[test]
    fn a_version_that_cannot_be_converted_to_leaves_the_stored_record() {
        let stored = json!({"metadata": {"managedFields": [{"manager": "stored", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": {"f:y": {}}}]}});
        let core = KindVersions::builtin(vec!["v1".to_owned()]);
        assert_eq!(managers(&core, "", Some(&stored)), ["stored"]);
        let custom = KindVersions::custom(vec!["g/v1".to_owned(), "g/v2".to_owned()]);
        assert_eq!(managers(&custom, "g/v2", Some(&stored)), ["x", "me"]);
        assert_eq!(managers(&custom, "v1", Some(&stored)), ["stored"]);
        assert!(managers(&custom, "v1", None).is_empty());
    }
}
