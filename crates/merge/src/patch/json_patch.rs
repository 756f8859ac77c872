//! JSON patch (RFC 6902), with kube-apiserver's three liberties: `replace` of a missing key adds it, a negative index
//! counts from the end, and `test` takes a missing key for null.
//!
//! Reading and the limits are here; `operation` applies, `pointer` finds places, `budget` counts.

mod budget;
mod operation;
mod pointer;

use listwatch_json::{self as json, List, Value, go};

use self::budget::PatchBudget;
use self::operation::JsonPatchOperation;
use super::PatchError;

/// Bounds of a JSON patch: a few bytes of patch can cause much work.
///
/// A patch that exceeds one of the last three fails like one that does not apply. kube-apiserver has no counterpart
/// for those two that bound moves and depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JsonPatchLimits {
    /// The most operations; kube-apiserver's 10000.
    pub operations: usize,
    /// The most bytes that `copy` operations may add together; kube-apiserver's 3 MiB, the size of a body.
    ///
    /// Trees share, so a copy costs no memory here; the bound is for what is encoded and stored.
    pub copied_bytes: usize,
    /// The most list elements moved aside by insertions and removals, and nodes measured on their way to a deeper
    /// place, so that many operations on a large object end within a fraction of a second.
    pub moved_elements: usize,
    /// The deepest nesting that an operation may lead to; what a parser would accept. A `copy` of a value into itself
    /// doubles the depth each time, and everything that walks a tree does so recursively.
    pub depth: usize,
}

impl Default for JsonPatchLimits {
    fn default() -> Self {
        Self { operations: 10_000, copied_bytes: 3 << 20, moved_elements: 20_000_000, depth: json::MAX_DEPTH }
    }
}

/// A parsed JSON patch.
///
/// ```
/// use listwatch_merge::patch::JsonPatch;
/// use listwatch_json::json;
///
/// let patch = JsonPatch::parse(br#"[{"op":"add","path":"/a/-","value":2},{"op":"remove","path":"/b"}]"#)?;
/// let mut object = json!({"a": [1], "b": 0});
/// patch.apply(&mut object)?;
/// assert_eq!(object, json!({"a": [1, 2]}));
/// # Ok::<(), listwatch_merge::patch::PatchError>(())
/// ```
///
/// Parsed once, and applied again for each attempt if the object has changed.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPatch {
    operations: Vec<JsonPatchOperation>,
    limits: JsonPatchLimits,
    /// At most 100 unknown fields and 100 duplicates, sorted by operation.
    strict_decoding_errors: Vec<String>,
}

/// Nothing, or why the patch cannot be applied.
type PatchResult<T = ()> = Result<T, PatchError>;

/// An error of applying: 422, since the patch itself could be read.
fn failed<T>(text: impl Into<String>) -> PatchResult<T> {
    Err(PatchError::Failed(text.into()))
}

/// A decoding error: 400, with the message of Go's decoder.
fn undecodable(found: &Value, place: &str) -> PatchError {
    PatchError::Malformed(format!(
        "error decoding patch: json: cannot unmarshal {} into Go {place}",
        go::json_type(found)
    ))
}

impl JsonPatch {
    /// Parses a patch with the default limits.
    ///
    /// # Errors
    /// [`PatchError::Malformed`] if it is not an array of operations, [`PatchError::TooManyOperations`].
    pub fn parse(body: &[u8]) -> Result<Self, PatchError> {
        Self::with_limits(body, JsonPatchLimits::default())
    }

    /// Parses a patch with other limits.
    ///
    /// # Errors
    /// As [`JsonPatch::parse`].
    pub fn with_limits(body: &[u8], limits: JsonPatchLimits) -> Result<Self, PatchError> {
        let parsed = json::parse(body).map_err(|_| PatchError::Malformed("invalid JSON patch".to_owned()))?;
        let items = match parsed.value {
            Value::Array(items) => items,
            Value::Null => List::default(),
            other => return Err(undecodable(&other, "value of type []handlers.jsonPatchOp")),
        };
        if items.len() > limits.operations {
            return Err(PatchError::TooManyOperations { max: limits.operations, got: items.len() });
        }
        let mut strict_decoding_errors = unknown_fields(&items);
        strict_decoding_errors
            .extend(parsed.duplicates.iter().map(|path| format!("json patch duplicate field {path:?}")));
        strict_decoding_errors.sort_by_key(|text| operation_of(text));
        let operations = items.into_iter().map(JsonPatchOperation::parse).collect::<Result<_, _>>()?;
        Ok(Self { operations, limits, strict_decoding_errors })
    }

