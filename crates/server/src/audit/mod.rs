//! The audit log: who asked for what and how it was answered, as lines of JSON.
//!
//! [`policy`] says how much is recorded about which requests, in the format of kube-apiserver's policy file. [`draft`] collects what
//! is known of a request while it is served. [`event`] is what is written about it, and [`log`] writes it, off the path of
//! requests: what does not fit into its queue is dropped and counted. [`mod@file`] keeps the log within a size.

mod draft;
mod event;
mod file;
mod log;
mod policy;

pub(crate) use draft::{AuditDraft, AuditStage};
pub(crate) use log::AuditLog;
pub(crate) use policy::AuditPolicy;
