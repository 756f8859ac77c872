//! [`EvalPlan`]: an expression as a vector of operations, ready to be evaluated any number of times.
//!
//! A vector rather than a tree of boxes: dropping it needs no recursion, and operations that follow each other lie next to
//! each other. An index is valid for the plan that it was made for and no other.

use std::sync::Arc;

use listwatch_wire::json::Text;

use crate::cost::runtime::CallCost;
use crate::library::Native;
use crate::value::{OwnedMap, Value};

/// The place of an operation in its [`Program`](crate::Program).
pub(crate) type OpId = usize;

/// One operation.
///
/// Operations refer to each other by index and come after their parts, like nodes. Most of them are small; the rare
/// ones are boxed.
#[derive(Debug)]
pub(crate) enum Op {
    Const(Value<'static>),
    /// A declared variable.
    Var {
        name: Text,
        cost: u64,
    },
    /// A variable of a comprehension.
    Local {
        slot: usize,
        cost: u64,
    },
    Select {
        operand: OpId,
        field: Arc<str>,
        optional: bool,
        cost: u64,
    },
    Has {
        operand: OpId,
        field: Arc<str>,
    },
    Index {
        operand: OpId,
        index: OpId,
        optional: bool,
        cost: u64,
    },
    Call {
        native: Native,
        args: Box<[OpId]>,
        cost: CallCost,
    },
    And(OpId, OpId),
    Or(OpId, OpId),
    Ternary(OpId, OpId, OpId),
    Equal {
        left: OpId,
        right: OpId,
        negated: bool,
    },
    NotStrictlyFalse(OpId),
    /// Membership in a list of constants.
    InSet {
        item: OpId,
        set: Arc<OwnedMap<'static>>,
    },
    OptionalOr {
        left: OpId,
        right: OpId,
        unwrap: bool,
    },
    List {
        items: Box<[OpId]>,
        optional: Box<[usize]>,
    },
    Map {
        entries: Box<[(OpId, OpId, bool)]>,
    },
    Struct {
        name: Text,
        fields: Box<[(Text, OpId, bool)]>,
    },
    /// An element added to the list in a slot, which is not copied for it.
    Append {
        slot: usize,
        item: OpId,
        cost: u64,
    },
    /// An entry, or all entries of a map, added to the map in a slot.
    Insert {
        slot: usize,
        args: Box<[OpId]>,
    },
    Fold(Box<FoldOp>),
}

/// A comprehension. Its accumulator is in `slot`, its variables in the two after it.
#[derive(Debug)]
pub(crate) struct FoldOp {
    pub(crate) range: OpId,
    pub(crate) slot: usize,
    /// True if the loop has a variable for the index or key besides that of the value.
    pub(crate) two: bool,
    pub(crate) init: OpId,
    pub(crate) condition: OpId,
    pub(crate) step: OpId,
    pub(crate) result: OpId,
}

/// Operations with the number of slots that they need.
///
/// Immutable and shared by threads; all state of an evaluation is in its slots.
#[derive(Debug)]
pub(crate) struct EvalPlan {
    pub(crate) ops: Vec<Op>,
    pub(crate) root: OpId,
    /// The most that are in use at one time: slots of loops that are not nested share places.
    pub(crate) slots: usize,
}
