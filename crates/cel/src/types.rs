//! [`Type`]: the types of expressions, as the checker computes them.
//!
//! Types of objects compare by name, all others by structure. An expression can double its type with each step (`[x,
//! x]` nested), so comparison and printing stop after a number of parts ([`MAX_PARTS`]) instead of running for ever;
//! beyond it, types count as different. Unknown types ([`Type::Var`]) exist only during checking. Run-time types are
//! names only, see `Value::type_name`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use listwatch_wire::json::Text;

use crate::parser::RESERVED;

/// The type of an expression, as the checker infers it.
///
/// Cloning copies a pointer at most. Types are built while checking and dropped with the expression, except those of
/// declarations.
#[derive(Clone, Debug)]
pub enum Type {
    /// Anything; checked at run time.
    Dyn,
    /// `null`.
    Null,
    /// `bool`.
    Bool,
    /// `int`, 64 bits.
    Int,
    /// `uint`, 64 bits.
    Uint,
    /// `double`.
    Double,
    /// `string`.
    String,
    /// `bytes`.
    Bytes,
    /// `google.protobuf.Timestamp`.
    Timestamp,
    /// `google.protobuf.Duration`.
    Duration,
    /// A list with elements of one type.
    List(Arc<Type>),
    /// A map with keys of one type and values of one type.
    Map(Arc<(Type, Type)>),
    /// An object with named fields.
    Object(Arc<ObjectType>),
    /// A type of a library without fields, such as `net.IP`.
    Opaque(&'static str),
    /// An optional value.
    Optional(Arc<Type>),
    /// The type of types.
    Type(Arc<Type>),
    /// A type parameter in the declaration of a function.
    Param(char),
    /// A type that the checker is about to find out.
    Var(usize),
    /// The type of what could not be checked.
    ///
    /// Fits everything, so that one mistake is reported once.
    Error,
}

/// A named type with fields, such as the object of a schema. Two are equal if their names are.
///
/// Fields are looked up by the checker; evaluation goes by the value or by the declaration of the schema.
#[derive(Debug)]
pub struct ObjectType {
    /// The name, as errors show it.
    pub name: Text,
    /// The fields by name, as expressions write it (escaped).
    pub fields: BTreeMap<Text, Type>,
    /// True if expressions may construct it: `Name{field: value}`.
    pub constructible: bool,
    /// True if it has other fields, too, of any type.
    ///
    /// The objects that mutating policies construct are: the kind that they belong to is checked when they are
    /// applied.
    pub open: bool,
}

impl ObjectType {
    /// The type of a field, if there is such a field. One named after a reserved word can be written with or without the
    /// underscores.
    pub(crate) fn field(&self, name: &str) -> Option<&Type> {
        let escaped = || RESERVED.contains(&name).then(|| self.fields.get(&*format!("__{name}__"))).flatten();
        self.fields.get(name).or_else(escaped).or(if self.open { Some(&Type::Dyn) } else { None })
    }
}

impl Type {
    /// The scalar type of a name that declarations and expressions have in common.
    pub(crate) fn scalar(name: &str) -> Option<Self> {
        Some(match name {
            "bool" => Self::Bool,
            "int" => Self::Int,
            "uint" => Self::Uint,
            "double" => Self::Double,
            "string" => Self::String,
            "bytes" => Self::Bytes,
            _ => return None,
        })
    }

    /// The type of a list whose elements have this type.
    #[must_use]
    pub fn list(element: Type) -> Self {
        Self::List(Arc::new(element))
    }

    /// The type of a map from keys to values; keys of JSON objects are strings.
    #[must_use]
    pub fn map(key: Type, value: Type) -> Self {
        Self::Map(Arc::new((key, value)))
    }

    /// The type of an optional value, which `?` and `optional.of` make.
    #[must_use]
    pub fn optional(value: Type) -> Self {
        Self::Optional(Arc::new(value))
    }

    /// An object with fields, which expressions can read but not construct.
    #[must_use]
    pub fn object(name: &str, fields: impl IntoIterator<Item = (Text, Type)>) -> Self {
        let fields = fields.into_iter().collect();
        Self::Object(Arc::new(ObjectType { name: name.into(), fields, constructible: false, open: false }))
    }

