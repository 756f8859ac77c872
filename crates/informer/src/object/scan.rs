//! The scan that finds the header of an encoded object, and the copy into an allocation of its own.
//!
//! It runs once for each object received and is the largest part of the cost of an event, so it walks the top level
//! only up to `metadata` (servers send it among the first fields) and keeps offsets instead of strings. The copy is
//! needed because a slice would keep the whole page or chunk alive for as long as one object of it is cached.
//!
//! `managedFields` can be cut out during the copy, what client-go users do with a `TransformFunc`. Offsets are 32 bits:
//! an object is far smaller than 4 GiB.

use std::hash::{BuildHasher, Hasher};
use std::ops::Range;

use listwatch_wire::json::raw;
use listwatch_wire::{ObjectKey, Revision};

use super::ObjectError;

/// The parts of an object that are kept, which decides the memory of a cache.
///
/// Metadata other than managed fields is always kept. To leave out more, use a
/// [transformation](crate::InformerBuilder::transform).
///
/// ```
/// use listwatch::object::{Keep, ManagedFields};
/// use listwatch::{Object, Raw};
///
/// let json = br#"{"metadata":{"name":"a","resourceVersion":"1","managedFields":[{"manager":"kubectl"}]}}"#;
/// let keep = Keep::default().managed_fields(ManagedFields::Drop);
/// let object = Object::<Raw>::from_json(json, keep)?;
/// assert!(!String::from_utf8_lossy(object.json()).contains("kubectl"));
/// # Ok::<(), listwatch::object::ObjectError>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Keep {
    /// Keeps or drops `metadata.managedFields`.
    pub managed_fields: ManagedFields,
    /// Keep the decoded object, so that it is decoded once per version. Default true. It takes several times the memory
    /// of its JSON, so turn it off where every object is decoded once and rarely again.
    pub decoded: bool,
}

impl Default for Keep {
    fn default() -> Self {
        Self { managed_fields: ManagedFields::default(), decoded: true }
    }
}

/// The treatment of `metadata.managedFields`, often a third of an object and rarely looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ManagedFields {
    /// They are kept.
    #[default]
    Keep,
    /// They are cut out before the object is cached.
    Drop,
}

impl Keep {
    /// Sets [`managed_fields`](Self::managed_fields).
    #[must_use]
    pub fn managed_fields(mut self, managed_fields: ManagedFields) -> Self {
        self.managed_fields = managed_fields;
        self
    }

    /// Sets [`decoded`](Self::decoded).
    #[must_use]
    pub fn decoded(mut self, keep: bool) -> Self {
        self.decoded = keep;
        self
    }
}

/// The metadata that the cache needs, found by one scan of the bytes.
pub(super) struct ObjectHeader {
    /// Only if it cannot be read in place, because it is escaped or too long.
    pub(super) key: Option<ObjectKey>,
    pub(super) revision: Revision,
    pub(super) identity: u64,
    name: Range<usize>,
    namespace: Range<usize>,
    labels: usize,
    /// From the key to the end of the value.
    managed_fields: Range<usize>,
}

/// The offsets of the fields that every cache needs, in the bytes that are kept. Objects are far smaller than 4 GiB; names whose
/// length does not fit here are copied ([`ObjectHeader::key`]).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FieldOffsets {
    name: u32,
    namespace: u32,
    /// Where the labels begin; zero if there are none.
    pub(super) labels: u32,
    name_len: u16,
    namespace_len: u8,
    /// [`Keep::decoded`], which takes no room here.
    pub(super) keep_decoded: bool,
}

impl FieldOffsets {
    /// Those of an object whose key is known.
    pub(super) fn without_key(labels: u32, keep_decoded: bool) -> Self {
        Self { labels, keep_decoded, ..Self::default() }
    }

    pub(super) fn name(self, json: &[u8]) -> &[u8] {
        part(json, self.name, self.name_len.into())
    }

    pub(super) fn namespace(self, json: &[u8]) -> &[u8] {
        part(json, self.namespace, self.namespace_len.into())
    }
}

/// Empty if the bytes end before, which they do not.
fn part(json: &[u8], at: u32, len: usize) -> &[u8] {
    json.get(at as usize..).and_then(|rest| rest.get(..len)).unwrap_or_default()
}

/// The places of the fields in the bytes.
#[derive(Default)]
struct ScanFound {
    name: Range<usize>,
    namespace: Range<usize>,
    uid: Range<usize>,
    version: Range<usize>,
    labels: usize,
    managed_fields: Range<usize>,
}

/// Walks the top level up to the metadata, which servers send first, and the metadata once.
pub(super) fn header(json: &[u8]) -> Result<ObjectHeader, ObjectError> {
    let found = find(json).ok_or(ObjectError::NotAnObject("no metadata"))?;
    let text = |range: &Range<usize>| json.get(range.clone()).and_then(raw::unescape).unwrap_or_default();
    let (name, namespace) = (text(&found.name), text(&found.namespace));
    if name.is_empty() {
        return Err(ObjectError::NoName);
    }
    let plain = name.len() == found.name.len()
        && namespace.len() == found.namespace.len()
        && u16::try_from(name.len()).is_ok()
        && u8::try_from(namespace.len()).is_ok();
    let version = text(&found.version);
    let revision = match version.parse() {
        Ok(revision) => revision,
        Err(_) if version.is_empty() => Revision::ZERO,
        Err(_) => {
            let key = ObjectKey::namespaced(&namespace, &name);
            return Err(ObjectError::BadVersion(key, version.into_owned()));
        }
    };
    Ok(ObjectHeader {
        key: (!plain).then(|| ObjectKey::namespaced(&namespace, &name)),
        revision,
        identity: identity(json.get(found.uid).unwrap_or_default()),
        name: found.name,
        namespace: found.namespace,
        labels: found.labels,
        managed_fields: found.managed_fields,
    })
}

