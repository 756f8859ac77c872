//! The rest of the [limits](super::JsonPatchLimits) while a patch is applied, and the sizes that are charged to it.
//!
//! Charged before anything is copied or moved: a patch of a few kilobytes could otherwise double an object with each operation.

use listwatch_json::Value;

use super::pointer::Pointer;
use super::{PatchResult, failed};

/// The rest of the limits.
///
/// Counted down over all operations of one application.
pub(super) struct PatchBudget {
    pub(super) copied: usize,
    pub(super) moved: usize,
    pub(super) depth: usize,
}

impl PatchBudget {
    /// Takes from a bound, or returns the one that is exceeded.
    pub(super) fn spend(left: &mut usize, amount: usize, what: &str) -> PatchResult {
        match left.checked_sub(amount) {
            Some(rest) => {
                *left = rest;
                Ok(())
            }
            None => failed(format!("the patch {what} more than allowed")),
        }
    }

    /// Refuses a value of this depth at a path if the whole would be nested too deeply.
    pub(super) fn allows(&self, path: &Pointer, depth: usize) -> PatchResult {
        if path.steps.len() + depth > self.depth { failed("exceeded max depth") } else { Ok(()) }
    }
}

/// The size of a value, found in one walk.
#[derive(Clone, Copy)]
pub(super) struct ValueSize {
    /// About the encoded size.
    pub(super) bytes: usize,
    pub(super) nodes: usize,
    /// The containers inside each other; a scalar has none.
    pub(super) depth: usize,
}

impl ValueSize {
    /// Walks the whole value; recursion is bounded by the depth that a parser accepts.
    pub(super) fn of(value: &Value) -> Self {
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
