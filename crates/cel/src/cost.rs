//! Costs: what calls cost at run time, and what expressions may cost at most.

pub(crate) mod estimate;
pub(crate) mod runtime;
