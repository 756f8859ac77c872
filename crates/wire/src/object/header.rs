//! [`RawObject`]: bytes, and where in them the header fields are.

use std::ops::Range;

use super::scan::Scanner;
use crate::{ObjectKey, Revision};
use bytes::Bytes;

/// A path of object keys, for example `["spec", "nodeName"]`.
pub type FieldPath<'a> = &'a [&'a str];

/// Why bytes are no object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScanError {
    /// Not a complete JSON object.
    #[error("not a JSON object")]
    NotAnObject,
    /// No `metadata` that is an object.
    #[error("object without metadata")]
    NoMetadata,
    /// Offsets are kept in 32 bits.
    #[error("object of more than 4 GiB")]
    TooLarge,
}

/// Where a text is: in the bytes, or past their end in the side table of texts that had escapes.
///
/// Half the size of a range of `usize`; a cache holds millions. Position zero is the object's brace, so a span that
/// begins there stands for "not there".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: u32,
    pub(super) end: u32,
}

impl Span {
    pub(super) fn is_set(self) -> bool {
        self.start != 0
    }

    fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// An object's bytes and the fields that caches, selectors and indexes look at.
///
/// The header is found in one pass without a tree; everything else stays unread. Scanning trusts that the bytes were
/// valid JSON when they came in, but never panics.
///
/// ```
/// use bytes::Bytes;
/// use listwatch_wire::object::RawObject;
///
/// let bytes = br#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","namespace":"ns","labels":{"a":"b"}},"spec":{"nodeName":"n"}}"#;
/// let pod = RawObject::with_fields(Bytes::from_static(bytes), &[&["spec", "nodeName"], &["status", "phase"]])?;
/// assert_eq!(pod.key().as_str(), "ns/p");
/// assert_eq!(pod.label("a"), Some("b"));
/// assert_eq!((pod.field(0), pod.field(1)), (Some("n"), None));
/// assert_eq!(pod.without_type(), br#""metadata":{"name":"p","namespace":"ns","labels":{"a":"b"}},"spec":{"nodeName":"n"}}"#);
/// # Ok::<(), listwatch_wire::object::ScanError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawObject {
    bytes: Bytes,
    header: Header,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Header {
    /// Behind `kind` and `apiVersion`, if these come first.
    pub(super) type_prefix: u32,
    pub(super) generation: i64,
    pub(super) kind: Span,
    pub(super) api_version: Span,
    pub(super) metadata: Span,
    pub(super) name: Span,
    pub(super) namespace: Span,
    pub(super) uid: Span,
    pub(super) resource_version: Span,
    pub(super) creation_timestamp: Span,
    pub(super) deletion_timestamp: Span,
    pub(super) owner_references: Span,
    pub(super) annotations: Span,
    pub(super) labels: Box<[(Span, Span)]>,
    pub(super) fields: Box<[Span]>,
    /// Texts that had escapes, without them.
    pub(super) side: Box<str>,
}

impl RawObject {
    /// Scans the header.
    ///
    /// # Errors
    /// See [`ScanError`].
    pub fn new(bytes: Bytes) -> Result<Self, ScanError> {
        Self::with_fields(bytes, &[])
    }

    /// Scans the header and the scalars at some paths, for field selectors.
    ///
    /// # Errors
    /// See [`ScanError`].
    pub fn with_fields(bytes: Bytes, paths: &[FieldPath<'_>]) -> Result<Self, ScanError> {
        let header = Scanner::new(&bytes, paths.len())?.object(paths)?;
        Ok(Self { bytes, header })
    }

    /// The object a store returned, with the revision that wrote it.
    ///
    /// # Errors
    /// See [`ScanError`].
    pub fn from_stored(
        stored: &[u8],
        revision: Revision,
        paths: &[FieldPath<'_>],
    ) -> Result<Self, ScanError> {
        Self::with_fields(super::splice_resource_version(stored, revision)?.into(), paths)
    }

    /// All bytes.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The bytes behind `{"kind":…,"apiVersion":…,`: with a brace before them, the item of a typed list.
    #[must_use]
    pub fn without_type(&self) -> &[u8] {
        self.bytes.get(self.header.type_prefix as usize..).unwrap_or_default()
    }

    /// The bytes of the metadata with its braces.
    #[must_use]
    pub fn metadata(&self) -> &[u8] {
        self.raw(self.header.metadata).unwrap_or_default()
    }

    /// The kind, or nothing.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.text(self.header.kind)
    }

    /// The API version, or nothing.
    #[must_use]
    pub fn api_version(&self) -> &str {
        self.text(self.header.api_version)
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.text(self.header.name)
    }

    /// The namespace; empty if cluster-scoped.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.text(self.header.namespace)
    }

