//! [`FieldSetNode`]: one level of a field set that is being built.
//!
//! The wire form writes membership in two ways, an empty object for a leaf and `.` beside children. Code that builds a
//! set would have to go back and change one into the other; this keeps the flag apart until the node is complete.
//! Finished sets are [`FieldSet`](super::FieldSet).

use listwatch_json::{Map, Text, Value};

/// The key that marks a node as a member of the set itself.
pub(super) const SELF: &str = ".";

/// A node of a field set: true if the path belongs to the set, and the nodes of the paths below it.
#[derive(Debug, Default)]
pub(super) struct FieldSetNode {
    pub(super) member: bool,
    pub(super) children: Map,
}

impl FieldSetNode {
    pub(super) fn leaf() -> Self {
        Self { member: true, children: Map::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.member && self.children.is_empty()
    }

    /// Adds a child unless there is nothing in it. The element is made only if needed: mostly there is nothing.
    pub(super) fn put(&mut self, element: impl FnOnce() -> Text, child: Self) {
        if let Some(child) = child.into_value() {
            self.children.insert(element(), child);
        }
    }

    /// The node in the form of `FieldsV1`, or nothing if it is empty. A member with children is marked by `.`.
    fn into_value(mut self) -> Option<Value> {
        if self.is_empty() {
            return None;
        }
        if self.member && !self.children.is_empty() {
            self.children.insert(SELF, Value::Object(Map::new()));
        }
        Some(Value::Object(self.children))
    }
}

/// Returns true if a node in its wire form belongs to the set itself: it is empty, or has the entry `.`.
pub(super) fn is_member(node: &Map) -> bool {
    node.is_empty() || node.contains_key(SELF)
}
