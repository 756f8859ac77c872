//! Values: what expressions evaluate to.
//!
//! Values of objects are read from the JSON tree on first use; nothing is converted before. The declaration of a field
//! (that a string is a time, that a number is a double) is kept with the value.

pub(crate) mod compare;
mod json;
mod list;
mod map;
mod text;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use listwatch_wire::json::{Text, Value as Json};

use crate::error::EvalError;
use crate::library::authz::AccessCheck;
use crate::library::cidr::Cidr;
use crate::library::format::Format;
use crate::library::quantity::QuantityValue;
use crate::library::semver::Semver;
use crate::library::time::Timestamp;
use crate::library::url::Url;
use crate::meter::Meter;

pub use json::to_json;
pub use list::ListValue;
pub use map::{MapValue, OwnedMap};
pub use text::Str;

/// An object of the host whose fields are computed when they are read, such as the variables of a policy.
///
/// Shared with expressions by reference, so it needs interior mutability to cache computed values. The server's
/// policies use it for `variables`, which may refer to each other.
pub trait HostObject: fmt::Debug + Send + Sync {
    /// The name of its type, as `type()` returns it.
    fn type_name(&self) -> &str;

    /// The value of a field, or `None` if there is none. Its evaluation is charged to the meter of the expression that reads it.
    ///
    /// # Errors
    /// The error of evaluating the field.
    fn field<'s>(&'s self, name: &str, meter: &mut Meter) -> Result<Option<Value<'s>>, EvalError>;
}

/// An object that an expression constructed, such as `JSONPatch{op: "add"}` in a mutating policy.
///
/// The checker has made sure that the fields exist and fit; hosts turn it into JSON or read the fields that they
/// expect.
#[derive(Clone, Debug)]
pub struct StructValue<'a> {
    /// The name of its type.
    pub type_name: Text,
    /// The fields that were given, in the order of the expression.
    pub fields: Vec<(Text, Value<'a>)>,
}

/// A value of an expression. Those of an object borrow from its tree; cloning copies no text and no container.
///
/// A clone is what reading a variable costs, so no variant owns more than a pointer.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    Uint(u64),
    /// A floating-point number.
    Double(f64),
    /// A string.
    String(Str<'a>),
    /// A sequence of bytes.
    Bytes(Arc<[u8]>),
    /// A point in time.
    Timestamp(Timestamp),
    /// A span of time in nanoseconds.
    Duration(i64),
    /// A list.
    List(ListValue<'a>),
    /// A map, or an object with named fields.
    Map(MapValue<'a>),
    /// A type, by its name.
    Type(Text),
    /// An optional value.
    Optional(Option<Arc<Value<'a>>>),
    /// A constructed object.
    Struct(Arc<StructValue<'a>>),
    /// An object of the host.
    Host(&'a dyn HostObject),
    /// `kubernetes.URL`.
    Url(Arc<Url>),
    /// `net.IP`.
    Ip(IpAddr),
    /// `net.CIDR`.
    Cidr(Cidr),
    /// `kubernetes.Quantity`.
    Quantity(Arc<QuantityValue>),
    /// `kubernetes.Semver`.
    Semver(Arc<Semver>),
    /// `kubernetes.NamedFormat`.
    Format(&'static Format),
    /// A part of the authorizer library.
    Check(Arc<AccessCheck>),
    /// Data that no schema describes. It can be compared, nothing else.
    Preserved(&'a Json),
}

impl<'a> Value<'a> {
    /// A string that is not part of any object.
    #[must_use]
    pub fn string(text: impl Into<Str<'a>>) -> Self {
        Self::String(text.into())
    }

    /// A list that is not part of any object.
    #[must_use]
    pub fn list(items: Vec<Value<'a>>) -> Self {
        Self::List(ListValue::from(items))
    }

    /// An optional that holds a value. The empty one is `Value::Optional(None)`.
    #[must_use]
    pub fn some(value: Value<'a>) -> Self {
        Self::Optional(Some(Arc::new(value)))
    }

    /// The boolean, if this is one.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        if let Self::Bool(flag) = self { Some(*flag) } else { None }
    }

    /// The string, if this is one.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        if let Self::String(text) = self { Some(text) } else { None }
    }

    /// The name of its type, as `type()` returns it.
    #[must_use]
    pub fn type_name(&self) -> &str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Type(_) => "type",
            Self::Optional(_) => "optional_type",
            Self::Struct(object) => &object.type_name,
            Self::Host(object) => object.type_name(),
            Self::Url(_) => "kubernetes.URL",
            Self::Ip(_) => "net.IP",
            Self::Cidr(_) => "net.CIDR",
            Self::Quantity(_) => "kubernetes.Quantity",
            Self::Semver(_) => "kubernetes.Semver",
            Self::Format(_) => "kubernetes.NamedFormat",
            Self::Check(check) => check.type_name(),
            Self::Preserved(_) => "unknown",
        }
    }

    /// The result of `size()`, for values that have one.
    #[must_use]
    pub fn size(&self) -> Option<u64> {
        Some(match self {
            Self::String(text) => text.chars().count() as u64,
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::List(list) => list.len(),
            Self::Map(map) => map.len() as u64,
            Self::Ip(ip) => {
                if ip.is_ipv4() {
                    4
                } else {
                    16
                }
            }
            Self::Cidr(cidr) => cidr.size(),
            Self::Format(format) => format.name.len() as u64,
            _ => return None,
        })
    }

    /// The size that costs are counted by.
    ///
    /// One for anything without a size, as in cel-go's cost tracker.
    pub(crate) fn cost_size(&self) -> u64 {
        match self {
            Self::Optional(Some(value)) => value.cost_size(),
            other => other.size().unwrap_or(1),
        }
    }

    /// Returns true for the zero value of its type.
    pub(crate) fn is_zero(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Bool(flag) => !flag,
            Self::Int(number) => *number == 0,
            Self::Uint(number) => *number == 0,
            Self::Double(number) => *number == 0.0,
            Self::Duration(nanos) => *nanos == 0,
            Self::Timestamp(time) => *time == Timestamp::ZERO,
            Self::Optional(value) => value.as_ref().is_none_or(|value| value.is_zero()),
            Self::String(text) => text.is_empty(),
            Self::Bytes(bytes) => bytes.is_empty(),
            Self::List(list) => list.is_empty(),
            Self::Map(map) => map.is_empty(),
            Self::Struct(object) => object.fields.is_empty(),
            _ => false,
        }
    }
}
