//! Allocation of cluster IPs and node ports to Services.
//!
//! [`services`] chooses values for a Service, [`reservation`] keeps two writes of this server from choosing the same,
//! [`claims`] makes sure that no two Services have the same one, on any
//! number of servers, by committing a claim in the same transaction. It is called between the strategy's `prepare`
//! and validation (`pipeline/change.rs`); repairs of claims that are missing or left over are
//! `lifecycle/addresses.rs`.

pub(crate) mod claims;
pub(crate) mod ranges;
pub(crate) mod reservation;
pub(crate) mod services;
mod taken;
