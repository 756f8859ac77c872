//! Costs: [`runtime`] counts what calls cost, [`estimate`] bounds what an expression can cost before it runs.
//!
//! Both follow cel-go's model and Kubernetes' extensions to it, because the numbers are visible: a definition or policy
//! is refused by its estimate, a write by its actual cost. The two are separate tables and not derived from each other,
//! as in cel-go; a function that is added must be added to both.

pub(crate) mod estimate;
pub(crate) mod runtime;
