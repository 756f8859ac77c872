//! The schemas of an OpenAPI document: every type that can be reached from its operations.
//!
//! Schemas are generated from the `schema` table, with texts from `docs` and corrections from `overlay`, so that no
//! second description of the kinds exists. The two dialects differ: in v3 a `$ref` may have no siblings, so it is
//! wrapped in `allOf`, and unions are `oneOf`. kubectl builds its validation and `explain` from these documents.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use listwatch_merge::patch::ListKind;
use listwatch_wire::json::{Map, Value, json};

use super::Dialect;
use super::docs::Docs;
use super::operation::PathItem;
use super::overlay::Overlay;
use crate::schema::{Field, FieldType, StructId, schema};

/// The definitions of a document.
pub(super) struct Components {
    structs: HashSet<StructId>,
    /// Types that are not structs, by definition.
    special: BTreeSet<&'static str>,
    /// Types that only the overlay has.
    described: BTreeSet<String>,
    /// Schemas that the caller brings along.
    own: BTreeMap<String, Value>,
    overlay: Overlay,
    /// The group and version whose v3 document this is, if it is one.
    version: Option<(String, String)>,
    /// True for a v3 document of custom resources.
    is_custom: bool,
}

/// Kinds that exist in every group; each document lists them under its own.
const EVERYWHERE: [&str; 2] = ["DeleteOptions", "WatchEvent"];

/// Groups that are not part of kube-apiserver's main scheme.
const OWN_SCHEME: [&str; 4] =
    ["admission.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "imagepolicy.k8s.io"];

/// The extension that lists the groups and versions of a kind.
const KINDS: &str = "x-kubernetes-group-version-kind";

/// The body of a patch: anything.
const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";

impl Components {
    /// No definitions yet; they are added as paths refer to them.
    pub(super) fn new() -> Self {
        Self {
            structs: HashSet::new(),
            special: BTreeSet::new(),
            described: BTreeSet::new(),
            own: BTreeMap::new(),
            overlay: Overlay::unpack(),
            version: None,
            is_custom: false,
        }
    }

    /// The components of a document of custom resources.
    pub(super) fn of_custom() -> Self {
        Self { is_custom: true, ..Self::new() }
    }

    /// The components of the document of a group and version.
    pub(super) fn of_version(group: &str, version: &str) -> Self {
        Self { version: Some((group.to_owned(), version.to_owned())), ..Self::new() }
    }

    /// Adds what the operations of these paths refer to.
    pub(super) fn reach_paths<'a>(&mut self, paths: impl IntoIterator<Item = &'a PathItem>) {
        let operations = paths.into_iter().flat_map(|path| &path.operations);
        let names: BTreeSet<&str> = operations
            .flat_map(|operation| [&operation.body, &operation.answer])
            .flatten()
            .map(|s| &**s)
            .collect();
        names.into_iter().for_each(|name| self.reach(name));
    }

    /// Adds a schema that is not built in, with what it refers to.
    pub(super) fn add_schema(&mut self, name: String, schema: Value) {
        self.reach_from(&schema);
        self.own.insert(name, schema);
    }

    /// Adds a definition and those that it refers to. A name that is not built in is one that is brought along.
    fn reach(&mut self, name: &str) {
        if let Some((id, _)) = schema().structs().find(|(_, structure)| structure.name == name) {
            self.add(FieldType::Struct(id));
        } else if let Some(special) = SPECIAL.into_iter().find(|special| *special == name) {
            self.special.insert(special);
        } else if let Some(schema) = self.overlay.whole(name)
            && self.described.insert(name.to_owned())
        {
            self.reach_from(&schema);
        }
    }

    /// Follows `$ref` anywhere in a JSON schema, as overlays and custom schemas may contain them at any depth.
    fn reach_from(&mut self, schema: &Value) {
        match schema {
            Value::Object(map) => {
                if let Some(name) = map.get("$ref").and_then(Value::as_str).and_then(|r| r.rsplit('/').next())
                {
                    self.reach(name);
                }
                map.values().for_each(|inner| self.reach_from(inner));
            }
            Value::Array(list) => list.iter().for_each(|inner| self.reach_from(inner)),
            _ => {}
        }
    }

    /// Each struct is entered once, so that types which contain themselves end.
    fn add(&mut self, ty: FieldType) {
        match ty {
            FieldType::List(id) | FieldType::Map(id) => self.add(schema().element(id)),
            FieldType::Struct(id) => {
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

    /// Adds the document's group and version to the kinds that every group has. Documents of custom resources have those of
    /// all groups that kube-apiserver's main scheme knows.
    fn name_own(&self, definition: &str, schema: &mut Value) {
        let kind = definition.rsplit('.').next().filter(|kind| EVERYWHERE.contains(kind));
        if kind.is_some() && self.is_custom {
            self.name_all(definition, schema);
        }
        let (Some(kind), Some((group, version))) = (kind, &self.version) else { return };
        let known = schema.get_mut(KINDS).and_then(Value::as_array_mut);
        if let Some(known) = known.filter(|_| !group.is_empty()) {
            known.push(json!({"group": group.as_str(), "version": version.as_str(), "kind": kind}));
        }
    }

    /// Lists the groups of the v2 document, apart from those with a scheme of their own.
    fn name_all(&self, definition: &str, schema: &mut Value) {
        let mut known = self.overlay.over(definition, json!({}), Dialect::V2);
        let known = known.get_mut(KINDS).and_then(Value::as_array_mut);
        let (Some(known), Some(schema)) = (known, schema.as_object_mut()) else { return };
        known.retain(|kind| !OWN_SCHEME.iter().any(|group| kind.get("group").is_some_and(|g| g == group)));
        schema.insert(KINDS, known.clone().into());
    }

    /// Calls `put` with every schema and its name.
    ///
    /// Texts are unpacked for the duration of the call: they take more memory than the document.
    pub(super) fn each(&self, dialect: Dialect, mut put: impl FnMut(&str, &Value)) {
        let docs = Docs::unpack();
        for (name, schema) in &self.own {
            put(name, schema);
        }
        for (id, structure) in schema().structs().filter(|(id, _)| self.structs.contains(id)) {
            let mut schema = self.overlay.over(structure.name, object(id, &docs, dialect), dialect);
            self.name_own(structure.name, &mut schema);
            put(structure.name, &schema);
        }
        for name in &self.special {
            put(name, &self.overlay.over(name, special(name, dialect), dialect));
        }
        for name in &self.described {
            put(name, &self.overlay.over(name, json!({}), dialect));
        }
    }
}

/// The schema of a definition as the table alone makes it; empty for one that it does not have.
#[cfg(test)]
pub(super) fn bare(name: &str, docs: &Docs, dialect: Dialect) -> Value {
    match schema().structs().find(|(_, structure)| structure.name == name) {
        Some((id, _)) => object(id, docs, dialect),
        None => special(name, dialect),
    }
}

/// The schema of a struct, with the extensions by which clients merge and find kinds.
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
        object.insert(KINDS, kinds.into());
    }
    object.into()
}

/// The schema of a field: its type with the merge rules of the table. kubectl reads the patch strategy from here.
fn property(field: &Field, docs: &Docs, dialect: Dialect) -> Value {
    let mut property = match of_type(field.ty, dialect) {
        // A reference may not have siblings in v3, so it is wrapped.
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
            put("x-kubernetes-list-map-keys", keys.iter().collect::<Vec<_>>().into());
        }
        None => {}
    }
    if field.atomic {
        put("x-kubernetes-map-type", "atomic".into());
    }
    if let Some(key) = field.merge_key {
        put("x-kubernetes-patch-merge-key", key.into());
    }
    if let Some(strategy) = patch_strategy(field) {
        put("x-kubernetes-patch-strategy", strategy.into());
    }
    alone(property)
}