/// A hash of the uid, zero without one. Stable across processes, because saved caches contain it.
pub(super) fn identity(uid: &[u8]) -> u64 {
    if uid.is_empty() {
        return 0;
    }
    let mut hasher = foldhash::fast::FixedState::default().build_hasher();
    hasher.write(uid);
    hasher.finish()
}

/// The place of `metadata`, which servers send among the first fields.
fn metadata_at(json: &[u8]) -> Option<usize> {
    raw::fields(json, 0)?.find(|field| field.is(json, "metadata")).map(|field| field.value.start)
}

/// Finds the header in one pass over the metadata. The rest of the object is skipped without being parsed.
fn find(json: &[u8]) -> Option<ScanFound> {
    let mut fields = raw::fields(json, 0)?;
    let start = loop {
        let (key, start) = fields.next_key()?;
        if json.get(key)? == b"metadata" {
            break start;
        }
        fields.pass(raw::skip_value(json, start)?);
    };
    let mut found = ScanFound::default();
    let mut metadata = raw::fields(json, start)?;
    for field in &mut metadata {
        // Only strings count: `null` is the same as absent, and anything else is not a name.
        let is_text = json.get(field.value.start) == Some(&b'"');
        let inside = || if is_text { field.value.start + 1..field.value.end.saturating_sub(1) } else { 0..0 };
        match json.get(field.key.clone())? {
            b"name" => found.name = inside(),
            b"namespace" => found.namespace = inside(),
            b"uid" => found.uid = inside(),
            b"resourceVersion" => found.version = inside(),
            b"labels" => found.labels = field.value.start,
            b"managedFields" => found.managed_fields = field.key.start - 1..field.value.end,
            _ => {}
        }
    }
    metadata.is_complete().then_some(found)
}

/// The bytes to keep, and the byte ranges of the metadata in them.
pub(super) fn copy(
    json: &[u8],
    header: &ObjectHeader,
    managed_fields: ManagedFields,
) -> (Box<[u8]>, FieldOffsets) {
    let cut = with_comma(json, header.managed_fields.clone());
    if managed_fields == ManagedFields::Keep || cut.is_empty() {
        return (json.into(), header.offsets(&(0..0)));
    }
    let mut kept = Vec::with_capacity(json.len() - cut.len());
    kept.extend_from_slice(json.get(..cut.start).unwrap_or_default());
    kept.extend_from_slice(json.get(cut.end..).unwrap_or_default());
    (kept.into_boxed_slice(), header.offsets(&cut))
}

impl ObjectHeader {
    /// The ranges after `cut` has been removed.
    fn offsets(&self, cut: &Range<usize>) -> FieldOffsets {
        let shifted = |at: usize| offset(if at > cut.start { at - cut.len() } else { at });
        FieldOffsets {
            name: shifted(self.name.start),
            namespace: shifted(self.namespace.start),
            labels: shifted(self.labels),
            name_len: u16::try_from(self.name.len()).unwrap_or(0),
            namespace_len: u8::try_from(self.namespace.len()).unwrap_or(0),
            keep_decoded: false,
        }
    }
}

/// The field together with the comma that must go with it: the one behind it, or the one before it if it is last.
fn with_comma(json: &[u8], field: Range<usize>) -> Range<usize> {
    if field.is_empty() {
        return field;
    }
    let after = raw::skip_space(json, field.end);
    if json.get(after) == Some(&b',') {
        return field.start..after + 1;
    }
    let before = json.get(..field.start).unwrap_or_default().trim_ascii_end();
    let start = if before.ends_with(b",") { before.len() - 1 } else { field.start };
    start..field.end
}

/// Where the labels begin; zero if there are none.
pub(super) fn labels_at(json: &[u8]) -> u32 {
    let labels = metadata_at(json)
        .and_then(|at| raw::fields(json, at)?.find(|field| field.is(json, "labels")))
        .map_or(0, |field| field.value.start);
    offset(labels)
}

pub(super) fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(0)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    /// A namespace that is too long for its length field would be cut off.
    #[test]
    fn a_long_namespace_is_read_at_once() {
        for (len, at_once) in [(255, false), (256, true)] {
            let json = format!(r#"{{"metadata":{{"name":"a","namespace":"{}"}}}}"#, "n".repeat(len));
            let object = crate::Object::<crate::Raw>::from_json(json.as_bytes(), Keep::default()).unwrap();
            assert_eq!(header(json.as_bytes()).unwrap().key.is_some(), at_once);
            assert_eq!((object.namespace().len(), object.name()), (len, "a"));
        }
    }

    /// The text between the first and the last letter of `null` was taken for the namespace: "ul".
    #[test]
    fn null_is_no_text() {
        let found =
            header(br#"{"metadata":{"name":"a","namespace":null,"uid":null,"resourceVersion":null}}"#)
                .unwrap();
        assert_eq!(
            (found.name, found.namespace, found.identity, found.revision),
            (21..22, 0..0, 0, Revision::ZERO)
        );
        for name in ["null", "5", "[]", "{}", "true"] {
            let json = format!(r#"{{"metadata":{{"name":{name}}}}}"#);
            assert!(matches!(header(json.as_bytes()), Err(ObjectError::NoName)), "{name}");
        }
    }
}
