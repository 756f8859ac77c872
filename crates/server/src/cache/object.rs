//! [`CachedObject`]: one version of one object, as the bytes that are stored.
//!
//! Beside the bytes there are offsets into them: the name, the labels, the place of the resourceVersion, indexed
//! fields. Lists and watches copy bytes and never decode an object; only writes and expressions parse it.

use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use listwatch_wire::Revision;
use listwatch_wire::delta::Outline;
use listwatch_wire::json::raw::{self, scalar};
use memchr::memmem;
use once_cell::race::OnceBox;

use crate::cache::snapshot::IndexedField;

/// One version of one object.
///
/// The bytes are the ones the store holds, shared with it, and they do not have the resourceVersion: it goes in while
/// the object is written out. That costs nothing, as the bytes are copied into an output buffer then anyway, and it
/// halves the memory of a store in memory.
#[derive(Debug)]
pub struct CachedObject {
    /// The storage key, shared with the store and the indexes.
    key: Arc<str>,
    /// The stored bytes, shared with the store where that keeps them in memory.
    value: Bytes,
    /// The revision of the write: the resourceVersion, which is not in `value`. Zero for an object that is computed on
    /// request.
    revision: Revision,
    /// Offset of `namespace/name`, or `name`, in the key.
    path: u16,
    /// Offset of the name in the key.
    name: u16,
    /// Offset of the key `metadata`; kind and apiVersion are before it.
    type_end: u32,
    /// Offset at which the resourceVersion is inserted: just after the name.
    splice: u32,
    /// Offset of the labels in the value; zero if there are none.
    labels: u32,
    /// Ranges of the values of the indexed fields; empty for most kinds.
    indexed: Box<[Option<(u32, u32)>]>,
    /// The outline of the value, once it was compared for a delta watch. One word: nearly all objects have none.
    outline: OnceBox<Outline>,
}

impl CachedObject {
    /// Looks at a stored value. `None` if it is not an object that this server wrote.
    #[must_use]
    pub fn new(key: Arc<str>, path: usize, value: Bytes, revision: Revision) -> Option<Self> {
        let (type_end, metadata) = metadata(&value)?;
        let (labels, splice) = labels_and_splice(&value, metadata)?;
        let name = key.get(path..)?.rfind('/').map_or(path, |slash| path + slash + 1);
        Some(Self {
            path: u16::try_from(path).ok()?,
            name: u16::try_from(name).ok()?,
            type_end: u32::try_from(type_end).ok()?,
            splice: u32::try_from(splice).ok()?,
            labels: u32::try_from(labels).ok()?,
            indexed: Box::default(),
            outline: OnceBox::new(),
            key,
            value,
            revision,
        })
    }

    /// Finds the values of the indexed fields once: every change of an index needs them.
    #[must_use]
    pub(super) fn with_indexed(mut self, fields: &[IndexedField]) -> Self {
        let place = |field: &IndexedField| {
            let value = self.place(&field.path)?;
            Some((u32::try_from(value.start).ok()?, u32::try_from(value.end).ok()?))
        };
        self.indexed = fields.iter().map(place).collect();
        self
    }

    /// The value of an indexed field.
    pub(super) fn indexed(&self, index: usize) -> Option<&str> {
        let (start, end) = (*self.indexed.get(index)?)?;
        scalar(self.value.get(start as usize..end as usize)?)
    }

    /// The storage key, `/registry/<collection>/[<namespace>/]<name>`.
    #[must_use]
    pub fn key(&self) -> &Arc<str> {
        &self.key
    }

    /// `namespace/name`, or `name` if cluster-scoped.
    #[must_use]
    pub fn path(&self) -> &str {
        self.key.get(usize::from(self.path)..).unwrap_or_default()
    }

    /// The namespace; empty if cluster-scoped.
    #[must_use]
    pub fn namespace(&self) -> &str {
        let end = usize::from(self.name).saturating_sub(1);
        self.key.get(usize::from(self.path)..end).unwrap_or_default()
    }

    /// The name, read from the storage key.
    #[must_use]
    pub fn name(&self) -> &str {
        self.key.get(usize::from(self.name)..).unwrap_or_default()
    }

    /// The revision of the write that made this version.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The stored bytes: canonical JSON without resourceVersion.
    #[must_use]
    pub fn stored(&self) -> &Bytes {
        &self.value
    }

