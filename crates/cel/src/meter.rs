//! [`Meter`]: counts cost and work of an evaluation, and ends it at the limit.
//!
//! Cost is the number that kube-apiserver reports and compares; it must be reproduced exactly, and it undercounts some
//! functions by far. Work is our own second bound on what is really done (elements walked, bytes copied): 16 units per
//! unit of the cost limit, and 4 Mi free. Without it an expression could take far more time and memory than its cost
//! says. Exceeding either gives the same error.

use crate::error::EvalError;

/// Units of work that one unit of cost pays for at most. Costs are estimates: some functions do far more than they are
/// charged for, such as replacing nothing by a long text. Work is what is really done: elements compared, bytes copied.
pub(crate) const WORK_PER_COST: u64 = 16;

/// Work that is free, so that small limits do not refuse ordinary sizes.
pub(crate) const FREE_WORK: u64 = 4 << 20;

/// Counts the cost of an evaluation and ends it at its limit.
///
/// Passed by reference through an evaluation and into fields of host objects, so that everything an expression causes
/// counts on one meter.
#[derive(Debug)]
pub struct Meter {
    cost: u64,
    /// In cost; the bound on work follows from it.
    limit: u64,
    work: u64,
}

impl Meter {
    /// A meter that ends an evaluation once it has cost more than this.
    #[must_use]
    pub fn new(limit: u64) -> Self {
        Self { cost: 0, limit, work: 0 }
    }

    /// The cost so far.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// The work so far.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.work
    }

    /// Adds cost.
    ///
    /// The cost is added even if it is too much, and shows in the outcome: kube-apiserver counts a failed evaluation
    /// in full.
    ///
    /// # Errors
    /// If the limit is exceeded.
    pub fn charge(&mut self, cost: u64) -> Result<(), EvalError> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.limit { Err(EvalError::over_limit()) } else { Ok(()) }
    }

    /// Adds work that is about to be done: elements walked, bytes written.
    ///
    /// Functions call it before they allocate or walk, so the bound holds for memory as well.
    ///
    /// # Errors
    /// If it is more than the limit of cost could pay for.
    pub fn work(&mut self, units: u64) -> Result<(), EvalError> {
        self.work = self.work.saturating_add(units);
        let most = self.limit.saturating_mul(WORK_PER_COST).saturating_add(FREE_WORK);
        if self.work > most { Err(EvalError::over_limit()) } else { Ok(()) }
    }
}
