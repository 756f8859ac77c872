//! [`Object`]: an object of the cluster as the cache keeps it: its bytes, and the few fields that every cache needs.
//!
//! A typed Kubernetes object takes eight times the memory of its JSON. So the JSON is kept and shared by all holders of
//! the object; [`Object::get`] decodes it on first use. Key, resource version, identity and labels are read without
//! decoding.
//!
//! `K` is the type it decodes to: a type of `k8s-openapi`, your own, `serde_json::Value`, or [`Raw`] if it is not
//! decoded.

mod metadata;
pub(crate) mod saved;
mod scan;
mod versions;

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use listwatch_wire::json::raw;
use listwatch_wire::selector::LabelSelector;
use listwatch_wire::{ObjectKey, Revision};
use serde::de::DeserializeOwned;

pub use metadata::Owner;
use scan::FieldOffsets;
pub use scan::{Keep, ManagedFields};
use versions::ChangedPaths;

/// The type of objects that are never decoded. It has no values: an `Object<Raw>` has bytes and metadata only.
#[derive(Clone, Copy, Debug)]
pub enum Raw {}

/// The error of bytes that are not an object, or not one of the expected type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectError {
    /// Not a JSON object with metadata.
    #[error("not an object: {0}")]
    NotAnObject(&'static str),
    /// No name, so that it cannot be identified.
    #[error("object without a name")]
    NoName,
    /// A resource version that is not a decimal number: it cannot be put in order.
    #[error("object {0} with the resource version {1:?}, which is not a number")]
    BadVersion(ObjectKey, String),
    /// It does not decode to the requested type.
    #[error("cannot decode {0}: {1}")]
    Decode(ObjectKey, String),
}

/// Shared by all handles on one version of an object.
struct ObjectInner {
    /// Set on first use, or by the cache, which shares the key of an object's first version with all later ones: a key is built
    /// once, however often the object changes.
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

/// One version of an object. Cheap to clone, immutable.
///
/// `K` is a promise about the content that is checked when [`get`](Self::get) decodes it, and costs nothing before.
/// Two objects are equal if they are the same version of the same incarnation; contents are not compared. `Debug`
/// prints the key and the version only, because the content may be a Secret.
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
/// // A field can be read without decoding the object.
/// assert_eq!(object.text(&["data", "k"]).as_deref(), Some("v"));
/// assert_eq!(format!("{object:?}"), "x/y@7");
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
    /// Copies an encoded object out of a larger buffer, so that keeping the object does not keep the page or chunk
    /// that it came in.
    ///
    /// # Errors
    /// [`ObjectError`] if it is not an object, has no name, or a resource version that is not a number.
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

    /// True if both have the same uid, or neither has one. An object that was deleted and created again under its
    /// name has another uid. Hashes of 64 bits are compared, not the texts.
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

    /// Returns the encoded value at a path of keys, such as `["spec", "nodeName"]`, without decoding anything. The
    /// cost is that of skipping the fields before it.
    #[must_use]
    pub fn field(&self, path: &[&str]) -> Option<&[u8]> {
        raw::lookup(self.json(), path)
    }

    /// Returns the text at a path of keys; none if there is no value or it is not a string.
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

    /// Returns the same object, seen as another type. Costs nothing; whether it decodes shows when it is decoded.
    #[must_use]
    pub fn cast<J>(self) -> Object<J> {
        Object { inner: self.inner, kind: PhantomData }
    }

    /// True if this is the object of that uid.
    pub(crate) fn is_of(&self, uid: &[u8]) -> bool {
        self.inner.identity == scan::identity(uid)
    }
}

impl<K: DeserializeOwned + Send + Sync + 'static> Object<K> {
    /// The object, decoded once: the result is kept and shared. Without [`Keep::decoded`] each call decodes again and the
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
            // Of two concurrent decodes, one result is kept.
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
    fn the_overhead_beside_the_json_is_small() {
        assert_eq!(size_of::<ObjectInner>() + 2 * size_of::<usize>(), 120);
    }
}