    /// The memory of this version, estimated: bytes, key and bookkeeping. The bounds of the cache count it.
    #[must_use]
    pub fn weight(&self) -> usize {
        self.value.len() + self.key.len() + size_of::<Self>() + ENTRY_BYTES
    }

    /// The labels. Their keys and values have no characters that JSON escapes.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        let begin = (self.labels != 0).then_some(self.labels as usize);
        let fields = begin.and_then(|begin| raw::fields(&self.value, begin));
        fields.into_iter().flatten().filter_map(|field| {
            let key = std::str::from_utf8(self.value.get(field.key)?).ok()?;
            Some((key, scalar(self.value.get(field.value)?)?))
        })
    }

    /// The value of a label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels().find_map(|(other, value)| (other == key).then_some(value))
    }

    /// The value at a dotted path, if it is a scalar.
    #[must_use]
    pub fn field(&self, path: &str) -> Option<&str> {
        scalar(self.value.get(self.place(path)?)?)
    }

    /// The bytes of the value at a dotted path.
    pub(crate) fn raw(&self, path: &str) -> Option<&[u8]> {
        self.value.get(self.place(path)?)
    }

    /// `None` without a walk if the name of the field occurs nowhere in the bytes.
    fn place(&self, path: &str) -> Option<Range<usize>> {
        let last = path.rsplit('.').next()?;
        // Much quicker than the walk, and selected fields are often absent.
        memmem::find(&self.value, last.as_bytes())?;
        raw::place(&self.value, path.split('.'))
    }

    /// Writes the object as clients see it, beginning with `type_prefix`.
    pub fn write(&self, type_prefix: &[u8], out: &mut BytesMut) {
        self.write_at(self.revision, type_prefix, out);
    }

    /// Writes the object as [`CachedObject::write`] does, with another resourceVersion: the last state of a deleted object
    /// has that of its deletion.
    pub(crate) fn write_at(&self, revision: Revision, type_prefix: &[u8], out: &mut BytesMut) {
        out.extend_from_slice(type_prefix);
        self.spliced(revision, self.type_end as usize, self.value.len(), out);
    }

    /// Writes only the metadata, as the object of another kind: what PartialObjectMetadata is.
    pub(crate) fn write_metadata(&self, revision: Revision, type_prefix: &[u8], out: &mut BytesMut) {
        out.extend_from_slice(type_prefix);
        let end = metadata(&self.value).and_then(|(_, at)| raw::skip_value(&self.value, at));
        self.spliced(revision, self.type_end as usize, end.unwrap_or_default(), out);
        out.extend_from_slice(b"}");
    }

    /// The largest length of the output of [`CachedObject::write`].
    #[must_use]
    pub(crate) fn written_len(&self, type_prefix: &[u8]) -> usize {
        self.value.len() + type_prefix.len() + VERSION_BYTES
    }

    /// Calls `with` on the bytes that [`CachedObject::write_at`] writes, in parts.
    pub(super) fn with_parts<T>(
        &self,
        revision: Revision,
        type_prefix: &[u8],
        with: impl FnOnce(&[&[u8]]) -> T,
    ) -> T {
        let mut version = BytesMut::with_capacity(VERSION_BYTES);
        version.extend_from_slice(VERSION_PREFIX);
        push_number(&mut version, revision.0);
        version.extend_from_slice(b"\"");
        let (start, splice) = self.splice_offsets();
        let part = |range: Range<usize>| self.value.get(range).unwrap_or_default();
        with(&[type_prefix, part(start..splice), &version, part(splice..self.value.len())])
    }

    /// The offsets in the stored bytes at which the part that clients see begins, and at which the resourceVersion is
    /// inserted.
    pub(super) fn splice_offsets(&self) -> (usize, usize) {
        (self.type_end as usize, self.splice as usize)
    }

    /// The outline of the stored bytes, read on the first call.
    pub(super) fn outline(&self) -> &Outline {
        self.outline.get_or_init(|| Box::new(Outline::of(&self.value)))
    }

    /// The outline of the stored bytes, if it is known.
    pub(super) fn known_outline(&self) -> Option<&Outline> {
        self.outline.get()
    }

    /// Keeps the outline of the stored bytes, which a comparison yielded. Returns the bytes that it takes up now.
    pub(super) fn keep_outline(&self, outline: Outline) -> usize {
        let bytes = outline.bytes();
        self.outline.set(Box::new(outline)).map_or(0, |()| bytes)
    }

    /// Writes a part of the object with its resourceVersion spliced in. Revision 0 has none, for objects that are not
    /// stored.
    fn spliced(&self, revision: Revision, from: usize, to: usize, out: &mut BytesMut) {
        let splice = self.splice as usize;
        out.extend_from_slice(self.value.get(from..splice).unwrap_or_default());
        if revision != Revision(0) {
            out.extend_from_slice(VERSION_PREFIX);
            push_number(out, revision.0);
            out.extend_from_slice(b"\"");
        }
        out.extend_from_slice(self.value.get(splice..to).unwrap_or_default());
    }
}

