//! The handler chain: the steps of every request before and after its verb.
//!
//! [`service`] authenticates, authorizes, limits and counts a request; [`route`] looks up the resource and calls the
//! verb (`verbs/`) or the endpoint (`endpoints/`), or forwards it to another server (`forward/`). A panic of
//! either is contained ([`panic_recovery`]), and memory for responses that a client does not read is bounded
//! ([`unread`]). [`connection`] is the state that a connection keeps between requests.

mod connection;
mod labels;
mod panic_recovery;
mod report;
pub(crate) mod route;
pub(crate) mod service;
mod unread;
