//! Protobuf to JSON: a message becomes the object that a typed JSON client would have sent.
//!
//! It walks the bytes by the field numbers of the schema table. Go's senders write every field that is not a pointer, zero
//! or not, and zero means absent to them; only pointers keep a zero. Inlined structs are nested messages on the wire
//! and flat in JSON, up to three levels. Unknown fields are skipped; depth is limited, and lengths are checked against
//! what is there before anything is allocated.

use listwatch_wire::json::{List, Map, Value};

use super::wire::WireReader;
use super::{MAX_DEPTH, ProtoError, special};
use crate::schema::{Field, FieldType, StructId, schema};

/// The place of a value: the field's name for messages, and its depth.
#[derive(Clone, Copy)]
pub(super) struct FieldSlot {
    pub(super) name: &'static str,
    /// Messages around the value, compared with the limit where another one begins.
    pub(super) depth: u32,
}

impl FieldSlot {
    pub(super) fn invalid(self, reason: String) -> ProtoError {
        ProtoError::Value { field: self.name, reason }
    }
}

/// Decodes the message of a struct.
///
/// # Errors
///
/// Bytes that are not a message, values that cannot be read, or nesting beyond the limit.
pub(super) fn message(id: StructId, bytes: &[u8], depth: u32) -> Result<Value, ProtoError> {
    let mut map = Map::new();
    MessageDecoder { fields: schema().fields(id), depth }.read(bytes, [0; 3], 0, &mut map)?;
    Ok(Value::Object(map))
}

/// One message; inlined messages add to the same map.
///
/// Fields are found by a linear search over the struct's numbers: messages have few fields, and the numbers lie side
/// by side.
struct MessageDecoder {
    fields: &'static [Field],
    depth: u32,
}

impl MessageDecoder {
    /// `prefix` holds the numbers of the inlined messages around these bytes, `level` how many there are.
    fn read(&self, bytes: &[u8], prefix: [u8; 3], level: usize, map: &mut Map) -> Result<(), ProtoError> {
        if self.depth > MAX_DEPTH {
            return Err(ProtoError::TooDeep);
        }
        let mut reader = WireReader::new(bytes);
        while let Some((number, wire)) = reader.tag()? {
            let mut numbers = prefix;
            match (numbers.get_mut(level), u8::try_from(number)) {
                (Some(slot), Ok(number)) => *slot = number,
                _ => {
                    reader.skip(wire)?;
                    continue;
                }
            }
            if let Some(field) = self.fields.iter().find(|f| f.numbers == numbers) {
                self.field(field, &mut reader, wire, map)?;
            } else if wire == 2 && self.inlines(&numbers, level) {
                self.read(reader.bytes()?, numbers, level + 1, map)?;
            } else {
                reader.skip(wire)?;
            }
        }
        Ok(())
    }

    /// Returns true if a message with these numbers is inlined: the table has a field below it.
    fn inlines(&self, numbers: &[u8; 3], level: usize) -> bool {
        self.fields.iter().any(|f| f.numbers.get(..=level) == numbers.get(..=level))
    }

    /// Decodes one occurrence of a field. Lists and maps come as one occurrence per element.
    fn field(
        &self,
        field: &'static Field,
        reader: &mut WireReader<'_>,
        wire: u8,
        map: &mut Map,
    ) -> Result<(), ProtoError> {
        let slot = FieldSlot { name: field.name, depth: self.depth };
        match field.ty {
            FieldType::List(item) => {
                let item = schema().element(item);
                let list = map.entry(field.name).or_insert_with(|| Value::Array(List::default()));
                if let Value::Array(items) = list {
                    repeated(item, reader, wire, items, slot)?;
                }
            }
            FieldType::Map(item) => {
                let (key, value) = entry(schema().element(item), expect(reader, wire, slot)?, slot)?;
                let entries = map.entry(field.name).or_insert_with(|| Value::Object(Map::new()));
                if let Value::Object(entries) = entries {
                    entries.insert(key, value);
                }
            }
            ty => {
                let value = single(ty, reader, wire, slot)?;
                store(map, field, value.filter(|v| field.pointer || !is_zero(v, field)));
            }
        }
        Ok(())
    }
}

/// The last value of a field wins. Protobuf would merge a message that comes twice; no sender of Kubernetes relies on
/// it, so that it is replaced, too.
fn store(map: &mut Map, field: &Field, value: Option<Value>) {
    match value {
        Some(value) => map.insert(field.name, value),
        None => map.remove(field.name),
    };
}