/// Returns the offsets of the key `metadata` and of its value. It is the third field at the latest.
fn metadata(value: &[u8]) -> Option<(usize, usize)> {
    let mut fields = raw::fields(value, 0)?;
    for _ in 0..3 {
        let (key, start) = fields.next_key()?;
        if value.get(key.clone())? == b"metadata" {
            return Some((key.start.saturating_sub(1), start));
        }
        fields.pass(raw::skip_value(value, start)?);
    }
    None
}

/// Returns the offset of the labels, or zero, and the end of the name. Stored metadata begins with the name and has
/// its fields in order, so that nothing after the labels, such as the large `managedFields`, is scanned.
fn labels_and_splice(value: &[u8], metadata: usize) -> Option<(usize, usize)> {
    let mut fields = raw::fields(value, metadata)?;
    let (mut labels, mut splice) = (0, None);
    while let Some((key, start)) = fields.next_key() {
        let key = value.get(key)?;
        if key == b"labels" {
            labels = start;
        }
        if key >= b"labels".as_slice() && splice.is_some() {
            break;
        }
        let end = raw::skip_value(value, start)?;
        if key == b"name" {
            splice = Some(end);
        }
        fields.pass(end);
    }
    Some((labels, splice?))
}

/// The bytes before the number of the version.
pub(super) const VERSION_PREFIX: &[u8] = b",\"resourceVersion\":\"";
/// `,"resourceVersion":"` and twenty digits.
const VERSION_BYTES: usize = 40;

/// The memory of an entry around the object: the counters of its three allocations and its place in the map.
const ENTRY_BYTES: usize = 96;

/// Decimal digits without going through the formatting machinery: this runs once per object of every list.
pub(crate) fn push_number(out: &mut BytesMut, mut number: u64) {
    let mut digits = [0u8; 20];
    let mut length = 0;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
        length += 1;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(digits.split_at(20 - length).1);
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn object(value: &str) -> Option<CachedObject> {
        CachedObject::new("/registry/configmaps/ns/a".into(), 21, Bytes::from(value.to_owned()), Revision(7))
    }

    #[test]
    fn shows_itself_with_its_revision() {
        let value = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","labels":{"l":"1"}},"data":{"k":"v"}}"#;
        let object = object(value).unwrap();
        assert_eq!((object.namespace(), object.name(), object.path()), ("ns", "a", "ns/a"));
        assert_eq!(
            (object.label("l"), object.label("k"), object.field("data.k")),
            (Some("1"), None, Some("v"))
        );
        let mut out = BytesMut::new();
        object.write(b"{\"kind\":\"K\",", &mut out);
        assert_eq!(
            out,
            r#"{"kind":"K","metadata":{"name":"a","resourceVersion":"7","labels":{"l":"1"}},"data":{"k":"v"}}"#
        );
        out.clear();
        object.write_metadata(Revision(10), b"{", &mut out);
        assert_eq!(out, r#"{"metadata":{"name":"a","resourceVersion":"10","labels":{"l":"1"}}}"#);
    }

    #[test]
    fn foreign_values_are_not_objects() {
        for value in ["", "[]", "{}", r#"{"metadata":{}}"#, r#"{"kind":"x","metadata":5}"#, "k8s\0protobuf"] {
            assert!(object(value).is_none(), "{value}");
        }
    }

    #[test]
    fn numbers_are_decimal() {
        let mut out = BytesMut::new();
        for number in [0, 9, 10, u64::MAX] {
            push_number(&mut out, number);
            out.extend_from_slice(b" ");
        }
        assert_eq!(out, "0 9 10 18446744073709551615 ");
    }
}