fn patch_strategy(field: &Field) -> Option<&'static str> {
    match (field.patch.merge, field.patch.retain_keys) {
        (true, true) => Some("merge,retainKeys"),
        (true, false) => Some("merge"),
        (false, true) => Some("retainKeys"),
        (false, false) => field.patch.replace.then_some("replace"),
    }
}

/// A reference without siblings needs no `allOf`.
fn alone(property: Map) -> Value {
    match property.get("allOf") {
        Some(Value::Array(all)) if property.len() == 1 => all.first().cloned().unwrap_or_default(),
        _ => property.into(),
    }
}

/// The schema of a type; structs are references.
fn of_type(ty: FieldType, dialect: Dialect) -> Value {
    match ty {
        FieldType::String => json!({"type": "string"}),
        FieldType::Bool => json!({"type": "boolean"}),
        FieldType::Int32 => json!({"type": "integer", "format": "int32"}),
        FieldType::Int64 => json!({"type": "integer", "format": "int64"}),
        FieldType::Double => json!({"type": "number", "format": "double"}),
        FieldType::Bytes => json!({"type": "string", "format": "byte"}),
        FieldType::Struct(id) => dialect.reference(schema().structure(id).name),
        FieldType::List(id) => json!({"type": "array", "items": of_type(schema().element(id), dialect)}),
        FieldType::Map(id) => {
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

/// Types that are written by hand, because they have marshalers of their own in Go.
const SPECIAL: [&str; 11] =
    [QUANTITY, INT_OR_STRING, TIME, MICRO_TIME, FIELDS, RAW, JSON, OR_ARRAY, OR_BOOL, OR_STRINGS, PATCH];

/// The definition of a scalar type that is not a plain string or number in OpenAPI.
fn special_name(ty: FieldType) -> Option<&'static str> {
    Some(match ty {
        FieldType::Quantity => QUANTITY,
        FieldType::IntOrString => INT_OR_STRING,
        FieldType::Time => TIME,
        FieldType::MicroTime => MICRO_TIME,
        FieldType::FieldsV1 => FIELDS,
        FieldType::Raw => RAW,
        FieldType::Json => JSON,
        FieldType::SchemaOrArray => OR_ARRAY,
        FieldType::SchemaOrBool => OR_BOOL,
        FieldType::SchemaOrStrings => OR_STRINGS,
        _ => return None,
    })
}

/// Types that are not structs in Go's sense: their JSON is a scalar or anything.
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
