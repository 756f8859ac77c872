//! Versions of an object derived from another version by a patch, a transformation or a deletion, and the paths in
//! which they differ.
//!
//! Key and identity never change between versions of an object and are copied rather than read again. A version made by a
//! patch keeps the paths of the patch, so that a predicate over a field needs no comparison.

use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

use listwatch_wire::Revision;
use listwatch_wire::delta::DeltaEvent;

use super::scan::{self, FieldOffsets};
use super::{Object, ObjectError, ObjectInner};

/// The pointers to what differs from another version, one per line.
pub(super) struct ChangedPaths {
    pub(super) since: Revision,
    pub(super) paths: Box<[u8]>,
}

impl<K> Object<K> {
    /// Returns the content at another resource version, as a deletion has it. The encoded form keeps its own.
    pub(crate) fn with_revision(&self, revision: Revision) -> Self {
        let from = &*self.inner;
        let inner = ObjectInner {
            key: OnceLock::from(self.key().clone()),
            revision,
            identity: from.identity,
            offsets: from.offsets,
            json: from.json.clone(),
            decoded: from.decoded.clone(),
            changes: None,
        };
        Self { inner: Arc::new(inner), kind: PhantomData }
    }

    /// The version that a patch makes of this one. What cannot change is taken over, not read again.
    pub(crate) fn patched(&self, json: Vec<u8>, delta: &DeltaEvent<'_>) -> Self {
        let mut paths = Vec::new();
        // Of the metadata, only the record of field owners comes after the labels.
        let mut moved = false;
        for path in delta.paths() {
            moved |= path.starts_with(b"/metadata/") && !path.starts_with(b"/metadata/managedFields");
            paths.extend_from_slice(path);
            paths.push(b'\n');
        }
        let from = &*self.inner;
        let inner = ObjectInner {
            key: OnceLock::from(self.key().clone()),
            revision: delta.revision,
            identity: from.identity,
            offsets: FieldOffsets::without_key(self.labels_in(&json, moved), from.offsets.keep_decoded),
            json: json.into_boxed_slice(),
            decoded: OnceLock::new(),
            changes: Some(Box::new(ChangedPaths { since: delta.base, paths: paths.into_boxed_slice() })),
        };
        Self { inner: Arc::new(inner), kind: PhantomData }
    }

    /// The offset of the labels in the next version. It is unchanged unless the metadata before them has changed its
    /// length.
    fn labels_in(&self, json: &[u8], moved: bool) -> u32 {
        let at = self.inner.offsets.labels;
        let before =
            |json: &[u8]| json.get(..at as usize).is_some_and(|before| before.ends_with(b"\"labels\":"));
        if !moved && (at == 0 || (before(self.json()) && before(json))) { at } else { scan::labels_at(json) }
    }

    /// Returns the object with other content, for transformations. Key, resource version and identity stay those that the
    /// server sent, even if the metadata was stripped.
    ///
    /// ```
    /// use listwatch::{Object, Raw};
    /// use serde_json::json;
    ///
    /// let secret = json!({"metadata": {"name": "a", "resourceVersion": "5"}, "data": {"password": "eA=="}});
    /// let secret = Object::<Raw>::from_value(&secret)?;
    /// let kept = secret.with_value(&json!({"metadata": {"name": "a"}}))?;
    /// assert_eq!(kept.revision(), secret.revision());
    /// assert!(kept.changed_since(&secret, "data"));
    /// # Ok::<(), listwatch::object::ObjectError>(())
    /// ```
    ///
    /// # Errors
    /// When the value does not encode.
    pub fn with_value(&self, value: &impl serde::Serialize) -> Result<Self, ObjectError> {
        let json = serde_json::to_vec(value).map_err(|_| ObjectError::NotAnObject("it does not encode"))?;
        let from = &*self.inner;
        let inner = ObjectInner {
            key: OnceLock::from(self.key().clone()),
            revision: from.revision,
            identity: from.identity,
            offsets: FieldOffsets::without_key(scan::labels_at(&json), from.offsets.keep_decoded),
            json: json.into_boxed_slice(),
            decoded: OnceLock::new(),
            changes: None,
        };
        Ok(Self { inner: Arc::new(inner), kind: PhantomData })
    }

    /// The JSON pointers to what differs from the version before, if the server sent this version as a patch.
    pub fn changed_paths(&self) -> Option<impl Iterator<Item = &str>> {
        let changes = self.inner.changes.as_ref()?;
        let lines = changes.paths.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        Some(lines.filter_map(|line| str::from_utf8(line).ok()))
    }

    /// True if the value at a dotted path, such as `spec.replicas`, differs from that in `old`. This is cheap if this version
    /// was made by a patch of `old`; otherwise the two values are compared.
    #[must_use]
    pub fn changed_since(&self, old: &Self, path: &str) -> bool {
        match &self.inner.changes {
            Some(changes) if changes.since == old.revision() => {
                changes.paths.split(|byte| *byte == b'\n').any(|changed| touches(changed, path))
            }
            _ => {
                let steps: smallvec::SmallVec<[&str; 8]> = path.split('.').collect();
                self.field(&steps) != old.field(&steps)
            }
        }
    }
}

/// True if a change at a JSON pointer concerns a dotted path: one of the two is inside the other.
fn touches(pointer: &[u8], path: &str) -> bool {
    let Some(pointer) = pointer.strip_prefix(b"/") else { return false };
    let steps = pointer.split(|byte| *byte == b'/');
    steps.zip(path.split('.')).all(|(changed, asked)| changed == asked.as_bytes())
}
