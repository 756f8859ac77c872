//! Containment of panics in code that the library calls but did not write: sources, hooks, transforms, handlers.
//!
//! A panic ends the call and is reported with its message; the task goes on. Without this, one bad object would end the
//! reflector or a handler silently, and the cache would be stale from then on. A future that panicked is never polled
//! again. `processor::runner` has its own containment, because it must count calls.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;

use futures::FutureExt;

/// Returns the text that a panic was raised with.
pub(crate) fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

/// Runs a future and returns the message of its panic, if it panics. The future is not polled again after that.
pub(crate) async fn contained<T>(future: impl Future<Output = T>) -> Result<T, String> {
    AssertUnwindSafe(future).catch_unwind().await.map_err(|payload| message(&*payload))
}
