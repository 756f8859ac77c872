//! Go's names of types, as the messages of its JSON decoder use them.
//!
//! `cannot unmarshal string into Go struct field PodSpec.spec.containers of type []v1.Container` is what clients of
//! kube-apiserver see and tests compare. The schema table carries the names that do not follow from the type; the rest
//! is derived here.

use crate::schema::{FieldType, schema};

/// The Go name of a type: the one that the schema table gives, or the one that follows from the type.
pub(super) fn type_name(ty: FieldType, known: Option<&'static str>) -> String {
    if let Some(name) = known {
        return name.to_owned();
    }
    match ty {
        FieldType::String => "string".to_owned(),
        FieldType::Bool => "bool".to_owned(),
        FieldType::Int32 => "int32".to_owned(),
        FieldType::Int64 => "int64".to_owned(),
        FieldType::Double => "float64".to_owned(),
        FieldType::Bytes => "[]uint8".to_owned(),
        FieldType::Struct(id) => schema().structure(id).go_name().to_owned(),
        FieldType::List(id) => format!("[]{}", type_name(schema().element(id), None)),
        FieldType::Map(id) => format!("map[string]{}", type_name(schema().element(id), None)),
        FieldType::Quantity => "resource.Quantity".to_owned(),
        FieldType::IntOrString => "intstr.IntOrString".to_owned(),
        FieldType::Time => "v1.Time".to_owned(),
        FieldType::MicroTime => "v1.MicroTime".to_owned(),
        FieldType::Raw => "runtime.RawExtension".to_owned(),
        FieldType::FieldsV1 => "v1.FieldsV1".to_owned(),
        FieldType::Json => "v1.JSON".to_owned(),
        FieldType::SchemaOrArray => "v1.JSONSchemaPropsOrArray".to_owned(),
        FieldType::SchemaOrBool => "v1.JSONSchemaPropsOrBool".to_owned(),
        FieldType::SchemaOrStrings => "v1.JSONSchemaPropsOrStringArray".to_owned(),
    }
}