    /// The values that operations put somewhere.
    ///
    /// For checks that look into what a patch brings, before it is applied.
    pub fn values(&self) -> impl Iterator<Item = &Value> {
        self.operations.iter().filter_map(|operation| operation.value.as_ref())
    }

    /// The strict-decoding errors: fields that no operation has, or that one has twice.
    #[must_use]
    pub fn strict_decoding_errors(&self) -> &[String] {
        &self.strict_decoding_errors
    }

    /// Changes an object; if any operation fails, none has taken place.
    ///
    /// Works on a copy, which shares everything that the operations do not touch.
    ///
    /// # Errors
    /// [`PatchError::Failed`] saying which operation failed and why.
    pub fn apply(&self, object: &mut Value) -> Result<(), PatchError> {
        let mut changed = object.clone();
        let JsonPatchLimits { copied_bytes: copied, moved_elements: moved, depth, .. } = self.limits;
        let mut budget = PatchBudget { copied, moved, depth };
        for operation in &self.operations {
            operation.apply(&mut changed, &mut budget)?;
        }
        *object = changed;
        Ok(())
    }
}

/// Fields that an operation does not have, for strict validation.
fn unknown_fields(items: &List) -> Vec<String> {
    let fields = items.iter().enumerate().flat_map(|(index, item)| {
        item.as_object().into_iter().flat_map(|map| map.keys()).map(move |key| (index, key))
    });
    let unknown = fields.filter(|(_, key)| !matches!(key.as_str(), "op" | "path" | "from" | "value"));
    unknown
        .take(MAX_STRICT_ERRORS)
        .map(|(index, key)| format!("json patch unknown field {:?}", format!("[{index}].{key}")))
        .collect()
}

/// The most unknown fields that are reported; more would only make the response large.
const MAX_STRICT_ERRORS: usize = 100;

