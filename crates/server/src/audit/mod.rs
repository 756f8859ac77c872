//! The audit log: requests, their users and their responses, as lines of JSON.
//!
//! [`policy`] decides how much is recorded about which requests, in the format of kube-apiserver's policy file. [`draft`]
//! collects the facts about a request while it is served. [`event`] is the line that is written, and [`log`] writes it
//! in a separate thread: events that do not fit into its queue are dropped and counted. [`mod@file`] is the file and
//! its rotation.

mod draft;
mod event;
mod file;
mod log;
mod policy;

pub(crate) use draft::{AuditDraft, AuditStage};
pub(crate) use log::AuditLog;
pub(crate) use policy::AuditPolicy;
