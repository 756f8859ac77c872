//! One file per verb.
//!
//! Reading: [`get`], [`list`], [`watch`] and [`stream`]s of many watches, from the watch cache (`cache/`); [`history`],
//! from the engine. Writing: [`mod@write`] turns an HTTP request into a write request and its result into a response;
//! [`create`], [`update`], [`patch`], [`delete`] and [`delete_collection`] drive the write pipeline (`pipeline/`).
//! [`mod@authorized`] comes before all of them.
//! Endpoints that are no verbs of a resource are in `endpoints/`.

pub(crate) mod authorized;
pub(crate) mod component_status;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod delete_collection;
pub(crate) mod get;
pub(crate) mod history;
pub(crate) mod list;
pub(crate) mod patch;
pub(crate) mod slice;
pub(crate) mod stream;
mod unfit;
pub(crate) mod update;
pub(crate) mod watch;
pub(crate) mod write;
