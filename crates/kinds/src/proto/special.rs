//! Types whose protobuf message differs from their JSON: quantities, times, int-or-string, raw JSON, schema unions.
//!
//! Each exists because Go's type has a marshaller of its own. An empty time message means absent, while the epoch is
//! written out; an empty quantity means zero. A raw extension may contain an object in its own envelope, which is
//! decoded recursively within the same limit of depth.

use base64::Engine;
use listwatch_wire::json::{Map, Value, write_value};

use super::decode::FieldSlot;
use super::wire::{WireReader, put_nested, put_number, put_string};
use super::{MAGIC, ProtoError, decode, encode};
use crate::schema::{FieldType, schema};
use crate::typecheck::BASE64;
use crate::{quantity, time};

/// Reads the message of a special type; `None` if it is empty, which means "absent".
pub(super) fn read(ty: FieldType, bytes: &[u8], slot: FieldSlot) -> Result<Option<Value>, ProtoError> {
    match ty {
        FieldType::Quantity => amount(bytes, slot).map(Some),
        FieldType::IntOrString => int_or_string(bytes, slot).map(Some),
        FieldType::Time | FieldType::MicroTime => point_in_time(ty, bytes, slot),
        FieldType::Raw | FieldType::FieldsV1 | FieldType::Json => json(raw_bytes(bytes)?, slot),
        _ => schema_or(ty, bytes, slot).map(Some),
    }
}

/// Writes the content of a special type's message.
pub(super) fn write(
    ty: FieldType,
    value: &Value,
    out: &mut Vec<u8>,
    slot: FieldSlot,
) -> Result<(), ProtoError> {
    match (ty, value) {
        (FieldType::Quantity, Value::String(text)) => put_string(out, 1, text),
        (FieldType::IntOrString, Value::String(text)) => {
            put_number(out, 1, 1);
            put_string(out, 3, text);
        }
        (FieldType::IntOrString, Value::Number(number)) => {
            put_number(out, 1, 0);
            put_number(out, 2, number.as_i64().unwrap_or_default());
        }
        (FieldType::Time | FieldType::MicroTime, Value::String(text)) => {
            let (seconds, nanos) =
                time::parts(text).ok_or_else(|| slot.invalid(format!("{text:?} is no time")))?;
            put_number(out, 1, seconds);
            put_number(out, 2, i64::from(nanos));
        }
        (FieldType::Raw | FieldType::FieldsV1 | FieldType::Json, value) => {
            return put_nested(out, 1, |out| {
                write_value(out, value);
                Ok(())
            });
        }
        (FieldType::SchemaOrArray | FieldType::SchemaOrBool | FieldType::SchemaOrStrings, value) => {
            return write_schema_or(ty, value, out, slot);
        }
        _ => return Err(slot.invalid("not of its type".to_owned())),
    }
    Ok(())
}

/// Decodes a quantity into its canonical text. An empty message is zero.
fn amount(bytes: &[u8], slot: FieldSlot) -> Result<Value, ProtoError> {
    let text = last_text(bytes, 1, slot)?;
    if text.is_empty() {
        return Ok("0".into());
    }
    quantity::canonical(text).map(Value::from).map_err(|e| slot.invalid(e.to_string()))
}

/// Decodes an `IntOrString`, whose first field selects one of the other two.
fn int_or_string(bytes: &[u8], slot: FieldSlot) -> Result<Value, ProtoError> {
    let (mut reader, mut is_text, mut number, mut text) = (WireReader::new(bytes), false, 0, "");
    while let Some((field, wire)) = reader.tag()? {
        match (field, wire) {
            (1, 0) => is_text = reader.varint()? != 0,
            (2, 0) => number = reader.varint()? as i32,
            (3, 2) => text = reader.text(slot.name)?,
            _ => reader.skip(wire)?,
        }
    }
    Ok(if is_text { text.into() } else { number.into() })
}

/// An empty message is not a time at all; the epoch is written out.
fn point_in_time(ty: FieldType, bytes: &[u8], slot: FieldSlot) -> Result<Option<Value>, ProtoError> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let (mut reader, mut seconds, mut nanos) = (WireReader::new(bytes), 0, 0);
    while let Some((field, wire)) = reader.tag()? {
        match (field, wire) {
            (1, 0) => seconds = reader.varint()?.cast_signed(),
            (2, 0) => nanos = reader.varint()? as i32,
            _ => reader.skip(wire)?,
        }
    }
    let time =
        time::from_parts(seconds, nanos).ok_or_else(|| slot.invalid("a time out of range".to_owned()))?;
    Ok(Some(match ty {
        FieldType::MicroTime => time::format_micros(time).into(),
        _ => time::format_seconds(time).into(),
    }))
}

