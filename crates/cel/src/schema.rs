//! [`Decl`]: types of objects from OpenAPI schemas, and how large their values can be.
//!
//! The type is what the checker needs, the bounds what the cost estimate needs, and the representation tells evaluation
//! that a string is a timestamp or bytes. Sizes without a declared bound are derived from the largest request, 3 MiB,
//! and from the smallest JSON of the element. Fields that are not identifiers are visible under their escaped name;
//! parts without a type (preserved unknown fields) are not visible at all. Kubernetes calls it `DeclType`.

mod escape;

use std::collections::BTreeMap;
use std::sync::Arc;

use listwatch_wire::json::{Text, Value as Json};

use crate::types::{ObjectType, Type};
pub(crate) use escape::unescape;
pub use escape::{escape, is_identifier};

/// The largest request that sizes are estimated for.
pub const MAX_REQUEST_BYTES: u64 = 3 * 1024 * 1024;

/// The longest name of an object.
const MAX_NAME: u64 = 253;

/// The representation of a value, by its schema.
#[derive(Debug)]
pub(crate) enum Representation {
    Bool,
    Int,
    Double,
    String,
    Bytes,
    Duration,
    Date,
    DateTime,
    IntOrString,
    List {
        items: Arc<Decl>,
        kind: ListIdentity,
    },
    Map(Arc<Decl>),
    /// Fields by the names of the schema, which need not be identifiers.
    Object {
        fields: BTreeMap<Text, Arc<Decl>>,
    },
}

/// The identity of the elements of a list.
#[derive(Debug)]
pub(crate) enum ListIdentity {
    Atomic,
    Set,
    Map(Vec<Text>),
}

/// The declaration of a schema: the type of a value, its representation and its bounds.
///
/// Shared by reference counting, since a schema uses one declaration for each of the elements of a list. Made once
/// per version of a definition.
#[derive(Debug)]
#[doc(alias = "DeclType")]
pub struct Decl {
    /// Also what evaluation needs to read a value: a string with `format: byte` is bytes to expressions.
    pub(crate) shape: Representation,
    pub(crate) nullable: bool,
    /// The most elements of a list or map, or bytes of a string.
    ///
    /// Strings count four bytes per declared character, since `maxLength` counts code points.
    pub(crate) max_elements: u64,
    /// The size of the smallest value in JSON.
    ///
    /// Elements of a list without a bound are as many as fit into a request at this size.
    pub(crate) min_size: u64,
    /// Names of objects are made of the path from the root, so that two equal objects at different places are
    /// different types, as in Kubernetes.
    pub(crate) ty: Type,
}

impl Decl {
    /// Reads a schema. Returns `None` if expressions cannot read what it describes.
    ///
    /// `resource` is true at the root of an object, which has a kind, a version and a name.
    ///
    /// Recursion follows the schema, whose depth is that of parsed JSON at most.
    #[must_use]
    pub fn from_schema(schema: &Json, resource: bool) -> Option<Arc<Self>> {
        read(schema, resource, "selfType").map(Arc::new)
    }

    /// The type that the checker uses for a variable of this declaration.
    #[must_use]
    pub fn ty(&self) -> &Type {
        &self.ty
    }

    /// The number of times that a value such as this one fits into the largest request.
    ///
    /// Used for places below a container without a bound.
    #[must_use]
    pub fn max_cardinality(&self) -> u64 {
        MAX_REQUEST_BYTES / (self.min_size + 1)
    }

    /// The declaration of elements of a list or values of a map.
    #[must_use]
    pub fn elements(&self) -> Option<&Arc<Decl>> {
        match &self.shape {
            Representation::List { items, .. } => Some(items),
            Representation::Map(values) => Some(values),
            _ => None,
        }
    }

    /// The declaration of a field by its name in the schema.
    ///
    /// Also finds fields whose names cannot be escaped, which rules below them need.
    #[must_use]
    pub fn property(&self, name: &str) -> Option<&Arc<Decl>> {
        if let Representation::Object { fields } = &self.shape { fields.get(name) } else { None }
    }

    pub(crate) fn items(&self) -> Option<&Decl> {
        self.elements().map(|items| &**items)
    }

    pub(crate) fn is_object(&self) -> bool {
        matches!(self.shape, Representation::Object { .. })
    }

    /// Returns true if expressions see a field: all of a map, the declared ones of an object.
    pub(crate) fn has_field(&self, name: &str) -> bool {
        if let Representation::Object { fields } = &self.shape { fields.contains_key(name) } else { true }
    }

    fn new(shape: Representation, ty: Type, max_elements: u64, min_size: u64) -> Self {
        Self { shape, nullable: false, max_elements, min_size, ty }
    }
}

fn number(schema: &Json, key: &str) -> Option<u64> {
    schema.get(key).and_then(Json::as_i64).map(|number| u64::try_from(number).unwrap_or(0))
}

fn flag(schema: &Json, key: &str) -> bool {
    schema.get(key) == Some(&Json::Bool(true))
}

fn text<'s>(schema: &'s Json, key: &str) -> &'s str {
    schema.get(key).and_then(Json::as_str).unwrap_or("")
}

/// Reads one schema. Sizes without a bound are taken from the largest request, as kube-apiserver does, so that
/// estimates are finite.
fn read(schema: &Json, resource: bool, name: &str) -> Option<Decl> {
    let mut decl = if flag(schema, "x-kubernetes-int-or-string") {
        let max = number(schema, "maxLength").map_or(MAX_REQUEST_BYTES - 2, |max| max.saturating_mul(4));
        Decl::new(Representation::IntOrString, Type::Dyn, max, 1)
    } else {
        match text(schema, "type") {
            "array" => list(schema, name)?,
            "object" => object(schema, resource, name)?,
            "string" => string(schema),
            "boolean" => Decl::new(Representation::Bool, Type::Bool, 0, 4),
            "number" => Decl::new(Representation::Double, Type::Double, 0, 1),
            "integer" => Decl::new(Representation::Int, Type::Int, 0, 1),
            _ => return None,
        }
    };
    decl.nullable = flag(schema, "nullable");
    Some(decl)
}

