//! JSON merge patch (RFC 7386), and the parsing of the bodies of both merge formats.
//!
//! It needs no schema: lists are replaced as a whole, and null removes a field. It is what `kubectl patch --type=merge`
//! sends. Strategic merge patch, which merges lists by key and which custom resources do not have, is `strategic`.

use listwatch_json::{Map, Value};

use super::PatchError;
use listwatch_json::{self as json, go};

/// Parses the body of a merge patch or strategic merge patch, which must be a JSON object.
///
/// Null is accepted, as in kube-apiserver, and changes nothing.
///
/// # Errors
/// [`PatchError::Malformed`].
pub fn parse_object_patch(body: &[u8]) -> Result<json::Parsed, PatchError> {
    let parsed = json::parse(body).map_err(|_| PatchError::Malformed("invalid JSON patch".to_owned()))?;
    match &parsed.value {
        Value::Object(_) | Value::Null => Ok(parsed),
        other => Err(PatchError::Malformed(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            go::json_type(other)
        ))),
    }
}

/// Merges a patch into a value: objects key by key; null removes a field, any other value replaces it.
///
/// ```
/// use listwatch_merge::patch::merge_patch;
/// use listwatch_json::json;
///
/// let mut object = json!({"a": {"x": 1, "y": 2}, "l": [1, 2]});
/// merge_patch(&mut object, json!({"a": {"x": null, "z": 3}, "l": [4]}));
/// assert_eq!(object, json!({"a": {"y": 2, "z": 3}, "l": [4]}));
/// ```
///
/// Costs as much as the patch is large. Depth is bounded by the parser of the patch, and a merge makes nothing deeper
/// than the deeper of both.
pub fn merge_patch(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        drop_nulls(target);
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(map) = target else { return };
    for (key, value) in patch {
        if value.is_null() {
            map.remove(&key);
        } else {
            merge_patch(map.entry(key).or_insert(Value::Null), value);
        }
    }
}

/// Drops the null fields of objects in lists, which the library that kube-apiserver uses does too; null elements stay.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.iter_mut().for_each(|(_, value)| drop_nulls(value));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use listwatch_json::json;

    #[test]
    fn examples_of_rfc_7386() {
        for (target, patch, result) in [
            (json!({"a":"b"}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":"b"}), json!({"b":"c"}), json!({"a":"b","b":"c"})),
            (json!({"a":"b"}), json!({"a":null}), json!({})),
            (json!({"a":"b","b":"c"}), json!({"a":null}), json!({"b":"c"})),
            (json!({"a":["b"]}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":"c"}), json!({"a":["b"]}), json!({"a":["b"]})),
            (json!({"a":{"b":"c"}}), json!({"a":{"b":"d","c":null}}), json!({"a":{"b":"d"}})),
            (json!({"a":[{"b":"c"}]}), json!({"a":[1]}), json!({"a":[1]})),
            (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
            (json!({"e":null}), json!({"a":1}), json!({"e":null,"a":1})),
            (json!([1, 2]), json!({"a":"b","c":null}), json!({"a":"b"})),
            (json!({}), json!({"a":{"bb":{"ccc":null}}}), json!({"a":{"bb":{}}})),
            // Beyond RFC 7386, which replaces lists without looking inside.
            (
                json!({}),
                json!({"a":[{"b":null,"c":[{"d":null}, null]}, null]}),
                json!({"a":[{"c":[{}, null]}, null]}),
            ),
        ] {
            let mut changed = target.clone();
            merge_patch(&mut changed, patch.clone());
            assert_eq!(changed, result, "{target} {patch}");
        }
    }

    #[test]
    fn a_patch_must_be_an_object() {
        let refused = |body: &str| parse_object_patch(body.as_bytes()).unwrap_err().to_string();
        assert_eq!(refused("{not json"), "invalid JSON patch");
        assert_eq!(
            refused("[1]"),
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"
        );
    }
}
