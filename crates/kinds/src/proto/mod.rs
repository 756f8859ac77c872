//! Kubernetes protobuf, both ways: bytes to `Value` and back, for every built-in kind, by one walk over the schema table.
//!
//! An object on the wire is the four bytes `k8s\0` and an envelope (`runtime.Unknown`) that names the kind and holds the
//! message. Clients that know the Go types send every built-in object in this form, and do not fall back to JSON.
//!
//! * [`decode()`] opens an envelope, finds the kind and gives the object as the JSON a typed client would have sent;
//! * [`encode()`] writes an object with its envelope; [`ListWriter`] writes a list in pieces;
//! * [`watch_frame`] writes one event of a watch.
//!
//! Custom resources have no protobuf form. Bytes come from the network: every length is checked, nesting is bounded
//! ([`MAX_DEPTH`]), and a message never becomes more values than it has bytes.

mod decode;
mod discovery;
mod encode;
pub(crate) mod message_table;
mod special;
pub(crate) mod wire;

use listwatch_wire::json::Value;

use crate::schema::{self, FieldType, Node};
use wire::{WireReader, put_bytes, put_string};

pub use discovery::aggregated_discovery;
pub use encode::ListWriter;

/// The prefix of every object, `k8s\0`. Readers distinguish protobuf from JSON by it, since no JSON begins with these
/// bytes.
pub const MAGIC: [u8; 4] = *b"k8s\0";

/// The depth to which messages may nest. Built-in types need about 20; only JSON schemas nest without bound.
pub const MAX_DEPTH: u32 = 128;

/// An error of decoding or encoding. The texts of malformed messages are those of Go's protobuf, which clients see in
/// 400 responses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtoError {
    /// The body does not start with the magic bytes: it is not protobuf of Kubernetes, despite its content type.
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    NoMagic,
    /// The bytes end inside a value, or a length points past the end.
    #[error("unexpected EOF")]
    Truncated,
    /// A number takes more bytes than any number may.
    #[error("proto: integer overflow")]
    Overflow,
    /// A tag with field number zero or a wire type that does not exist.
    #[error("proto: illegal tag {0}")]
    IllegalTag(u64),
    /// A known field comes in another wire type than it has.
    #[error("proto: wrong wireType = {found} for field {field}")]
    WireType {
        /// Name of the field in JSON.
        field: &'static str,
        /// The wire type found.
        found: u8,
    },
    /// Text that is not UTF-8 cannot be JSON.
    #[error("string field {0} contains invalid UTF-8")]
    InvalidUtf8(&'static str),
    /// Messages nest deeper than [`MAX_DEPTH`].
    #[error("message exceeds the maximum nesting depth")]
    TooDeep,
    /// The envelope holds something that is compressed or not protobuf.
    #[error("unsupported content type or encoding {0:?} in the envelope")]
    Content(String),
    /// The kind is not built in, so it has no protobuf form.
    #[error("no kind {kind:?} is registered for version {api_version:?}")]
    UnknownKind {
        /// `apiVersion` of the envelope.
        api_version: String,
        /// `kind` of the envelope.
        kind: String,
    },
    /// A field that holds JSON in bytes holds something else.
    #[error("field {field} holds invalid JSON: {reason}")]
    Json {
        /// Name of the field in JSON.
        field: &'static str,
        /// The error of the JSON parser.
        reason: String,
    },
    /// A value is not of its type: no quantity, no time, or a number out of range.
    #[error("field {field}: {reason}")]
    Value {
        /// Name of the field in JSON.
        field: &'static str,
        /// The problem.
        reason: String,
    },
}

/// An opened `runtime.Unknown`: the kind and the message, which is still encoded.
#[derive(Debug, PartialEq)]
#[doc(alias = "runtime.Unknown")]
pub struct Envelope<'a> {
    /// `apiVersion`, empty if the sender left it out.
    pub api_version: &'a str,
    /// `kind`, empty if the sender left it out.
    pub kind: &'a str,
    /// The message of the kind, without the envelope.
    pub raw: &'a [u8],
}

impl<'a> Envelope<'a> {
    /// Opens the envelope of an object.
    ///
    /// # Errors
    /// When the bytes are not a protobuf envelope.
    pub fn open(body: &'a [u8]) -> Result<Self, ProtoError> {
        let mut reader = WireReader::new(body.strip_prefix(&MAGIC).ok_or(ProtoError::NoMagic)?);
        let mut envelope = Self { api_version: "", kind: "", raw: &[] };
        while let Some((number, wire)) = reader.tag()? {
            match (number, wire) {
                (1, 2) => envelope.type_meta(reader.bytes()?)?,
                (2, 2) => envelope.raw = reader.bytes()?,
                (3 | 4, 2) => {
                    let text = reader.text("contentType")?;
                    if !text.is_empty() && text != "application/vnd.kubernetes.protobuf" {
                        return Err(ProtoError::Content(text.chars().take(64).collect()));
                    }
                }
                _ => reader.skip(wire)?,
            }
        }
        Ok(envelope)
    }

    /// Reads `apiVersion` and `kind` of the envelope; unknown fields are skipped, as protobuf requires.
    fn type_meta(&mut self, bytes: &'a [u8]) -> Result<(), ProtoError> {
        let mut reader = WireReader::new(bytes);
        while let Some((number, wire)) = reader.tag()? {
            match (number, wire) {
                (1, 2) => self.api_version = reader.text("apiVersion")?,
                (2, 2) => self.kind = reader.text("kind")?,
                _ => reader.skip(wire)?,
            }
        }
        Ok(())
    }
}