    /// The namespace and name.
    #[must_use]
    pub fn key(&self) -> ObjectKey {
        ObjectKey::namespaced(self.namespace(), self.name())
    }

    /// The uid.
    #[must_use]
    pub fn uid(&self) -> &str {
        self.text(self.header.uid)
    }

    /// The resource version; empty in the stored form.
    #[must_use]
    pub fn resource_version(&self) -> &str {
        self.text(self.header.resource_version)
    }

    /// When it was created, as text.
    #[must_use]
    pub fn creation_timestamp(&self) -> Option<&str> {
        self.optional(self.header.creation_timestamp)
    }

    /// When it was marked for deletion, as text.
    #[must_use]
    pub fn deletion_timestamp(&self) -> Option<&str> {
        self.optional(self.header.deletion_timestamp)
    }

    /// The generation; zero if it has none.
    #[must_use]
    pub fn generation(&self) -> i64 {
        self.header.generation
    }

    /// The JSON of the owner references, if there are any.
    #[must_use]
    pub fn owner_references(&self) -> Option<&[u8]> {
        self.raw(self.header.owner_references)
    }

    /// The JSON of the annotations, if there are any.
    #[must_use]
    pub fn annotations(&self) -> Option<&[u8]> {
        self.raw(self.header.annotations)
    }

    /// The value of a label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels().find(|(k, _)| *k == key).map(|(_, value)| value)
    }

