//! [`SourceError`]: failures of a list or a watch, sorted by the reaction that they call for.
//!
//! The reflector asks the predicates and never matches on codes: expired (410) relists, a too large resourceVersion
//! waits for the replica, 429 waits as long as the server asks, a refusal falls back from a streaming list to a list. A
//! source of another protocol needs to produce no more than these.
//!
//! [`Problem`](crate::Problem) is what is reported to the user, with the reaction.

use std::time::Duration;

use listwatch_wire::delta::DeltaError;
use listwatch_wire::status::{Status, StatusReason};

/// The failure of a list or a watch, by the reaction that it needs.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The server said no; the status says why.
    #[error("{0}")]
    Status(Box<Status>),
    /// Connection refused. Worth another attempt: servers restart.
    #[error("connection refused: {0}")]
    Refused(String),
    /// The connection failed in some other way: DNS, TLS, a cut or a stalled stream.
    #[error("connection failed: {0}")]
    Transport(String),
    /// The answer is not what a Kubernetes API server sends: an HTML page of a proxy, half an event, a table.
    #[error("cannot read the answer: {0}")]
    Malformed(String),
    /// No answer within the time allowed.
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    /// A change that came as a patch does not fit what is held. The same change is asked for as a whole object.
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

    /// The resource version, or the continue token, is too old.
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.status_is(Status::is_expired)
    }

    /// The resource version lies in the future of the server that was asked.
    #[must_use]
    pub fn is_too_large_resource_version(&self) -> bool {
        self.status_is(Status::is_too_large_resource_version)
    }

    /// The server has too much to do.
    #[must_use]
    pub fn is_too_many_requests(&self) -> bool {
        self.status_is(|s| s.reason == StatusReason::TooManyRequests || s.code == 429)
    }

    /// The server cannot read one of its objects; a list returns those that are left.
    #[must_use]
    pub fn is_store_read_error(&self) -> bool {
        self.status_is(|s| s.reason == StatusReason::StoreReadError)
    }

    /// The server does not know, or does not allow, what was asked for: asking again will not help.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        self.status_is(|s| matches!(s.code, 400 | 405 | 406 | 415 | 422 | 501))
    }

    /// The time the server wants to be left alone.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        let seconds = self.status().and_then(Status::retry_after)?;
        Some(Duration::from_secs(seconds.into()))
    }
}
