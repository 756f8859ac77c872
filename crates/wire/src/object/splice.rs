//! Putting a resource version into bytes.

use super::header::ScanError;
use crate::Revision;
use crate::json::raw;

/// The served form of stored bytes: `"resourceVersion":"N",` put in right behind `"metadata":{`.
///
/// ```
/// use listwatch_wire::{Revision, object::splice_resource_version};
///
/// let stored = br#"{"kind":"Node","apiVersion":"v1","metadata":{"name":"n"}}"#;
/// let served = splice_resource_version(stored, Revision(12))?;
/// assert_eq!(served, br#"{"kind":"Node","apiVersion":"v1","metadata":{"resourceVersion":"12","name":"n"}}"#);
/// # Ok::<(), listwatch_wire::object::ScanError>(())
/// ```
///
/// # Errors
/// [`ScanError::NoMetadata`] if there is no metadata object to put it into.
pub fn splice_resource_version(stored: &[u8], revision: Revision) -> Result<Vec<u8>, ScanError> {
    let at = metadata_start(stored).ok_or(ScanError::NoMetadata)?;
    let (head, tail) = stored.split_at(at);
    let mut out = Vec::with_capacity(stored.len() + 42);
    out.extend_from_slice(head);
    out.extend_from_slice(b"\"resourceVersion\":\"");
    out.extend_from_slice(revision.to_string().as_bytes());
    out.push(b'"');
    if tail.get(raw::skip_space(tail, 0)) != Some(&b'}') {
        out.push(b',');
    }
    out.extend_from_slice(tail);
    Ok(out)
}

/// The position behind the brace that opens the metadata; found after two short fields in canonical bytes.
fn metadata_start(bytes: &[u8]) -> Option<usize> {
    let field = raw::fields(bytes, 0)?.find(|field| field.is(bytes, "metadata"))?;
    (bytes.get(field.value.start) == Some(&b'{')).then_some(field.value.start + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_metadata_takes_no_comma() {
        assert_eq!(
            splice_resource_version(b"{\"metadata\":{}}", Revision(1)).unwrap(),
            b"{\"metadata\":{\"resourceVersion\":\"1\"}}"
        );
    }

    #[test]
    fn without_metadata_there_is_no_place() {
        for bytes in [&b"{}"[..], b"[]", b"", b"{\"metadata\":null}", b"{\"metadata\":\"{\"}"] {
            assert!(matches!(splice_resource_version(bytes, Revision(1)), Err(ScanError::NoMetadata)));
        }
    }
}
