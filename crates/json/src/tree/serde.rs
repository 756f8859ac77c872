//! The tree and serde: reading and writing it with any format, and conversion to and from `serde_json`.
//!
//! JSON bodies do not come this way: `parse` is strict about duplicates and depth, and this is not. It is for YAML, for
//! typed views of small parts ([`Value::to_type`]) and for tests. Of duplicate keys the last wins, and floats that JSON
//! cannot express become null.

use std::fmt;

use serde::de::{self, DeserializeOwned, MapAccess, SeqAccess, Visitor};
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Number;

use super::{Map, Text, Value};

impl Value {
    /// Deserializes the tree into a type. For small values such as options: it is converted to `serde_json`'s tree first.
    ///
    /// Two conversions, of which the first copies every string: fine for options and for parts of a definition, too
    /// slow for objects per request.
    ///
    /// # Errors
    /// If the tree is not of that type.
    pub fn to_type<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_value(self.into())
    }
}

impl From<serde_json::Value> for Value {
    fn from(value: serde_json::Value) -> Self {
        match value {
            serde_json::Value::Null => Self::Null,
            serde_json::Value::Bool(flag) => Self::Bool(flag),
            serde_json::Value::Number(number) => Self::Number(number),
            serde_json::Value::String(text) => Self::String(text.into()),
            serde_json::Value::Array(items) => items.into_iter().map(Self::from).collect(),
            serde_json::Value::Object(map) => {
                Self::Object(map.into_iter().map(|(key, value)| (key, Self::from(value))).collect())
            }
        }
    }
}

impl From<&Value> for serde_json::Value {
    fn from(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(flag) => Self::Bool(*flag),
            Value::Number(number) => Self::Number(number.clone()),
            Value::String(text) => Self::String(text.to_string()),
            Value::Array(items) => items.iter().map(Self::from).collect(),
            Value::Object(map) => {
                map.iter().map(|(key, value)| (key.to_string(), Self::from(value))).collect()
            }
        }
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(flag) => serializer.serialize_bool(*flag),
            Self::Number(number) => number.serialize(serializer),
            Self::String(text) => serializer.serialize_str(text),
            Self::Array(items) => {
                let mut out = serializer.serialize_seq(Some(items.len()))?;
                items.iter().try_for_each(|item| out.serialize_element(item))?;
                out.end()
            }
            Self::Object(map) => map.serialize(serializer),
        }
    }
}

impl Serialize for Map {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_map(Some(self.len()))?;
        self.iter().try_for_each(|(key, value)| out.serialize_entry(key.as_str(), value))?;
        out.end()
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

impl<'de> Deserialize<'de> for Map {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Object(map) => Ok(map),
            _ => Err(de::Error::custom("expected an object")),
        }
    }
}

/// Builds a tree from any self-describing format.
struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        Value::deserialize(deserializer)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(flag.into())
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Number::from_f64(number).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut out = Vec::new();
        while let Some(item) = items.next_element()? {
            out.push(item);
        }
        Ok(Value::Array(out.into()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut out = Map::new();
        while let Some((key, value)) = fields.next_entry::<MemberName, Value>()? {
            out.insert(key.0, value);
        }
        Ok(Value::Object(out))
    }
}

/// The name of a member. Formats such as YAML have keys that are not texts; these are written as Kubernetes writes them in
/// JSON, `on` as `true` and `0x10` as `16`.
struct MemberName(Text);

impl<'de> Deserialize<'de> for MemberName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(MemberNameVisitor)
    }
}

struct MemberNameVisitor;

impl Visitor<'_> for MemberNameVisitor {
    type Value = MemberName;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, a number or a boolean as a key")
    }

    fn visit_bool<E>(self, flag: bool) -> Result<MemberName, E> {
        Ok(MemberName(flag.to_string().into()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<MemberName, E> {
        Ok(MemberName(number.to_string().into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<MemberName, E> {
        Ok(MemberName(number.to_string().into()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<MemberName, E> {
        Ok(MemberName(number.to_string().into()))
    }

    fn visit_str<E>(self, text: &str) -> Result<MemberName, E> {
        Ok(MemberName(text.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goes_through_serde_unchanged() {
        let text = r#"{"a":[null,true,-1,18446744073709551615,1.5,"x"],"b":{}}"#;
        let value: Value = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&value).unwrap(), text);
        assert_eq!(Value::from(serde_json::Value::from(&value)), value);
        assert_eq!(value["a"].to_type::<Vec<serde_json::Value>>().unwrap().len(), 6);
        assert!(value.to_type::<String>().is_err());
    }
}
