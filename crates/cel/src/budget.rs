//! [`Budget`]: a cost budget that several evaluations share.
//!
//! One evaluation is limited by [`PER_CALL_LIMIT`](crate::PER_CALL_LIMIT) on its own; the budget limits what all rules
//! of one object, or all expressions of one policy, may cost together. Numbers are kube-apiserver's. The last
//! expression may overdraw it, which is an error of that expression; after that nothing is evaluated. Cost is counted
//! by [`Meter`](crate::Meter).

use crate::meter::{FREE_WORK, WORK_PER_COST};
use crate::program::EvalOutcome;

/// The budget of all rules of one object, and of all expressions of one policy binding.
pub const OBJECT_BUDGET: u64 = 10_000_000;

/// The budget of all match conditions of one webhook or policy binding.
pub const MATCH_CONDITIONS_BUDGET: u64 = 2_500_000;

/// The cost that is left for the evaluations of one request. It is passed from expression to expression.
///
/// `None` means overspent, so that a budget of exactly zero is still valid: the next expression may be free.
///
/// ```
/// use listwatch_cel::Budget;
///
/// let mut budget = Budget::new(10);
/// assert!(budget.spend(10));
/// assert_eq!(budget.left(), Some(0));
/// // The expression that overdraws it fails, and so do those after it.
/// assert!(!budget.spend(1));
/// assert!(budget.is_exhausted() && !budget.spend(0));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    cost: Option<u64>,
    /// The work that is left. Each evaluation has some for free, of which thousands would be too much.
    work: u64,
}

impl Budget {
    /// A budget of this cost; see [`OBJECT_BUDGET`] and [`MATCH_CONDITIONS_BUDGET`].
    #[must_use]
    pub fn new(total: u64) -> Self {
        Self { cost: Some(total), work: total.saturating_mul(WORK_PER_COST).saturating_add(FREE_WORK) }
    }

    /// Takes a cost out and returns true if there was enough. Once there was not, nothing is left.
    ///
    /// Called after an evaluation with what it cost: the budget decides about the next expression,
    /// [`Meter`](crate::Meter) about the one that runs.
    pub fn spend(&mut self, cost: u64) -> bool {
        self.cost = self.cost.and_then(|left| left.checked_sub(cost));
        self.cost.is_some()
    }

    /// Takes out the cost and the work of an evaluation, and returns true if there was enough of both.
    #[must_use]
    pub fn pay(&mut self, outcome: &EvalOutcome<'_>) -> bool {
        match self.work.checked_sub(outcome.work) {
            Some(left) => self.work = left,
            None => self.exhaust(),
        }
        self.spend(outcome.cost)
    }

    /// Takes out everything: no further expression is evaluated.
    pub fn exhaust(&mut self) {
        self.cost = None;
    }

    /// Returns true if it was overspent: the expressions that follow fail without being evaluated.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        self.cost.is_none()
    }

    /// The cost that is left, or `None` if it was overspent.
    #[must_use]
    pub fn left(&self) -> Option<u64> {
        self.cost
    }
}
