//! Constructors of [`Status`], one for each kind of failure, with the code, reason and message of kube-apiserver.
//!
//! Texts are kept byte for byte, because clients match on them: kubectl prints them, client-go recognises conflicts and
//! expired resource versions by reason, code and sometimes by phrase. New failures get a constructor here rather than a
//! text at the call site, so that one place holds the wording. The counterparts in Go are `NewNotFound`, `NewConflict`
//! and the others of `apimachinery/pkg/api/errors`.

use super::{
    FieldError, FieldErrors, Status, StatusCause, StatusDetails, StatusOutcome, StatusReason, aggregate,
};
use crate::go;

pub(super) const TOO_LARGE: &str = "Too large resource version";
const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

/// `deployments.apps`, or `configmaps` for the core group.
fn qualified(group: &str, resource: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

/// The details that name an object. `kind` is the plural resource in most errors: that is what kube-apiserver sends.
fn about(group: &str, kind: &str, name: &str) -> StatusDetails {
    StatusDetails {
        name: name.to_owned(),
        group: group.to_owned(),
        kind: kind.to_owned(),
        ..StatusDetails::default()
    }
}

impl Status {
    /// Any failure, for codes and reasons without a constructor. Prefer the constructors below: their texts are those
    /// that clients match on.
    #[must_use]
    pub fn failure(code: u16, reason: StatusReason, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), ..Self::default() }
    }

    /// Replaces the details: the object and the causes.
    #[must_use]
    pub fn with_details(mut self, details: StatusDetails) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    /// Adds the number of seconds after which the client should try again; also sent as `Retry-After`.
    #[must_use]
    pub fn with_retry_after(mut self, seconds: u32) -> Self {
        self.details.get_or_insert_default().retry_after_seconds = seconds;
        self
    }

    /// Adds a cause to the details, after those that are there.
    #[must_use]
    pub fn with_cause(mut self, reason: &str, message: impl Into<String>, field: &str) -> Self {
        let cause =
            StatusCause { reason: reason.to_owned(), message: message.into(), field: field.to_owned() };
        self.details.get_or_insert_default().causes.push(cause);
        self
    }

    /// The response to a deletion that is complete: a success that names the object by its uid.
    #[must_use]
    pub fn deleted(group: &str, resource: &str, name: &str, uid: &str) -> Self {
        let details = StatusDetails { uid: uid.to_owned(), ..about(group, resource, name) };
        Self { status: StatusOutcome::Success, ..Self::default() }.with_details(details)
    }

    /// 400: the request cannot be understood or contradicts itself. Repeating it unchanged is useless.
    #[must_use]
    #[doc(alias = "NewBadRequest")]
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::failure(400, StatusReason::BadRequest, message)
    }

    /// 401: no credential, or none that an authenticator accepts. The text does not distinguish the two: that would help to
    /// guess.
    #[must_use]
    #[doc(alias = "NewUnauthorized")]
    pub fn unauthorized() -> Self {
        Self::failure(401, StatusReason::Unauthorized, "Unauthorized")
    }

    /// 403: refused by authorization or admission, with the reason in `why`. An empty resource means a path outside of
    /// all resources.
    ///
    /// ```
    /// use listwatch_wire::Status;
    ///
    /// let status = Status::forbidden("apps", "deployments", "web", "not yours");
    /// assert_eq!((status.code, status.message.as_str()), (403, "deployments.apps \"web\" is forbidden: not yours"));
    /// ```
    #[must_use]
    #[doc(alias = "NewForbidden")]
    pub fn forbidden(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let qualified = qualified(group, resource);
        let message = match (qualified.is_empty(), name.is_empty()) {
            (true, _) => format!("forbidden: {why}"),
            (false, true) => format!("{qualified} is forbidden: {why}"),
            (false, false) => format!("{qualified} {} is forbidden: {why}", go::quote(name)),
        };
        Self::failure(403, StatusReason::Forbidden, message).with_details(about(group, resource, name))
    }

    /// 404: the resource is served, but has no object of that name. client-go's `IsNotFound` is true for it.
    ///
    /// ```
    /// use listwatch_wire::Status;
    ///
    /// assert_eq!(Status::not_found("", "pods", "a").message, "pods \"a\" not found");
    /// ```
    #[must_use]
    #[doc(alias = "NewNotFound")]
    pub fn not_found(group: &str, resource: &str, name: &str) -> Self {
        let message = format!("{} {} not found", qualified(group, resource), go::quote(name));
        Self::failure(404, StatusReason::NotFound, message).with_details(about(group, resource, name))
    }

    /// 404: nothing is served at the path. It names no object, so that clients can distinguish a missing API from a
    /// missing object.
    ///
    /// For paths that no group has. kube-apiserver answers some of them with plain text instead.
    #[must_use]
    #[doc(alias = "NewGenericServerResponse")]
    pub fn no_such_path() -> Self {
        Self::failure(404, StatusReason::NotFound, "the server could not find the requested resource")
            .with_details(StatusDetails::default())
    }

    /// 405: the verb is not served on this path.
    #[must_use]
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::failure(405, StatusReason::MethodNotAllowed, message).with_details(StatusDetails::default())
    }

    /// 405: the kind does not have the verb, though its path is served, such as a list of reviews.
    #[must_use]
    #[doc(alias = "NewMethodNotSupported")]
    pub fn method_not_supported(group: &str, resource: &str, verb: &str) -> Self {
        let message = format!(
            "{verb} is not supported on resources of kind {}",
            go::quote(&qualified(group, resource))
        );
        Self::failure(405, StatusReason::MethodNotAllowed, message).with_details(about(group, resource, ""))
    }

    /// 406: nothing the caller accepts can be produced.
    #[must_use]
    pub fn not_acceptable(accepted: &[&str]) -> Self {
        let message = format!("only the following media types are accepted: {}", accepted.join(", "));
        Self::failure(406, StatusReason::NotAcceptable, message)
    }

    /// 406 of a route: none of the media types that the path can produce is accepted. Details are there and empty.
    #[must_use]
    pub fn no_representation(available: &[&str]) -> Self {
        let message = format!("406: Not Acceptable\n\nAvailable representations: {}", available.join(", "));
        Self::failure(406, StatusReason::NotAcceptable, message).with_details(StatusDetails::default())
    }

    /// 409: a create found the name taken. Clients distinguish it from [`conflict`](Self::conflict) by the reason,
    /// since the code is the same.
    ///
    /// Of concurrent creations one succeeds and the others get this.
    ///
    /// ```
    /// use listwatch_wire::Status;
    ///
    /// assert_eq!(Status::already_exists("", "pods", "a").message, "pods \"a\" already exists");
    /// ```
    #[must_use]
    #[doc(alias = "NewAlreadyExists")]
    pub fn already_exists(group: &str, resource: &str, name: &str) -> Self {
        let message = format!("{} {} already exists", qualified(group, resource), go::quote(name));
        Self::failure(409, StatusReason::AlreadyExists, message).with_details(about(group, resource, name))
    }

    /// 409: no free name was found for a `generateName`. It has a `Retry-After` of one second.
    #[must_use]
    #[doc(alias = "NewGenerateNameConflict")]
    pub fn generate_name_exhausted(group: &str, resource: &str, name: &str) -> Self {
        let message = format!(
            "{} {} already exists, the server was not able to generate a unique name for the object",
            qualified(group, resource),
            go::quote(name)
        );
        Self::failure(409, StatusReason::AlreadyExists, message)
            .with_details(about(group, resource, name))
            .with_retry_after(1)
    }

    /// 409: a precondition of the request no longer holds, such as its uid. The write has not taken place; a client
    /// reads the object again and repeats its decision.
    ///
    /// ```
    /// use listwatch_wire::Status;
    ///
    /// let status = Status::conflict("", "pods", "a", "it is being deleted");
    /// assert_eq!(status.message, "Operation cannot be fulfilled on pods \"a\": it is being deleted");
    /// ```
    #[must_use]
    #[doc(alias = "NewConflict")]
    pub fn conflict(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let target = qualified(group, resource);
        let message = format!("Operation cannot be fulfilled on {target} {}: {why}", go::quote(name));
        Self::failure(409, StatusReason::Conflict, message).with_details(about(group, resource, name))
    }

    /// 409: the resourceVersion in the request is not the current one: optimistic concurrency lost. client-go's
    /// `RetryOnConflict` waits for this one.
    #[must_use]
    pub fn modified(group: &str, resource: &str, name: &str) -> Self {
        Self::conflict(group, resource, name, MODIFIED)
    }

    /// 410: the requested resourceVersion or `continue` token has expired. A reflector lists again.
    ///
    /// A watch or a continue token from before the beginning of history: the client lists again.
    #[must_use]
    #[doc(alias = "NewResourceExpired")]
    pub fn expired(message: impl Into<String>) -> Self {
        Self::failure(410, StatusReason::Expired, message)
    }

    /// 413: the body, or the number of patch operations, exceeds its bound. A body beyond the limit is not read to
    /// its end.
    #[must_use]
    #[doc(alias = "NewRequestEntityTooLargeError")]
    pub fn too_large(why: &str) -> Self {
        Self::failure(413, StatusReason::RequestEntityTooLarge, format!("Request entity too large: {why}"))
    }

    /// 415: the `Content-Type` of the body is none that this endpoint decodes. A client may repeat the request in JSON.
    #[must_use]
    pub fn unsupported_media_type(accepted: &[&str]) -> Self {
        let accepted = accepted.join(", ");
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {accepted}"
        );
        Self::failure(415, StatusReason::UnsupportedMediaType, message)
    }

    /// 422: validation failed, with one cause per field error. The kind is the kind, not the plural. Errors beyond the
    /// bounds of [`FieldErrors`] are left out.
    ///
    /// ```
    /// use listwatch_wire::status::{FieldError, Status};
    ///
    /// let status = Status::invalid("apps", "Deployment", "d", &[FieldError::required("spec.selector", "")]);
    /// assert_eq!(status.message, r#"Deployment.apps "d" is invalid: spec.selector: Required value"#);
    /// ```
    #[must_use]
    #[doc(alias = "NewInvalid")]
    pub fn invalid(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Self {
        let mut told = FieldErrors::new();
        let errors: Vec<&FieldError> = errors.iter().take_while(|error| told.takes(error)).collect();
        let mut message = format!("{} {} is invalid", qualified(group, kind), go::quote(name));
        if !errors.is_empty() {
            message.push_str(": ");
            message.push_str(&aggregate(errors.iter().map(ToString::to_string)));
        }
        let details = StatusDetails {
            causes: errors.into_iter().map(Into::into).collect(),
            ..about(group, kind, name)
        };
        Self::failure(422, StatusReason::Invalid, message).with_details(details)
    }

    /// 422: the query parameters or the body of options (`ListOptions`, `PatchOptions`, …) failed validation.
    #[must_use]
    pub fn invalid_options(kind: &str, errors: &[FieldError]) -> Self {
        Self::invalid("meta.k8s.io", kind, "", errors)
    }

    /// 422 without a reason, as kube-apiserver refuses a JSON patch that does not apply.
    #[must_use]
    pub fn unprocessable() -> Self {
        let message = "the server rejected our request due to an error in our request";
        Self::failure(422, StatusReason::Invalid, message).with_details(StatusDetails::default())
    }

    /// 429: overload or a disruption budget. client-go repeats the request after the given seconds by itself.
    ///
    /// The header `Retry-After` repeats the seconds, since clients of all languages honour it.
    ///
    /// ```
    /// use listwatch_wire::Status;
    ///
    /// assert_eq!(Status::too_many_requests("busy", 3).retry_after(), Some(3));
    /// ```
    #[must_use]
    #[doc(alias = "NewTooManyRequests")]
    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u32) -> Self {
        Self::failure(429, StatusReason::TooManyRequests, message).with_retry_after(retry_after_seconds)
    }

    /// 500 with a known origin, whose text is repeated as a cause.
    ///
    /// ```
    /// use listwatch_wire::Status;
    ///
    /// assert_eq!(Status::internal("disk full").message, "Internal error occurred: disk full");
    /// ```
    #[must_use]
    #[doc(alias = "NewInternalError")]
    pub fn internal(error: impl std::fmt::Display) -> Self {
        let text = error.to_string();
        Self::failure(500, StatusReason::InternalError, format!("Internal error occurred: {text}"))
            .with_cause("", text, "")
    }

    /// 500 with an empty reason, as kube-apiserver sends it for errors that are no Status themselves.
    #[must_use]
    pub fn unknown_reason(message: impl Into<String>) -> Self {
        Self::failure(500, StatusReason::Unknown, message)
    }

    /// 503: the server is starting, stopping, or cannot reach its store.
    ///
    /// For the time in which the server starts or ends, and for extension API servers that do not answer.
    #[must_use]
    pub fn service_unavailable(message: impl Into<String>) -> Self {
        Self::failure(503, StatusReason::ServiceUnavailable, message)
    }

    /// 504: the request took too long; it may have taken effect.
    #[must_use]
    pub fn timeout(message: &str, retry_after_seconds: u32) -> Self {
        Self::failure(504, StatusReason::Timeout, format!("Timeout: {message}"))
            .with_retry_after(retry_after_seconds)
    }

    /// 504: the requested resource version is in the future.
    ///
    /// Clients recognise it by the cause's reason, its message, or the phrase in the text; all three are present.
    #[must_use]
    pub fn too_large_resource_version(asked: u64, current: u64, retry_after_seconds: u32) -> Self {
        Self::timeout(&format!("{TOO_LARGE}: {asked}, current: {current}"), retry_after_seconds).with_cause(
            "ResourceVersionTooLarge",
            TOO_LARGE,
            "",
        )
    }
}

#[cfg(test)]
mod tests;
