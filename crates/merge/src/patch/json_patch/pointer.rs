//! JSON pointers (RFC 6901), and what one step of them does to an object or a list.
//!
//! Negative indexes count from the end, as in kube-apiserver's library. The errors are that library's, without the operation that
//! they occurred in: `operation` adds it.

use listwatch_json::Value;

use super::budget::PatchBudget;
use super::{PatchResult, failed};

/// A JSON pointer (RFC 6901), unescaped.
pub(super) struct Pointer {
    /// As it was written.
    pub(super) text: String,
    /// Empty for the whole object.
    pub(super) steps: Vec<String>,
    /// False for a text without a slash, which leads nowhere.
    leads: bool,
}

impl Pointer {
    /// Reads a pointer; `None` if there is none. What precedes the first slash is dropped, as by kube-apiserver's library, so
    /// that `data/a` means `/a`.
    pub(super) fn parse(text: Option<&str>) -> Option<Self> {
        let text = text?.to_owned();
        let rest = text.split_once('/').map(|(_, rest)| rest);
        let unescaped = |step: &str| step.replace("~1", "/").replace("~0", "~");
        let steps = rest.map(|rest| rest.split('/').map(unescaped).collect()).unwrap_or_default();
        let leads = rest.is_some();
        Some(Self { text, steps, leads })
    }

    /// Between quotes, as errors of `add` and `remove` show it.
    pub(super) fn quoted(&self) -> String {
        format!("\"{}\"", self.text)
    }

    /// True if the other leads to something that this is part of.
    pub(super) fn is_below(&self, other: &Self) -> bool {
        self.steps.len() > other.steps.len() && self.steps.starts_with(&other.steps)
    }

    /// The object or list of the last step, and that step.
    pub(super) fn container<'v>(&self, object: &'v mut Value) -> Option<(&'v mut Value, &str)> {
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
pub(super) fn index(step: &str, length: usize) -> PatchResult<usize> {
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
pub(super) fn element<'v>(container: &'v Value, step: &str) -> PatchResult<Option<&'v Value>> {
    match container {
        Value::Array(items) => Ok(items.get(index(step, items.len())?)),
        _ => Ok(container.get(step)),
    }
}

/// Adds a member or inserts an element. An insertion is charged with the elements that it shifts, so that a patch
/// cannot be quadratic for free.
pub(super) fn add(container: &mut Value, step: &str, value: Value, budget: &mut PatchBudget) -> PatchResult {
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

/// Removes a member or an element. Elements behind it are charged like those of an insertion.
pub(super) fn remove(container: &mut Value, step: &str, budget: &mut PatchBudget) -> PatchResult<Value> {
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
