//! [`Object`]: an object of the cluster as the cache keeps it: its bytes, and the few fields that every cache needs.
//!
//! A typed Kubernetes object takes eight times the memory of its JSON. So the JSON is what is kept, and shared by
//! everyone who holds the object; [`Object::get`] decodes it on first use. Key, resource version, identity and labels
//! are read without decoding.
//!
//! `K` is what it decodes to: a type of `k8s-openapi`, your own, `serde_json::Value`, or [`Raw`] for no matter.

mod metadata;
pub(crate) mod saved;
mod scan;

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use listwatch_wire::delta::DeltaEvent;
use listwatch_wire::json::raw;
use listwatch_wire::selector::LabelSelector;
use listwatch_wire::{ObjectKey, Revision};
use serde::de::DeserializeOwned;

pub use metadata::Owner;
use scan::FieldOffsets;
pub use scan::{Keep, ManagedFields};

/// The type of objects that are never decoded.
#[derive(Clone, Copy, Debug)]
pub enum Raw {}

/// The error of bytes that are not an object, or not one of the expected type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectError {
    /// Not a JSON object with metadata.
    #[error("not an object: {0}")]
    NotAnObject(&'static str),
    /// No name: it cannot be told from others.
    #[error("object without a name")]
    NoName,
    /// A resource version that is no decimal number: it cannot be put in order.
    #[error("object {0} with the resource version {1:?}, which is not a number")]
    BadVersion(ObjectKey, String),
    /// It does not decode to the type that was asked for.
    #[error("cannot decode {0}: {1}")]
    Decode(ObjectKey, String),
}

/// Shared by all handles on one version of an object.
struct ObjectInner {
    /// Set when somebody asks, or by the cache, which gives every version of an object the key of its first: a key is
    /// built once, however often the object changes.
    key: OnceLock<ObjectKey>,
    revision: Revision,
    /// A hash of the uid: enough to see that an object was deleted and created again. Zero without a uid.
    identity: u64,
    /// Name and namespace count only until there is a key.
    offsets: FieldOffsets,
    /// Owned alone and exactly as long as needed: a slice of a page or chunk would keep all of that in memory.
    json: Box<[u8]>,
    /// In a box, because most objects never have it.
    decoded: OnceLock<Box<Arc<dyn Any + Send + Sync>>>,
    /// The paths that a patch changed, if this version was made by one.
    changes: Option<Box<ChangedPaths>>,
}

/// The pointers to what differs from another version, one per line.
struct ChangedPaths {
    since: Revision,
    paths: Box<[u8]>,
}

/// One version of an object. Cheap to clone, immutable.
///
/// ```
/// use listwatch::object::Object;
/// use serde_json::{Value, json};
///
/// let object = Object::<Value>::from_value(&json!({
///     "metadata": {"namespace": "x", "name": "y", "resourceVersion": "7", "labels": {"app": "web"}},
///     "data": {"k": "v"}
/// }))?;
/// assert_eq!((object.name(), object.revision().0), ("y", 7));
/// assert_eq!(object.label("app").as_deref(), Some("web"));
/// assert_eq!(object.get()?["data"]["k"], "v");
/// # Ok::<(), listwatch::object::ObjectError>(())
/// ```
pub struct Object<K = Raw> {
    inner: Arc<ObjectInner>,
    kind: PhantomData<fn() -> K>,
}

impl<K> Clone for Object<K> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), kind: PhantomData }
    }
}

/// Without its content, which may be a secret.
impl<K> fmt::Debug for Object<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.key(), self.revision())
    }
}

/// Equal if it is the same version of the same object.
impl<K> PartialEq for Object<K> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner) || (self.key() == other.key() && self.same_version(other))
    }
}

impl<K> Eq for Object<K> {}