/// The number of the operation that an error is about; errors are returned in that order.
fn operation_of(text: &str) -> Option<usize> {
    text.split_once('[')?.1.split_once(']')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use listwatch_json::json;

    fn patched(object: Value, patch: &str) -> Result<Value, PatchError> {
        let mut object = object;
        JsonPatch::parse(patch.as_bytes())?.apply(&mut object).map(|()| object)
    }

    #[test]
    fn every_operation() {
        let patch = r#"[{"op":"test","path":"/d/one","value":"1"},{"op":"add","path":"/d/four","value":"4"},
            {"op":"replace","path":"/d/one","value":"uno"},{"op":"remove","path":"/d/two"},
            {"op":"move","from":"/d/three","path":"/d/tres"},{"op":"copy","from":"/d/four","path":"/d/vier"}]"#;
        assert_eq!(
            patched(json!({"d": {"one": "1", "two": "2", "three": "3"}}), patch).unwrap(),
            json!({"d": {"one": "uno", "four": "4", "tres": "3", "vier": "4"}})
        );
    }

    #[test]
    fn lists_by_position() {
        let list = || json!({"l": [1, 2, 3]});
        for (op, result) in [
            (r#"{"op":"add","path":"/l/0","value":0}"#, json!([0, 1, 2, 3])),
            (r#"{"op":"add","path":"/l/-","value":4}"#, json!([1, 2, 3, 4])),
            (r#"{"op":"add","path":"/l/3","value":4}"#, json!([1, 2, 3, 4])),
            (r#"{"op":"remove","path":"/l/-1"}"#, json!([1, 2])),
            (r#"{"op":"replace","path":"/l/1","value":9}"#, json!([1, 9, 3])),
            (r#"{"op":"move","from":"/l/0","path":"/l/-"}"#, json!([2, 3, 1])),
        ] {
            assert_eq!(patched(list(), &format!("[{op}]")).unwrap()["l"], result, "{op}");
        }
        for op in [
            r#"{"op":"add","path":"/l/4","value":0}"#,
            r#"{"op":"remove","path":"/l/3"}"#,
            r#"{"op":"remove","path":"/l/-4"}"#,
            r#"{"op":"replace","path":"/l/-","value":0}"#,
            r#"{"op":"add","path":"/l/x","value":0}"#,
            r#"{"op":"add","path":"/l/0/x","value":0}"#,
        ] {
            assert!(matches!(patched(list(), &format!("[{op}]")), Err(PatchError::Failed(_))), "{op}");
        }
    }

    #[test]
    fn a_missing_key_can_be_replaced_and_tested_but_not_removed() {
        assert_eq!(
            patched(json!({}), r#"[{"op":"replace","path":"/a","value":1}]"#).unwrap(),
            json!({"a": 1})
        );
        assert!(patched(json!({}), r#"[{"op":"test","path":"/a","value":null}]"#).is_ok());
        assert!(patched(json!({}), r#"[{"op":"test","path":"/a","value":1}]"#).is_err());
        assert!(patched(json!({}), r#"[{"op":"remove","path":"/a"}]"#).is_err());
        assert!(patched(json!({}), r#"[{"op":"add","path":"/a/b","value":1}]"#).is_err());
        assert!(patched(json!({}), r#"[{"op":"frobnicate","path":"/a"}]"#).is_err());
        assert!(patched(json!({"a": {}}), r#"[{"op":"move","from":"/a","path":"/a/b"}]"#).is_err());
    }

    /// As in the library that kube-apiserver uses; RFC 6902 has neither.
    #[test]
    fn paths_without_a_slash_and_null_operations() {
        let added = patched(json!({}), r#"[{"op":"add","path":"data/n","value":1}]"#).unwrap();
        assert_eq!(added, json!({"n": 1}));
        assert!(patched(json!({}), r#"[{"op":"add","path":"n","value":1}]"#).is_err());
        assert!(matches!(patched(json!({}), "[null]"), Err(PatchError::Failed(_))));
    }

    /// Users of webhooks and policies see these texts and know them from kube-apiserver.
    #[test]
    fn failures_have_the_messages_of_kube_apiservers_library() {
        let object = || json!({"m": {"name": "n"}, "l": [1]});
        for (operation, text) in [
            (r#"{"op":"add","value":1}"#, "add operation failed to decode path: missing value"),
            (
                r#"{"op":"add","path":"/a/b","value":1}"#,
                r#"add operation does not apply: doc is missing path: "/a/b": missing value"#,
            ),
            (
                r#"{"op":"add","path":"m","value":1}"#,
                r#"add operation does not apply: doc is missing path: "m": missing value"#,
            ),
            (
                r#"{"op":"add","path":"/m/name/x","value":1}"#,
                r#"add operation does not apply: doc is missing path: "/m/name/x": missing value"#,
            ),
            (
                r#"{"op":"add","path":"/l/5","value":1}"#,
                "error in add for path: '/l/5': Unable to access invalid index: 5: invalid index referenced",
            ),
            (
                r#"{"op":"add","path":"/l/x","value":1}"#,
                r#"error in add for path: '/l/x': value was not a proper array index: 'x': strconv.Atoi: parsing "x": invalid syntax"#,
            ),
            (
                r#"{"op":"remove","path":"/a"}"#,
                "error in remove for path: '/a': Unable to remove nonexistent key: a: missing value",
            ),
            (
                r#"{"op":"remove","path":"/l/1"}"#,
                "error in remove for path: '/l/1': Unable to access invalid index: 1: invalid index referenced",
            ),
            (
                r#"{"op":"replace","path":"/a/b","value":1}"#,
                "replace operation does not apply: doc is missing path: /a/b: missing value",
            ),
            (
                r#"{"op":"replace","path":"/l/1","value":1}"#,
                "replace operation does not apply: doc is missing key: /l/1: missing value",
            ),
            (
                r#"{"op":"replace","path":"","value":"x"}"#,
                "replace operation value must be object or array: %!w(<nil>)",
            ),
            (
                r#"{"op":"replace","value":1}"#,
                "replace operation failed to decode path: operation missing path field: missing value",
            ),
            (r#"{"op":"test","path":"/m/name","value":"z"}"#, "testing value /m/name failed: test failed"),
            (
                r#"{"op":"test","path":"/a/b"}"#,
                "test operation does not apply: is missing path: /a/b: missing value",
            ),
            (
                r#"{"op":"move","path":"/a"}"#,
                "move operation failed to decode from: operation, missing from field: missing value",
            ),
            (
                r#"{"op":"move","from":"/b","path":"/a"}"#,
                "error in move for path: 'b': Unable to remove nonexistent key: b: missing value",
            ),
            (
                r#"{"op":"copy","from":"/l/7","path":"/a"}"#,
                "error in copy for from: '/l/7': Unable to access invalid index: 7: invalid index referenced",
            ),
            (r#"{"op":"frob","path":"/a"}"#, "Unexpected kind: frob"),
        ] {
            let refused = patched(object(), &format!("[{operation}]")).unwrap_err();
            assert_eq!(refused.to_string(), text, "{operation}");
        }
        let copied = patched(object(), r#"[{"op":"copy","from":"/nothing","path":"/a"}]"#).unwrap();
        assert!(copied.get("a").is_some_and(Value::is_null));
    }

    #[test]
    fn escapes_and_numbers() {
        let object = json!({"a~b/c": 1});
        assert!(patched(object.clone(), r#"[{"op":"test","path":"/a~0b~1c","value":1}]"#).is_ok());
        assert!(patched(object, r#"[{"op":"test","path":"/a~0b~1c","value":1.0}]"#).is_err());
    }

    #[test]
    fn a_failure_leaves_the_object_alone() {
        let mut object = json!({"a": 1});
        let patch =
            JsonPatch::parse(br#"[{"op":"remove","path":"/a"},{"op":"remove","path":"/a"}]"#).unwrap();
        assert!(patch.apply(&mut object).is_err());
        assert_eq!(object, json!({"a": 1}));
    }

    #[test]
    fn bodies_that_are_no_patch_are_malformed() {
        let refused = |body: &str| JsonPatch::parse(body.as_bytes()).unwrap_err().to_string();
        assert_eq!(
            refused(r#"{"op":"add"}"#),
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"
        );
        assert_eq!(refused("[{"), "invalid JSON patch");
        assert_eq!(refused(""), "invalid JSON patch");
        assert_eq!(
            refused(r#"[{"op":5}]"#),
            "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string"
        );
    }

    #[test]
    fn patches_that_multiply_values_are_refused() {
        let many = format!("[{}]", vec![r#"{"op":"test","path":"/a"}"#; 10_001].join(","));
        assert_eq!(
            Status::from(JsonPatch::parse(many.as_bytes()).unwrap_err()).message,
            "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"
        );
        // Each copy doubles the object.
        let doubling = format!("[{}]", vec![r#"{"op":"copy","from":"/a","path":"/a/-"}"#; 64].join(","));
        assert!(matches!(patched(json!({"a": ["xxxxxxxx"]}), &doubling), Err(PatchError::Failed(_))));
        // Each insertion moves a long list aside.
        let shoving = format!("[{}]", vec![r#"{"op":"add","path":"/a/0","value":0}"#; 10_000].join(","));
        assert!(matches!(patched(json!({"a": vec![0; 500_000]}), &shoving), Err(PatchError::Failed(_))));
    }

    #[test]
    fn no_operation_leads_deeper_than_a_parser_would_accept() {
        // A copy of a value into its own deepest node doubles the depth: few operations made a tree whose walk overflows
        // the stack.
        let (mut operations, mut deepest) = (Vec::new(), "/a".to_owned());
        for _ in 0..30 {
            operations.push(format!(r#"{{"op":"copy","from":"/a","path":"{deepest}/a"}}"#));
            deepest = deepest.repeat(2);
            deepest.truncate(40_000);
        }
        let too_deep = Err(PatchError::Failed("exceeded max depth".to_owned()));
        assert_eq!(patched(json!({"a": {}}), &format!("[{}]", operations.join(","))), too_deep);
        let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        let path = "/a".repeat(12);
        let object = || Value::read((r#"{"a":"#.repeat(12) + "{}" + &"}".repeat(12)).as_bytes()).unwrap();
        for (levels, fits) in [(500, true), (501, false)] {
            for operation in ["add", "replace"] {
                let patch = format!(r#"[{{"op":"{operation}","path":"{path}","value":{}}}]"#, nested(levels));
                assert_eq!(patched(object(), &patch).is_ok(), fits, "{operation} {levels}");
            }
            let patch = format!(
                r#"[{{"op":"add","path":"/b","value":{}}},{{"op":"move","from":"/b","path":"{path}"}}]"#,
                nested(levels)
            );
            assert_eq!(patched(object(), &patch).is_ok(), fits, "move {levels}");
        }
    }

    #[test]
    fn a_large_value_can_be_moved_down_a_few_times_only() {
        // Its depth is measured each time.
        let back_and_forth =
            r#"{"op":"move","from":"/l","path":"/d/l"},{"op":"move","from":"/d/l","path":"/l"}"#;
        let patch = format!("[{}]", vec![back_and_forth; 5000].join(","));
        let object = json!({"l": vec![0; 500_000], "d": {}});
        assert!(matches!(patched(object, &patch), Err(PatchError::Failed(_))));
    }

    use listwatch_wire::Status;
}
