//! Go's names of types, as the messages of its JSON decoder use them.
//!
//! `cannot unmarshal string into Go struct field PodSpec.spec.containers of type []v1.Container` is what clients of
//! kube-apiserver see and tests compare. The schema table carries the names that do not follow from the type; the rest
//! is derived here.

use crate::schema::{Type, schema};

/// The Go name of a type: the one that the schema table gives, or the one that follows from the type.
pub(super) fn type_name(ty: Type, known: Option<&'static str>) -> String {
    if let Some(name) = known {
        return name.to_owned();
    }
    match ty {
        Type::String => "string".to_owned(),
        Type::Bool => "bool".to_owned(),
        Type::Int32 => "int32".to_owned(),
        Type::Int64 => "int64".to_owned(),
        Type::Double => "float64".to_owned(),
        Type::Bytes => "[]uint8".to_owned(),
        Type::Struct(id) => schema().structure(id).go_name().to_owned(),
        Type::List(id) => format!("[]{}", type_name(schema().element(id), None)),
        Type::Map(id) => format!("map[string]{}", type_name(schema().element(id), None)),
        Type::Quantity => "resource.Quantity".to_owned(),
        Type::IntOrString => "intstr.IntOrString".to_owned(),
        Type::Time => "v1.Time".to_owned(),
        Type::MicroTime => "v1.MicroTime".to_owned(),
        Type::Raw => "runtime.RawExtension".to_owned(),
        Type::FieldsV1 => "v1.FieldsV1".to_owned(),
        Type::Json => "v1.JSON".to_owned(),
        Type::SchemaOrArray => "v1.JSONSchemaPropsOrArray".to_owned(),
        Type::SchemaOrBool => "v1.JSONSchemaPropsOrBool".to_owned(),
        Type::SchemaOrStrings => "v1.JSONSchemaPropsOrStringArray".to_owned(),
    }
}
