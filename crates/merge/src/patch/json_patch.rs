//! JSON patch (RFC 6902), with kube-apiserver's three liberties: `replace` of a missing key adds it, a negative index
//! counts from the end, and `test` takes a missing key for null.

use listwatch_json::{List, Text, Value};

use super::PatchError;
use listwatch_json::{self as json, go};

/// Bounds of a JSON patch: a few bytes of patch can ask for much work.
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
/// Parsed once, and applied again for each attempt if the object changed meanwhile.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPatch {
    operations: Vec<JsonPatchOperation>,
    limits: JsonPatchLimits,
    /// At most 100 unknown fields and 100 duplicates, sorted by operation.
    strict_decoding_errors: Vec<String>,
}

/// The operation is looked at only when it is applied: an unknown one is a 422, after those before it were tried.
#[derive(Clone, Debug, PartialEq)]
struct JsonPatchOperation {
    op: Text,
    path: Option<Text>,
    from: Option<Text>,
    value: Option<Value>,
}

/// Nothing, or why the patch cannot be applied.
type PatchResult<T = ()> = Result<T, PatchError>;

/// An error of applying: 422, since the patch itself could be read.
fn failed<T>(text: impl Into<String>) -> PatchResult<T> {
    Err(PatchError::Failed(text.into()))
}

/// An error of reading: 400, in the words of Go's decoder.
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
    /// [`PatchError::Malformed`] if it is no array of operations, [`PatchError::TooManyOperations`].
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
    /// # Errors
    /// [`PatchError::Failed`] saying which operation failed and why.
    ///
    /// Works on a copy, which shares everything that the operations do not touch.
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

/// The most unknown fields that are told; more would only make the answer large.
const MAX_STRICT_ERRORS: usize = 100;

/// The number of the operation that an error is about; errors are returned in that order.
fn operation_of(text: &str) -> Option<usize> {
    text.split_once('[')?.1.split_once(']')?.0.parse().ok()
}

/// The rest of the limits.
///
/// Counted down over all operations of one application.
struct PatchBudget {
    copied: usize,
    moved: usize,
    depth: usize,
}

impl PatchBudget {
    /// Takes from a bound, or says which one is exceeded.
    fn spend(left: &mut usize, amount: usize, what: &str) -> PatchResult {
        match left.checked_sub(amount) {
            Some(rest) => {
                *left = rest;
                Ok(())
            }
            None => failed(format!("the patch {what} more than allowed")),
        }
    }

    /// Refuses a value of this depth at a path if the whole would be nested too deeply.
    fn allows(&self, path: &Pointer, depth: usize) -> PatchResult {
        if path.steps.len() + depth > self.depth { failed("exceeded max depth") } else { Ok(()) }
    }
}