    /// An object with fields, which expressions can construct.
    #[must_use]
    pub fn message(name: &str, fields: impl IntoIterator<Item = (Text, Type)>) -> Self {
        let fields = fields.into_iter().collect();
        Self::Object(Arc::new(ObjectType { name: name.into(), fields, constructible: true, open: false }))
    }

    /// Returns true if the two are known to be the same type. Types of more than some thousand parts are never the same.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        same(self, other, &mut MAX_PARTS.clone())
    }

    pub(crate) fn is_dyn_or_error(&self) -> bool {
        matches!(self, Self::Dyn | Self::Error)
    }

    /// The type inside an optional one, and whether it was one.
    pub(crate) fn unwrapped(&self) -> (&Self, bool) {
        match self {
            Self::Optional(inner) => (inner, true),
            other => (other, false),
        }
    }

    /// The name at run time: that of the type without its parameters.
    pub(crate) fn runtime_name(&self) -> &str {
        match self {
            Self::Dyn => "dyn",
            Self::Null => "null_type",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::Timestamp => "google.protobuf.Timestamp",
            Self::Duration => "google.protobuf.Duration",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Object(object) => &object.name,
            Self::Opaque(name) => name,
            Self::Optional(_) => "optional_type",
            Self::Type(_) => "type",
            Self::Param(_) | Self::Var(_) => "dyn",
            Self::Error => "!error!",
        }
    }
}

/// Types with more parts than this are not distinguished: an expression can double its type with each step.
pub(crate) const MAX_PARTS: usize = 2000;

/// Returns true if two types are the same, looking at no more parts than the budget allows.
///
/// Budgets are counted in parts and passed along, since a type of a few lines of source can have billions of parts.
pub(crate) fn same(a: &Type, b: &Type, budget: &mut usize) -> bool {
    if *budget == 0 {
        return false;
    }
    *budget -= 1;
    match (a, b) {
        (Type::List(a), Type::List(b))
        | (Type::Optional(a), Type::Optional(b))
        | (Type::Type(a), Type::Type(b)) => same(a, b, budget),
        (Type::Map(a), Type::Map(b)) => same(&a.0, &b.0, budget) && same(&a.1, &b.1, budget),
        (Type::Object(a), Type::Object(b)) => a.name == b.name,
        (Type::Opaque(a), Type::Opaque(b)) => a == b,
        (Type::Param(a), Type::Param(b)) => a == b,
        (Type::Var(a), Type::Var(b)) => a == b,
        _ => std::mem::discriminant(a) == std::mem::discriminant(b),
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(f, self, &mut 200)
    }
}

/// Writes a type in cel-go's notation. The budget bounds the text, since a type can have thousands of parts; what
/// exceeds it is shown as dots.
fn write(f: &mut fmt::Formatter<'_>, ty: &Type, budget: &mut usize) -> fmt::Result {
    if *budget == 0 {
        return f.write_str("...");
    }
    *budget -= 1;
    match ty {
        Type::List(element) => bracket(f, "list", &[element], budget),
        Type::Map(map) => bracket(f, "map", &[&map.0, &map.1], budget),
        Type::Optional(value) => bracket(f, "optional_type", &[value], budget),
        Type::Type(of) if matches!(**of, Type::Dyn) => f.write_str("type"),
        Type::Type(of) => bracket(f, "type", &[of], budget),
        Type::Null => f.write_str("null"),
        Type::Timestamp => f.write_str("timestamp"),
        Type::Duration => f.write_str("duration"),
        Type::Param(name) => write!(f, "{name}"),
        Type::Var(number) => write!(f, "_var{number}"),
        other => f.write_str(other.runtime_name()),
    }
}

/// Writes a type with parameters: `map(string, int)`.
fn bracket(f: &mut fmt::Formatter<'_>, name: &str, parts: &[&Type], budget: &mut usize) -> fmt::Result {
    write!(f, "{name}(")?;
    for (n, part) in parts.iter().enumerate() {
        if n > 0 {
            f.write_str(", ")?;
        }
        write(f, part, budget)?;
    }
    f.write_str(")")
}
