//! [`MergeSchema`]: the facts about a field that schema-driven patches and server-side apply need.
//!
//! It is a trait so that this crate depends neither on built-in kinds (a generated table in `listwatch-kinds`) nor on custom
//! resources (a structural schema in `listwatch-custom`). The facts are the OpenAPI extensions
//! `x-kubernetes-list-type`, `-list-map-keys`, `-map-type`, `-patch-merge-key` and `-patch-strategy`. A wrong answer
//! shows up as a lost or duplicated list element, not as an error.

/// The `listType`: how server-side apply owns and merges the elements of a list.
///
/// An array without an extension is atomic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListKind<'a> {
    /// As a whole.
    Atomic,
    /// Each scalar for itself.
    Set,
    /// Each element for itself, known by the values of these fields.
    Map(ListKeys<'a>),
}

/// The fields by which the elements of a list are known, as a table of built-in kinds or a parsed definition has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListKeys<'a> {
    /// Of a built-in kind.
    Builtin(&'a [&'a str]),
    /// Of a custom kind.
    Custom(&'a [String]),
}

impl<'a> ListKeys<'a> {
    /// The names of the fields.
    pub fn iter(self) -> impl Iterator<Item = &'a str> {
        let (builtin, custom): (&[&str], &[String]) = match self {
            Self::Builtin(keys) => (keys, &[]),
            Self::Custom(keys) => (&[], keys),
        };
        builtin.iter().copied().chain(custom.iter().map(String::as_str))
    }

    /// Returns true if there are none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.iter().next().is_none()
    }
}

/// The `mapType`: how server-side apply owns and merges the entries of a map. A granular map has an owner per entry;
/// an atomic one is owned and replaced as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapKind {
    /// Each entry for itself, any key.
    Granular,
    /// As a whole.
    Atomic,
    /// Each field for itself, only the keys of the schema.
    Struct,
}

/// The JSON type that a value must have, as far as an applied configuration is checked before it is merged.
///
/// Coarse on purpose: bounds and formats are validation's, which reports them as field errors and not as a failed
/// apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Anything.
    Any,
    /// A number.
    Numeric,
    /// Text.
    String,
    /// True or false.
    Boolean,
    /// An object.
    Map,
    /// An array.
    List,
}

/// The strategy of a strategic merge patch for a field: the tags `patchStrategy` and `patchMergeKey` of Kubernetes'
/// Go types.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PatchStrategy {
    /// Lists are merged element by element instead of replaced.
    pub merge: bool,
    /// Of a union, only the members named in the patch are kept.
    pub retain_keys: bool,
    /// An object is replaced instead of merged.
    pub replace: bool,
}

/// The facts about a value that schema-driven patches need: one node of a kind's schema.
///
/// A node is a small copyable handle. Its methods are called once per field of an object, so they should be lookups.
///
/// Implemented for the table of built-in kinds, for structural schemas and for [`Schemaless`].
pub trait MergeSchema: Copy {
    /// The schema of a field, or of the entries of a map; `None` if there is no such field.
    fn field(self, name: &str) -> Option<Self>;

    /// The schema of the elements of a list; `None` if this is not a list.
    fn items(self) -> Option<Self>;

    /// The `listType` of a list.
    fn list_kind(&self) -> ListKind<'_>;

    /// The `mapType` of an object.
    fn map_kind(self) -> MapKind;

    /// Returns true if an object declares a field, as structs do; the entries of maps are not declared.
    fn declares(self, _name: &str) -> bool {
        self.map_kind() != MapKind::Granular
    }

    /// The field by which a strategic merge patch identifies the elements of this list.
    fn merge_key(&self) -> Option<&str>;

    /// The strategy of a strategic merge patch for this field.
    fn patch_strategy(self) -> PatchStrategy;

    /// The JSON type of this place; [`Shape::Any`] leaves it to later validation.
    fn shape(self) -> Shape {
        Shape::Any
    }

    /// The default of a list-map key field that elements may leave out, such as a port's protocol.
    ///
    /// Without it, an element that leaves the field out would be another element than the one that is stored with its
    /// default.
    fn key_default(&self, _key: &str) -> Option<listwatch_json::Value> {
        None
    }
}

/// The schema of objects without a description: maps are granular, lists atomic.
///
/// ```
/// use listwatch_merge::patch::{ListKind, MergeSchema, Schemaless};
/// assert_eq!(Schemaless.list_kind(), ListKind::Atomic);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schemaless;

impl MergeSchema for Schemaless {
    fn field(self, _name: &str) -> Option<Self> {
        Some(self)
    }

    fn items(self) -> Option<Self> {
        Some(self)
    }

    fn list_kind(&self) -> ListKind<'_> {
        ListKind::Atomic
    }

    fn map_kind(self) -> MapKind {
        MapKind::Granular
    }

    fn merge_key(&self) -> Option<&str> {
        None
    }

    fn patch_strategy(self) -> PatchStrategy {
        PatchStrategy::default()
    }
}