impl JsonPatchOperation {
    fn parse(item: Value) -> Result<Self, PatchError> {
        let Value::Object(mut map) = item else {
            return Err(undecodable(&item, "value of type handlers.jsonPatchOp"));
        };
        let mut text = |name: &str| match map.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => {
                Err(undecodable(&other, &format!("struct field jsonPatchOp.{name} of type string")))
            }
        };
        let (op, path, from) = (text("op")?.unwrap_or_default(), text("path")?, text("from")?);
        Ok(Self { op, path, from, value: map.remove("value") })
    }

    /// Applies one operation. Sizes are charged to the budget before anything is copied or moved: a patch of a few
    /// kilobytes could otherwise double an object with each `copy`.
    fn apply(&self, object: &mut Value, budget: &mut PatchBudget) -> PatchResult {
        match self.op.as_str() {
            "add" => self.add(object, budget),
            "replace" => self.replace(object, budget),
            "remove" => {
                let path = Pointer::parse(self.path.as_deref())
                    .ok_or_else(|| no_place("remove operation failed to decode path"))?;
                let Some((container, step)) = path.container(object) else {
                    return missing("remove operation does not apply: doc is missing path", &path.quoted());
                };
                remove(container, step, budget)
                    .map(drop)
                    .map_err(|error| error.in_place("error in remove for path", &path.text))
            }
            "test" => self.test(object),
            "move" => self.shift(object, budget),
            "copy" => self.duplicate(object, budget),
            "" => failed("Unexpected kind: unknown"),
            other => failed(format!("Unexpected kind: {other}")),
        }
    }

    fn add(&self, object: &mut Value, budget: &mut PatchBudget) -> PatchResult {
        let path = Pointer::parse(self.path.as_deref())
            .ok_or_else(|| no_place("add operation failed to decode path"))?;
        let value = self.value(&path, budget)?;
        let Some((container, step)) = path.container(object) else {
            return missing("add operation does not apply: doc is missing path", &path.quoted());
        };
        add(container, step, value, budget)
            .map_err(|error| error.in_place("error in add for path", &path.text))
    }

    /// Replaces a value. A member that does not exist is added, as kube-apiserver's library does; an element must exist.
    fn replace(&self, object: &mut Value, budget: &mut PatchBudget) -> PatchResult {
        let path = self.place("replace")?;
        let value = self.value(&path, budget)?;
        if path.text.is_empty() {
            if !value.is_object() && !value.is_array() {
                return failed("replace operation value must be object or array: %!w(<nil>)");
            }
            *object = value;
            return Ok(());
        }
        let Some((container, step)) = path.container(object) else {
            return missing("replace operation does not apply: doc is missing path", &path.text);
        };
        let Value::Array(items) = container else { return add(container, step, value, budget) };
        let slot = index(step, items.len()).ok().and_then(|at| items.get_mut(at));
        let Some(slot) = slot else {
            return missing("replace operation does not apply: doc is missing key", &path.text);
        };
        *slot = value;
        Ok(())
    }

    /// `move`: what is moved cannot go below itself.
    fn shift(&self, object: &mut Value, budget: &mut PatchBudget) -> PatchResult {
        let from = self.origin("move")?;
        let path = self.place("move")?;
        if path.is_below(&from) {
            return failed("cannot move a value into itself");
        }
        let Some((container, step)) = from.container(object) else {
            return missing("move operation does not apply: doc is missing from path", &from.text);
        };
        let value = remove(container, step, budget)
            .map_err(|error| error.in_place("error in move for path", step))?;
        // What does not go down cannot get deeper.
        if path.steps.len() > from.steps.len() {
            let size = ValueSize::of(&value);
            PatchBudget::spend(&mut budget.moved, size.nodes, "moves")?;
            budget.allows(&path, size.depth)?;
        }
        let Some((container, step)) = path.container(object) else {
            return missing("move operation does not apply: doc is missing destination path", &path.text);
        };
        add(container, step, value, budget)
            .map_err(|error| error.in_place("error in move for path", &path.text))
    }

    /// Copies a value. A member that does not exist is null, as for kube-apiserver's library.
    fn duplicate(&self, object: &mut Value, budget: &mut PatchBudget) -> PatchResult {
        let from = self.origin("copy")?;
        let path = Pointer::parse(self.path.as_deref())
            .ok_or_else(|| no_place("copy operation failed to decode path"))?;
        let Some((container, step)) = from.container(object) else {
            return missing("copy operation does not apply: doc is missing from path", &from.text);
        };
        let value =
            element(container, step).map_err(|error| error.in_place("error in copy for from", &from.text))?;
        let value = value.unwrap_or(&Value::Null);
        let size = ValueSize::of(value);
        PatchBudget::spend(&mut budget.copied, size.bytes, "copies")?;
        budget.allows(&path, size.depth)?;
        let value = value.clone();
        let Some((container, step)) = path.container(object) else {
            return missing("copy operation does not apply: doc is missing destination path", &path.text);
        };
        add(container, step, value, budget)
            .map_err(|error| PatchError::Failed(format!("error while adding value during copy: {error}")))
    }

    /// The pointer of the operation's `path`.
    fn place(&self, operation: &str) -> PatchResult<Pointer> {
        Pointer::parse(self.path.as_deref()).ok_or_else(|| {
            no_place(&format!("{operation} operation failed to decode path: operation missing path field"))
        })
    }

    /// The pointer of the operation's `from`.
    fn origin(&self, operation: &str) -> PatchResult<Pointer> {
        Pointer::parse(self.from.as_deref()).ok_or_else(|| {
            no_place(&format!("{operation} operation failed to decode from: operation, missing from field"))
        })
    }

    fn value(&self, path: &Pointer, budget: &PatchBudget) -> PatchResult<Value> {
        // kube-apiserver takes a missing value for null.
        let value = self.value.clone().unwrap_or(Value::Null);
        budget.allows(path, ValueSize::of(&value).depth)?;
        Ok(value)
    }

    /// Compares by value, so that the order of fields makes no difference.
    fn test(&self, object: &mut Value) -> PatchResult {
        let path = self.place("test")?;
        let expected = self.value.as_ref().unwrap_or(&Value::Null);
        let found = if path.text.is_empty() {
            Some(&*object)
        } else {
            let Some((container, step)) = path.container(object) else {
                return missing("test operation does not apply: is missing path", &path.text);
            };
            element(container, step).map_err(|error| error.in_place("error in test for path", &path.text))?
        };
        match same(found.unwrap_or(&Value::Null), expected) {
            true => Ok(()),
            false => failed(format!("testing value {} failed: test failed", path.text)),
        }
    }
}

