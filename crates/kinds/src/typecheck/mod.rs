//! Typed decoding of a body: one walk of an object against its schema, in place.
//!
//! kube-apiserver decodes JSON into Go structs and writes them back. The visible effects are reproduced here without the
//! structs: fields that no struct has disappear (and are reported), values of the wrong type are errors with Go's text,
//! nulls and empty optional values vanish, quantities and times take their canonical form. [`decode`] does all of it in one
//! pass; [`fill()`] then adds what structs always write (`"status":{}`), and belongs at the end of a write, after defaults,
//! so that defaulting can still see that a field is absent.
//!
//! Both walks take the stored object, if there is one, and skip the parts that the new object shares with it, because
//! those were checked when they were stored.
//!
//! The parser checks syntax, duplicate keys and nesting depth; validation checks values.

mod fill;
mod go;
mod order;
mod path;
mod scalar;

use listwatch_wire::go::json_type;
use listwatch_wire::json::{Map, Value};

use crate::prepare;
use crate::schema::{Field, FieldType, Node, SchemaTable, StructId, schema};
use path::StackPath;

pub use fill::fill;
pub(crate) use scalar::BASE64;

/// The result of [`decode`]. The request's `fieldValidation` decides what unknown fields lead to: nothing, warnings or
/// a 400.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypeReport {
    /// Paths of fields the schema does not have, such as `spec.containers[0].foo`; they are no longer in the object.
    ///
    /// At most [`MAX_UNKNOWN`], and 64 KiB of text.
    pub unknown: Vec<String>,
    /// The first value of the wrong type, with kube-apiserver's text: the object must be refused.
    ///
    /// Go's decoder stops there; this walk continues to report unknown fields, but users see only this error.
    pub error: Option<String>,
}

impl TypeReport {
    /// Returns the strict-decoding errors: fields that the schema does not have, and fields that the JSON body has twice, in
    /// the order of the body. Nothing below an unknown field was read.
    ///
    /// Reads the body a second time if there is more than one, to find their order.
    #[must_use]
    pub fn strict_decoding_errors(&self, duplicates: &[String], body: &[u8]) -> Vec<String> {
        order::strict_decoding_errors(&self.unknown, duplicates, body)
    }
}

/// Checks and normalises an object. A value that is not an object is an error too.
///
/// ```
/// use listwatch_kinds::{schema, typecheck};
/// let node = schema::node("", "v1", "ConfigMap").unwrap();
/// let mut object = listwatch_wire::json::json!({"metadata": {"name": "a", "labels": null}, "Data": {}});
/// let report = typecheck::decode(node, &mut object, None);
/// assert_eq!(report.unknown, ["Data"]);
/// assert_eq!(object, listwatch_wire::json::json!({"metadata": {"name": "a"}}));
/// ```
///
/// `before` is the stored object in the same version, or `None`. Nulls, unknown fields and empty optional values are
/// removed, so a second run changes nothing.
pub fn decode(node: Node, object: &mut Value, before: Option<&Value>) -> TypeReport {
    let mut walk = TypeWalk { schema: schema(), report: TypeReport::default(), unknown_bytes: 0 };
    let FieldType::Struct(id) = node.ty() else { return walk.report };
    match object {
        Value::Object(map) => walk.structure(id, map, &StackPath::Root, before),
        other => {
            let go = walk.schema.structure(id).go_name();
            walk.report.error =
                Some(format!("json: cannot unmarshal {} into Go value of type {go}", json_type(other)));
        }
    }
    walk.report
}

/// The most unknown fields reported, as in kube-apiserver; all are dropped. More would only make the response large.
pub const MAX_UNKNOWN: usize = 100;

/// The most bytes of their paths: a key may be as long as the body.
const MAX_UNKNOWN_BYTES: usize = 64 << 10;

/// One walk. The path lives on the stack, so that nothing is allocated for an object without faults.
struct TypeWalk {
    schema: &'static SchemaTable,
    report: TypeReport,
    unknown_bytes: usize,
}