    /// All labels in the order of the bytes.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.header.labels.iter().map(|(key, value)| (self.text(*key), self.text(*value)))
    }

    /// The scalar at the `index`th of the paths asked for; numbers and booleans as they are written.
    #[must_use]
    pub fn field(&self, index: usize) -> Option<&str> {
        self.header.fields.get(index).and_then(|span| self.optional(*span))
    }

    /// Appends the bytes with another resource version: the last state of an object, at the revision of its deletion.
    pub fn write_with_resource_version(&self, revision: Revision, out: &mut Vec<u8>) {
        let version = self.header.resource_version.range();
        if !self.header.resource_version.is_set() || version.end > self.bytes.len() {
            // Without a version, or with an odd one, the general way is good enough.
            out.extend(
                super::splice_resource_version(&self.bytes, revision).unwrap_or_else(|_| self.bytes.to_vec()),
            );
            return;
        }
        out.reserve(self.bytes.len() + 20);
        out.extend_from_slice(self.bytes.get(..version.start).unwrap_or_default());
        out.extend_from_slice(revision.to_string().as_bytes());
        out.extend_from_slice(self.bytes.get(version.end..).unwrap_or_default());
    }

    fn raw(&self, span: Span) -> Option<&[u8]> {
        span.is_set().then(|| self.bytes.get(span.range()))?
    }

    fn text(&self, span: Span) -> &str {
        self.optional(span).unwrap_or_default()
    }

    fn optional(&self, span: Span) -> Option<&str> {
        if !span.is_set() {
            return None;
        }
        match self.bytes.get(span.range()) {
            // Validated by the scan; checking a few bytes again is cheaper than holding a second copy.
            Some(bytes) => std::str::from_utf8(bytes).ok(),
            None => {
                let base = self.bytes.len();
                self.header.side.get(span.start as usize - base..span.end as usize - base)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(text: &str) -> RawObject {
        RawObject::new(Bytes::copy_from_slice(text.as_bytes())).unwrap()
    }

    #[test]
    fn keys_in_any_order_with_any_spacing() {
        let o = object(
            "{ \"spec\" : {} ,\n \"metadata\" : { \"generation\" : 3 , \"labels\" : {} , \"name\" : \"a\" , \
             \"deletionTimestamp\" : \"t\" , \"ownerReferences\" : [ {} ] } , \"kind\" : \"X\" }",
        );
        assert_eq!((o.name(), o.kind(), o.generation()), ("a", "X", 3));
        assert_eq!((o.deletion_timestamp(), o.owner_references()), (Some("t"), Some(&b"[ {} ]"[..])));
        assert_eq!(o.labels().count(), 0);
    }

    #[test]
    fn escaped_texts_are_unescaped() {
        let o =
            object(r#"{"metadata":{"name":"a\u002db","labels":{"k\"":"\\","x":"y"},"uid":"\ud83d\ude00"}}"#);
        assert_eq!((o.name(), o.uid(), o.label("k\""), o.label("x")), ("a-b", "😀", Some("\\"), Some("y")));
    }

    #[test]
    fn nulls_and_wrong_types_count_as_absent() {
        let o = object(
            r#"{"metadata":{"name":5,"labels":null,"deletionTimestamp":null,"generation":"x","ownerReferences":null}}"#,
        );
        assert_eq!(
            (o.name(), o.deletion_timestamp(), o.generation(), o.owner_references()),
            ("", None, 0, None)
        );
    }

    #[test]
    fn scalars_at_paths_of_any_depth() {
        let text = r#"{"metadata":{"name":"a","labels":{"l":"v"}},"spec":{"a":{"b":true},"n":5},"type":"t"}"#;
        let paths: [FieldPath<'_>; 7] = [
            &["spec", "a", "b"],
            &["spec", "n"],
            &["type"],
            &["spec", "a"],
            &["metadata", "name"],
            &["metadata", "labels", "l"],
            &["none"],
        ];
        let o = RawObject::with_fields(Bytes::copy_from_slice(text.as_bytes()), &paths).unwrap();
        let found: Vec<_> = (0..7).map(|i| o.field(i)).collect();
        assert_eq!(found, [Some("true"), Some("5"), Some("t"), None, Some("a"), Some("v"), None]);
        assert_eq!(o.label("l"), Some("v"));
    }

    #[test]
    fn the_type_prefix_ends_before_the_first_other_key() {
        for (text, rest) in [
            (r#"{"kind":"A","apiVersion":"v1","metadata":{}}"#, r#""metadata":{}}"#),
            (r#"{"apiVersion":"v1","kind":"A","metadata":{}}"#, r#""metadata":{}}"#),
            (r#"{"metadata":{},"kind":"A"}"#, r#""metadata":{},"kind":"A"}"#),
        ] {
            assert_eq!(object(text).without_type(), rest.as_bytes());
        }
    }

    #[test]
    fn another_version_changes_nothing_else() {
        let mut out = Vec::new();
        object(r#"{"metadata":{"resourceVersion":"5","name":"a"}}"#)
            .write_with_resource_version(Revision(77), &mut out);
        assert_eq!(out, br#"{"metadata":{"resourceVersion":"77","name":"a"}}"#);
        out.clear();
        object(r#"{"metadata":{"name":"a"}}"#).write_with_resource_version(Revision(7), &mut out);
        assert_eq!(out, br#"{"metadata":{"resourceVersion":"7","name":"a"}}"#);
    }

    #[test]
    fn no_object_no_panic() {
        for text in [
            "",
            "[]",
            "{",
            "{\"metadata\":{}",
            "{\"metadata\":{\"name\":\"",
            "{\"metadata\":[]}",
            "{\"a\":{}}",
            "{\"metadata\":{\"labels\":{\"a\"}}}",
        ] {
            assert!(RawObject::new(Bytes::copy_from_slice(text.as_bytes())).is_err(), "{text}");
        }
    }
}
