//! One run of the reconcile function, with error, panic and timeout turned into one result.
//!
//! A panic is contained here and not by the task, so that the worker keeps its key and can retry it with backoff. A run
//! that exceeds its timeout is dropped at its next await; a function that blocks its thread cannot be interrupted. The
//! decision about retries is the runner's, by [`Limits`] and the queue's limiter.

use std::any::Any;
use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::time::Duration;

use super::Outcome;

#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) timeout: Option<Duration>,
    pub(super) retries_max: Option<u32>,
}

impl Limits {
    /// True if a key that has failed `retries` times before may not be retried again.
    pub(super) fn gives_up(&self, retries: u32) -> bool {
        self.retries_max.is_some_and(|max| retries >= max)
    }
}

/// The result of a run.
#[derive(Debug)]
pub(super) enum AttemptResult {
    Ended(Outcome),
    /// It returned an error, panicked, or took too long; the text is the reason.
    Failed(String),
}

/// Runs the function once. `start` is called here because it may panic, too.
pub(super) async fn attempt<E, Fut>(start: impl FnOnce() -> Fut, timeout: Option<Duration>) -> AttemptResult
where
    E: fmt::Display,
    Fut: Future<Output = Result<Outcome, E>>,
{
    let run = catching(start);
    let ended = match timeout {
        None => Ok(run.await),
        Some(limit) => tokio::time::timeout(limit, run).await,
    };
    match ended {
        Ok(Ok(Ok(outcome))) => AttemptResult::Ended(outcome),
        Ok(Ok(Err(error))) => AttemptResult::Failed(error.to_string()),
        Ok(Err(panic)) => AttemptResult::Failed(format!("panicked: {}", message(&*panic))),
        Err(_) => AttemptResult::Failed("timed out".to_owned()),
    }
}

/// Unwind safety is asserted: after a panic the future is dropped and never looked at again, and what it shares with
/// others is the function's own affair, as with any task that panics.
pub(super) async fn catching<Fut: Future>(
    start: impl FnOnce() -> Fut,
) -> Result<Fut::Output, Box<dyn Any + Send>> {
    let future = catch_unwind(AssertUnwindSafe(start))?;
    let mut future = pin!(future);
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(poll) => poll.map(Ok),
        Err(panic) => std::task::Poll::Ready(Err(panic)),
    })
    .await
}

pub(super) fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("(no message)")
}