impl<K> Object<K> {
    /// Copies an encoded object out of wherever it is.
    ///
    /// # Errors
    /// When it is no object, has no name, or a resource version that is no number.
    pub fn from_json(json: &[u8], keep: Keep) -> Result<Self, ObjectError> {
        let header = scan::header(json)?;
        let (json, mut offsets) = scan::copy(json, &header, keep.managed_fields);
        offsets.keep_decoded = keep.decoded;
        let inner = ObjectInner {
            key: header.key.map(OnceLock::from).unwrap_or_default(),
            revision: header.revision,
            identity: header.identity,
            offsets,
            json,
            decoded: OnceLock::new(),
            changes: None,
        };
        Ok(Self { inner: Arc::new(inner), kind: PhantomData })
    }

    /// Encodes a value and keeps the result, with [`Keep::default`].
    ///
    /// # Errors
    /// As [`from_json`](Self::from_json).
    pub fn from_value(value: &impl serde::Serialize) -> Result<Self, ObjectError> {
        let json = serde_json::to_vec(value).map_err(|_| ObjectError::NotAnObject("it does not encode"))?;
        Self::from_json(&json, Keep::default())
    }

    /// The namespace and name. Built on first use and shared by all versions of the object in a cache.
    #[must_use]
    pub fn key(&self) -> &ObjectKey {
        self.inner.key.get_or_init(|| {
            // Both were read as text when the object was scanned.
            let text = |bytes| str::from_utf8(bytes).unwrap_or_default();
            let (namespace, name) = self.key_in_json();
            ObjectKey::namespaced(text(namespace), text(name))
        })
    }

    /// The namespace and name as bytes, to look for the object's key without building one.
    pub(crate) fn key_bytes(&self) -> (&[u8], &[u8]) {
        match self.inner.key.get() {
            Some(key) => (key.namespace().as_bytes(), key.name().as_bytes()),
            None => self.key_in_json(),
        }
    }

    fn key_in_json(&self) -> (&[u8], &[u8]) {
        let offsets = self.inner.offsets;
        (offsets.namespace(self.json()), offsets.name(self.json()))
    }

    /// Takes the key of an earlier version of the same object for its own, unless it has one.
    pub(crate) fn share_key(&self, key: &ObjectKey) {
        self.inner.key.get_or_init(|| key.clone());
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.key().name()
    }

