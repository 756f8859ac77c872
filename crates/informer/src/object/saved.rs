//! Objects as records of a saved cache.
//!
//! A record carries the object's header beside its JSON, because a transformation may have removed the metadata from
//! it: key, resource version, uid, and the offset of the labels. Reading one back parses nothing.

use std::sync::{Arc, OnceLock};

use listwatch_wire::{ObjectKey, Revision};

use super::{FieldOffsets, Object, ObjectInner, PhantomData, scan};

/// The decoded form of the object is kept once it is needed.
const KEEP_DECODED: u32 = 1;

/// The bytes of a record before its texts: flags, lengths of namespace, name and JSON, the place of the labels,
/// revision and identity.
const HEAD: usize = 5 * 4 + 2 * 8;

/// The identity of a fixed uid. A saved cache is of use only to a program that computes the same.
pub(crate) fn identity_check() -> u64 {
    scan::identity(b"listwatch")
}

fn take<'a>(bytes: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some(taken)
}

fn take_u32(bytes: &mut &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(take(bytes, 4)?.try_into().ok()?))
}

fn take_u64(bytes: &mut &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(take(bytes, 8)?.try_into().ok()?))
}

fn take_text<'a>(bytes: &mut &'a [u8], len: u32) -> Option<&'a str> {
    str::from_utf8(take(bytes, len as usize)?).ok()
}

impl<K> Object<K> {
    /// Appends the object as a record.
    pub(crate) fn write_record(&self, out: &mut Vec<u8>) {
        let inner = &*self.inner;
        let (namespace, name) = (self.namespace(), self.name());
        let flags = if inner.offsets.keep_decoded { KEEP_DECODED } else { 0 };
        out.reserve(HEAD + namespace.len() + name.len() + inner.json.len());
        let lengths = [namespace.len(), name.len(), inner.json.len()].map(scan::offset);
        for number in [flags, lengths[0], lengths[1], lengths[2], inner.offsets.labels] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&inner.revision.0.to_le_bytes());
        out.extend_from_slice(&inner.identity.to_le_bytes());
        for text in [namespace.as_bytes(), name.as_bytes(), &inner.json] {
            out.extend_from_slice(text);
        }
    }

    /// Reads the record that `bytes` begins with and moves them past it. None if there is none.
    pub(crate) fn read_record(bytes: &mut &[u8]) -> Option<Self> {
        let flags = take_u32(bytes)?;
        let (namespace, name, json) = (take_u32(bytes)?, take_u32(bytes)?, take_u32(bytes)?);
        let labels = take_u32(bytes)?;
        let (revision, identity) = (take_u64(bytes)?, take_u64(bytes)?);
        let key = ObjectKey::namespaced(take_text(bytes, namespace)?, take_text(bytes, name)?);
        let inner = ObjectInner {
            key: OnceLock::from(key),
            revision: Revision(revision),
            identity,
            offsets: FieldOffsets::without_key(labels, flags & KEEP_DECODED != 0),
            json: take(bytes, json as usize)?.into(),
            decoded: OnceLock::new(),
            changes: None,
        };
        Some(Self { inner: Arc::new(inner), kind: PhantomData })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::object::Raw;

    /// An object without its metadata, as a transformation may leave it, comes back with key, version and identity.
    #[test]
    fn a_record_holds_what_the_json_may_lack() {
        let metadata = json!({"namespace": "x", "name": "y", "uid": "u", "resourceVersion": "7"});
        let whole = Object::<Raw>::from_value(&json!({ "metadata": metadata })).unwrap();
        let bare = whole.with_value(&json!({"data": 1})).unwrap();
        let mut bytes = Vec::new();
        bare.write_record(&mut bytes);
        whole.write_record(&mut bytes);
        let mut rest = bytes.as_slice();
        let read = Object::<Raw>::read_record(&mut rest).unwrap();
        assert_eq!((read.key(), read.json()), (whole.key(), bare.json()));
        assert!(read.same_version(&whole));
        assert_eq!(Object::<Raw>::read_record(&mut rest).unwrap().json(), whole.json());
        assert!(rest.is_empty());
    }

    /// A record that breaks off is none, wherever it does.
    #[test]
    fn half_a_record_is_none() {
        let object = Object::<Raw>::from_value(&json!({"metadata": {"name": "y"}})).unwrap();
        let mut bytes = Vec::new();
        object.write_record(&mut bytes);
        for len in 0..bytes.len() {
            assert!(Object::<Raw>::read_record(&mut &bytes[..len]).is_none(), "{len}");
        }
    }
}
