//! The schemas of a document: every type that can be reached from its kinds.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use listwatch_merge::patch::ListKind;
use listwatch_wire::json::{Map, Value, json};

use super::docs::Docs;
use super::{Dialect, put_member};
use crate::kind::Kind;
use crate::schema::{self, Field, StructId, Type, schema};

/// What a document defines.
pub(super) struct Components {
    structs: HashSet<StructId>,
    /// Types that are no structs, by definition.
    special: BTreeSet<&'static str>,
    /// Schemas that the caller brings along.
    pub(super) own: BTreeMap<String, Value>,
}

/// Kinds that every document needs: bodies of deletes, and answers that are no object.
const SHARED: [&str; 3] = ["DeleteOptions", "Status", "WatchEvent"];
/// The body of a patch: anything.
const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";

impl Components {
    /// The types of some kinds, of their lists and of what their subresources speak.
    pub(super) fn of(kinds: &[&Kind]) -> Self {
        let mut components = Self::shared();
        for kind in kinds {
            components.add_kind(kind.group, kind.version, kind.kind);
            components.add_kind(kind.group, kind.version, &kind.list_kind());
            for sub in kind.subresources.iter().filter(|s| !s.version.is_empty()) {
                components.add_kind(sub.group, sub.version, sub.kind);
            }
        }
        components
    }

    /// The types that belong to every document.
    pub(super) fn shared() -> Self {
        let mut components =
            Self { structs: HashSet::new(), special: BTreeSet::from([PATCH]), own: BTreeMap::new() };
        for kind in SHARED {
            components.add_kind("", "v1", kind);
        }
        // Custom resources refer to the metadata of objects and lists.
        components.add_kind("meta.k8s.io", "v1", "PartialObjectMetadataList");
        components
    }

    fn add_kind(&mut self, group: &str, version: &str, kind: &str) {
        if let Some(node) = schema::node(group, version, kind) {
            self.add(node.ty());
        }
    }

    fn add(&mut self, ty: Type) {
        match ty {
            Type::List(id) | Type::Map(id) => self.add(schema().element(id)),
            Type::Struct(id) => {
                if self.structs.insert(id) {
                    schema().fields(id).iter().for_each(|field| self.add(field.ty));
                }
            }
            _ => {
                if let Some(name) = special_name(ty) {
                    self.special.insert(name);
                }
            }
        }
    }

    /// Writes the members of the object that holds the schemas.
    pub(super) fn put(&self, out: &mut Vec<u8>, dialect: Dialect) {
        let docs = Docs::unpack();
        let mut first = true;
        for (name, schema) in &self.own {
            put_member(out, &mut first, name, schema);
        }
        for (id, structure) in schema().structs().filter(|(id, _)| self.structs.contains(id)) {
            put_member(out, &mut first, structure.name, &object(id, &docs, dialect));
        }
        for name in &self.special {
            put_member(out, &mut first, name, &special(name, dialect));
        }
    }
}

fn object(id: StructId, docs: &Docs, dialect: Dialect) -> Value {
    let structure = schema().structure(id);
    let fields = schema().fields(id);
    let mut object = Map::new();
    if let Some(text) = docs.get(structure.doc) {
        object.insert("description".to_owned(), text.into());
    }
    object.insert("type".to_owned(), "object".into());
    let properties: Map = fields.iter().map(|f| (f.name.to_owned(), property(f, docs, dialect))).collect();
    if !properties.is_empty() {
        object.insert("properties".to_owned(), properties.into());
    }
    let required: Vec<&str> = fields.iter().filter(|f| f.required).map(|f| f.name).collect();
    if !required.is_empty() {
        object.insert("required".to_owned(), required.into());
    }
    if structure.atomic {
        object.insert("x-kubernetes-map-type".to_owned(), "atomic".into());
    }
    let kinds: Vec<Value> = schema()
        .kinds()
        .iter()
        .filter(|kind| kind.id == id)
        .map(|kind| json!({"group": kind.group, "version": kind.version, "kind": kind.kind}))
        .collect();
    if !kinds.is_empty() {
        object.insert("x-kubernetes-group-version-kind".to_owned(), kinds.into());
    }
    object.into()
}

