//! The `Status` object: the response to a failed request, exactly as kube-apiserver writes it.
//!
//! [`Status`] is both the error type of request handling and the response body. It serialises in kube-apiserver's key
//! order, compact, because some clients read the body of a refused watch as one line. [`FieldError`] is one error about
//! one field; [`Status::invalid`] collects them.

mod build;
mod field_error;
mod field_errors;

pub use field_error::{FieldError, FieldErrorKind, aggregate};
pub use field_errors::FieldErrors;

use std::fmt;

use serde::{Deserialize, Serialize};

/// Success or failure of a request, with everything a client may need to act on it.
///
/// ```
/// use listwatch_wire::Status;
///
/// let status = Status::not_found("apps", "deployments", "web");
/// assert_eq!(status.code, 404);
/// assert_eq!(
///     serde_json::to_string(&status).unwrap(),
///     r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"deployments.apps \"web\" not found","reason":"NotFound","details":{"name":"web","group":"apps","kind":"deployments"},"code":404}"#,
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[doc(alias = "metav1.Status")]
pub struct Status {
    kind: StatusKind,
    api_version: StatusVersion,
    /// Carries only the replacement continue token of an expired list.
    pub metadata: StatusMetadata,
    /// `Success` or `Failure`.
    pub status: StatusOutcome,
    /// For people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The reason for programs; see [`StatusReason`].
    #[serde(skip_serializing_if = "StatusReason::is_unknown")]
    pub reason: StatusReason,
    /// The object and the causes of the failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Box<StatusDetails>>,
    /// The HTTP code; zero (and left out) on success.
    #[serde(skip_serializing_if = "is_zero")]
    pub code: u16,
}

/// The result of something that may be refused with a [`Status`].
pub type Result<T, E = Status> = std::result::Result<T, E>;

impl Default for Status {
    fn default() -> Self {
        Self {
            kind: StatusKind::Status,
            api_version: StatusVersion::V1,
            metadata: StatusMetadata::default(),
            status: StatusOutcome::Failure,
            message: String::new(),
            reason: StatusReason::Unknown,
            details: None,
            code: 0,
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Status {}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
enum StatusKind {
    #[default]
    Status,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
enum StatusVersion {
    #[default]
    #[serde(rename = "v1")]
    V1,
}

/// The field `status` of a Status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum StatusOutcome {
    /// It did.
    Success,
    /// It did not.
    #[default]
    Failure,
}

/// The list metadata of a Status, of which only the continue token is used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StatusMetadata {
    /// After an expired continue token: a token that continues at the latest version.
    #[serde(rename = "continue", skip_serializing_if = "String::is_empty")]
    pub continue_token: String,
}

/// The object and the causes of a failure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StatusDetails {
    /// The name of the object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The group of the resource or kind.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The resource (plural) mostly, the kind in validation failures.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The uid of the object; set when a deletion is complete.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// One cause per field error.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<StatusCause>,
    /// Mirrored in the `Retry-After` header if not zero.
    #[serde(skip_serializing_if = "is_zero_seconds")]
    pub retry_after_seconds: u32,
}

/// One cause of a failure, mostly about one field.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StatusCause {
    /// For machines, for example `FieldValueInvalid`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// For people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The field it is about.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
}

/// The machine-readable reason of a failure. Clients decide by it, not by the message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the names are the protocol's and say it all")]
pub enum StatusReason {
    #[default]
    #[serde(rename = "")]
    Unknown,
    Unauthorized,
    Forbidden,
    NotFound,
    AlreadyExists,
    Conflict,
    Gone,
    Invalid,
    ServerTimeout,
    StoreReadError,
    Timeout,
    TooManyRequests,
    BadRequest,
    MethodNotAllowed,
    NotAcceptable,
    RequestEntityTooLarge,
    UnsupportedMediaType,
    InternalError,
    Expired,
    ServiceUnavailable,
    /// A reason without a variant here; other servers may send any.
    #[serde(untagged)]
    Other(String),
}

impl StatusReason {
    fn is_unknown(&self) -> bool {
        *self == Self::Unknown
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn is_zero(code: &u16) -> bool {
    *code == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn is_zero_seconds(seconds: &u32) -> bool {
    *seconds == 0
}

impl Status {
    /// The body to send: one line of JSON without a newline.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// The value of the `Retry-After` header, if there should be one.
    #[must_use]
    pub fn retry_after(&self) -> Option<u32> {
        self.details.as_ref().map(|d| d.retry_after_seconds).filter(|s| *s > 0)
    }

    /// Returns true for `Expired` and `Gone`: the resourceVersion is no longer available, and the client must list
    /// again.
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.code == 410 || matches!(self.reason, StatusReason::Expired | StatusReason::Gone)
    }

    /// Returns true if the server has not reached the resource version yet.
    ///
    /// Three fields are checked, as servers of different versions set different ones.
    #[must_use]
    pub fn is_too_large_resource_version(&self) -> bool {
        let causes = self.details.as_ref().map(|d| d.causes.as_slice()).unwrap_or_default();
        self.reason == StatusReason::Timeout
            && (self.message.contains(build::TOO_LARGE)
                || causes
                    .iter()
                    .any(|c| c.reason == "ResourceVersionTooLarge" || c.message == build::TOO_LARGE))
    }
}
