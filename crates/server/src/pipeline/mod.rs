//! The write pipeline: what every write verb does, from the body of a request to the commit in the store.
//!
//! Each verb (`verbs/`) takes a [`WriteRequest`], whose sender is authenticated and authorized, and returns an [`Answer`],
//! which `verbs/write.rs` encodes in the negotiated form. The steps: decode the [`body`], apply the strategy of the resource
//! (`registry/strategy.rs`) to it and to the stored object, encode it canonically, and commit it under the condition
//! that the stored object has not changed meanwhile ([`transaction`]). The watch cache learns of it from the log of the engine.
//!
//! Large objects are worked on beside the async workers (`api/heavy.rs`).
//!
//! It is not where resources differ: that is `registry/`, and `subresources/` for those with kinds of their own.

pub(crate) mod body;
pub(crate) mod internal;
pub(crate) mod managed;
pub(crate) mod target;
pub(crate) mod transaction;
pub(crate) mod yaml;

use std::sync::Arc;

use bytes::Bytes;
use listwatch_wire::Status;

use crate::admission::{Attributes, Operation, Record, RequestOptions};
use crate::api::Api;
use crate::auth::User;
use crate::cache::Object;
use crate::registry::Resource;
use crate::verbs::list::Collected;

/// A write by somebody who may.
#[derive(Clone, Debug)]
pub(crate) struct WriteRequest {
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
    /// Where admission leaves its warnings and audit annotations.
    pub record: Arc<Record>,
}

impl WriteRequest {
    /// The request as admission plugins see it. `name` is empty if it is still to be generated.
    pub(crate) fn attributes<'a>(
        &'a self,
        api: &'a Api,
        operation: Operation,
        name: &'a str,
        options: RequestOptions<'a>,
        old: Option<&'a listwatch_wire::json::Value>,
    ) -> Attributes<'a> {
        let writer = Writer { user: &self.user, record: &self.record };
        let attributes = writer.attributes(api, &self.resource, self.namespace.as_deref(), name);
        let subresource = self.subresource.as_deref().unwrap_or_default();
        Attributes { operation, subresource, options, old, ..attributes }
    }

    pub(crate) fn writer(&self) -> Writer<'_> {
        Writer { user: &self.user, record: &self.record }
    }
}

/// The user a write is admitted for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writer<'a> {
    pub(crate) user: &'a User,
    pub(crate) record: &'a Record,
}

impl<'a> Writer<'a> {
    pub(crate) fn attributes(
        self,
        api: &'a Api,
        resource: &'a Resource,
        namespace: Option<&'a str>,
        name: &'a str,
    ) -> Attributes<'a> {
        let is_namespace = resource.group.is_empty() && &*resource.plural == "namespaces";
        Attributes {
            api,
            operation: Operation::Create,
            resource,
            subresource: "",
            namespace: if is_namespace { name } else { namespace.unwrap_or_default() },
            name,
            user: self.user,
            options: RequestOptions::None,
            old: None,
            record: self.record,
        }
    }
}

/// What a write answers.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// The HTTP code.
    pub code: u16,
    /// The body.
    pub body: AnswerBody,
    /// Texts for `Warning` headers.
    pub warnings: Vec<String>,
}

/// The body of an answer.
#[derive(Clone, Debug)]
pub(crate) enum AnswerBody {
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
    pub(crate) fn document(code: u16, document: listwatch_wire::json::Value) -> Self {
        Self { code, body: AnswerBody::Document(document), warnings: Vec::new() }
    }

    pub(crate) fn status(code: u16, status: Status) -> Self {
        Self { code, body: AnswerBody::Status(status), warnings: Vec::new() }
    }

    pub(crate) fn with_warnings(mut self, warnings: Vec<String>) -> Self {
        self.warnings = warnings;
        self
    }
}

/// The time as objects write it: UTC, whole seconds.
pub(crate) fn now() -> String {
    seconds(jiff::Timestamp::now())
}

pub(crate) fn seconds(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