fn property(field: &Field, docs: &Docs, dialect: Dialect) -> Value {
    let mut property = match of_type(field.ty, dialect) {
        // Nothing may stand beside a reference in v3, so it goes one level down.
        Value::Object(map) if dialect == Dialect::V3 && map.contains_key("$ref") => {
            Map::from_iter([("allOf".to_owned(), json!([map]))])
        }
        Value::Object(map) => map,
        _ => Map::new(),
    };
    let mut put = |key: &str, value: Value| property.insert(key.to_owned(), value);
    if let Some(text) = docs.get(field.doc) {
        put("description", text.into());
    }
    match field.list {
        Some(ListKind::Atomic) => drop(put("x-kubernetes-list-type", "atomic".into())),
        Some(ListKind::Set) => drop(put("x-kubernetes-list-type", "set".into())),
        Some(ListKind::Map(keys)) => {
            put("x-kubernetes-list-type", "map".into());
            put("x-kubernetes-list-map-keys", keys.into());
        }
        None => {}
    }
    if field.atomic {
        put("x-kubernetes-map-type", "atomic".into());
    }
    if let Some(key) = field.merge_key {
        put("x-kubernetes-patch-merge-key", key.into());
    }
    let strategy = match (field.patch.merge, field.patch.retain_keys) {
        (true, true) => "merge,retainKeys",
        (true, false) => "merge",
        (false, true) => "retainKeys",
        (false, false) => return property.into(),
    };
    put("x-kubernetes-patch-strategy", strategy.into());
    property.into()
}

fn of_type(ty: Type, dialect: Dialect) -> Value {
    match ty {
        Type::String => json!({"type": "string"}),
        Type::Bool => json!({"type": "boolean"}),
        Type::Int32 => json!({"type": "integer", "format": "int32"}),
        Type::Int64 => json!({"type": "integer", "format": "int64"}),
        Type::Double => json!({"type": "number", "format": "double"}),
        Type::Bytes => json!({"type": "string", "format": "byte"}),
        Type::Struct(id) => dialect.reference(schema().structure(id).name),
        Type::List(id) => json!({"type": "array", "items": of_type(schema().element(id), dialect)}),
        Type::Map(id) => {
            json!({"type": "object", "additionalProperties": of_type(schema().element(id), dialect)})
        }
        _ => special_name(ty).map_or(json!({}), |name| dialect.reference(name)),
    }
}

const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const INT_OR_STRING: &str = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";
const TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Time";
const MICRO_TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime";
const FIELDS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1";
const RAW: &str = "io.k8s.apimachinery.pkg.runtime.RawExtension";
const JSON: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON";
const OR_ARRAY: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray";
const OR_BOOL: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool";
const OR_STRINGS: &str =
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray";

fn special_name(ty: Type) -> Option<&'static str> {
    Some(match ty {
        Type::Quantity => QUANTITY,
        Type::IntOrString => INT_OR_STRING,
        Type::Time => TIME,
        Type::MicroTime => MICRO_TIME,
        Type::FieldsV1 => FIELDS,
        Type::Raw => RAW,
        Type::Json => JSON,
        Type::SchemaOrArray => OR_ARRAY,
        Type::SchemaOrBool => OR_BOOL,
        Type::SchemaOrStrings => OR_STRINGS,
        _ => return None,
    })
}

fn special(name: &str, dialect: Dialect) -> Value {
    match (name, dialect) {
        (QUANTITY, Dialect::V2) => json!({"type": "string"}),
        (QUANTITY, Dialect::V3) => json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
        (INT_OR_STRING, Dialect::V2) => json!({"type": "string", "format": "int-or-string"}),
        (INT_OR_STRING, Dialect::V3) => {
            json!({"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"})
        }
        (TIME | MICRO_TIME, _) => json!({"type": "string", "format": "date-time"}),
        (FIELDS | RAW | PATCH, _) => json!({"type": "object"}),
        _ => json!({}),
    }
}
