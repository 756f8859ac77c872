//! The handler chain: what happens to every request before and after its verb.
//!
//! [`service`] authenticates, authorizes, limits and counts a request; [`route`] looks up the resource and calls the
//! verb (`verbs/`) or the endpoint (`endpoints/`), or [`proxy`] forwards it to an extension API server. A panic of
//! either is contained ([`panic_recovery`]), and answers that a client does not read are bounded ([`unread`]). [`connection`] is what a connection keeps between requests.

mod connection;
mod labels;
mod panic_recovery;
mod proxy;
mod report;
pub(crate) mod route;
pub(crate) mod service;
mod unread;
