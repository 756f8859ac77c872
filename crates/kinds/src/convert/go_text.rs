//! JSON text in the field order of Go's structs, and its parsing, for the annotations of `autoscaling/v1`.
//!
//! kube-apiserver writes such annotations with `json.Marshal` of a struct, so that the order of fields and the zero values
//! of those that are not pointers are part of the text. Parsing follows `json.Unmarshal`: names in any case, unknown
//! fields ignored, a value of another type is an error. The structs are tables in [`super::autoscaler`].

use std::fmt::Write as _;

use listwatch_wire::json::{Map, Value};

use crate::quantity::canonical;

/// The type of a field.
#[derive(Clone, Copy)]
pub(super) enum GoType {
    /// A string.
    Text,
    /// A whole number.
    Number,
    /// An amount; written canonically.
    Amount,
    /// A time, which is null if it is not set.
    Time,
    Struct(&'static [GoField]),
    List(&'static [GoField]),
    /// A list of strings.
    Texts,
    /// Strings by name.
    TextMap,
}

/// A field of a struct.
pub(super) struct GoField {
    pub(super) name: &'static str,
    pub(super) ty: GoType,
    pub(super) unset: Unset,
}

/// The text of a field that is not set.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unset {
    /// Left out: a pointer with `omitempty`.
    Absent,
    /// The zero value of its type.
    Zero,
    /// `null`: a pointer of a struct without tags.
    Null,
}

/// Shorthand for the tables.
pub(super) const fn field(name: &'static str, ty: GoType, unset: Unset) -> GoField {
    GoField { name, ty, unset }
}

/// Writes the elements of a list.
pub(super) fn list_text(items: &[Value], fields: &[GoField]) -> String {
    let items: Vec<String> = items.iter().map(|item| struct_text(item, fields)).collect();
    format!("[{}]", items.join(","))
}

/// Writes a struct. Names are compared in any case, so that one tree serves both spellings.
pub(super) fn struct_text(value: &Value, fields: &[GoField]) -> String {
    let (empty, mut out) = (Map::new(), String::from("{"));
    let map = value.as_object().unwrap_or(&empty);
    for GoField { name, ty, unset } in fields {
        let text = match (find(map, name), unset) {
            (Some(value), _) => ty.text(value),
            (None, Unset::Absent) => continue,
            (None, Unset::Null) => "null".to_owned(),
            (None, Unset::Zero) => ty.zero(),
        };
        let comma = if out.len() > 1 { "," } else { "" };
        let _ = write!(out, "{comma}\"{name}\":{text}");
    }
    out.push('}');
    out
}

/// Reads a list of structs; `None` if a value has another type. Fields get the names of the table.
pub(super) fn read_list(value: &Value, fields: &[GoField]) -> Option<Vec<Value>> {
    match value {
        Value::Null => Some(Vec::new()),
        value => value.as_array()?.iter().map(|item| read_struct(item, fields)).collect(),
    }
}

/// Reads a struct; `None` if a value has another type. Zero values of fields that are not pointers are filled in.
pub(super) fn read_struct(value: &Value, fields: &[GoField]) -> Option<Value> {
    let (empty, mut out) = (Map::new(), Map::new());
    let map = if value.is_null() { &empty } else { value.as_object()? };
    for GoField { name, ty, unset } in fields {
        match find(map, name) {
            Some(value) => {
                out.insert((*name).to_owned(), ty.read(value)?);
            }
            None if *unset == Unset::Zero && matches!(ty, GoType::Amount) => {
                out.insert((*name).to_owned(), "0".into());
            }
            None => {}
        }
    }
    Some(Value::Object(out))
}

fn find<'a>(map: &'a Map, name: &str) -> Option<&'a Value> {
    let exact = map.get(name);
    let any = || map.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value);
    exact.or_else(any).filter(|value| !value.is_null())
}

impl GoType {
    fn text(self, value: &Value) -> String {
        match self {
            Self::Struct(fields) => struct_text(value, fields),
            Self::List(fields) => list_text(value.as_array().map(Vec::as_slice).unwrap_or_default(), fields),
            _ => value.to_string(),
        }
    }

    fn zero(self) -> String {
        match self {
            Self::Text => "\"\"",
            Self::Number => "0",
            Self::Amount => "\"0\"",
            Self::Struct(fields) => return struct_text(&Value::Null, fields),
            Self::Time | Self::List(_) | Self::Texts | Self::TextMap => "null",
        }
        .to_owned()
    }

    fn read(self, value: &Value) -> Option<Value> {
        match self {
            Self::Text => value.as_str().map(|_| value.clone()),
            Self::Time => crate::time::seconds(value.as_str()?).ok().map(|time| Value::from(&*time)),
            Self::Number => value.as_i64().map(|_| value.clone()),
            Self::Amount => {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                canonical(&text).ok().map(|text| Value::from(&*text))
            }
            Self::Struct(fields) => read_struct(value, fields),
            Self::List(fields) => read_list(value, fields).map(Value::from),
            Self::Texts => value.as_array()?.iter().all(Value::is_string).then(|| value.clone()),
            Self::TextMap => value.as_object()?.values().all(Value::is_string).then(|| value.clone()),
        }
    }
}
