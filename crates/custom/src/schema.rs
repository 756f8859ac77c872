//! [`Schema`]: one node of a structural OpenAPI v3 schema, as a definition declares it.
//!
//! It is the parsed form that pruning, defaulting, validation and server-side apply share. Keywords that a structural
//! schema may not have are refused before ([`structural`](crate::structural)) and have no field here. Patterns are
//! compiled on first use, because most objects never reach most of them, and with a bound on the compiled size.
//! Expression rules keep the JSON form, since their types are derived from it.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use listwatch_cel::CompiledPattern;
use listwatch_wire::json::Value;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// One node of a structural schema.
///
/// Parsed once when a definition is accepted and shared by pruning, defaulting, validation and apply.
///
/// Fields are public because four walks and the server's adapter for apply read them. Nothing writes to a schema
/// after it was parsed. Unknown keywords are ignored here: `structural` has looked for those that may not be there.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[doc(alias = "JSONSchemaProps")]
pub struct Schema {
    /// `object`, `array`, `string`, `integer`, `number`, `boolean`, or empty.
    #[serde(rename = "type")]
    pub type_name: String,
    /// True if `null` is a valid value.
    pub nullable: bool,
    /// Known fields of an object.
    ///
    /// Ordered by name, which is the order of errors in kube-apiserver.
    pub properties: Properties,
    /// The schema of unnamed fields of an object.
    pub additional_properties: Option<Additional>,
    /// The schema of the elements of an array.
    pub items: Option<Box<Schema>>,
    /// Fields that must be there.
    pub required: Vec<String>,
    /// The value of an absent field.
    ///
    /// Has no unknown fields: such a default is refused with its definition.
    pub default: Option<Value>,
    /// The only values allowed, if any are named.
    #[serde(rename = "enum")]
    pub allowed: Allowed,
    /// A named form of a string, such as `date-time`.
    ///
    /// Unknown ones are not checked.
    pub format: String,
    /// A regular expression a string must match somewhere.
    pub pattern: Pattern,
    /// The least number allowed.
    ///
    /// Go's schemas have doubles too, so integers above 2^53 are compared with the same loss.
    pub minimum: Option<f64>,
    /// The greatest number allowed.
    pub maximum: Option<f64>,
    /// True if `minimum` itself is refused.
    pub exclusive_minimum: bool,
    /// True if `maximum` itself is refused.
    pub exclusive_maximum: bool,
    /// The number must be a multiple of this.
    pub multiple_of: Option<f64>,
    /// The fewest characters of a string, in code points.
    #[serde(deserialize_with = "count")]
    pub min_length: Option<usize>,
    /// The most characters of a string, in code points. It also bounds the cost estimate of rules.
    #[serde(deserialize_with = "count")]
    pub max_length: Option<usize>,
    /// The fewest elements of an array.
    #[serde(deserialize_with = "count")]
    pub min_items: Option<usize>,
    /// The most elements of an array. It also bounds the cost estimate of rules.
    #[serde(deserialize_with = "count")]
    pub max_items: Option<usize>,
    /// True if elements must differ.
    ///
    /// Always false in definitions that were accepted: checking it is quadratic in kube-apiserver, which forbids it.
    pub unique_items: bool,
    /// The fewest fields of an object.
    #[serde(deserialize_with = "count")]
    pub min_properties: Option<usize>,
    /// The most fields of an object. It also bounds the cost estimate of rules.
    #[serde(deserialize_with = "count")]
    pub max_properties: Option<usize>,
    /// All of these must hold too.
    pub all_of: Vec<Schema>,
    /// At least one of these must hold too.
    pub any_of: Vec<Schema>,
    /// Exactly one of these must hold too.
    pub one_of: Vec<Schema>,
    /// This must not hold.
    pub not: Option<Box<Schema>>,
    /// Unknown fields are kept from here on down.
    ///
    /// Fields that are declared below are pruned and defaulted as usual.
    #[serde(rename = "x-kubernetes-preserve-unknown-fields")]
    pub preserve_unknown: bool,
    /// The value is an object with its own apiVersion, kind and metadata.
    #[serde(rename = "x-kubernetes-embedded-resource")]
    pub embedded: bool,
    /// The value is an integer or a string.
    #[serde(rename = "x-kubernetes-int-or-string")]
    pub int_or_string: bool,
    /// `atomic`, `set` or `map`; empty means atomic.
    #[serde(rename = "x-kubernetes-list-type")]
    pub list_type: String,
    /// The fields that name an element of a `map` list.
    #[serde(rename = "x-kubernetes-list-map-keys")]
    pub list_map_keys: Vec<String>,
    /// `granular` or `atomic`; empty means granular.
    #[serde(rename = "x-kubernetes-map-type")]
    pub map_type: String,
    /// Expression rules, evaluated by [`crate::Rules`].
    ///
    /// Only kept so that the parsed form is complete; rules are compiled from the JSON of the schema.
    #[serde(rename = "x-kubernetes-validations")]
    pub validations: Vec<Value>,
}

