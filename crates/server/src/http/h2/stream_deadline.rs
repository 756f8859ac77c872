//! [`StreamDeadline`]: the time that a stream may hold data that its peer does not read.
//!
//! hyper polls a body only once the peer has room for more, so a body cannot end itself while the peer's window is
//! closed. The task of the stream can: dropping it resets this stream, frees the unsent data, and does not affect the
//! connection and its other streams. [`Streams`] is the executor that runs streams that way.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use hyper::rt::Executor;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

use crate::http::metered::{ProcessorMeter, metered};

tokio::task_local! {
    /// Task-local, because hyper spawns the task of a stream; a body finds its deadline here.
    static STREAM_DEADLINE: StreamDeadline;
}

/// The time at which the stream of a task ends whether its peer reads or not; none at first.
///
/// The lock is never contended: a deadline is only touched by its own task.
#[derive(Clone, Debug, Default)]
pub(super) struct StreamDeadline(Arc<Mutex<Option<Instant>>>);

impl StreamDeadline {
    /// The deadline of the stream that asks.
    pub(super) fn current() -> Self {
        STREAM_DEADLINE.try_with(Self::clone).unwrap_or_default()
    }

    /// Sets the deadline.
    pub(super) fn set(&self, at: Instant) {
        *self.0.lock() = Some(at);
    }

    /// Sets the deadline if it is earlier than the present one.
    pub(super) fn set_earlier(&self, at: Instant) {
        let mut end = self.0.lock();
        *end = Some(end.map_or(at, |end| end.min(at)));
    }

    /// Removes the deadline: the stream waits for its source, not for its peer.
    pub(super) fn clear(&self) {
        *self.0.lock() = None;
    }

    fn end(&self) -> Option<Instant> {
        *self.0.lock()
    }
}

/// Runs the streams of a connection, each until it ends or its deadline has passed.
#[derive(Debug)]
pub(super) struct Streams<M>(pub(super) Arc<M>);

impl<M> Clone for Streams<M> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<F, M: ProcessorMeter> Executor<F> for Streams<M>
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, stream: F) {
        let meter = Arc::clone(&self.0);
        tokio::spawn(async move { metered(pin!(run_until_deadline(stream)), &*meter).await });
    }
}

/// Runs a stream until it completes or its deadline; then it is dropped, which resets it.
async fn run_until_deadline(stream: impl Future) {
    let deadline = StreamDeadline::default();
    let mut stream = pin!(STREAM_DEADLINE.scope(deadline.clone(), stream));
    let mut clock = pin!(sleep_until(Instant::now()));
    poll_fn(|cx| {
        if stream.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        // The deadline moves only while the stream is polled, so no wake-up is needed.
        let Some(end) = deadline.end() else { return Poll::Pending };
        if clock.deadline() != end {
            clock.as_mut().reset(end);
        }
        clock.as_mut().poll(cx)
    })
    .await;
}