/// The words of kube-apiserver's library for an operation without a place.
fn no_place(text: &str) -> PatchError {
    PatchError::Failed(format!("{text}: missing value"))
}

/// The words of kube-apiserver's library for a place that is not there.
fn missing(text: &str, place: &str) -> PatchResult {
    failed(format!("{text}: {place}: missing value"))
}

/// Equality that takes 1 and 1.0 for the same number.
///
/// Numbers are compared as doubles if they differ in kind, as Go's decoder reads both as `float64`.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}

/// The size of a value, found in one walk.
#[derive(Clone, Copy)]
struct ValueSize {
    /// About the encoded size.
    bytes: usize,
    nodes: usize,
    /// The containers inside each other; a scalar has none.
    depth: usize,
}

impl ValueSize {
    fn of(value: &Value) -> Self {
        match value {
            Value::String(text) => Self { bytes: text.len() + 2, nodes: 1, depth: 0 },
            Value::Array(items) => Self::around(items.iter().map(|item| (1, item))),
            Value::Object(map) => Self::around(map.iter().map(|(key, item)| (key.len() + 4, item))),
            _ => Self { bytes: 8, nodes: 1, depth: 0 },
        }
    }

    /// A container of these values, each with the bytes that introduce it.
    fn around<'v>(values: impl Iterator<Item = (usize, &'v Value)>) -> Self {
        values.fold(Self { bytes: 2, nodes: 1, depth: 1 }, |size, (extra, value)| {
            let inner = Self::of(value);
            Self {
                bytes: size.bytes + inner.bytes + extra,
                nodes: size.nodes + inner.nodes,
                depth: size.depth.max(inner.depth + 1),
            }
        })
    }
}

/// A JSON pointer (RFC 6901), unescaped.
struct Pointer {
    /// As it was written.
    text: String,
    /// Empty for the whole object.
    steps: Vec<String>,
    /// False for a text that does not begin with a slash, which leads nowhere.
    leads: bool,
}

impl Pointer {
    fn parse(text: Option<&str>) -> Option<Self> {
        let text = text?.to_owned();
        let rest = text.strip_prefix('/');
        let unescaped = |step: &str| step.replace("~1", "/").replace("~0", "~");
        let steps = rest.map(|rest| rest.split('/').map(unescaped).collect()).unwrap_or_default();
        let leads = rest.is_some();
        Some(Self { text, steps, leads })
    }

    fn quoted(&self) -> String {
        format!("\"{}\"", self.text)
    }