/// The known fields of an object, with an index of those that have a default.
///
/// A list may have as many elements as their schema has fields, so that defaulting must not look at every field of every
/// element.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "BTreeMap<String, Schema>")]
pub struct Properties {
    by_name: BTreeMap<String, Schema>,
    defaulted: Vec<String>,
}

impl From<BTreeMap<String, Schema>> for Properties {
    fn from(by_name: BTreeMap<String, Schema>) -> Self {
        let defaulted = by_name.iter().filter(|(_, schema)| schema.default.is_some());
        Self { defaulted: defaulted.map(|(name, _)| name.clone()).collect(), by_name }
    }
}

impl Deref for Properties {
    type Target = BTreeMap<String, Schema>;

    fn deref(&self) -> &Self::Target {
        &self.by_name
    }
}

impl Properties {
    /// The fields with a default, and the defaults, in the order of names.
    pub fn defaults(&self) -> impl Iterator<Item = (&str, &Value)> {
        let default = |name: &'_ String| self.by_name.get(name)?.default.as_ref();
        self.defaulted.iter().filter_map(move |name| Some((name.as_str(), default(name)?)))
    }
}

/// The rule of a schema for fields it does not name.
///
/// With `properties` beside it, only `true` is allowed: a structural schema is either a struct or a map.
#[derive(Clone, Debug)]
#[doc(alias = "JSONSchemaPropsOrBool")]
pub enum Additional {
    /// `true` keeps them as they are, `false` is the same as nothing.
    Any(bool),
    /// Each of them looks like this.
    Schema(Box<Schema>),
}

/// Read by hand: an untagged enum would copy everything below it first, once more at each level.
impl<'de> Deserialize<'de> for Additional {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        struct BoolOrSchema;
        impl<'de> Visitor<'de> for BoolOrSchema {
            type Value = Additional;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a boolean or a schema")
            }

            fn visit_bool<E: de::Error>(self, any: bool) -> Result<Additional, E> {
                Ok(Additional::Any(any))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Additional, A::Error> {
                let schema = Schema::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Additional::Schema(Box::new(schema)))
            }
        }
        source.deserialize_any(BoolOrSchema)
    }
}

/// The values of an `enum`, with an index that is made when first used.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "Vec<Value>")]
pub struct Allowed {
    values: Vec<Value>,
    index: OnceLock<HashSet<Value>>,
}

/// Fewer values are compared one by one: that takes less than the memory of an index.
const INDEX_ABOVE: usize = 16;

impl From<Vec<Value>> for Allowed {
    fn from(values: Vec<Value>) -> Self {
        Self { values, index: OnceLock::new() }
    }
}

impl Allowed {
    /// Returns true if the value is one of them.
    #[must_use]
    pub fn contains(&self, value: &Value) -> bool {
        if self.values.len() <= INDEX_ABOVE {
            return self.values.contains(value);
        }
        self.index.get_or_init(|| self.values.iter().cloned().collect()).contains(value)
    }