fn below(schema: &Json, name: &str) -> Option<Decl> {
    read(schema, flag(schema, "x-kubernetes-embedded-resource"), name)
}

/// Reads an array. Without `maxItems` it may have as many of the smallest elements as fit into a request.
fn list(schema: &Json, name: &str) -> Option<Decl> {
    let items = below(schema.get("items")?, &format!("{name}.@idx"))?;
    let kind = match text(schema, "x-kubernetes-list-type") {
        "set" => ListIdentity::Set,
        "map" => {
            let keys = schema.get("x-kubernetes-list-map-keys").and_then(Json::as_array);
            ListIdentity::Map(keys.into_iter().flatten().filter_map(Json::as_str).map(Text::from).collect())
        }
        _ => ListIdentity::Atomic,
    };
    let max = number(schema, "maxItems").unwrap_or((MAX_REQUEST_BYTES - 2) / (items.min_size + 1));
    let ty = Type::list(items.ty.clone());
    Some(Decl::new(Representation::List { items: Arc::new(items), kind }, ty, max, 2))
}

/// Reads an object, or a map if it has `additionalProperties`. Fields whose name cannot be escaped are invisible to
/// expressions but count for sizes.
fn object(schema: &Json, resource: bool, name: &str) -> Option<Decl> {
    if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object()) {
        let values = below(values, &format!("{name}.@elem"))?;
        let max = number(schema, "maxProperties").unwrap_or((MAX_REQUEST_BYTES - 2) / (values.min_size + 6));
        let ty = Type::map(Type::String, values.ty.clone());
        return Some(Decl::new(Representation::Map(Arc::new(values)), ty, max, 2));
    }
    let mut fields = BTreeMap::new();
    let properties = schema.get("properties").and_then(Json::as_object);
    for (property, schema) in properties.into_iter().flatten() {
        if let Some(decl) = below(schema, &format!("{name}.{property}")) {
            fields.insert(property.clone(), Arc::new(decl));
        }
    }
    if resource {
        add_metadata(schema, name, &mut fields);
    }
    let min_size = 2 + required(schema, &fields);
    let visible =
        fields.iter().filter_map(|(property, decl)| Some((Text::from(escape(property)?), decl.ty.clone())));
    let ty = ObjectType { name: name.into(), fields: visible.collect(), constructible: false, open: false };
    Some(Decl::new(Representation::Object { fields }, Type::Object(Arc::new(ty)), 0, min_size))
}

/// The size of the fields that every object has.
fn required(schema: &Json, fields: &BTreeMap<Text, Arc<Decl>>) -> u64 {
    let names = schema.get("required").and_then(Json::as_array).into_iter().flatten();
    let size = |name: &str| {
        let default =
            schema.get("properties").and_then(|all| all.get(name)).and_then(|one| one.get("default"));
        let decl = fields.get(name).filter(|_| default.is_none_or(Json::is_null))?;
        Some(name.len() as u64 + decl.min_size + 4)
    };
    names.filter_map(Json::as_str).filter_map(size).sum()
}

/// Kind, version and name, which expressions can read at the root of every object.
///
/// Only `name` and `generateName` of `metadata` can be read, as in Kubernetes.
fn add_metadata(schema: &Json, name: &str, fields: &mut BTreeMap<Text, Arc<Decl>>) {
    let plain = || Arc::new(string(&Json::Null));
    fields.insert("kind".into(), plain());
    fields.insert("apiVersion".into(), plain());
    let own =
        schema.get("properties").and_then(|all| all.get("metadata")).and_then(|own| own.get("properties"));
    let capped = |field: &str, cap: u64| {
        let own = own.and_then(|own| own.get(field)).and_then(|own| number(own, "maxLength"));
        let max = own.unwrap_or(cap).min(cap).saturating_mul(4);
        (Text::from(field), Arc::new(Decl::new(Representation::String, Type::String, max, 2)))
    };
    let names: BTreeMap<_, _> = [capped("name", MAX_NAME), capped("generateName", MAX_NAME - 1)].into();
    let types = names.keys().map(|name| (name.clone(), Type::String));
    let ty = Type::object(&format!("{name}.metadata"), types);
    fields.insert("metadata".into(), Arc::new(Decl::new(Representation::Object { fields: names }, ty, 0, 2)));
}

/// Reads a string. Formats with a type of their own have fixed sizes; others count four bytes per character, the
/// longest in UTF-8.
fn string(schema: &Json) -> Decl {
    let largest = MAX_REQUEST_BYTES - 2;
    let max = number(schema, "maxLength");
    match text(schema, "format") {
        "byte" => Decl::new(Representation::Bytes, Type::Bytes, max.unwrap_or(largest), 2),
        "duration" => Decl::new(Representation::Duration, Type::Duration, 32, 3),
        "date" => Decl::new(Representation::Date, Type::Timestamp, 12, 12),
        "date-time" => Decl::new(Representation::DateTime, Type::Timestamp, 32, 21),
        _ => {
            let values = schema.get("enum").and_then(Json::as_array).filter(|values| !values.is_empty());
            let longest = values.map(|values| values.iter().filter_map(Json::as_str).map(str::len).max());
            let max = max.map(|max| max.saturating_mul(4));
            let max = max.or(longest.map(|longest| longest.unwrap_or(0) as u64)).unwrap_or(largest);
            Decl::new(Representation::String, Type::String, max, 2)
        }
    }
}