/// Decodes an object together with its envelope. `expected` is the apiVersion and kind of an envelope that names none.
///
/// ```
/// use listwatch_kinds::proto;
/// let object = listwatch_wire::json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
/// let body = proto::encode("v1", "ConfigMap", &object).unwrap();
/// assert_eq!(proto::decode(&body, ("v1", "ConfigMap")).unwrap(), object);
/// ```
///
/// The result has been through no type check: values whose type protobuf guarantees are right, the rest is
/// [`crate::typecheck`]'s.
///
/// # Errors
/// When the bytes are not an object of a built-in kind.
pub fn decode(body: &[u8], expected: (&str, &str)) -> Result<Value, ProtoError> {
    decode_at(body, expected, 0)
}

/// Decodes an object inside another one, `depth` levels down: envelopes in envelopes count towards [`MAX_DEPTH`] as
/// messages do.
fn decode_at(body: &[u8], expected: (&str, &str), depth: u32) -> Result<Value, ProtoError> {
    let envelope = Envelope::open(body)?;
    let api_version = if envelope.api_version.is_empty() { expected.0 } else { envelope.api_version };
    let kind = if envelope.kind.is_empty() { expected.1 } else { envelope.kind };
    let node = node_of(api_version, kind)?;
    let mut object = message_at(node, envelope.raw, depth)?;
    if let Value::Object(map) = &mut object {
        map.insert("apiVersion", api_version.into());
        map.insert("kind", kind.into());
    }
    Ok(object)
}

/// Decodes a message of a type that the schema describes; `null` for kinds without one.
fn message_at(node: Node, bytes: &[u8], depth: u32) -> Result<Value, ProtoError> {
    match node.ty() {
        FieldType::Struct(id) => decode::message(id, bytes, depth),
        _ => Ok(Value::Null),
    }
}

/// Encodes an object of a built-in kind with its envelope.
///
/// Fields come in the order of their names, not of their numbers, which readers accept. The message is built in one
/// buffer.
///
/// # Errors
/// When the kind is not built in or the object is not of its type.
pub fn encode(api_version: &str, kind: &str, object: &Value) -> Result<Vec<u8>, ProtoError> {
    encode_named(api_version, kind, api_version, object)
}

/// Encodes an object of a built-in kind with an envelope that names another version, such as none.
///
/// # Errors
/// As for [`encode()`].
pub fn encode_named(
    api_version: &str,
    kind: &str,
    named: &str,
    object: &Value,
) -> Result<Vec<u8>, ProtoError> {
    let mut message = Vec::with_capacity(512);
    encode_message(node_of(api_version, kind)?, object, &mut message)?;
    Ok(envelope(named, kind, &message))
}

/// Appends the bare message of an object, such as one item of a list. Fields that its type does not have are left out.
///
/// # Errors
/// When the object is not of that type.
pub(crate) fn encode_message(node: Node, object: &Value, out: &mut Vec<u8>) -> Result<(), ProtoError> {
    match (node.ty(), object) {
        (FieldType::Struct(id), Value::Object(map)) => encode::message(id, map, out, 0),
        _ => Err(ProtoError::Value { field: "", reason: "not an object".to_owned() }),
    }
}

/// Puts a message into an envelope with the magic bytes. The message is copied once, since its length precedes it.
#[must_use]
pub fn envelope(api_version: &str, kind: &str, message: &[u8]) -> Vec<u8> {
    let mut out = envelope_head(api_version, kind);
    out.reserve_exact(message.len() + 16);
    put_bytes(&mut out, 2, message);
    out.extend_from_slice(ENVELOPE_END);
    out
}

/// The bytes before the message: the magic bytes and the names of the kind.
fn envelope_head(api_version: &str, kind: &str) -> Vec<u8> {
    let mut meta = Vec::with_capacity(api_version.len() + kind.len() + 4);
    put_string(&mut meta, 1, api_version);
    put_string(&mut meta, 2, kind);
    let mut out = Vec::with_capacity(meta.len() + 8);
    out.extend_from_slice(&MAGIC);
    put_bytes(&mut out, 1, &meta);
    out
}

/// Content encoding and content type (fields 3 and 4). kube-apiserver always writes both, empty.
const ENVELOPE_END: &[u8] = &[0x1a, 0, 0x22, 0];

/// One event of a watch: four bytes of length, big-endian, then type and object. The object is an envelope, the event
/// itself is not.
///
/// Made once per event and shared by all watchers that asked for protobuf.
#[must_use]
pub fn watch_frame(event_type: &str, object: &[u8]) -> Vec<u8> {
    let mut raw = Vec::with_capacity(object.len() + 6);
    put_bytes(&mut raw, 1, object);
    let mut out = vec![0; 4];
    put_string(&mut out, 1, event_type);
    put_bytes(&mut out, 2, &raw);
    let length = u32::try_from(out.len() - 4).unwrap_or(u32::MAX);
    if let Some(prefix) = out.first_chunk_mut() {
        *prefix = length.to_be_bytes();
    }
    out
}

/// The older version of metadata-only objects. Only its list differs from that of `v1`: its two fields have each other's numbers.
const PARTIAL_V1BETA1: &str = "meta.k8s.io/v1beta1";

/// The type of an apiVersion and kind. Options of requests are the same in every group.
fn node_of(api_version: &str, kind: &str) -> Result<Node, ProtoError> {
    let same = if api_version == PARTIAL_V1BETA1 { "meta.k8s.io/v1" } else { api_version };
    let (group, version) = same.split_once('/').unwrap_or(("", same));
    let found = match kind {
        "DeleteOptions" | "Status" => schema::node("", "v1", kind),
        _ => schema::node(group, version, kind),
    };
    found.ok_or_else(|| ProtoError::UnknownKind {
        api_version: api_version.chars().take(128).collect(),
        kind: kind.chars().take(128).collect(),
    })
}

#[cfg(test)]
mod tests;