    /// True if the other leads to something that this is part of.
    fn is_below(&self, other: &Self) -> bool {
        self.steps.len() > other.steps.len() && self.steps.starts_with(&other.steps)
    }

    /// The object or list of the last step, and that step.
    fn container<'v>(&self, object: &'v mut Value) -> Option<(&'v mut Value, &str)> {
        let (last, parents) = self.steps.split_last().filter(|_| self.leads)?;
        let mut value = object;
        for step in parents {
            value = match value {
                Value::Object(map) => map.get_mut(step)?,
                Value::Array(items) => {
                    let at = index(step, items.len()).ok()?;
                    items.get_mut(at)?
                }
                _ => return None,
            };
        }
        (value.is_object() || value.is_array()).then_some((value, last))
    }
}

/// The position a step names in a list of `length` elements; negative ones count from the end.
fn index(step: &str, length: usize) -> PatchResult<usize> {
    let Ok(position) = step.parse::<i64>() else {
        return failed(format!("strconv.Atoi: parsing {step:?}: invalid syntax"));
    };
    let found = match usize::try_from(position) {
        Ok(position) => Some(position),
        Err(_) => usize::try_from(position.unsigned_abs()).ok().and_then(|back| length.checked_sub(back)),
    };
    match found {
        Some(found) if found < length => Ok(found),
        _ => failed(format!("Unable to access invalid index: {position}: invalid index referenced")),
    }
}

/// The member or element of a step; `None` for a member that is not there.
fn element<'v>(container: &'v Value, step: &str) -> PatchResult<Option<&'v Value>> {
    match container {
        Value::Array(items) => Ok(items.get(index(step, items.len())?)),
        _ => Ok(container.get(step)),
    }
}

/// Adds a member or inserts an element. An insertion is charged with the elements that it shifts, so that a patch
/// cannot be quadratic for free.
fn add(container: &mut Value, step: &str, value: Value, budget: &mut PatchBudget) -> PatchResult {
    match container {
        Value::Array(items) => {
            let at = match step {
                "-" => items.len(),
                step if step.parse::<i64>().is_err() => {
                    let why = format!("strconv.Atoi: parsing {step:?}: invalid syntax");
                    return failed(format!("value was not a proper array index: '{step}': {why}"));
                }
                step => index(step, items.len() + 1)?,
            };
            PatchBudget::spend(&mut budget.moved, items.len() - at, "moves")?;
            items.insert(at, value);
        }
        Value::Object(map) => drop(map.insert(step.to_owned(), value)),
        _ => {}
    }
    Ok(())
}

fn remove(container: &mut Value, step: &str, budget: &mut PatchBudget) -> PatchResult<Value> {
    match container {
        Value::Array(items) => {
            let at = index(step, items.len())?;
            PatchBudget::spend(&mut budget.moved, items.len() - at, "moves")?;
            Ok(items.remove(at))
        }
        _ => match container.as_object_mut().and_then(|map| map.remove(step)) {
            Some(value) => Ok(value),
            None => failed(format!("Unable to remove nonexistent key: {step}: missing value")),
        },
    }
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

    /// Webhooks and policies show these texts to people who know them from kube-apiserver.
    #[test]
    fn failures_are_in_the_words_of_the_library_of_kube_apiserver() {
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
            assert_eq!(refused, PatchError::Failed(text.to_owned()), "{operation}");
        }
        let copied = patched(object(), r#"[{"op":"copy","from":"/nothing","path":"/a"}]"#).unwrap();
        assert!(copied.get("a").is_some_and(Value::is_null));
    }

    #[test]
    fn escapes_and_numbers() {
        let object = json!({"a~b/c": 1});
        assert!(patched(object.clone(), r#"[{"op":"test","path":"/a~0b~1c","value":1.0}]"#).is_ok());
        assert!(patched(object, r#"[{"op":"test","path":"/a~0b~1c","value":2}]"#).is_err());
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
    fn what_is_no_patch_is_malformed() {
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
    fn bombs_are_defused() {
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
