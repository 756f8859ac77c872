//! [`EvalError`]: an evaluation without a value.
//!
//! The message is cel-go's, since hosts put it into responses. In CEL an error is a value that `&&`, `||` and the
//! comprehensions can absorb: `x.y == 1 || true` is true without `y`. The one exception is an exceeded cost limit,
//! which ends the evaluation at once. Errors of compilation are [`Issues`](crate::Issues).

use std::borrow::Cow;
use std::fmt;

/// The reason for which an expression has no value. One pointer wide, since every step of an evaluation returns a
/// result.
///
/// Cloning copies the message: an error may be kept in an accumulator for later turns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvalError(Box<ErrorInner>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct ErrorInner {
    message: Cow<'static, str>,
    over_limit: bool,
}

/// The beginning of the message of an evaluation that cost too much.
pub const COST_LIMIT_EXCEEDED: &str = "operation cancelled: actual cost limit exceeded";

impl EvalError {
    /// An error with a message.
    #[must_use]
    pub fn new(message: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(ErrorInner { message: message.into(), over_limit: false }))
    }

    /// The error of an evaluation that cost more than its limit. Nothing absorbs it.
    ///
    /// For hosts that count on a meter of their own, such as those of a policy's variables.
    #[must_use]
    pub(crate) fn over_limit() -> Self {
        Self(Box::new(ErrorInner { message: COST_LIMIT_EXCEEDED.into(), over_limit: true }))
    }

    /// Returns true if the evaluation was ended because it cost too much.
    #[must_use]
    pub fn is_over_limit(&self) -> bool {
        self.0.over_limit
    }

    /// The message, with cel-go's text.
    ///
    /// Part of responses. Tests compare it with kube-apiserver's, so it should not be reworded.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    pub(crate) fn no_such_overload() -> Self {
        Self::new("no such overload")
    }
}

impl fmt::Display for EvalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl std::error::Error for EvalError {}