/// Bytes that hold JSON, or in a raw extension an object in its own envelope.
fn json(raw: &[u8], slot: FieldSlot) -> Result<Option<Value>, ProtoError> {
    if raw.is_empty() {
        return Ok(None);
    }
    if raw.starts_with(&MAGIC) {
        return super::decode_at(raw, ("", ""), slot.depth + 1).map(Some);
    }
    serde_json::from_slice(raw).map_err(|e| ProtoError::Json { field: slot.name, reason: e.to_string() })
}

/// The bytes in a message that is only a wrapper of bytes.
///
/// The last occurrence counts, as for every field.
fn raw_bytes(bytes: &[u8]) -> Result<&[u8], ProtoError> {
    let (mut reader, mut raw): (_, &[u8]) = (WireReader::new(bytes), &[]);
    while let Some((field, wire)) = reader.tag()? {
        match (field, wire) {
            (1, 2) => raw = reader.bytes()?,
            _ => reader.skip(wire)?,
        }
    }
    Ok(raw)
}

/// The last occurrence of a text field, which counts in protobuf.
fn last_text(bytes: &[u8], number: u32, slot: FieldSlot) -> Result<&str, ProtoError> {
    let (mut reader, mut text) = (WireReader::new(bytes), "");
    while let Some((field, wire)) = reader.tag()? {
        if (field, wire) == (number, 2) {
            text = reader.text(slot.name)?;
        } else {
            reader.skip(wire)?;
        }
    }
    Ok(text)
}

/// A schema or something else. The schema is field 2 beside a bool and field 1 beside a list.
fn schema_or(ty: FieldType, bytes: &[u8], slot: FieldSlot) -> Result<Value, ProtoError> {
    let (schema_at, other_at) = if ty == FieldType::SchemaOrBool { (2, 1) } else { (1, 2) };
    let props = schema().schema_props();
    let (mut reader, mut found, mut allowed, mut items) = (WireReader::new(bytes), None, false, Vec::new());
    while let Some((field, wire)) = reader.tag()? {
        match (field, wire, ty) {
            (n, 2, _) if n == schema_at => {
                found = Some(decode::message(props, reader.bytes()?, slot.depth + 1)?)
            }
            (n, 0, FieldType::SchemaOrBool) if n == other_at => allowed = reader.varint()? != 0,
            (n, 2, FieldType::SchemaOrArray) if n == other_at => {
                items.push(decode::message(props, reader.bytes()?, slot.depth + 1)?);
            }
            (n, 2, FieldType::SchemaOrStrings) if n == other_at => items.push(reader.text(slot.name)?.into()),
            _ => reader.skip(wire)?,
        }
    }
    Ok(match (found, ty) {
        (Some(schema), _) => schema,
        (None, FieldType::SchemaOrBool) => allowed.into(),
        _ => items.into(),
    })
}

/// Writes a schema or its alternative. With a schema, `SchemaOrBool` has its flag set.
fn write_schema_or(
    ty: FieldType,
    value: &Value,
    out: &mut Vec<u8>,
    slot: FieldSlot,
) -> Result<(), ProtoError> {
    let props = schema().schema_props();
    let nested = |map: &Map, number, out: &mut Vec<u8>| {
        put_nested(out, number, |out| encode::message(props, map, out, slot.depth + 1))
    };
    match (ty, value) {
        (FieldType::SchemaOrBool, Value::Bool(allowed)) => put_number(out, 1, i64::from(*allowed)),
        (FieldType::SchemaOrBool, Value::Object(map)) => {
            put_number(out, 1, 1);
            nested(map, 2, out)?;
        }
        (_, Value::Object(map)) => nested(map, 1, out)?,
        (_, Value::Array(items)) => {
            for item in items {
                match item {
                    Value::String(text) => put_string(out, 2, text),
                    Value::Object(map) => nested(map, 2, out)?,
                    _ => return Err(slot.invalid("not of its type".to_owned())),
                }
            }
        }
        _ => return Err(slot.invalid("not of its type".to_owned())),
    }
    Ok(())
}

/// JSON has no bytes: they are standard base64 with padding there.
pub(super) fn bytes_to_text(bytes: &[u8]) -> Value {
    base64::engine::general_purpose::STANDARD.encode(bytes).into()
}

/// Decodes base64 for a field of bytes.
///
/// # Errors
///
/// Text that is no base64. The type check has refused it before for objects that were stored.
pub(super) fn text_to_bytes(text: &str, slot: FieldSlot) -> Result<Vec<u8>, ProtoError> {
    BASE64.decode(text).map_err(|e| slot.invalid(e.to_string()))
}