/// Senders write every value that is not a pointer, zero or not. Zero means absent to them, so it is absent here.
fn is_zero(value: &Value, field: &Field) -> bool {
    match value {
        Value::Bool(on) => !on,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty() || (field.ty == FieldType::Quantity && text == "0"),
        Value::Object(map) => field.omit_zero && map.is_empty(),
        _ => false,
    }
}

/// Numbers may come packed, several in one field.
fn repeated(
    item: FieldType,
    reader: &mut WireReader<'_>,
    wire: u8,
    items: &mut Vec<Value>,
    slot: FieldSlot,
) -> Result<(), ProtoError> {
    if wire == 2 && matches!(item, FieldType::Int32 | FieldType::Int64 | FieldType::Bool) {
        let mut packed = WireReader::new(reader.bytes()?);
        while !packed.is_empty() {
            items.extend(single(item, &mut packed, 0, slot)?);
        }
        return Ok(());
    }
    items.push(single(item, reader, wire, slot)?.unwrap_or(Value::Null));
    Ok(())
}

/// One entry of a map: a message of key and value.
fn entry(item: FieldType, bytes: &[u8], slot: FieldSlot) -> Result<(String, Value), ProtoError> {
    let (mut reader, mut key, mut value) = (WireReader::new(bytes), "", None);
    while let Some((number, wire)) = reader.tag()? {
        match (number, wire) {
            (1, 2) => key = reader.text(slot.name)?,
            (2, _) => value = map_value(item, &mut reader, wire, slot)?,
            _ => reader.skip(wire)?,
        }
    }
    let value = match value {
        Some(value) => value,
        // A map entry without a value has the zero value.
        None => map_value(item, &mut WireReader::new(&[0]), if is_varint(item) { 0 } else { 2 }, slot)?
            .unwrap_or(Value::Null),
    };
    Ok((key.to_owned(), value))
}

/// A protobuf map cannot hold lists, so each is wrapped in a message (`ExtraValue`).
fn map_value(
    item: FieldType,
    reader: &mut WireReader<'_>,
    wire: u8,
    slot: FieldSlot,
) -> Result<Option<Value>, ProtoError> {
    let FieldType::List(inner) = item else { return single(item, reader, wire, slot) };
    let (mut list, mut items) = (WireReader::new(expect(reader, wire, slot)?), Vec::new());
    while let Some((number, wire)) = list.tag()? {
        match number {
            1 => repeated(schema().element(inner), &mut list, wire, &mut items, slot)?,
            _ => list.skip(wire)?,
        }
    }
    Ok(Some(items.into()))
}

/// Types that may be packed in a list.
fn is_varint(ty: FieldType) -> bool {
    matches!(ty, FieldType::Bool | FieldType::Int32 | FieldType::Int64)
}

/// One value; `None` for a message that means "absent".
fn single(
    ty: FieldType,
    reader: &mut WireReader<'_>,
    wire: u8,
    slot: FieldSlot,
) -> Result<Option<Value>, ProtoError> {
    Ok(Some(match (ty, wire) {
        (FieldType::Bool, 0) => (reader.varint()? != 0).into(),
        // Negative numbers are sent as 64 bits; the upper half is dropped, as by every decoder.
        (FieldType::Int32, 0) => (reader.varint()? as i32).into(),
        (FieldType::Int64, 0) => reader.varint()?.cast_signed().into(),
        (FieldType::Double, 1) => f64::from_bits(reader.fixed64()?).into(),
        (FieldType::String, 2) => reader.text(slot.name)?.into(),
        (FieldType::Bytes, 2) => special::bytes_to_text(reader.bytes()?),
        (FieldType::Struct(id), 2) => message(id, reader.bytes()?, slot.depth + 1)?,
        (FieldType::Bool | FieldType::Int32 | FieldType::Int64 | FieldType::Double, _) => {
            return Err(wrong(wire, slot));
        }
        _ => {
            let bytes = expect(reader, wire, slot)?;
            return special::read(ty, bytes, FieldSlot { depth: slot.depth + 1, ..slot });
        }
    }))
}

/// Reads the bytes of a field that must have some.
///
/// # Errors
///
/// Another wire type than bytes: the sender has another schema.
fn expect<'a>(reader: &mut WireReader<'a>, wire: u8, slot: FieldSlot) -> Result<&'a [u8], ProtoError> {
    if wire == 2 { reader.bytes() } else { Err(wrong(wire, slot)) }
}

fn wrong(wire: u8, slot: FieldSlot) -> ProtoError {
    ProtoError::WireType { field: slot.name, found: wire }
}
