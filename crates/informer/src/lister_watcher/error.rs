//! [`SourceError`]: failures of a list or a watch, classified by how the reflector reacts.
//!
//! The reflector uses the predicates and never matches on codes: expired (410) relists, a too large resourceVersion
//! waits for the replica, 429 waits for the time in its `Retry-After`, a refusal falls back from a streaming list to a list. A
//! source with another protocol only has to produce these.
//!
//! [`Problem`](crate::Problem) is what is reported to the user, with the reaction.

use std::time::Duration;

use listwatch_wire::delta::DeltaError;
use listwatch_wire::status::{Status, StatusReason};

/// The failure of a list or a watch, by the reaction that it needs.
///
/// ```
/// use listwatch::lister_watcher::SourceError;
/// use listwatch_wire::status::Status;
///
/// let expired = SourceError::from(Status::expired("too old resource version: 1 (2)"));
/// assert!(expired.is_expired() && !expired.is_refusal());
///
/// let refused = SourceError::Refused("127.0.0.1:6443".to_owned());
/// assert!(refused.status().is_none(), "no server has answered");
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The server refused the request, with this status.
    #[error("{0}")]
    Status(Box<Status>),
    /// Connection refused. Worth another attempt: servers restart.
    #[error("connection refused: {0}")]
    Refused(String),
    /// The connection failed in some other way: DNS, TLS, a cut or a stalled stream.
    #[error("connection failed: {0}")]
    Transport(String),
    /// The response is not what a Kubernetes API server sends: an HTML page of a proxy, half an event, a table.
    #[error("cannot read the answer: {0}")]
    Malformed(String),
    /// No answer within the time allowed.
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    /// A patch does not fit the cached object. The next watch requests whole objects.
    #[error("{0}")]
    Delta(DeltaError),
    /// The source panicked, with this message.
    #[error("the source panicked: {0}")]
    Panicked(String),
}

impl From<Status> for SourceError {
    fn from(status: Status) -> Self {
        Self::Status(Box::new(status))
    }
}

impl SourceError {
    /// The server's status, if it answered with one.
    #[must_use]
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::Status(status) => Some(status),
            _ => None,
        }
    }

    fn status_is(&self, test: impl FnOnce(&Status) -> bool) -> bool {
        self.status().is_some_and(test)
    }

    /// True for 410: the resource version or the continue token is older than the history that the server keeps. Only
    /// a new list helps.
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.status_is(Status::is_expired)
    }

    /// True for 504 with the cause `ResourceVersionTooLarge`: the resource version is one that this server has not
    /// reached. It may be a replica that lags behind, or one that was restored from a backup.
    #[must_use]
    pub fn is_too_large_resource_version(&self) -> bool {
        self.status_is(Status::is_too_large_resource_version)
    }

    /// True for 429: the server sheds load. Wait at least [`retry_after`](Self::retry_after).
    #[must_use]
    pub fn is_too_many_requests(&self) -> bool {
        self.status_is(|s| s.reason == StatusReason::TooManyRequests || s.code == 429)
    }

    /// True if the server cannot decode or decrypt one of its stored objects. A watch cannot get past that object; a
    /// list returns the others.
    #[must_use]
    pub fn is_store_read_error(&self) -> bool {
        self.status_is(|s| s.reason == StatusReason::StoreReadError)
    }

    /// True if the server does not support or does not allow the request, so that repeating it does not help. A
    /// streaming list falls back to an ordinary one.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        self.status_is(|s| matches!(s.code, 400 | 405 | 406 | 415 | 422 | 501))
    }

    /// Returns the time that the server requires clients to wait: `retryAfterSeconds` of its status.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        let seconds = self.status().and_then(Status::retry_after)?;
        Some(Duration::from_secs(seconds.into()))
    }
}
