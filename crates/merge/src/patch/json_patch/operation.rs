//! The operations of a JSON patch, with the messages of kube-apiserver's library where they do not apply.
//!
//! The words differ from operation to operation and are kept as they are, since clients match on them. Places are found
//! by `pointer`, sizes are charged to `budget`; the order of operations and what happens to the object when one fails
//! are the caller's.

use listwatch_json::{Map, Text, Value};

use super::budget::{PatchBudget, ValueSize};
use super::pointer::{Pointer, add, element, index, remove};
use super::{PatchError, PatchResult, failed, undecodable};

/// The operation is looked at only when it is applied: an unknown one is a 422, after those before it were tried.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct JsonPatchOperation {
    op: Text,
    path: Option<Text>,
    from: Option<Text>,
    pub(super) value: Option<Value>,
}

impl JsonPatchOperation {
    /// Reads an operation. Only types are checked here.
    pub(super) fn parse(item: Value) -> Result<Self, PatchError> {
        let mut map = match item {
            Value::Object(map) => map,
            // Go decodes null as nothing: an operation without a kind.
            Value::Null => Map::new(),
            other => return Err(undecodable(&other, "value of type handlers.jsonPatchOp")),
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
    pub(super) fn apply(&self, object: &mut Value, budget: &mut PatchBudget) -> PatchResult {
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

    /// The operation `add`: it inserts into an array, and creates or replaces a member of an object.
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
        // A move to a place that is not deeper adds no depth.
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
        // Numbers are compared as they are written: 1 is not 1.0.
        match found.unwrap_or(&Value::Null) == expected {
            true => Ok(()),
            false => Err(PatchError::TestFailed(path.text.clone())),
        }
    }
}

/// The message of kube-apiserver's library for an operation without a path.
fn no_place(text: &str) -> PatchError {
    PatchError::Failed(format!("{text}: missing value"))
}

/// The message of kube-apiserver's library for a path that does not exist.
fn missing(text: &str, place: &str) -> PatchResult {
    failed(format!("{text}: {place}: missing value"))
}
