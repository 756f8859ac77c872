//! The write pipeline: the steps of every write verb, from the body of a request to the commit in the store.
//!
//! Each verb (`verbs/`) takes a [`WriteRequest`], whose sender is authenticated and authorized, and returns an [`Answer`],
//! which `verbs/write.rs` encodes in the negotiated form. The steps of a write, in order:
//!
//! 1. decode the [`body`] (or the [`mod@patch`]) and check it against its path ([`target`]);
//! 2. fill in defaults, by the strategy of the resource (`registry/strategy.rs`);
//! 3. [`mod@change`]: field ownership ([`managed`]), mutating admission, `prepare`, allocation, validation with the
//!    rights of [`claims`], validating admission;
//! 4. [`transaction`] and [`commit`]: size and depth, canonical encoding, and the write under the condition that the
//!    stored object is still the one that was read; on a conflict, step 3 is repeated with the newer object. The
//!    [`origin`] of the change is stored with it.
//!
//! [`mod@create`] has all steps of a POST, [`mod@delete`] those of a deletion ([`before_delete`] decides it, [`unreadable`] if
//! the object is damaged), [`internal`] those of the server's own writes. The watch cache receives a write through the log of
//! the engine.
//!
//! Large objects are processed on blocking threads (`api/blocking.rs`).
//!
//! The pipeline is the same for all resources. Their differences are in `registry/`, and in `subresources/` for
//! subresources with kinds of their own.

pub(crate) mod before_delete;
pub(crate) mod body;
pub(crate) mod change;
pub(crate) mod claims;
pub(crate) mod collected;
pub(crate) mod commit;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod internal;
pub(crate) mod managed;
pub(crate) mod origin;
pub(crate) mod patch;
pub(crate) mod target;
mod times;
pub(crate) mod transaction;
pub(crate) mod type_meta;
pub(crate) mod unreadable;
pub(crate) mod yaml;

use std::sync::Arc;

use bytes::Bytes;
use listwatch_wire::Status;
use listwatch_wire::options::Query;

use crate::api::{AdmissionRecord, Api, Attributes, Operation, RequestOptions};
use crate::auth::User;
use crate::cache::CachedObject;
use crate::registry::Resource;

/// An authorized write with its body, independent of HTTP. It is kept unchanged over all attempts of the transaction.
///
/// Everything that a verb needs, so that controllers can write without HTTP (`internal`).
#[derive(Clone, Debug)]
pub(crate) struct WriteRequest {
    /// The resource that is written.
    pub resource: Arc<Resource>,
    /// The namespace in the path; `None` for cluster-scoped resources.
    pub namespace: Option<String>,
    /// The name in the path; `None` for collections.
    pub name: Option<String>,
    /// The subresource in the path.
    pub subresource: Option<String>,
    /// The query parameters.
    pub query: Arc<Query<'static>>,
    /// The media type of the body, as sent.
    pub content_type: Option<String>,
    /// The body.
    pub body: Bytes,
    /// The user that writes.
    pub user: Arc<User>,
    /// The User-Agent of the client.
    pub user_agent: String,
    /// Warnings and audit annotations of admission.
    pub record: Arc<AdmissionRecord>,
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
        let writer = WriteUser { user: &self.user, record: &self.record };
        let attributes = writer.attributes(api, &self.resource, self.namespace.as_deref(), name);
        let subresource = self.subresource.as_deref().unwrap_or_default();
        Attributes { operation, subresource, options, old, ..attributes }
    }

    /// The object that the path names, changed by the user of the request.
    pub(crate) fn target(&self) -> target::Target<'_> {
        let name = self.name.as_deref().unwrap_or_default();
        target::Target::new(&self.resource, self.namespace.as_deref(), name).by(&self.user.name)
    }

    /// The user and the admission record of the request.
    pub(crate) fn writer(&self) -> WriteUser<'_> {
        WriteUser { user: &self.user, record: &self.record }
    }
}

/// The user a write is admitted for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteUser<'a> {
    pub(crate) user: &'a User,
    pub(crate) record: &'a AdmissionRecord,
}

impl<'a> WriteUser<'a> {
    /// The attributes of a create without options; callers override what differs. For a Namespace, `namespace` is its
    /// own name, as in kube-apiserver.
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
            old_version: None,
            record: self.record,
        }
    }
}

/// The result of a write, before content negotiation.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// The HTTP code.
    pub code: u16,
    /// The body.
    pub body: AnswerBody,
    /// Texts for `Warning` headers.
    pub warnings: Vec<String>,
}

/// The body of a response, before it is encoded in the negotiated form.
#[derive(Clone, Debug)]
pub(crate) enum AnswerBody {
    /// A stored object; make one with [`crate::cache::Collection::object`] from the bytes that were written and the
    /// revision the engine gave them.
    Object(Arc<CachedObject>),
    /// Objects that were deleted together, as they were.
    List(collected::CollectedPage),
    /// Any other document: the result of a dry run, a subresource with its own kind.
    Document(listwatch_wire::json::Value),
    /// A Status, as deletions answer.
    Status(Status),
}

impl Answer {
    /// A response with a document that is not a stored object.
    pub(crate) fn document(code: u16, document: listwatch_wire::json::Value) -> Self {
        Self { code, body: AnswerBody::Document(document), warnings: Vec::new() }
    }

    pub(crate) fn status(code: u16, status: Status) -> Self {
        Self { code, body: AnswerBody::Status(status), warnings: Vec::new() }
    }

    /// Replaces the warnings of the response.
    pub(crate) fn with_warnings(mut self, warnings: Vec<String>) -> Self {
        self.warnings = warnings;
        self
    }
}

/// The time as objects write it: UTC, whole seconds.
///
/// The API has no finer times outside of `MicroTime` fields.
pub(crate) fn now() -> String {
    seconds(jiff::Timestamp::now())
}

/// A time as objects write it: UTC, whole seconds, RFC 3339.
pub(crate) fn seconds(time: jiff::Timestamp) -> String {
    // A DateTimePrinter costs a fraction of a format string, and every write prints one or two timestamps.
    jiff::Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}
