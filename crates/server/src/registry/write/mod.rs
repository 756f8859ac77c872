//! The write verbs.
//!
//! Each verb takes a [`WriteRequest`], whose sender is known and allowed to send it, and returns an [`Answer`], which
//! `http/` puts into the form the client asked for. The way of a write: decode the [`body`], apply the [`rules`] of the kind
//! to it and to what is stored, encode it canonically, and write it to the engine under the condition that nothing changed
//! meanwhile ([`transaction`]; [`recent`] spares it parsing what was just written). The cache learns of it from the engine's log, like everyone else.
//!
//! Verbs: [`create`](create()), [`update`](update()), [`patch`](patch()), [`delete`](delete()) and its collection. A [`view`] is a
//! subresource that shows the object itself (`status`); [`scale`], [`pods`] and [`tokens`] are subresources with
//! kinds of their own.

mod admission;
mod body;
mod connect;
mod create;
mod delete;
mod delete_collection;
mod internal;
mod managed;
mod patch;
mod pod_admission;
mod pods;
mod recent;
mod rules;
mod scale;
mod services;
mod subresource;
mod target;
mod tokens;
mod transaction;
mod update;
mod view;
mod yaml;

use std::sync::Arc;

use bytes::Bytes;
use listwatch_wire::Status;

use super::Resource;
use crate::auth::User;
use crate::cache::Object;
use crate::http::list::Collected;

pub use connect::{connect, is_connection};
pub use create::create;
pub use delete::delete;
pub use delete_collection::delete_collection;
pub(crate) use internal::{amend, ensure, remove};
pub(crate) use managed::Tracking;
pub use patch::patch;
pub(crate) use recent::Recent;
pub(crate) use rules::{Builtin, Rules};
pub(crate) use scale::ScalePaths;
pub(crate) use services::{Allocator, KUBERNETES_ADDRESS};
pub use subresource::read_subresource;
pub use update::update;
pub(crate) use view::View;

/// A write by somebody who may.
#[derive(Clone, Debug)]
pub struct WriteRequest {
    /// What is written.
    pub resource: Arc<Resource>,
    /// The namespace in the path; `None` for cluster-scoped resources.
    pub namespace: Option<String>,
    /// The name in the path; `None` for collections.
    pub name: Option<String>,
    /// The subresource in the path.
    pub subresource: Option<String>,
    /// The query as sent.
    pub query: String,
    /// The media type of the body, as sent.
    pub content_type: Option<String>,
    /// The body.
    pub body: Bytes,
    /// Who writes.
    pub user: Arc<User>,
    /// The program that writes.
    pub user_agent: String,
}

/// What a write answers.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The HTTP code.
    pub code: u16,
    /// The body.
    pub body: AnswerBody,
    /// Texts for `Warning` headers.
    pub warnings: Vec<String>,
}

/// The body of an answer.
#[derive(Clone, Debug)]
pub enum AnswerBody {
    /// A stored object; make one with [`crate::cache::Collection::object`] from the bytes that were written and the
    /// revision the engine gave them.
    Object(Arc<Object>),
    /// Objects that were deleted together, as they were.
    List(Collected),
    /// Any other document: the result of a dry run, a subresource with its own kind.
    Document(listwatch_wire::json::Value),
    /// Nothing.
    Empty,
    /// A Status, as deletions answer.
    Status(Status),
}

impl Answer {
    fn document(code: u16, document: listwatch_wire::json::Value) -> Self {
        Self { code, body: AnswerBody::Document(document), warnings: Vec::new() }
    }

    fn status(code: u16, status: Status) -> Self {
        Self { code, body: AnswerBody::Status(status), warnings: Vec::new() }
    }

    fn with_warnings(mut self, warnings: Vec<String>) -> Self {
        self.warnings = warnings;
        self
    }
}

/// The time as objects write it: UTC, whole seconds.
pub(crate) fn now() -> String {
    seconds(jiff::Timestamp::now())
}

fn seconds(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
