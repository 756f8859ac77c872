//! Encoding of single documents: compact or indented JSON, YAML, protobuf. Pure.
//!
//! Objects are stored as canonical JSON, so compact JSON is a copy of bytes and everything else is derived from it.
//! The trailing newline of compact JSON and its absence in indented JSON are kube-apiserver's, and recorded
//! conversations depend on them. [`Pretty`] works on a stream of parts, so that an indented list needs no second
//! copy.
//!
//! Lists and watches frame many objects themselves ([`crate::verbs`]); the choice of the form is
//! [`crate::request::negotiate`].

use bytes::{BufMut, Bytes, BytesMut};
use listwatch_wire::json::Value;
use listwatch_wire::{Revision, Status};

use crate::cache::CachedObject;
use crate::registry::Resource;
use crate::request::negotiate::{Encoding, MetaVersion, ResponseForm};
use crate::respond::{internal, protobuf};

/// Compact JSON in the encoding of a form. Compact JSON ends with a newline, indented JSON does not.
///
/// YAML and protobuf parse the document, which is acceptable for rarely requested encodings.
///
/// # Errors
/// 500 for a document that does not have the type it states, which protobuf cannot express.
pub(crate) fn document(json: Bytes, form: ResponseForm) -> Result<Bytes, Status> {
    Ok(match form.encoding {
        Encoding::Json if form.pretty => pretty(json.trim_ascii_end()).into(),
        Encoding::Json => line(json),
        Encoding::Yaml => match listwatch_wire::json::Value::read(&json) {
            Ok(value) => yaml(&value).into(),
            Err(_) => json,
        },
        Encoding::Protobuf => protobuf::document(&json)?,
    })
}

/// Ends a document with a newline. Copies only what is shared.
pub(crate) fn line(json: Bytes) -> Bytes {
    if json.ends_with(b"\n") {
        return json;
    }
    let mut out = json.try_into_mut().unwrap_or_else(|shared| {
        let mut out = BytesMut::with_capacity(shared.len() + 1);
        out.extend_from_slice(&shared);
        out
    });
    out.extend_from_slice(b"\n");
    out.freeze()
}

/// An object as clients see it, with room for a newline.
///
/// Metadata that depends on the reader, such as `resourceVersion`, is put in while copying; the stored bytes are not
/// parsed.
pub(crate) fn object(object: &CachedObject, resource: &Resource) -> Bytes {
    let mut out = BytesMut::with_capacity(object.written_len(&resource.type_prefix) + 1);
    object.write(&resource.type_prefix, &mut out);
    out.freeze()
}

/// Returns the metadata of an object as PartialObjectMetadata, with room for a newline.
pub(crate) fn partial(
    object: &CachedObject,
    resource: &Resource,
    revision: Revision,
    meta: MetaVersion,
) -> Bytes {
    let mut out = BytesMut::with_capacity(object.written_len(meta.partial_prefix()) + 1);
    write_partial(object, resource, (revision, meta), &mut out);
    out.freeze()
}

/// Appends the metadata of an object as PartialObjectMetadata, as kube-apiserver's internal types have it.
pub(crate) fn write_partial(
    object: &CachedObject,
    resource: &Resource,
    (revision, meta): (Revision, MetaVersion),
    out: &mut BytesMut,
) {
    let begin = out.len();
    object.write_metadata(revision, meta.partial_prefix(), out);
    let written = out.get(begin..).unwrap_or_default();
    if !internal::may_hold_fields(resource, written) {
        return;
    }
    let Ok(mut partial) = Value::read(written) else { return };
    if internal::drop_fields(&mut partial) {
        out.truncate(begin);
        out.extend_from_slice(&listwatch_wire::json::encode(&partial));
    }
}

/// YAML with sorted keys, as kube-apiserver writes it.
pub(crate) fn yaml(value: &listwatch_wire::json::Value) -> Vec<u8> {
    crate::respond::yaml::write(value)
}

/// Spreads compact JSON over lines, two spaces per level, in the order it has.
pub(crate) fn pretty(json: &[u8]) -> Vec<u8> {
    let mut out = BytesMut::with_capacity(json.len() * 2);
    Pretty::default().write(json, &mut out);
    out.into()
}

/// Spreads JSON over lines that comes in parts.
/// It keeps four words of state, looks at each byte once, and does not validate: input is this server's own JSON.
#[derive(Debug, Default)]
pub(crate) struct Pretty {
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// True if the last byte opened an object or array.
    opened: bool,
}

impl Pretty {
    /// Writes the next part of a document. Parts may be split anywhere, even inside strings.
    pub(crate) fn write(&mut self, json: &[u8], out: &mut BytesMut) {
        for &byte in json {
            if self.in_string {
                out.put_u8(byte);
                self.in_string = self.escaped || byte != b'"';
                self.escaped = !self.escaped && byte == b'\\';
                continue;
            }
            let closes = matches!(byte, b'}' | b']');
            if closes {
                self.depth = self.depth.saturating_sub(1);
            }
            // An empty object or array stays on its line.
            if self.opened != closes && (self.opened || closes) {
                new_line(out, self.depth);
            }
            self.opened = matches!(byte, b'{' | b'[');
            out.put_u8(byte);
            match byte {
                b'{' | b'[' => self.depth += 1,
                b',' => new_line(out, self.depth),
                b':' => out.put_u8(b' '),
                b'"' => self.in_string = true,
                _ => {}
            }
        }
    }
}

fn new_line(out: &mut BytesMut, depth: usize) {
    out.put_u8(b'\n');
    out.put_bytes(b' ', depth * 2);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pretty_keeps_order_and_meaning() {
        let json = br#"{"kind":"A","b":{},"c":[],"d":[1,{"e":"x\"{,"}],"f":null}"#;
        let text = String::from_utf8(pretty(json)).unwrap();
        assert_eq!(
            text,
            "{\n  \"kind\": \"A\",\n  \"b\": {},\n  \"c\": [],\n  \"d\": [\n    1,\n    {\n      \"e\": \"x\\\"{,\"\n    }\n  ],\n  \"f\": null\n}"
        );
    }

    #[test]
    fn yaml_quotes_what_would_not_be_text() {
        let text =
            String::from_utf8(yaml(&listwatch_wire::json::json!({"kind":"A","data":{"k":"1","m":"plain"}})))
                .unwrap();
        assert!(text.contains("data:\n  k: \"1\"\n  m: plain\n"), "{text}");
    }
}
