//! [`Turn`]: how long a stream may keep what its peer does not take.
//!
//! hyper asks a body for more only once the peer has room for it, so a body cannot end itself while the peer's window is
//! closed. Whoever runs the stream can: dropping it resets this stream, frees what waits to be sent, and leaves the
//! connection and its other streams alone. [`Streams`] is the executor that runs streams that way.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use hyper::rt::Executor;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

tokio::task_local! {
    /// hyper makes a stream's task and knows nothing of answers; a body finds its turn here.
    static TURN: Turn;
}

/// The time at which the stream of a task ends whether its peer reads or not; none at first.
///
/// The lock is never contended: a turn is only touched by its own task.
#[derive(Clone, Debug, Default)]
pub(super) struct Turn(Arc<Mutex<Option<Instant>>>);

impl Turn {
    /// The turn of the stream that asks.
    pub(super) fn current() -> Self {
        TURN.try_with(Self::clone).unwrap_or_default()
    }

    /// Sets the end of the turn.
    pub(super) fn ends_at(&self, at: Instant) {
        *self.0.lock() = Some(at);
    }

    /// Moves the end of the turn forward, never back.
    pub(super) fn ends_before(&self, at: Instant) {
        let mut end = self.0.lock();
        *end = Some(end.map_or(at, |end| end.min(at)));
    }

    /// Removes the end: the stream waits for its source, not for its peer.
    pub(super) fn never_ends(&self) {
        *self.0.lock() = None;
    }

    fn end(&self) -> Option<Instant> {
        *self.0.lock()
    }
}

/// Runs the streams of a connection, each until it ends or its turn is over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Streams;

impl<F> Executor<F> for Streams
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, stream: F) {
        tokio::spawn(in_turn(stream));
    }
}

/// Runs a stream until it completes or its turn ends; then it is dropped, which resets it.
async fn in_turn(stream: impl Future) {
    let turn = Turn::default();
    let mut stream = pin!(TURN.scope(turn.clone(), stream));
    let mut clock = pin!(sleep_until(Instant::now()));
    poll_fn(|cx| {
        if stream.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        // The end moves only while the stream is polled: nobody needs to tell us.
        let Some(end) = turn.end() else { return Poll::Pending };
        if clock.deadline() != end {
            clock.as_mut().reset(end);
        }
        clock.as_mut().poll(cx)
    })
    .await;
}
