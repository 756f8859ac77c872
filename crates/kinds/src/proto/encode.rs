//! JSON to protobuf: an object becomes its message, by the field numbers of the schema table.
//!
//! Order of fields is that of their names, in the table as in the object, so that both are walked once, side by side.
//! Fields without a number cannot be written and are left out. [`ListWriter`] writes a list item by item: protobuf puts
//! the length in front, so the sizes are summed in a first pass and no list is held in memory.

use listwatch_wire::json::{Map, Value};

use super::decode::FieldSlot;
use super::wire::{put_bytes, put_double, put_nested, put_number, put_string, put_tag, put_varint};
use super::{
    ENVELOPE_END, MAX_DEPTH, PARTIAL_V1BETA1, ProtoError, encode_message, envelope_head, node_of, special,
};
use crate::schema::{Field, FieldType, Node, StructId, field_among, schema};

/// Writes the message of a struct. Fields the type does not have are not written: they have no number.
pub(super) fn message(id: StructId, map: &Map, out: &mut Vec<u8>, depth: u32) -> Result<(), ProtoError> {
    if depth > MAX_DEPTH {
        return Err(ProtoError::TooDeep);
    }
    MessageEncoder { fields: schema().fields(id), map, depth }.write([0; 3], 0, out)
}

/// One message; inlined messages read from the same map.
struct MessageEncoder<'a> {
    fields: &'static [Field],
    map: &'a Map,
    depth: u32,
}

impl MessageEncoder<'_> {
    /// Writes the fields inside `level` inlined messages, whose field numbers are in `prefix`.
    fn write(&self, prefix: [u8; 3], level: usize, out: &mut Vec<u8>) -> Result<(), ProtoError> {
        let (mut inlined, mut fields) = ([0; 3], self.fields);
        for (name, value) in self.map {
            let Some(field) = field_among(&mut fields, name) else { continue };
            if field.numbers.get(..level) != prefix.get(..level) {
                continue;
            }
            let number = field.numbers.get(level).copied().unwrap_or(0);
            let is_leaf = field.numbers.get(level + 1).is_none_or(|&n| n == 0);
            if number == 0 || inlined.contains(&number) {
                continue;
            }
            if is_leaf {
                write_field(field, number, value, out, self.depth)?;
                continue;
            }
            // An inlined message is written at the number of the first of its fields that is present.
            if let Some(slot) = inlined.iter_mut().find(|n| **n == 0) {
                *slot = number;
            }
            put_nested(out, number, |out| self.write(field.numbers, level + 1, out))?;
        }
        Ok(())
    }
}

/// The Go type of the verbs in discovery documents.
const VERBS: &str = "v1.Verbs";

/// Writes one field of a message. Null is absence. Lists and maps are repeated fields, except for the few that Go
/// declares as a type of their own.
fn write_field(
    field: &'static Field,
    number: u8,
    value: &Value,
    out: &mut Vec<u8>,
    depth: u32,
) -> Result<(), ProtoError> {
    let slot = FieldSlot { name: field.name, depth };
    match (field.ty, value) {
        (_, Value::Null) => Ok(()),
        // A list with a named type in Go is a separate message.
        (FieldType::List(item), Value::Array(items)) if field.go_type == Some(VERBS) => {
            let item = schema().element(item);
            put_nested(out, number, |out| items.iter().try_for_each(|v| single(item, 1, v, out, slot)))
        }
        (FieldType::List(item), Value::Array(items)) => {
            let item = schema().element(item);
            items.iter().try_for_each(|v| single(item, number, v, out, slot))
        }
        (FieldType::Map(item), Value::Object(entries)) => {
            let item = schema().element(item);
            entries.iter().try_for_each(|(key, v)| {
                put_nested(out, number, |out| {
                    put_string(out, 1, key);
                    map_value(item, v, out, slot)
                })
            })
        }
        _ => single(field.ty, number, value, out, slot),
    }
}

/// Writes the value of a map entry, which has the number 2 in its message.
fn map_value(item: FieldType, value: &Value, out: &mut Vec<u8>, slot: FieldSlot) -> Result<(), ProtoError> {
    match (item, value) {
        (FieldType::List(inner), Value::Array(items)) => put_nested(out, 2, |out| {
            let inner = schema().element(inner);
            items.iter().try_for_each(|v| single(inner, 1, v, out, slot))
        }),
        _ => single(item, 2, value, out, slot),
    }
}

