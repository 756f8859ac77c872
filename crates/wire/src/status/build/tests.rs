//! Tests of the messages, codes and reasons of statuses.

use super::*;

#[test]
fn several_errors_stand_in_brackets_and_repeats_once() {
    let twice = FieldError::required("a", "");
    let status = Status::invalid("", "Pod", "p", &[twice.clone(), twice, FieldError::duplicate("b", "x")]);
    assert_eq!(status.message, r#"Pod "p" is invalid: [a: Required value, b: Duplicate value: "x"]"#);
    assert_eq!(status.details.unwrap().causes.len(), 3);
}

#[test]
fn an_error_without_details_of_the_object_reads_as_in_kube_apiserver() {
    let errors = [FieldError::invalid("spec", crate::json::Value::Null, "x")];
    assert_eq!(
        Status::invalid("", "", "", &errors).message,
        r#" "" is invalid: spec: Invalid value: null: x"#
    );
    assert_eq!(Status::forbidden("", "", "", "no").message, "forbidden: no");
}

#[test]
fn too_large_is_recognised_by_what_it_carries() {
    let status = Status::too_large_resource_version(9, 5, 1);
    assert_eq!(status.message, "Timeout: Too large resource version: 9, current: 5");
    assert!(status.is_too_large_resource_version());
    assert_eq!(status.retry_after(), Some(1));
}

#[test]
fn statuses_of_other_servers_parse() {
    let status: Status = serde_json::from_str(
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"m","reason":"Odd","code":418}"#,
    )
    .unwrap();
    assert_eq!((status.reason, status.code), (StatusReason::Other("Odd".into()), 418));
    let bare: Status = serde_json::from_str("{}").unwrap();
    assert_eq!(bare, Status::default());
}
