//! Metadata that controllers read often, read from the encoded object without decoding the rest.
//!
//! Each getter scans the metadata again: it costs less than a decode, but a loop over many fields of one object is
//! cheaper with [`Object::get`]. Name, namespace, labels and resourceVersion are found once, when the object enters the
//! cache, and are not here but in `scan`. Malformed entries are left out rather than reported, as in an untyped Go
//! client.

use std::borrow::Cow;

use listwatch_wire::json::raw;
use serde::Deserialize;

use super::Object;

/// An entry of `metadata.ownerReferences`.
///
/// ```
/// use listwatch::object::Object;
/// use serde_json::{Value, json};
///
/// let pod = Object::<Value>::from_value(&json!({"metadata": {
///     "name": "web-0", "generation": 3, "finalizers": ["example.com/clean-up"],
///     "annotations": {"team": "red"},
///     "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "1", "controller": true}],
/// }}))?;
/// let owner = pod.controller_owner().ok_or("no owner")?;
/// assert_eq!((owner.group(), owner.kind.as_str(), owner.name.as_str()), ("apps", "StatefulSet", "web"));
/// assert_eq!((pod.generation(), pod.annotation("team").as_deref()), (Some(3), Some("red")));
/// assert_eq!(pod.finalizers(), ["example.com/clean-up"]);
/// assert!(!pod.is_deleting());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
#[doc(alias = "OwnerReference")]
pub struct Owner {
    /// Group and version of the owner: `apps/v1`.
    pub api_version: String,
    /// Kind of the owner.
    pub kind: String,
    /// Name of the owner, which is in the same namespace or in none.
    pub name: String,
    /// The uid of the owner.
    #[serde(default)]
    pub uid: String,
    /// True if the owner is the one that manages the object.
    #[serde(default)]
    pub controller: bool,
}

impl Owner {
    /// The group of the owner; empty for the core group.
    #[must_use]
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }
}

impl<K> Object<K> {
    fn metadata(&self, field: &str) -> Option<&[u8]> {
        self.field(&["metadata", field])
    }

    /// The generation, which the server counts up whenever the desired state changes; none if the kind has none.
    #[must_use]
    pub fn generation(&self) -> Option<i64> {
        std::str::from_utf8(self.metadata("generation")?).ok()?.parse().ok()
    }

    /// The annotations, read from the encoded object. Values that are not text are left out.
    pub fn annotations(&self) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
        let at = self.metadata("annotations").unwrap_or_default();
        raw::fields(at, 0).into_iter().flatten().filter_map(move |field| {
            let text = at.get(field.value)?.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
            Some((raw::unescape(at.get(field.key)?)?, raw::unescape(text)?))
        })
    }

    /// The value of an annotation.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<Cow<'_, str>> {
        self.text(&["metadata", "annotations", key])
    }

    /// The owners. Entries that are not owner references are left out.
    #[must_use]
    pub fn owners(&self) -> Vec<Owner> {
        let entries =
            self.metadata("ownerReferences").map(serde_json::from_slice::<Vec<&serde_json::value::RawValue>>);
        let entries = entries.and_then(Result::ok).unwrap_or_default();
        entries.into_iter().filter_map(|entry| serde_json::from_str(entry.get()).ok()).collect()
    }

    /// The owner whose reference has `controller: true`; there is at most one.
    #[must_use]
    #[doc(alias = "GetControllerOf")]
    pub fn controller_owner(&self) -> Option<Owner> {
        self.owners().into_iter().find(|owner| owner.controller)
    }

    /// The finalizers, in their order. Empty if there are none or they are malformed.
    #[must_use]
    pub fn finalizers(&self) -> Vec<String> {
        self.metadata("finalizers").and_then(|json| serde_json::from_slice(json).ok()).unwrap_or_default()
    }

    /// True if it has this finalizer.
    #[must_use]
    pub fn has_finalizer(&self, name: &str) -> bool {
        self.finalizers().iter().any(|finalizer| finalizer == name)
    }

    /// The time at which its deletion was requested, in RFC 3339.
    #[must_use]
    pub fn deletion_timestamp(&self) -> Option<Cow<'_, str>> {
        self.text(&["metadata", "deletionTimestamp"])
    }

    /// True if its deletion was requested and it waits for its finalizers.
    #[must_use]
    pub fn is_deleting(&self) -> bool {
        self.deletion_timestamp().is_some()
    }

    /// When it was created, as RFC 3339 has it.
    #[must_use]
    pub fn creation_timestamp(&self) -> Option<Cow<'_, str>> {
        self.text(&["metadata", "creationTimestamp"])
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use serde_json::json;

    use crate::object::{Object, Raw};

    #[test]
    fn metadata_is_read_where_it_stands() {
        let object = Object::<Raw>::from_value(&json!({"metadata": {
            "name": "a", "generation": 7, "deletionTimestamp": "2026-01-01T00:00:00Z", "creationTimestamp": null,
            "annotations": {"x/y": "a \"b\"", "n": null},
            "finalizers": ["one", "two"],
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "1"}, 5, {"kind": "half"},
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "2", "controller": true},
            ],
        }})).unwrap();
        assert_eq!(object.generation(), Some(7));
        assert!(object.is_deleting() && object.creation_timestamp().is_none());
        assert_eq!(object.annotations().collect::<Vec<_>>(), [("x/y".into(), "a \"b\"".into())]);
        assert_eq!(object.annotation("x/y").as_deref(), Some("a \"b\""));
        assert!(object.has_finalizer("two") && !object.has_finalizer("three"));
        assert_eq!(object.owners().len(), 2);
        let owner = object.controller_owner().unwrap();
        assert_eq!((owner.group(), owner.kind.as_str(), owner.name.as_str()), ("apps", "ReplicaSet", "r"));
    }

    #[test]
    fn an_object_without_any_has_none() {
        let object =
            Object::<Raw>::from_value(&json!({"metadata": {"name": "a", "finalizers": null}})).unwrap();
        assert!(object.generation().is_none() && !object.is_deleting());
        assert!(object.annotations().next().is_none() && object.annotation("a").is_none());
        assert!(object.finalizers().is_empty() && object.owners().is_empty());
    }
}