/// The place of a value, for messages: the struct around it and the Go type it should have.
#[derive(Clone, Copy)]
struct ValuePlace<'a> {
    path: &'a StackPath<'a>,
    owner: StructId,
    go_type: Option<&'static str>,
}

impl TypeWalk {
    /// Fields to remove are made null first and removed at the end, since most objects have none.
    fn structure(&mut self, id: StructId, map: &mut Map, path: &StackPath<'_>, before: Option<&Value>) {
        let mut dirty = false;
        for (name, value) in map.iter_mut() {
            let before = before.and_then(|before| before.get(name));
            if is_passed(value, before) {
                continue;
            }
            match self.schema.field(id, name) {
                Some(field) => {
                    let path = path.field(field.name);
                    let place = ValuePlace { path: &path, owner: id, go_type: field.go_type };
                    self.value(field.ty, value, place, before);
                    if left_out(id, field, value) {
                        *value = Value::Null;
                    }
                }
                None => {
                    if self.report.unknown.len() < MAX_UNKNOWN && self.unknown_bytes < MAX_UNKNOWN_BYTES {
                        let path = path.field(name).to_string();
                        self.unknown_bytes += path.len();
                        self.report.unknown.push(path);
                    }
                    *value = Value::Null;
                }
            }
            dirty |= value.is_null();
        }
        if dirty {
            map.retain(|_, value| !value.is_null());
        }
    }

    /// Nulls stay where they are: they mean "absent" to a struct and "zero" to a list or map, which decide themselves.
    fn value(&mut self, ty: FieldType, value: &mut Value, place: ValuePlace<'_>, before: Option<&Value>) {
        match (ty, &mut *value) {
            (_, Value::Null) => {}
            (FieldType::Struct(id), Value::Object(map)) => self.structure(id, map, place.path, before),
            (FieldType::List(id), Value::Array(items)) => {
                self.list(self.schema.element(id), items, place, before);
            }
            (FieldType::Map(id), Value::Object(map)) => self.map(self.schema.element(id), map, place, before),
            (FieldType::Struct(_) | FieldType::List(_) | FieldType::Map(_), _) => {
                self.mismatch(json_type(value), ty, place);
            }
            (FieldType::SchemaOrArray | FieldType::SchemaOrBool | FieldType::SchemaOrStrings, _) => {
                self.schema_or(ty, value, place);
            }
            _ => {
                if let Err(fault) = scalar::normalise(ty, value) {
                    self.fault(fault, ty, place);
                }
            }
        }
    }

    /// Checks the elements of a list against those before at the same positions. Elements that are shared with the
    /// stored object are passed over.
    fn list(&mut self, item: FieldType, items: &mut [Value], place: ValuePlace<'_>, before: Option<&Value>) {
        let before = before.and_then(Value::as_array);
        for (index, value) in items.iter_mut().enumerate() {
            let before = before.and_then(|before| before.get(index));
            if is_passed(value, before) {
                continue;
            }
            let path = place.path.index(index);
            let go_type = place.go_type.and_then(|go| go.strip_prefix("[]"));
            self.value(item, value, ValuePlace { path: &path, go_type, ..place }, before);
            zero_if_null(item, value);
        }
    }

    /// Checks the values of a map, like `list`. Amounts of resources, which are in maps, are rounded.
    fn map(&mut self, item: FieldType, map: &mut Map, place: ValuePlace<'_>, before: Option<&Value>) {
        let go_type = place.go_type.and_then(|go| go.strip_prefix("map[")?.split_once(']')).map(|(_, go)| go);
        for (key, value) in map.iter_mut() {
            let before = before.and_then(|before| before.get(key));
            if is_passed(value, before) {
                continue;
            }
            let path = place.path.entry(key);
            self.value(item, value, ValuePlace { path: &path, go_type, ..place }, before);
            zero_if_null(item, value);
            if item == FieldType::Quantity
                && let Some(rounded) = value.as_str().and_then(crate::quantity::to_thousandths)
            {
                *value = rounded.into();
            }
        }
    }

