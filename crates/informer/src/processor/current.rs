//! The handler that the current task runs, so that a call from within it does not wait for itself.

use std::sync::Arc;

use super::registry::Listener;

tokio::task_local! {
    /// The address of the listener: unique among those that are alive.
    static CURRENT: usize;
}

fn address<K>(listener: &Arc<Listener<K>>) -> usize {
    Arc::as_ptr(listener).addr()
}

/// Runs the task of a handler.
pub(super) async fn scope<K>(listener: &Arc<Listener<K>>, task: impl Future<Output = ()>) {
    CURRENT.scope(address(listener), task).await;
}

/// True if this is called by the handler of that listener.
pub(crate) fn is<K>(listener: &Arc<Listener<K>>) -> bool {
    CURRENT.try_with(|current| *current == address(listener)).unwrap_or(false)
}
