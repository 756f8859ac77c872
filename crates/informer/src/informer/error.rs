//! [`InformerError`]: calls of an informer that cannot succeed in its present state.
//!
//! A list or a watch that fails is not among them. It is retried by the [reflector](crate::reflector) and reported as a
//! [`Problem`](crate::Problem), because no caller waits for it.

use crate::lister_watcher::SourceError;

/// The error of a request to an informer. Lists and watches that fail are retried and reported as problems instead,
/// unless they can never succeed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InformerError {
    /// It was started before. An informer runs once; build another.
    #[error("the informer was started before")]
    AlreadyStarted,
    /// It has no source: the set of namespaces is empty.
    #[error("the informer has no source: its set of namespaces is empty")]
    NoSources,
    /// Namespaces cannot be added or removed: the sources were not made for it. See [`namespaces`](crate::namespaces).
    #[error("the informer cannot add or remove namespaces: it was built over fixed sources")]
    FixedNamespaces,
    /// A source can never succeed as it is set up.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// It has stopped: no handler will ever be called again.
    #[error("the informer has stopped")]
    Stopped,
    /// The thread of a handler could not be started.
    #[error("cannot start the handler's thread: {0}")]
    Thread(#[from] std::io::Error),
    /// Called outside a Tokio runtime.
    #[error("informers need a Tokio runtime: {0}")]
    NoRuntime(#[from] tokio::runtime::TryCurrentError),
}