    /// A JSON schema may be used in place of a list, a bool or names. Anything else is ignored, as in kube-apiserver, and
    /// unknown fields in it are dropped silently, because its decoder does not check these.
    fn schema_or(&mut self, ty: FieldType, value: &mut Value, place: ValuePlace<'_>) {
        let (props, told) = (self.schema.schema_props(), self.report.unknown.len());
        match (ty, &mut *value) {
            (_, Value::Object(map)) => self.structure(props, map, place.path, None),
            (FieldType::SchemaOrArray, Value::Array(items)) => {
                self.list(FieldType::Struct(props), items, place, None)
            }
            (FieldType::SchemaOrStrings, Value::Array(items)) => {
                self.list(FieldType::String, items, place, None)
            }
            (FieldType::SchemaOrBool, Value::Bool(_)) => {}
            (FieldType::SchemaOrBool, _) => self.refuse("boolean or JSON schema expected".to_owned()),
            _ => *value = Value::Null,
        }
        self.report.unknown.truncate(told);
    }

    /// The error of a scalar: of another type, or of no readable form.
    fn fault(&mut self, fault: scalar::ScalarFault, ty: FieldType, place: ValuePlace<'_>) {
        match fault {
            scalar::ScalarFault::Kind(kind) => self.mismatch(&kind, ty, place),
            scalar::ScalarFault::Text(text) => self.refuse(text),
        }
    }

    /// Go's message for a value of another type, with the struct and the field.
    fn mismatch(&mut self, found: &str, ty: FieldType, place: ValuePlace<'_>) {
        if self.report.error.is_none() {
            let owner = self.schema.structure(place.owner).short_name();
            let (path, wanted) = (place.path.fields_only(), go::type_name(ty, place.go_type));
            self.refuse(format!(
                "json: cannot unmarshal {found} into Go struct field {owner}.{path} of type {wanted}"
            ));
        }
    }

    /// Keeps the first error, which is the one that Go's decoder stops at.
    fn refuse(&mut self, text: String) {
        self.report.error.get_or_insert(text);
    }
}

/// Returns true if a value is the stored one. Scalars are cheaper to check again than to compare, and null is for the struct
/// around it to drop.
fn is_passed(value: &Value, before: Option<&Value>) -> bool {
    matches!(value, Value::Object(_) | Value::Array(_)) && before.is_some_and(|before| value.is_same(before))
}

/// Returns true if a Go struct would not write the value back.
///
/// The rules of Go's `omitempty` and `omitzero`, which decide what a client sees of its own zero values.
fn left_out(id: StructId, field: &Field, value: &Value) -> bool {
    match value {
        Value::Null => true,
        _ if field.pointer => false,
        Value::Object(map) if field.omit_zero => map.is_empty(),
        // An empty raw object is still a value.
        Value::Object(_) if matches!(field.ty, FieldType::Raw) => false,
        Value::Object(map) => field.omit_empty && map.is_empty() && !matches!(field.ty, FieldType::Struct(_)),
        // An empty list without `omitempty` is written as null: the store's encoding has no empty lists. For the
        // policies of an autoscaler, absent and empty differ. An empty record of field owners resets it. Some lists are kept
        // until their owner is recorded (`prepare/empty_lists.rs`), or because an absent one is not cleared (`prepare/pod.rs`).
        Value::Array(items) => {
            let kept = || {
                matches!(field.name, "policies" | "managedFields")
                    || prepare::POD_CLAIM_LISTS.contains(&field.name)
                    || !field.omit_empty && prepare::is_owned_empty(schema().structure(id).name, field.name)
            };
            items.is_empty() && !kept()
        }
        Value::String(text) => field.omit_empty && text.is_empty(),
        Value::Bool(on) => field.omit_empty && !on,
        Value::Number(number) => field.omit_empty && number.as_f64() == Some(0.0),
    }
}

/// A null inside a list or map is the zero value of its element.
fn zero_if_null(item: FieldType, value: &mut Value) {
    if value.is_null() {
        *value = fill::zero(item);
    }
}

#[cfg(test)]
mod tests;
