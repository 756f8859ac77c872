//! The types of the fields of an AdmissionReview that a webhook sends, and Go's message for a value of another type.
//!
//! kube-apiserver decodes the response into structs, and the message of a failure is that of Go's decoder, which operators search for.
//! The meaning of the fields is [`super::answer`]'s.

use listwatch_kinds::tree::Tree;
use listwatch_wire::json::Value;
use listwatch_wire::json::go::json_type;

/// The fields of a response and of its status: name and Go type.
const RESPONSE: [(&str, &str); 7] = [
    ("uid", "types.UID"),
    ("allowed", "bool"),
    ("status", "v1.Status"),
    ("patch", "[]uint8"),
    ("patchType", "PatchType"),
    ("auditAnnotations", "map[string]string"),
    ("warnings", "[]string"),
];
const STATUS: [(&str, &str); 5] = [
    ("status", "string"),
    ("message", "string"),
    ("reason", "v1.StatusReason"),
    ("details", "v1.StatusDetails"),
    ("code", "int32"),
];

/// Types of the fields, with the errors of Go's decoder, which operators search for.
pub(super) fn check_types(review: &Value, version: &str) -> Result<(), String> {
    let package = version.rsplit('/').next().unwrap_or_default();
    let response = review.at("response");
    let expected = format!("{package}.AdmissionResponse");
    check(response, &expected).map_err(|found| mismatch(&found, "AdmissionReview.response", &expected))?;
    for (name, ty) in RESPONSE {
        let ty = if ty == "PatchType" { format!("{package}.PatchType") } else { ty.to_owned() };
        let place = format!("AdmissionResponse.response.{name}");
        let inner = ty.rsplit(']').next().filter(|_| matches!(name, "warnings" | "auditAnnotations"));
        let value = response.at(name);
        check(value, &ty).map_err(|found| mismatch(&found, &place, &ty))?;
        let elements: Vec<&Value> = match value {
            Value::Array(items) => items.iter().collect(),
            Value::Object(fields) => fields.values().collect(),
            _ => Vec::new(),
        };
        for (element, inner) in elements.into_iter().zip(std::iter::repeat(inner)) {
            let Some(inner) = inner else { break };
            check(element, inner).map_err(|found| mismatch(&found, &place, inner))?;
        }
    }
    for (name, ty) in STATUS {
        let place = format!("Status.response.status.{name}");
        check(response.at("status").at(name), ty).map_err(|found| mismatch(&found, &place, ty))?;
    }
    Ok(())
}

/// Go's message for a value of another type.
pub(super) fn mismatch(found: &str, place: &str, expected: &str) -> String {
    format!("json: cannot unmarshal {found} into Go struct field {place} of type {expected}")
}

/// Compares a value with a Go type; returns what was found instead.
fn check(value: &Value, expected: &str) -> Result<(), String> {
    let fits = match (value, expected) {
        (Value::Null, _) => true,
        (Value::Bool(_), expected) => expected == "bool",
        (Value::Number(number), "int32") => {
            let fits = number.as_i64().is_some_and(|number| i32::try_from(number).is_ok());
            return if fits { Ok(()) } else { Err(format!("number {value}")) };
        }
        (Value::Number(_), _) => false,
        (Value::String(_), expected) => {
            matches!(expected, "string" | "types.UID" | "[]uint8" | "v1.StatusReason")
                || expected.ends_with(".PatchType")
        }
        (Value::Array(_), expected) => expected.starts_with("[]"),
        (Value::Object(_), expected) => {
            expected.starts_with("map")
                || expected.ends_with(".AdmissionResponse")
                || matches!(expected, "v1.Status" | "v1.StatusDetails")
        }
    };
    if fits { Ok(()) } else { Err(json_type(value).to_owned()) }
}
