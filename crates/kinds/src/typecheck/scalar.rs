//! Scalars: checks of their types, and the one canonical form in which each is stored.
//!
//! Quantities, times and base64 have several spellings; they are rewritten here, so that equal objects are equal bytes.
//! Types with a decoder of their own in Go report errors without the name of the field, as there. Integers must fit
//! their width; a fraction is refused even if it is zero (`1.0`).

use std::borrow::Cow;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use listwatch_wire::go::json_type;
use listwatch_wire::json::{Number, Value};

use crate::schema::FieldType;
use crate::{quantity, time};

/// The reason for refusing a value.
pub(super) enum ScalarFault {
    /// It is of another type; the text is what Go calls the value.
    Kind(Cow<'static, str>),
    /// The type's own decoder refuses it, and the message has nothing else.
    Text(String),
}

/// Go decodes base64 with padding required and does not look at bits that are left over.
pub(crate) const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

/// Checks a value that is not null and brings it into its canonical form.
///
/// The value is replaced only if its text changes, so that an object which is canonical already stays shared.
pub(super) fn normalise(ty: FieldType, value: &mut Value) -> Result<(), ScalarFault> {
    match ty {
        FieldType::String if value.is_string() => Ok(()),
        FieldType::Bool if value.is_boolean() => Ok(()),
        FieldType::Int32 => integer(value, i64::from(i32::MIN), i64::from(i32::MAX)),
        FieldType::Int64 => integer(value, i64::MIN, i64::MAX),
        FieldType::Double if value.is_number() => Ok(()),
        FieldType::Bytes => bytes(value),
        FieldType::Quantity => amount(value),
        FieldType::IntOrString => int_or_string(value),
        FieldType::Time | FieldType::MicroTime => point_in_time(ty, value),
        FieldType::Raw | FieldType::FieldsV1 | FieldType::Json => Ok(()),
        _ => Err(ScalarFault::Kind(json_type(value).into())),
    }
}

/// Checks an integer and its range; the text of the number is part of the error, as Go's decoder shows it.
fn integer(value: &mut Value, low: i64, high: i64) -> Result<(), ScalarFault> {
    let Value::Number(number) = value else { return Err(ScalarFault::Kind(json_type(value).into())) };
    match number.as_i64() {
        Some(n) if (low..=high).contains(&n) => Ok(()),
        _ => Err(ScalarFault::Kind(format!("number {number}").into())),
    }
}

/// Checks base64 and removes line breaks. Errors name the byte that Go's decoder would name.
fn bytes(value: &mut Value) -> Result<(), ScalarFault> {
    let Value::String(text) = value else { return Err(ScalarFault::Kind(json_type(value).into())) };
    // Line breaks are allowed in base64 and not kept.
    if text.contains(['\n', '\r']) {
        text.retain(|c| c != '\n' && c != '\r');
    }
    match BASE64.decode(text.as_bytes()) {
        Ok(_) => Ok(()),
        Err(base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _)) => {
            Err(ScalarFault::Text(format!("illegal base64 data at input byte {at}")))
        }
        Err(_) => Err(ScalarFault::Text(format!("illegal base64 data at input byte {}", text.len() / 4 * 4))),
    }
}

/// Canonicalises a quantity. Numbers are accepted, as in YAML written by hand.
fn amount(value: &mut Value) -> Result<(), ScalarFault> {
    let text = match &*value {
        Value::String(text) => Cow::Borrowed(text.trim()),
        Value::Number(number) => Cow::Owned(number.to_string()),
        // Any other value is not a number to kube-apiserver's decoder, which reads the bytes as they are.
        _ => Cow::Borrowed("?"),
    };
    let canonical = quantity::canonical(&text).map_err(|e| ScalarFault::Text(e.to_string()))?;
    if value.as_str() != Some(&canonical) {
        *value = canonical.into_owned().into();
    }
    Ok(())
}

/// Checks a port or percentage: text, or an integer of 32 bits.
fn int_or_string(value: &mut Value) -> Result<(), ScalarFault> {
    match value {
        Value::String(_) => Ok(()),
        Value::Number(number) if number.as_i64().is_some_and(|n| i32::try_from(n).is_ok()) => Ok(()),
        Value::Number(number) => Err(untyped(&format!("number {number}"), "int32")),
        other => Err(untyped(json_type(other), "int32")),
    }
}

/// Canonicalises a time: seconds for `Time`, microseconds for `MicroTime`.
fn point_in_time(ty: FieldType, value: &mut Value) -> Result<(), ScalarFault> {
    let text = text_of(value)?;
    let canonical = match ty {
        FieldType::MicroTime => Cow::Owned(time::micros(text).map_err(ScalarFault::Text)?),
        _ => time::seconds(text).map_err(ScalarFault::Text)?,
    };
    if canonical != *text {
        *value = canonical.into_owned().into();
    }
    Ok(())
}

fn text_of(value: &Value) -> Result<&str, ScalarFault> {
    value.as_str().ok_or_else(|| untyped(json_type(value), "string"))
}

/// Errors of types with their own decoder do not name the field.
fn untyped(found: &str, wanted: &str) -> ScalarFault {
    ScalarFault::Text(format!("json: cannot unmarshal {found} into Go value of type {wanted}"))
}

/// A number of the table, for values that are made here.
pub(super) fn number(n: i64) -> Value {
    Value::Number(Number::from(n))
}
