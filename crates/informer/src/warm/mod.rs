//! Warm caches: an informer saves its cache to a directory and resumes from there after a restart.
//!
//! A program that starts has its objects at once, read from disk, then receives the changes it missed, and lists only if
//! the saved resourceVersion has expired. [`WarmOptions`] turns it on; [`Freshness`] is the state that an informer has reached.
//!
//! ```text
//!            read, same server             everything missed was received
//!  Empty ─────────────────────────► Stale ───────────────────────────────► Current
//!    └──── no cache, or one that cannot be used: an ordinary list ─────────────▲
//! ```
//!
//! A saved cache is used only if it is intact (checksums), of the same server (the uid of its `kube-system` namespace), of
//! the same collection with the same selectors, and written by a compatible version of this library. If not, the problem
//! hook is given a [`Problem::SavedCache`](crate::Problem::SavedCache) with a [`WarmError`], and the collection is listed.
//!
//! `file` is the format, `capture` takes the state to save, `saver` writes it, `restore` reads it.
//!
//! ```
//! use listwatch::lister_watcher::InMemory;
//! use listwatch::warm::{Freshness, WarmOptions};
//! use listwatch::{HandlerOptions, SharedInformer};
//! use serde_json::{Value, json};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = std::env::temp_dir().join(format!("listwatch-doc-{}", std::process::id()));
//! let pods = InMemory::new(1000);
//! pods.put(&json!({"metadata": {"namespace": "x", "name": "y"}}))?;
//!
//! for run in ["first", "second"] {
//!     let informer = SharedInformer::<Value>::builder(pods.clone())
//!         .name("pods")
//!         .warm(WarmOptions::new(&directory))
//!         .build();
//!     // In the second run, this handler receives nothing: it has seen the one object that there is.
//!     let log = HandlerOptions::named("log").since_last_run();
//!     informer.add_event_handler_with(move |event: &_| println!("{run} run: {event}"), log)?;
//!     informer.start()?;
//!     informer.wait_usable().await;
//!     informer.wait_synced().await;
//!     assert_eq!(informer.freshness(), Freshness::Current);
//!     assert_eq!(informer.status().lists + informer.status().streaming_lists, u64::from(run == "first"));
//!     informer.drain().await; // saves
//! }
//! # std::fs::remove_dir_all(&directory)?;
//! # Ok(())
//! # }
//! ```

mod capture;
mod file;
mod restore;
mod saver;

use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) use capture::{Capture, HandlerMark};
pub(crate) use file::SavedPosition;
pub(crate) use restore::{Restored, identify, read};
pub(crate) use saver::Saver;

/// Options of a warm cache. Only the directory has no default.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WarmOptions {
    /// The directory of the files, two per informer. It is created if it does not exist. Only one process at a time should
    /// use it: the files of two would replace each other, and each file would still be whole.
    ///
    /// It holds the objects as they are. Protect it like the credentials that read them: Secrets are saved too, if they
    /// are cached. The files are readable by their owner only.
    pub directory: PathBuf,
    /// The time between two saves; only what changed leads to one, and the objects are written again only if one of them
    /// changed. Default 60 s: well within the five minutes of history that kube-apiserver keeps. The cache is also saved when
    /// the informer ends.
    pub interval: Duration,
    /// Show the saved objects before the server has confirmed that it is the one they came from. Default false: a program
    /// that starts while its server is unreachable waits. With true it reads what it had, marked as [`Freshness::Stale`].
    pub unverified: bool,
    /// Names the form of what is saved. Change it when the transformation of the informer changes: a cache saved under
    /// another name is not used. Default empty.
    pub version: String,
    /// The most events a handler may have unread to be resumed where it was. A handler with more receives everything
    /// again, as without a saved cache. Default 10,000: deletions among them are saved with their objects.
    pub max_unread: usize,
}

impl WarmOptions {
    /// Default options for this directory.
    pub fn new(directory: impl AsRef<Path>) -> Self {
        Self {
            directory: directory.as_ref().to_owned(),
            interval: Duration::from_secs(60),
            unverified: false,
            version: String::new(),
            max_unread: 10_000,
        }
    }

    /// Sets [`interval`](Self::interval); at least a second.
    #[must_use]
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval.max(Duration::from_secs(1));
        self
    }

    /// Sets [`unverified`](Self::unverified).
    #[must_use]
    pub fn unverified(mut self, unverified: bool) -> Self {
        self.unverified = unverified;
        self
    }

    /// Sets [`version`](Self::version).
    #[must_use]
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = version.into();
        self
    }
}

/// The freshness of an informer's cache. Ordered: a later variant is fresher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Freshness {
    /// Nothing yet, or only the state of some of its namespaces.
    #[default]
    Empty,
    /// The state that was saved when the program last ran. It is complete and was true then.
    Stale,
    /// The state of the server as of the last event. It stays current while changes are received; their age is in
    /// [`InformerStatus::last_event_age`](crate::InformerStatus::last_event_age).
    Current,
}

impl Freshness {
    /// The name for metrics and the debug page.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Stale => "stale",
            Self::Current => "current",
        }
    }
}

/// The reason that a saved cache was not used or could not be written.
///
/// It is never fatal: the informer lists instead, which costs the server a list and nothing else. It is reported
/// because a cache that is refused at every start is of no use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WarmError {
    /// A file could not be read or written.
    #[error("{path}: {reason}")]
    Io {
        /// The file.
        path: String,
        /// The error of the system.
        reason: String,
    },
    /// A file is not what was written: its checksum or its structure is wrong.
    #[error("{path} is damaged: {reason}")]
    Damaged {
        /// The file.
        path: String,
        /// The problem with the file.
        reason: &'static str,
    },
    /// It was written by a version of this library with another format.
    #[error("the saved cache has another format")]
    OtherFormat,
    /// It is of another collection, of other selectors, keeps other parts of the objects, or has another
    /// [`version`](WarmOptions::version).
    #[error("the saved cache is of {saved:?}, not of {wanted:?}")]
    OtherScope {
        /// The scope that was saved.
        saved: String,
        /// The scope of this informer.
        wanted: String,
    },
    /// It is of another server.
    #[error("the saved cache is of the server {saved:?}, not of {found:?}")]
    OtherServer {
        /// The identity of the server that it was read from.
        saved: String,
        /// The identity of the server of this informer.
        found: String,
    },
    /// The identity of the server is unknown: reading its `kube-system` namespace is not allowed.
    #[error("cannot identify the server by its kube-system namespace: {0}")]
    UnknownServer(String),
}
