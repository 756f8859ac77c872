//! Allocation of what is unique in the cluster: Service addresses and node ports.

pub(crate) mod claims;
pub(crate) mod services;
