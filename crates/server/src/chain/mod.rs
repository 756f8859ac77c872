//! The handler chain: what happens to every request before and after its verb.
//!
//! [`service`] authenticates, authorizes, limits and counts a request; [`route`] looks up the resource and calls the verb
//! (`verbs/`) or the endpoint (`endpoints/`). A panic of either is contained ([`contain`]).

mod contain;
mod labels;
mod report;
pub(crate) mod route;
pub(crate) mod service;
