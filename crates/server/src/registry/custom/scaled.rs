//! Checks of the fields behind the `scale` subresource of a custom kind, which its schema need not describe.
//!
//! The subresource itself is `subresources/scale.rs`.

use listwatch_wire::json::{Value, go};
use listwatch_wire::status::FieldError;

/// The error of a number of replicas at a path such as `.spec.replicas`; none if there is none.
pub(super) fn replicas(object: &Value, path: &str) -> Option<FieldError> {
    let found = match nested(object, path) {
        Ok(found) => found?,
        Err(why) => return Some(FieldError::invalid(path, 0, why)),
    };
    let Some(count) = found.as_i64() else {
        return Some(FieldError::invalid(path, 0, misplaced(path, found, "int64")));
    };
    let why = match count {
        ..0 => "should be a non-negative integer".to_owned(),
        count if count > i64::from(i32::MAX) => format!("should be less than or equal to {}", i32::MAX),
        _ => return None,
    };
    Some(FieldError::invalid(path, count, why))
}

/// The error of a selector that is not a text.
pub(super) fn selector(object: &Value, path: &str) -> Option<FieldError> {
    let found = match nested(object, path) {
        Ok(found) => found?,
        Err(why) => return Some(FieldError::invalid(path, "", why)),
    };
    let wrong = found.as_str().is_none();
    wrong.then(|| FieldError::invalid(path, "", misplaced(path, found, "string")))
}

/// The value at a path, if all the steps to it are there.
fn nested<'a>(object: &'a Value, path: &str) -> Result<Option<&'a Value>, String> {
    let mut value = object;
    let mut walked = String::new();
    for step in path.trim_start_matches('.').split('.') {
        walked.push('.');
        walked.push_str(step);
        value = match value {
            Value::Null => return Ok(None),
            Value::Object(fields) => match fields.get(step) {
                Some(inner) => inner,
                None => return Ok(None),
            },
            other => return Err(misplaced(&walked, other, "map[string]interface{}")),
        };
    }
    Ok(Some(value))
}

/// The message of Go's accessors for a value of another type.
fn misplaced(path: &str, value: &Value, wanted: &str) -> String {
    let ty = match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.as_i64().is_none() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    };
    format!("{path} accessor error: {} is of the type {ty}, expected {wanted}", go::print(value))
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    #[test]
    fn replicas_are_whole_numbers_that_a_scale_can_hold() {
        let wrong = |replicas: Value| replicas_of(&json!({"spec": {"replicas": replicas}}));
        for good in [json!(0), json!(3), json!(i32::MAX)] {
            assert_eq!(wrong(good), None);
        }
        for bad in [json!(-1), json!(2_147_483_648_i64), json!("3"), json!(1.5), json!({}), Value::Null] {
            assert!(wrong(bad.clone()).is_some(), "{bad}");
        }
        assert_eq!(replicas_of(&json!({"spec": {}})), None);
        assert!(replicas_of(&json!({"spec": 5})).is_some());
    }

    fn replicas_of(object: &Value) -> Option<String> {
        replicas(object, ".spec.replicas").map(|error| error.field)
    }
}
