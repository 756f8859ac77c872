//! Repeated calls of webhooks that options name, with kube-apiserver's pauses.
//!
//! Authentication and authorization wait for such a webhook, so a failure that may pass is tried again. The callers bound the time of
//! all attempts together.

use std::time::Duration;

use super::CallError;

/// The attempts for a call, as in kube-apiserver.
const TRIES: u32 = 5;
/// The pause before the second attempt, unless the configuration names another; kube-apiserver adds a jitter.
pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// Calls until it succeeds, fails for good, or [`TRIES`] are used up. Each pause is half as long again as the one before.
///
/// # Errors
/// The last failure.
pub(crate) async fn with_retries<T, F>(
    mut pause: Duration,
    call: impl Fn() -> F,
    may_pass: impl Fn(&CallError) -> bool,
) -> Result<T, CallError>
where
    F: Future<Output = Result<T, CallError>>,
{
    let mut tries = 1;
    loop {
        match call().await {
            Err(error) if tries < TRIES && may_pass(&error) => tokio::time::sleep(pause).await,
            outcome => return outcome,
        }
        (pause, tries) = (pause * 3 / 2, tries + 1);
    }
}

/// Returns true for failures that kube-apiserver tries again: a connection that was reset, and the codes 429, 500 and 504.
#[doc(alias = "DefaultShouldRetry")]
pub(crate) fn is_passing(error: &CallError) -> bool {
    match error {
        CallError::Passing(_) => true,
        CallError::Transport(why) => why.contains("connection reset"),
        CallError::Answer(_) | CallError::Refused(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_failures_that_may_pass_are_tried_again() {
        for (passing, calls) in [(true, TRIES), (false, 1)] {
            let made = Cell::new(0);
            let call = || {
                made.set(made.get() + 1);
                let why = "x".to_owned();
                let error = if passing { CallError::Passing(why) } else { CallError::Refused(why) };
                async { Err::<(), _>(error) }
            };
            assert!(with_retries(FIRST_PAUSE, call, is_passing).await.is_err());
            assert_eq!(made.get(), calls);
        }
    }
}