    /// Returns true if no `enum` was declared.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// The values in the order of the declaration.
    pub fn iter(&self) -> impl Iterator<Item = &Value> {
        self.values.iter()
    }
}

/// A regular expression, compiled when first used: most objects of most kinds never reach most patterns.
///
/// `listwatch_cel` keeps what is compiled, within a bound for all definitions together; matching is linear in the text.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "String")]
pub struct Pattern {
    text: String,
}

impl From<String> for Pattern {
    fn from(text: String) -> Self {
        Self { text }
    }
}

impl Pattern {
    /// The pattern as written; empty if there is none.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The compiled pattern. Values may have any form if there is none, and if it is not an expression, which is an error of
    /// its definition.
    #[must_use]
    pub(crate) fn compiled(&self) -> Option<Arc<CompiledPattern>> {
        if self.text.is_empty() { None } else { listwatch_cel::pattern(&self.text).ok() }
    }

    /// The reason for which the pattern is not a valid expression, with Go's text.
    #[must_use]
    pub fn error(&self) -> Option<String> {
        if self.text.is_empty() {
            return None;
        }
        listwatch_cel::pattern(&self.text).err().map(|error| error.to_string())
    }
}

impl Schema {
    /// The schema of a field, named or not, or `None` if the field is unknown here.
    ///
    /// Named fields win over unnamed ones. A field that is kept by `preserve_unknown` is still unknown.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Schema> {
        self.properties.get(name).or_else(|| self.additional())
    }

    /// The schema that every unnamed field has; `None` if they are unknown fields.
    #[must_use]
    pub fn additional(&self) -> Option<&Schema> {
        match &self.additional_properties {
            Some(Additional::Schema(schema)) => Some(schema),
            _ => None,
        }
    }

    /// Returns true if fields without a schema stay.
    ///
    /// Called for each object by pruning, so it only looks at two fields.
    #[must_use]
    pub fn keeps_unknown(&self) -> bool {
        self.preserve_unknown || matches!(self.additional_properties, Some(Additional::Any(true)))
    }

    /// Returns true if this list is keyed by [`Self::list_map_keys`].
    #[must_use]
    pub(crate) fn is_keyed_list(&self) -> bool {
        self.list_type == "map"
    }

    /// The nodes below this one that describe values: fields, unnamed fields, elements; each with its path step.
    pub fn children(&self) -> impl Iterator<Item = (String, &Schema)> {
        let named = self.properties.iter().map(|(name, schema)| (format!(".properties[{name}]"), schema));
        let unnamed = self.additional().map(|schema| (".additionalProperties".to_owned(), schema));
        let items = self.items.as_deref().map(|schema| (".items".to_owned(), schema));
        named.chain(unnamed).chain(items)
    }

    /// The schema of the metadata of an embedded resource.
    pub(crate) fn embedded_metadata_mut(&mut self) -> Option<&mut Self> {
        self.properties.by_name.get_mut("metadata").filter(|_| self.embedded)
    }

    /// The named fields, to change them.
    pub(crate) fn named_mut(&mut self) -> impl Iterator<Item = (&str, &mut Self)> {
        self.properties.by_name.iter_mut().map(|(name, schema)| (name.as_str(), schema))
    }

    /// [`Self::children`], to change them.
    pub(crate) fn children_mut(&mut self) -> impl Iterator<Item = &mut Self> {
        let unnamed = match &mut self.additional_properties {
            Some(Additional::Schema(schema)) => Some(&mut **schema),
            _ => None,
        };
        self.properties.by_name.values_mut().chain(unnamed).chain(self.items.as_deref_mut())
    }
}

/// A bound on how many there may be. One below zero is taken as zero: it is allowed in a schema and bounds nothing else.
fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<usize>, D::Error> {
    let bound = Option::<i64>::deserialize(deserializer)?;
    Ok(bound.map(|bound| usize::try_from(bound).unwrap_or(0)))
}
