//! [`metered`]: measures the CPU time of the work for a connection.
//!
//! A poll of a connection's task is all the work that is done for it in one go: reading, the handler, encryption, system calls.
//! Nothing is measured unless the [`ProcessorMeter`] is on.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::time::Duration;

use crate::observe::timed;

/// Counts the processor time of connections.
pub(crate) trait ProcessorMeter: Send + Sync + 'static {
    /// Returns true if processor time is counted now.
    fn is_on(&self) -> bool {
        false
    }

    /// Counts time that this connection has used.
    fn used(&self, _took: Duration) {}
}

/// Runs a future, and counts the processor time of each poll while the meter is on.
pub(crate) fn metered<F: Future>(
    mut future: Pin<&mut F>,
    meter: &impl ProcessorMeter,
) -> impl Future<Output = F::Output> {
    poll_fn(move |cx| {
        if !meter.is_on() {
            return future.as_mut().poll(cx);
        }
        let (polled, took) = timed(|| future.as_mut().poll(cx));
        meter.used(took);
        polled
    })
}