/// Writes a value that is not repeated. A value of another type than the schema's is an error: the object was
/// type-checked before, so it is a damaged one.
fn single(
    ty: FieldType,
    number: u8,
    value: &Value,
    out: &mut Vec<u8>,
    slot: FieldSlot,
) -> Result<(), ProtoError> {
    match (ty, value) {
        (FieldType::Bool, Value::Bool(on)) => put_number(out, number, i64::from(*on)),
        (FieldType::Int32 | FieldType::Int64, Value::Number(n)) => {
            let n = n.as_i64().ok_or_else(|| slot.invalid(format!("{n} is no integer")))?;
            put_number(out, number, n);
        }
        (FieldType::Double, Value::Number(n)) => put_double(out, number, n.as_f64().unwrap_or_default()),
        (FieldType::String, Value::String(text)) => put_string(out, number, text),
        (FieldType::Bytes, Value::String(text)) => {
            put_bytes(out, number, &special::text_to_bytes(text, slot)?)
        }
        (FieldType::Struct(id), Value::Object(map)) => {
            return put_nested(out, number, |out| message(id, map, out, slot.depth + 1));
        }
        // Inside lists and maps, null is the empty value.
        (_, Value::Null) => put_bytes(out, number, &[]),
        (
            FieldType::Bool
            | FieldType::Int32
            | FieldType::Int64
            | FieldType::Double
            | FieldType::String
            | FieldType::Bytes
            | FieldType::Struct(_)
            | FieldType::List(_)
            | FieldType::Map(_),
            _,
        ) => return Err(slot.invalid("not of its type".to_owned())),
        _ => return put_nested(out, number, |out| special::write(ty, value, out, slot)),
    }
    Ok(())
}

/// Writes a list in pieces, so that neither its objects nor its bytes are ever in memory as a whole. The envelope has the
/// length of all items before the first of them.
///
/// A list is encoded twice, once to measure and once to send, in exchange for never being in memory as a whole.
#[derive(Debug)]
pub struct ListWriter {
    item: Node,
    /// The envelope up to the length of the list.
    envelope: Vec<u8>,
    /// The list's own metadata, which precedes the items.
    head: Vec<u8>,
    /// The number of the field of items.
    items: u8,
}

/// The tag of a message that is the second field.
const METADATA_AS_SECOND: u8 = 2 << 3 | 2;

impl ListWriter {
    /// Prepares the list of a kind; `metadata` is the list's own.
    ///
    /// # Errors
    /// When the kind is not built in or the metadata is no `ListMeta`.
    pub fn new(api_version: &str, kind: &str, metadata: &Value) -> Result<Self, ProtoError> {
        let item = node_of(api_version, kind)?;
        let kind = format!("{kind}List");
        let list = Value::Object([("metadata".to_owned(), metadata.clone())].into_iter().collect());
        let mut head = Vec::new();
        encode_message(node_of(api_version, &kind)?, &list, &mut head)?;
        let swapped = api_version == PARTIAL_V1BETA1;
        if let Some(tag) = head.first_mut().filter(|_| swapped) {
            *tag = METADATA_AS_SECOND;
        }
        let items = if swapped { 1 } else { 2 };
        Ok(Self { item, envelope: envelope_head(api_version, &kind), head, items })
    }

    /// The bytes before the items. `items` is the sum of their encoded sizes, which the envelope and the list state in
    /// front.
    ///
    /// The sum must be exact: it is written before anything else, and another one makes the whole response
    /// undecodable.
    #[must_use]
    pub fn begin(&self, items: u64) -> Vec<u8> {
        let mut out = self.envelope.clone();
        put_tag(&mut out, 2, 2);
        put_varint(&mut out, self.head.len() as u64 + items);
        out.extend_from_slice(&self.head);
        out
    }

    /// Appends one object. Its kind and apiVersion are not written: in protobuf they are in the envelope only.
    ///
    /// # Errors
    /// When the object is not of the kind.
    pub fn item(&self, object: &Value, out: &mut Vec<u8>) -> Result<(), ProtoError> {
        put_nested(out, self.items, |out| encode_message(self.item, object, out))
    }

    /// The rest of the envelope. Without it the message is truncated.
    #[must_use]
    pub fn end(&self) -> &'static [u8] {
        ENVELOPE_END
    }
}
