//! The structural schema of a custom resource as server-side apply walks it: list types, map types and merge keys.
//!
//! An adapter: `listwatch_merge` asks for the [`patch::MergeSchema`] of each place, and this answers from
//! `x-kubernetes-list-type`, `x-kubernetes-list-map-keys` and `x-kubernetes-map-type`. Metadata has the built-in type
//! in every object, also in embedded ones. Places without a schema are atomic lists and granular maps, as in
//! kube-apiserver. Strategic merge patch does not exist for custom resources, so there are no merge keys for it.

use std::sync::Arc;

use listwatch_custom::{Additional, Schema};
use listwatch_kinds::schema as builtin;
use listwatch_merge::apply::{VersionSchema, undeclared_field};
use listwatch_merge::patch::{self, ListKeys, ListKind, MapKind, PatchStrategy, Shape};
use listwatch_wire::json::Value;

/// One place in the schema of a custom object.
///
/// A word and a tag, copied at each step of a walk.
#[derive(Clone, Copy, Debug)]
pub(super) enum CustomNode<'a> {
    /// An object with metadata: the whole object, or one embedded in it.
    Resource(&'a Schema, UndeclaredFields),
    /// A described value.
    Known(&'a Schema, UndeclaredFields),
    /// A value of a type that all objects share: metadata and what is in it.
    Builtin(builtin::Node),
    /// A value without a schema, kept as it is.
    Free,
}

/// The fate of fields that the schema of an object does not declare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UndeclaredFields {
    /// As the schema says.
    Own,
    /// They have owners, because an outer schema keeps unknown fields. In kube-apiserver that holds for all that is inside of it,
    /// although pruning goes by the schema of each place.
    Owned,
}

impl<'a> CustomNode<'a> {
    /// The schema of a whole object.
    pub(super) fn root(schema: &'a Schema) -> Self {
        Self::Resource(schema, UndeclaredFields::Own)
    }

    /// A place inside. An embedded object has metadata.
    fn below(self, schema: &'a Schema) -> Self {
        let unknown = match self.keeps_unknown() {
            true => UndeclaredFields::Owned,
            false => UndeclaredFields::Own,
        };
        if schema.embedded { Self::Resource(schema, unknown) } else { Self::Known(schema, unknown) }
    }

    fn schema(self) -> Option<&'a Schema> {
        match self {
            Self::Resource(schema, _) | Self::Known(schema, _) => Some(schema),
            Self::Builtin(_) | Self::Free => None,
        }
    }

    /// Returns true if fields that are not declared can have owners.
    fn keeps_unknown(self) -> bool {
        match self {
            Self::Resource(schema, unknown) | Self::Known(schema, unknown) => {
                schema.keeps_unknown() || unknown == UndeclaredFields::Owned
            }
            Self::Builtin(_) => false,
            Self::Free => true,
        }
    }
}

/// The schema of one version, for entries of `managedFields` of that version.
#[derive(Debug)]
pub(super) struct VersionNode(pub(super) Arc<Schema>);

impl VersionSchema for VersionNode {
    fn undeclared_field(&self, object: &Value) -> Option<String> {
        undeclared_field(object, CustomNode::root(&self.0))
    }
}

/// The metadata of any object, borrowed from a built-in kind.
fn metadata() -> Option<builtin::Node> {
    patch::MergeSchema::field(builtin::node("", "v1", "ConfigMap")?, "metadata")
}

impl<'a> patch::MergeSchema for CustomNode<'a> {
    fn field(self, name: &str) -> Option<Self> {
        match self {
            Self::Free => Some(Self::Free),
            Self::Builtin(node) => patch::MergeSchema::field(node, name).map(Self::Builtin),
            Self::Resource(..) if name == "metadata" => metadata().map(Self::Builtin),
            Self::Resource(..) if matches!(name, "apiVersion" | "kind") => Some(Self::Free),
            Self::Resource(schema, _) | Self::Known(schema, _) => {
                let free = self.keeps_unknown().then_some(Self::Free);
                schema.field(name).map(|schema| self.below(schema)).or(free)
            }
        }
    }

    fn items(self) -> Option<Self> {
        match self {
            Self::Free => Some(Self::Free),
            Self::Builtin(node) => patch::MergeSchema::items(node).map(Self::Builtin),
            Self::Resource(schema, _) | Self::Known(schema, _) => {
                Some(schema.items.as_deref().map_or(Self::Free, |items| self.below(items)))
            }
        }
    }

    fn list_kind(&self) -> ListKind<'_> {
        match self {
            Self::Builtin(node) => patch::MergeSchema::list_kind(node),
            Self::Free => ListKind::Atomic,
            Self::Resource(schema, _) | Self::Known(schema, _) => match schema.list_type.as_str() {
                "map" => ListKind::Map(ListKeys::Custom(&schema.list_map_keys)),
                "set" => ListKind::Set,
                _ => ListKind::Atomic,
            },
        }
    }

    fn map_kind(self) -> MapKind {
        let described = |schema: &Schema| match (schema.map_type.as_str(), &schema.additional_properties) {
            ("atomic", _) => MapKind::Atomic,
            (_, Some(Additional::Schema(_) | Additional::Any(true))) => MapKind::Granular,
            _ if self.keeps_unknown() => MapKind::Granular,
            _ => MapKind::Struct,
        };
        match self {
            Self::Builtin(node) => patch::MergeSchema::map_kind(node),
            other => other.schema().map_or(MapKind::Granular, described),
        }
    }

    /// A schema that keeps unknown fields is a map of them, beside the fields that it declares.
    fn declares(self, name: &str) -> bool {
        match self {
            Self::Builtin(node) => patch::MergeSchema::declares(node, name),
            Self::Free => false,
            Self::Resource(..) if matches!(name, "metadata" | "apiVersion" | "kind") => true,
            Self::Resource(schema, _) | Self::Known(schema, _) => {
                schema.properties.contains_key(name) || self.map_kind() != MapKind::Granular
            }
        }
    }

    fn shape(self) -> Shape {
        match self {
            Self::Free => Shape::Any,
            Self::Builtin(node) => patch::MergeSchema::shape(node),
            Self::Resource(..) => Shape::Map,
            Self::Known(schema, _) => match schema.type_name.as_str() {
                "object" => Shape::Map,
                "array" => Shape::List,
                "string" => Shape::String,
                "boolean" => Shape::Boolean,
                "integer" | "number" => Shape::Numeric,
                _ => Shape::Any,
            },
        }
    }

    fn merge_key(&self) -> Option<&str> {
        None
    }

    fn patch_strategy(self) -> PatchStrategy {
        PatchStrategy::default()
    }

    fn key_default(&self, key: &str) -> Option<listwatch_wire::json::Value> {
        if let Self::Builtin(node) = self {
            return patch::MergeSchema::key_default(node, key);
        }
        let items = self.schema()?.items.as_deref()?;
        items.properties.get(key)?.default.clone()
    }
}
