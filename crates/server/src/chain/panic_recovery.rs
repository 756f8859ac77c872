//! Panic recovery: a panic in a handler ends its request with a 500 and nothing else, as in kube-apiserver.
//!
//! It limits the damage of bugs and is not a way of control: nothing in this crate panics on purpose on a path that
//! input reaches. `listwatch_request_panics_total` counts them. Only the handler is covered; a panic while a response
//! is streamed ends its connection. [`super::service`] is the caller.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use listwatch_wire::Status;

/// Runs a handler. `Err` is the text of its panic.
///
/// Unwinding is safe because state that handlers share is locked for single steps or replaced as a whole: a panic
/// leaves nothing half-finished.
///
/// Costs nothing unless the handler panics.
pub(crate) async fn catch_panic<T>(
    handler: impl Future<Output = Result<T, Status>>,
) -> Result<Result<T, Status>, String> {
    AssertUnwindSafe(handler).catch_unwind().await.map_err(|panic| text(&*panic))
}

/// The message of a panic, if it is text. It goes to the log, never to the client.
pub(crate) fn text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no text".to_owned())
}

/// The response to a request whose handler panicked, with kube-apiserver's text.
pub(crate) fn answer() -> Status {
    Status::failure(
        500,
        listwatch_wire::status::StatusReason::InternalError,
        "This request caused apiserver to panic. Look in the logs for details.",
    )
}
