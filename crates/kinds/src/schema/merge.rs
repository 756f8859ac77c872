//! The schema table as server-side apply and strategic merge patch see it: the [`MergeSchema`] of built-in kinds.
//!
//! List types, map types and merge keys come from the OpenAPI extensions of Kubernetes' own types. The key defaults are
//! the exceptions that structured-merge-diff needs: a port without a protocol is TCP, so `80` and `80/TCP` are one
//! element. Types with several spellings (quantities, times) are `Any` here and checked by `typecheck`.

use listwatch_merge::patch::{ListKind, MapKind, MergeSchema, PatchStrategy, Shape};

use super::{Field, FieldType, Node, schema};

impl MergeSchema for Node {
    fn field(self, name: &str) -> Option<Self> {
        match self.ty {
            FieldType::Struct(id) => {
                let field = schema().field(id, name)?;
                Some(Self { ty: field.ty, field: Some(field) })
            }
            FieldType::Map(id) => Some(Self { ty: schema().element(id), field: None }),
            FieldType::SchemaOrArray | FieldType::SchemaOrBool | FieldType::SchemaOrStrings => {
                Self { ty: FieldType::Struct(schema().schema_props()), field: None }.field(name)
            }
            // Objects without a schema are owned key by key at every depth.
            FieldType::Raw | FieldType::FieldsV1 => Some(Self { ty: FieldType::Raw, field: None }),
            _ => None,
        }
    }

    fn items(self) -> Option<Self> {
        match self.ty {
            FieldType::List(id) => Some(Self { ty: schema().element(id), field: None }),
            _ => None,
        }
    }

    /// Atomic unless the definition has another type.
    ///
    /// Lists of scalars with `listType=set` and lists of structs with `listType=map` are owned by element.
    fn list_kind(&self) -> ListKind<'_> {
        self.field.and_then(|f| f.list).unwrap_or(ListKind::Atomic)
    }

    fn map_kind(self) -> MapKind {
        let granular = self.field.is_some_and(|f| f.granular);
        let atomic = self.field.is_some_and(|f| f.atomic) || self.as_struct().is_some_and(|s| s.atomic);
        match self.ty {
            _ if atomic && !granular => MapKind::Atomic,
            FieldType::Json | FieldType::Raw => MapKind::Atomic,
            FieldType::Map(_) | FieldType::FieldsV1 => MapKind::Granular,
            _ => MapKind::Struct,
        }
    }

    fn merge_key(&self) -> Option<&str> {
        self.field?.merge_key
    }

    fn patch_strategy(self) -> PatchStrategy {
        self.field.map(|f| f.patch).unwrap_or_default()
    }

    /// Types that are written in more than one way, such as quantities and times, are left to the type check.
    fn shape(self) -> Shape {
        match self.ty {
            FieldType::String | FieldType::Bytes => Shape::String,
            FieldType::Bool => Shape::Boolean,
            FieldType::Int32 | FieldType::Int64 | FieldType::Double => Shape::Numeric,
            FieldType::Struct(_) | FieldType::Map(_) => Shape::Map,
            FieldType::List(_) => Shape::List,
            _ => Shape::Any,
        }
    }

    /// Ports are TCP by default, and a reference to a secret may name none. A key that Go always writes
    /// has the zero value of its type.
    fn key_default(&self, key: &str) -> Option<listwatch_wire::json::Value> {
        if key == "protocol" {
            return Some("TCP".into());
        }
        if key == "name" && self.field.is_some_and(|field| field.name == "imagePullSecrets") {
            return Some("".into());
        }
        let FieldType::List(id) = self.ty else { return None };
        let FieldType::Struct(id) = schema().element(id) else { return None };
        let is_written = |field: &&Field| field.required || !field.omit_empty && !field.pointer;
        let field = schema().fields(id).iter().find(|field| field.name == key).filter(is_written)?;
        match field.ty {
            FieldType::String => Some("".into()),
            FieldType::Int32 | FieldType::Int64 => Some(0.into()),
            _ => None,
        }
    }
}
