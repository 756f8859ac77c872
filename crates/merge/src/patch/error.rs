//! [`PatchError`]: refusals of a patch, by the class of the response.
//!
//! The classes are kube-apiserver's, and not always what one would choose: a JSON patch that does not apply is a 422
//! without an explanation, an element that a strategic merge patch cannot merge a 500. The mapping to [`Status`] is
//! here, so that callers need no table of their own.

use listwatch_wire::Status;

/// The refusal of a patch, by the class of the response.
///
/// Texts are for 400 and 500; a 422 has a fixed message in kube-apiserver, so [`PatchError::Failed`]'s is for logs
/// and tests.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatchError {
    /// The patch itself is not of its media type: a 400.
    #[error("{0}")]
    Malformed(String),
    /// More operations than allowed: a 413.
    #[error("The allowed maximum operations in a JSON patch is {max}, got {got}")]
    TooManyOperations {
        /// The limit.
        max: usize,
        /// The number of operations.
        got: usize,
    },
    /// The patch does not apply to this object: a 422 without details.
    #[error("{0}")]
    Failed(String),
    /// The `test` operation of a JSON patch found another value at this path: a 422. Kept apart from other failures, because a
    /// mutating admission policy whose test fails changes nothing, and is not an error.
    #[error("testing value {0} failed: test failed")]
    TestFailed(String),
    /// A directive or element the strategy cannot handle: a 500, as in kube-apiserver.
    #[error("{0}")]
    Unforeseen(String),
}

impl PatchError {
    /// Adds the place that the failure is about: `TEXT: 'PLACE': FAILURE`.
    pub(super) fn in_place(self, text: &str, place: &str) -> Self {
        match self {
            Self::Failed(why) => Self::Failed(format!("{text}: '{place}': {why}")),
            other => other,
        }
    }
}

impl From<PatchError> for Status {
    fn from(error: PatchError) -> Self {
        match error {
            PatchError::Malformed(text) => Self::bad_request(text),
            PatchError::TooManyOperations { .. } => Self::too_large(&error.to_string()),
            PatchError::Failed(_) | PatchError::TestFailed(_) => Self::unprocessable(),
            PatchError::Unforeseen(text) => Self::unknown_reason(text),
        }
    }
}
