//! Conversions of plain values into a [`Value`], and comparisons with them.
//!
//! They are those of `serde_json`, so that `json!`, `.into()` and `value == "text"` work as there. Numbers that JSON
//! does not have (NaN, infinities) become `null`.

use serde_json::Number;

use super::{List, Map, Text, Value};

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::String(text.into())
    }
}

impl From<std::borrow::Cow<'_, str>> for Value {
    fn from(text: std::borrow::Cow<'_, str>) -> Self {
        Self::String(text.into())
    }
}

impl<T: Into<Value>> From<Vec<T>> for Value {
    fn from(items: Vec<T>) -> Self {
        Self::Array(items.into_iter().map(Into::into).collect())
    }
}

impl<T: Clone + Into<Value>> From<&[T]> for Value {
    fn from(items: &[T]) -> Self {
        items.iter().cloned().collect()
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl<T: Into<Value>> FromIterator<T> for Value {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        Self::Array(items.into_iter().map(Into::into).collect())
    }
}

/// A finite number, or `null`.
impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Number::from_f64(number).map_or(Self::Null, Self::Number)
    }
}

macro_rules! variant_from {
    ($($type:ty => $variant:ident),* $(,)?) => {$(
        impl From<$type> for Value {
            fn from(value: $type) -> Self {
                Self::$variant(value.into())
            }
        }
    )*};
}

variant_from! {
    bool => Bool, String => String, Text => String, Number => Number, List => Array, Map => Object,
    u8 => Number, u16 => Number, u32 => Number, u64 => Number, usize => Number,
    i8 => Number, i16 => Number, i32 => Number, i64 => Number,
}

macro_rules! compares_with {
    ($($type:ty => $getter:ident),* $(,)?) => {$(
        impl PartialEq<$type> for Value {
            fn eq(&self, other: &$type) -> bool {
                self.$getter().is_some_and(|value| value == *other)
            }
        }
    )*};
}

compares_with! { bool => as_bool, i64 => as_i64, u64 => as_u64, f64 => as_f64 }

impl PartialEq<i32> for Value {
    fn eq(&self, other: &i32) -> bool {
        *self == i64::from(*other)
    }
}

impl PartialEq<str> for Value {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == Some(other)
    }
}

impl PartialEq<&str> for Value {
    fn eq(&self, other: &&str) -> bool {
        self == *other
    }
}

impl PartialEq<String> for Value {
    fn eq(&self, other: &String) -> bool {
        self == other.as_str()
    }
}
