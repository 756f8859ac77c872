//! Protobuf messages that are described by tables: documents about the API, whose types are not in the schema of the kinds.
//!
//! A table maps each member of a JSON object to a field of the message. Other members are left out, and so are zero
//! values, as in proto3. Recursive along the document, whose depth the JSON parser bounds.

use listwatch_wire::json::{Map, Value};

use super::wire::{put_bytes, put_double, put_number, put_string};

/// A message, by the JSON that it is made of.
pub(crate) enum ProtoMessage {
    /// An object with known members. Those that begin with `x-` are written under the number of `extensions`.
    Object { fields: &'static [MessageField], extensions: Option<u8> },
    /// An object with any members: repeated messages of a name and a value, under this number.
    Map(u8, &'static Self),
    /// A message under 1, or a reference to one under 2.
    OrReference(&'static Self),
    /// A message under 1, or a boolean under 2.
    OrFlag(&'static Self),
    /// A message that is the only element of a list under 1.
    Only(&'static Self),
    /// Any value, as YAML text under 2. JSON is YAML.
    Yaml,
    /// A number under 1, a boolean under 2 or a text under 3. Other values are an empty message.
    Scalar,
}

/// A member of an object: its name, its number and its form.
pub(crate) struct MessageField(pub(crate) &'static str, pub(crate) u8, pub(crate) FieldForm);

/// The form of a field.
pub(crate) enum FieldForm {
    Text,
    Texts,
    Flag,
    Integer,
    Double,
    One(&'static ProtoMessage),
    Many(&'static ProtoMessage),
}

impl ProtoMessage {
    /// Writes the message of a value.
    pub(crate) fn of(&self, value: &Value) -> Vec<u8> {
        let mut out = Vec::new();
        match (self, value) {
            (Self::Object { fields, extensions }, Value::Object(map)) => {
                fields.iter().for_each(|field| field.write(map.get(field.0), &mut out));
                extensions.iter().for_each(|number| put_extensions(&mut out, *number, map));
            }
            (Self::Map(number, inner), Value::Object(map)) => {
                map.iter()
                    .for_each(|(name, value)| put_bytes(&mut out, *number, &named(name, &inner.of(value))));
            }
            (Self::OrReference(inner), Value::Object(map)) => match map.get("$ref") {
                Some(_) => put_bytes(&mut out, 2, &REFERENCE.of(value)),
                None => put_bytes(&mut out, 1, &inner.of(value)),
            },
            // A member of a oneof is written even if it is false.
            (Self::OrFlag(_), Value::Bool(flag)) => put_number(&mut out, 2, i64::from(*flag)),
            (Self::OrFlag(inner) | Self::Only(inner), value) => put_bytes(&mut out, 1, &inner.of(value)),
            (Self::Yaml, value) => put_string(&mut out, 2, &value.to_string()),
            (Self::Scalar, value) => put_scalar(&mut out, value),
            _ => {}
        }
        out
    }
}

/// The reference to a message.
static REFERENCE: ProtoMessage =
    ProtoMessage::Object { fields: &[MessageField("$ref", 1, FieldForm::Text)], extensions: None };

impl MessageField {
    /// Writes the value of the field, unless it is absent or of another form.
    fn write(&self, value: Option<&Value>, out: &mut Vec<u8>) {
        let Some(value) = value else { return };
        match (&self.2, value) {
            (FieldForm::Text, Value::String(text)) if !text.is_empty() => put_string(out, self.1, text),
            (FieldForm::Texts, Value::Array(texts)) => {
                texts.iter().filter_map(Value::as_str).for_each(|text| put_string(out, self.1, text));
            }
            (FieldForm::Flag, Value::Bool(true)) => put_number(out, self.1, 1),
            (FieldForm::Integer, value) => match value.as_i64() {
                Some(number) if number != 0 => put_number(out, self.1, number),
                _ => {}
            },
            (FieldForm::Double, value) => match value.as_f64() {
                Some(number) if number != 0.0 => put_double(out, self.1, number),
                _ => {}
            },
            (FieldForm::One(message), value) => put_bytes(out, self.1, &message.of(value)),
            (FieldForm::Many(message), Value::Array(items)) => {
                items.iter().for_each(|item| put_bytes(out, self.1, &message.of(item)));
            }
            _ => {}
        }
    }
}

/// Writes a name and a message under it, as the members of maps are written.
pub(crate) fn named(name: &str, message: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len() + message.len() + 8);
    put_string(&mut out, 1, name);
    put_bytes(&mut out, 2, message);
    out
}

/// Vendor extensions, in which Kubernetes has kinds, merge keys and list types.
fn put_extensions(out: &mut Vec<u8>, number: u8, map: &Map) {
    for (name, value) in map.iter().filter(|(name, _)| name.starts_with("x-")) {
        put_bytes(out, number, &named(name, &ProtoMessage::Yaml.of(value)));
    }
}

/// The default of a schema, which can only be a scalar.
fn put_scalar(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Number(number) => put_double(out, 1, number.as_f64().unwrap_or_default()),
        Value::Bool(flag) => put_number(out, 2, i64::from(*flag)),
        Value::String(text) => put_string(out, 3, text),
        _ => {}
    }
}
