//! [`Stages`]: the steps from a stored custom object to the requested version.
//!
//! Stored objects are defaulted by the schema of the version they are stored in; then fields that the requested version does not
//! have are pruned. The defaults of the requested version apply to writes only, not to reads. Between the two, versions are
//! converted by name only (the conversion strategy `None`), or by a webhook (`conversion.rs`, which is asynchronous and calls the
//! stages one by one).

use std::sync::Arc;

use listwatch_custom::{Definition, DefinitionVersion, Schema, fill, prune};
use listwatch_wire::json;
use listwatch_wire::json::Value;

/// The schemas that a stored object passes on its way out.
///
/// Schemas are shared with the definition; a version holds those of all others, since any of them may be what is
/// stored.
#[derive(Clone, Debug)]
pub(super) struct Stages {
    /// `group/version` of the requested version.
    api_version: String,
    schema: Arc<Schema>,
    /// All versions, by their `group/version`.
    all: VersionSchemas,
}

/// The schemas of all versions of a definition, by their `group/version`. Shared by its versions, of which there may be
/// thousands.
pub(super) type VersionSchemas = Arc<[(String, Arc<Schema>)]>;

/// Collects the schemas of all versions of a definition.
pub(super) fn version_schemas(definition: &Definition) -> VersionSchemas {
    let named = |version: &DefinitionVersion| format!("{}/{}", definition.group, version.name);
    definition.versions.iter().map(|version| (named(version), Arc::clone(&version.schema))).collect()
}

impl Stages {
    /// The stages of a version. All versions are needed, since an object may be read in one and stored in another.
    pub(super) fn new(definition: &Definition, version: &DefinitionVersion, all: &VersionSchemas) -> Self {
        let api_version = format!("{}/{}", definition.group, version.name);
        Self { api_version, schema: Arc::clone(&version.schema), all: Arc::clone(all) }
    }

    /// Returns true if stored bytes are of this version already.
    ///
    /// Reads the first bytes of the object, so that lists of the stored version parse nothing.
    pub(super) fn stored_alike(&self, stored: &[u8]) -> bool {
        let found = json::raw::lookup(stored, &["apiVersion"]).unwrap_or_default();
        self.all.len() == 1
            || found.strip_prefix(b"\"").and_then(|found| found.strip_suffix(b"\""))
                == Some(self.api_version.as_bytes())
    }

    /// Converts an object of this version to the stored version: unknown fields are pruned, defaults of the stored
    /// version added.
    pub(super) fn store(&self, object: &mut Value, stored_as: &str) {
        if stored_as != self.api_version {
            rename(object, stored_as);
            self.accept(object, stored_as, true);
        }
    }

    /// Prunes unknown fields of a converted object, and adds the defaults of its version if `defaults` is set.
    pub(super) fn accept(&self, object: &mut Value, version: &str, defaults: bool) {
        let Some((_, schema)) = self.all.iter().find(|(name, _)| name == version) else { return };
        prune(schema, object);
        if defaults {
            fill(schema, object);
        }
    }

    /// Completes a stored object by the version it is stored in, if the schema may have changed since.
    ///
    /// `old` is false for objects written since the definition last changed, which are complete already.
    pub(super) fn complete(&self, object: &mut Value, old: bool) {
        if old {
            let stored_as = object.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
            let stored = self.all.iter().find(|(name, _)| name == stored_as).map(|(_, schema)| schema);
            let schema = Arc::clone(stored.unwrap_or(&self.schema));
            prune(&schema, object);
            fill(&schema, object);
        }
    }

    /// Makes a stored object one of this version. `old` is true if its schema may have changed since it was stored.
    pub(super) fn show(&self, object: &mut Value, old: bool) {
        let stored_as = object.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
        let alike = stored_as == self.api_version;
        self.complete(object, old);
        if !alike {
            prune(&self.schema, object);
            rename(object, &self.api_version);
        }
    }
}

/// Sets another version: conversion without a webhook changes nothing else.
fn rename(object: &mut Value, api_version: &str) {
    if let Some(fields) = object.as_object_mut() {
        fields.insert("apiVersion".to_owned(), api_version.into());
    }
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    fn definition() -> Definition {
        let version = |name: &str, storage: bool, field: &str| {
            json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": {"type": "object",
                "properties": {"spec": {"type": "object", "properties": {"shared": {"type": "string"},
                    field: {"type": "string", "default": field}}}}}}})
        };
        Definition::read(
            &json!({"metadata": {"name": "widgets.example.test"}, "spec": {"group": "example.test",
            "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [version("v1", true, "one"), version("v2", false, "two")]}}),
        )
        .unwrap()
    }

    #[test]
    fn another_version_drops_what_it_does_not_know_and_adds_nothing() {
        let definition = definition();
        let stages = Stages::new(&definition, &definition.versions[1], &version_schemas(&definition));
        let mut object = json!({"apiVersion": "example.test/v1", "spec": {"shared": "s", "one": "x"}});
        stages.show(&mut object, false);
        assert_eq!(object, json!({"apiVersion": "example.test/v2", "spec": {"shared": "s"}}));
    }

    #[test]
    fn objects_of_another_version_are_pruned_by_the_stored_version() {
        let definition = definition();
        let stages = Stages::new(&definition, &definition.versions[1], &version_schemas(&definition));
        let mut object = json!({"apiVersion": "example.test/v2", "spec": {"shared": "s", "two": "two"}});
        stages.store(&mut object, "example.test/v1");
        assert_eq!(object, json!({"apiVersion": "example.test/v1", "spec": {"shared": "s", "one": "one"}}));
    }

    #[test]
    fn an_old_object_is_completed_by_the_version_it_is_stored_in() {
        let definition = definition();
        let stages = Stages::new(&definition, &definition.versions[0], &version_schemas(&definition));
        let mut object = json!({"apiVersion": "example.test/v1", "spec": {"gone": "x"}});
        stages.show(&mut object, true);
        assert_eq!(object, json!({"apiVersion": "example.test/v1", "spec": {"one": "one"}}));
        assert!(stages.stored_alike(br#"{"kind":"Widget","apiVersion":"example.test/v1"}"#));
        assert!(!stages.stored_alike(br#"{"kind":"Widget","apiVersion":"example.test/v2"}"#));
    }
}