    /// The namespace; empty for objects that have none.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.key().namespace()
    }

    /// The resource version as a number; zero if the object has none.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.inner.revision
    }

    /// The uid; empty if it has none.
    #[must_use]
    pub fn uid(&self) -> Cow<'_, str> {
        self.text(&["metadata", "uid"]).unwrap_or_default()
    }

    /// True if both have the same uid (or none): an object that was deleted and created again has another.
    #[must_use]
    pub fn same_identity<J>(&self, other: &Object<J>) -> bool {
        self.inner.identity == other.inner.identity
    }

    /// True if both are the same version of the same incarnation.
    #[must_use]
    pub fn same_version<J>(&self, other: &Object<J>) -> bool {
        self.revision() == other.revision() && self.same_identity(other)
    }

    /// True if both are the same version with the same encoded content. Versions can differ in content only if the
    /// history of the server was rewritten, as by restoring a backup.
    pub(crate) fn same_content(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner) || (self.same_version(other) && self.json() == other.json())
    }

    /// The object, encoded as the server sent it, but for parts that [`Keep`] left out.
    #[must_use]
    pub fn json(&self) -> &[u8] {
        &self.inner.json
    }

    /// The encoded value at a path of keys, without decoding anything: `["spec", "nodeName"]`.
    #[must_use]
    pub fn field(&self, path: &[&str]) -> Option<&[u8]> {
        raw::lookup(self.json(), path)
    }

    /// The text at a path of keys; nothing if there is none, or no text.
    #[must_use]
    pub fn text(&self, path: &[&str]) -> Option<Cow<'_, str>> {
        raw::unescape(self.field(path)?.strip_prefix(b"\"")?.strip_suffix(b"\"")?)
    }

    fn label_fields(&self) -> impl Iterator<Item = raw::RawField> {
        let at = self.inner.offsets.labels as usize;
        let fields = (at > 0).then(|| raw::fields(self.json(), at)).flatten();
        fields.into_iter().flatten()
    }

    fn text_at(&self, value: Range<usize>) -> Option<Cow<'_, str>> {
        raw::unescape(self.json().get(value)?.strip_prefix(b"\"")?.strip_suffix(b"\"")?)
    }

    /// The labels, read from the encoded object in its order.
    pub fn labels(&self) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
        self.label_fields().filter_map(|field| {
            Some((raw::unescape(self.json().get(field.key)?)?, self.text_at(field.value)?))
        })
    }

    /// The value of a label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<Cow<'_, str>> {
        let field = self.label_fields().find(|field| field.is(self.json(), key))?;
        self.text_at(field.value)
    }

    /// True if the labels match the selector. An empty selector matches every object.
    #[must_use]
    pub fn matches(&self, selector: &LabelSelector) -> bool {
        if selector.is_empty() {
            return true;
        }
        let labels: smallvec::SmallVec<[_; 8]> = self.labels().collect();
        selector.matches(|key| labels.iter().find(|(name, _)| name == key).map(|(_, value)| &**value))
    }

    /// The same object, seen as another type. Costs nothing; whether it decodes shows when it is decoded.
    #[must_use]
    pub fn cast<J>(self) -> Object<J> {
        Object { inner: self.inner, kind: PhantomData }
    }

    /// The same content at another resource version, as a deletion has it. The encoded form keeps its own.
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

    /// True if this is the object of that uid.
    pub(crate) fn is_of(&self, uid: &[u8]) -> bool {
        self.inner.identity == scan::identity(uid)
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

    /// The JSON pointers to what differs from the version before, if the server sent this version as a patch.
    pub fn changed_paths(&self) -> Option<impl Iterator<Item = &str>> {
        let changes = self.inner.changes.as_ref()?;
        let lines = changes.paths.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        Some(lines.filter_map(|line| str::from_utf8(line).ok()))
    }

    /// True if the value at a dotted path, such as `spec.replicas`, is not what it was in `old`. Costs next to nothing if this
    /// version came as a patch of `old`; else the two values are compared.
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

    /// The same object with other content, for transformations: key, resource version and identity stay what the
    /// server said, whatever is left of the metadata.
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
}

/// True if a change at a JSON pointer concerns a dotted path: one of the two is inside the other.
fn touches(pointer: &[u8], path: &str) -> bool {
    let Some(pointer) = pointer.strip_prefix(b"/") else { return false };
    let steps = pointer.split(|byte| *byte == b'/');
    steps.zip(path.split('.')).all(|(changed, asked)| changed == asked.as_bytes())
}

impl<K: DeserializeOwned + Send + Sync + 'static> Object<K> {
    /// The object, decoded once: the result is kept and shared. Without [`Keep::decoded`] each call decodes anew and the
    /// result is the caller's alone.
    ///
    /// # Errors
    /// [`ObjectError::Decode`] when it is not a `K`.
    pub fn get(&self) -> Result<Arc<K>, ObjectError> {
        let kept = self.inner.decoded.get().and_then(|any| Arc::clone(&**any).downcast().ok());
        if let Some(kept) = kept {
            return Ok(kept);
        }
        let decoded = serde_json::from_slice(self.json())
            .map_err(|error| ObjectError::Decode(self.key().clone(), error.to_string()))?;
        let decoded = Arc::new(decoded);
        if self.inner.offsets.keep_decoded {
            // Two who decode at the same time both have a good copy; one of them is kept.
            let _ = self.inner.decoded.set(Box::new(Arc::clone(&decoded) as _));
        }
        Ok(decoded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With its counts and what glibc adds, 128 bytes: there is one for each object.
    #[test]
    fn what_is_kept_beside_the_json_is_small() {
        assert_eq!(size_of::<ObjectInner>() + 2 * size_of::<usize>(), 120);
    }
}
