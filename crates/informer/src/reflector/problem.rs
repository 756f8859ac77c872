//! [`Problem`]: a failure that the reflector has dealt with, and [`ProblemResponse`]: its reaction.
//!
//! They are reported to the hook of the informer, counted by kind for metrics, and shown on the debug page; none needs
//! a response. Kinds are finer than error codes because the remedy differs: a silent watch points to a dead connection,
//! a stale list to a lagging replica, restarted history to a restored backup. client-go's counterpart is the
//! `WatchErrorHandler`.

use std::fmt;
use std::time::Duration;

use listwatch_wire::{ObjectKey, Revision};

use crate::lister_watcher::SourceError;
use crate::store::IndexError;
use crate::warm::WarmError;

/// A problem to report to the user. The reflector has reacted to it already ([`ProblemResponse`]).
///
/// The variants are stable names for metrics and alerts: most of them are ordinary in a cluster that is upgraded or
/// scaled, and only their rate is of interest.
///
/// ```
/// use std::sync::{Arc, Mutex};
///
/// use listwatch::lister_watcher::{Scripted, ScriptedAnswer, SourceError};
/// use listwatch::{Problem, SharedInformer};
/// use serde_json::Value;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let source = Scripted::default();
/// source.on_watch(ScriptedAnswer::Error(SourceError::Transport("no route to host".to_owned())));
/// let seen = Arc::new(Mutex::new(Vec::new()));
/// let hook = Arc::clone(&seen);
/// let informer = SharedInformer::<Value>::builder(source)
///     .on_problem(move |problem, response| match problem {
///         Problem::HistoryRestarted { .. } => eprintln!("restored from a backup: {problem}"), // worth an alert
///         _ => hook.lock().unwrap().push(format!("{problem}; {response}")), // worth a log line
///     })
///     .build();
/// informer.start()?;
/// while seen.lock().unwrap().is_empty() {
///     tokio::task::yield_now().await;
/// }
/// assert!(seen.lock().unwrap()[0].contains("no route to host"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
#[doc(alias = "WatchErrorHandler")]
pub enum Problem {
    /// A list failed.
    #[error("list failed: {0}")]
    List(SourceError),
    /// A watch could not be opened.
    #[error("cannot open the watch: {0}")]
    Open(SourceError),
    /// A watch broke, or the server ended it with an error.
    #[error("watch failed: {0}")]
    Watch(SourceError),
    /// The stream of the initial state could not be opened or broke.
    #[error("streaming list failed: {0}")]
    Streaming(SourceError),
    /// The stream of the initial state went silent before its end.
    #[error("streaming list stalled: no event for {0:?}")]
    StreamingStalled(Duration),
    /// The stream of the initial state was closed before its end.
    #[error("streaming list ended after {events} events, before the initial state was complete")]
    StreamingEnded {
        /// The number of events it sent.
        events: u64,
    },
    /// The server closed a watch at once and without an event.
    #[error("very short watch: closed after {0:?} without an event")]
    VeryShortWatch(Duration),
    /// The server did not end a watch at its time: the connection is dead.
    #[error("the watch hangs: still open {0:?} after it was opened")]
    HungWatch(Duration),
    /// Neither an event nor a bookmark came: the connection is dead, though it was not closed.
    #[error("the watch is silent: nothing was received for {0:?}")]
    SilentWatch(Duration),
    /// A list is older than what was seen already, although it must not be.
    #[error("stale list at revision {got}, when {seen} was seen already")]
    StaleList {
        /// The list's resource version.
        got: Revision,
        /// The revision seen before.
        seen: Revision,
    },
    /// A consistent read is older than what was seen: the server was restored from a backup, or replaced.
    #[error("the history of the server restarted: at {got}, when {seen} was seen already")]
    HistoryRestarted {
        /// The server's present resource version.
        got: Revision,
        /// The revision seen before.
        seen: Revision,
    },
    /// An event, or the server's latest state, is older than what was seen; the collection is read again.
    #[error("revision {got} after {seen}")]
    OutOfOrder {
        /// The event's resource version.
        got: Revision,
        /// The revision seen before.
        seen: Revision,
    },
    /// An object or event that cannot be used; it was skipped.
    #[error("unusable object: {0}")]
    Unusable(String),
    /// The transformation failed for an object, which is therefore not in the cache.
    #[error("transformation of {key} failed: {reason}")]
    Transform {
        /// The object.
        key: ObjectKey,
        /// The error of the transformation.
        reason: String,
    },
    /// The reflector panicked, with this message. It starts over.
    #[error("the reflector panicked: {0}")]
    Panicked(String),
    /// A saved cache was not used, or could not be written.
    #[error("saved cache: {0}")]
    SavedCache(#[from] WarmError),
    /// An index has no place for an object; the object is cached all the same.
    #[error(transparent)]
    Index(#[from] IndexError),
}

/// The reaction of the reflector to a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProblemResponse {
    /// Continues with the next object or event.
    Continues,
    /// Lists again at once, asking for the latest state.
    RelistsNow,
    /// Falls back from streaming to a list, for now.
    FallsBackToList,
    /// Opens the watch again where it broke, after this time.
    Rewatches(Duration),
    /// Starts over with the state of the collection, after this time.
    Relists(Duration),
}

impl fmt::Display for ProblemResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Continues => f.write_str("go on"),
            Self::RelistsNow => f.write_str("list the latest state"),
            Self::FallsBackToList => f.write_str("list instead"),
            Self::Rewatches(delay) => write!(f, "watch again in {delay:?}"),
            Self::Relists(delay) => write!(f, "start over in {delay:?}"),
        }
    }
}
