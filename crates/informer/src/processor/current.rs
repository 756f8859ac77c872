//! The handler whose task is running, so that a wait for its end from inside it returns at once.
//!
//! A handler may remove itself and then wait for [`Registration::finished`](super::Registration::finished), or stop its
//! informer; both would wait for the call that they are made from. A task-local is used and not a thread-local: an
//! async handler moves between threads at every await.

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
