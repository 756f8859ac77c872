//! [`ListerWatcher`]: the source of an informer's objects. It lists a page and opens a watch.
//!
//! The reflector uses its source only through this trait, so a test, a proxy or a database can replace the Kubernetes
//! API server. The standard implementation over a `kube::Client` is in [`kube`](crate::kube); for tests there are
//! [`Scripted`], which returns scripted answers, and [`InMemory`], which behaves like a server.
//!
//! It neither retries nor decides anything: every rule about what to do next is in [`reflector`](crate::reflector).

mod error;
mod memory;
mod scripted;
mod sources;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use listwatch_wire::status::Status;
use listwatch_wire::{ObjectKey, Revision};

pub use error::SourceError;
pub use memory::InMemory;
pub use scripted::{Scripted, ScriptedAnswer};
pub use sources::Sources;
pub(crate) use sources::{OpenNamespaces, Partition};

use crate::object::{Object, Raw};

/// A source of objects: lists pages and opens watches of one collection.
///
/// Implementations report failures as they are. They do not retry, wait or fall back: the
/// [reflector](crate::reflector) decides about that, and a source that retries hides from it how long the cache has
/// been out of date. Requests are cancelled by dropping their future or stream, so neither may leave work behind.
///
/// Both methods and the streams they return may panic: a panic is contained and counts as [`SourceError::Panicked`].
///
/// ```
/// use listwatch::lister_watcher::{
///     ListRequest, ListerWatcher, SourceError, SourcePage, WatchRequest, WatchStream,
/// };
/// use listwatch::{Object, Revision, SharedInformer};
/// use serde_json::{Value, json};
///
/// /// One object that never changes.
/// struct Constant;
///
/// #[async_trait::async_trait]
/// impl ListerWatcher for Constant {
///     async fn list(&self, _: &ListRequest) -> Result<SourcePage, SourceError> {
///         let object = json!({"metadata": {"name": "pi", "resourceVersion": "1"}, "value": 3.14});
///         let object = Object::from_value(&object).map_err(|error| SourceError::Malformed(error.to_string()))?;
///         Ok(SourcePage { objects: vec![object], revision: Revision(1), ..SourcePage::default() })
///     }
///
///     async fn watch(&self, _: &WatchRequest) -> Result<WatchStream, SourceError> {
///         Ok(WatchStream::new(futures::stream::pending()))
///     }
///
///     fn streams_initial_events(&self) -> bool {
///         false
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let informer = SharedInformer::<Value>::new(Constant);
/// informer.start()?;
/// assert!(informer.wait_synced().await);
/// assert_eq!(informer.store().len(), 1);
/// # Ok(())
/// # }
/// ```
#[async_trait::async_trait]
pub trait ListerWatcher: Send + Sync + 'static {
    /// Fetches one page.
    ///
    /// # Errors
    /// As the server or the connection fails; a continue token that has expired is a `Status` with code 410.
    async fn list(&self, request: &ListRequest) -> Result<SourcePage, SourceError>;

    /// Opens a watch. What fails before the first event may be returned here or as the first item of the stream:
    /// the reflector treats both alike.
    ///
    /// # Errors
    /// As the server or the connection fails.
    async fn watch(&self, request: &WatchRequest) -> Result<WatchStream, SourceError>;

    /// Opens a watch for a client that holds objects already. A source may use that to be sent changes as patches; the
    /// events are the same as those of [`watch`](Self::watch).
    ///
    /// # Errors
    /// As the server or the connection fails.
    async fn watch_holding(
        &self,
        request: &WatchRequest,
        held: &HeldObjects,
    ) -> Result<WatchStream, SourceError> {
        let _ = held;
        self.watch(request).await
    }

    /// Fails if requests can never succeed. An informer calls it once, before it starts.
    ///
    /// # Errors
    /// When the source is set up in a way that no server accepts.
    fn check(&self) -> Result<(), SourceError> {
        Ok(())
    }

    /// Names the collection, its selectors and the form of its objects: two sources with the same scope yield the
    /// same objects. A [saved cache](crate::warm) is used only for the scope it was saved for. Default empty, for a
    /// source that has only one.
    fn scope(&self) -> String {
        String::new()
    }

    /// Reads the identity of the server, which stays the same while its resource versions belong to one history: for a
    /// [saved cache](crate::warm), which is only used with the server it was read from. Default none.
    ///
    /// # Errors
    /// As the server or the connection fails.
    async fn identity(&self) -> Result<Option<String>, SourceError> {
        Ok(None)
    }

    /// True if it is worth asking for the initial state as a stream. A source that answers no is always listed.
    fn streams_initial_events(&self) -> bool {
        true
    }
}

/// The objects that a client holds, exactly as the server sent them.
///
/// A source needs them to apply a change that it receives as a patch. The lookup is a function rather than a map,
/// because the objects are those of the informer's store and are not copied.
#[derive(Clone)]
pub struct HeldObjects(Arc<HeldLookup>);

type HeldLookup = dyn Fn(&str, &str) -> Option<Object<Raw>> + Send + Sync;

impl HeldObjects {
    /// The objects that `get` returns for a namespace, which may be empty, and a name.
    pub fn new(get: impl Fn(&str, &str) -> Option<Object<Raw>> + Send + Sync + 'static) -> Self {
        Self(Arc::new(get))
    }

    /// The object of that name, if it is held.
    #[must_use]
    pub fn get(&self, namespace: &str, name: &str) -> Option<Object<Raw>> {
        (self.0)(namespace, name)
    }
}

impl fmt::Debug for HeldObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HeldObjects")
    }
}

/// The freshness that a list must have: the meaning of `resourceVersion` in a list request.
///
/// The choice decides the cost for the server. `Any` and `NotOlderThan` are answered from its watch cache; `MostRecent`
/// makes the server confirm its state with its database first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListVersion {
    /// Any state that the server has at hand: `resourceVersion=0`. The cheapest one, and possibly one that is older
    /// than what this client has seen from another replica.
    Any,
    /// The latest state: `resourceVersion` left out.
    MostRecent,
    /// This state or a later one. A server that has not reached it waits for a few seconds and then answers with 504;
    /// see [`SourceError::is_too_large_resource_version`].
    NotOlderThan(Revision),
}

impl fmt::Display for ListVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("0"),
            Self::MostRecent => f.write_str("\"\""),
            Self::NotOlderThan(revision) => revision.fmt(f),
        }
    }
}

/// A request for one page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListRequest {
    /// Required freshness. Not sent along with a continue token, which has its own.
    pub version: ListVersion,
    /// Objects per page; none for all at once.
    pub limit: Option<u32>,
    /// The `continue` token of the previous page; none for the first.
    pub continue_token: Option<String>,
}

impl ListRequest {
    /// The request for the first page of a list.
    #[must_use]
    pub fn first(version: ListVersion, limit: Option<u32>) -> Self {
        Self { version, limit, continue_token: None }
    }
}

/// A request for a watch: the position to begin at, and the time to end after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchRequest {
    /// The resource version to begin after. With `initial_events` it is the minimum version of the initial state, and none
    /// means any.
    pub revision: Option<Revision>,
    /// Send the current state first, and a bookmark marked as its end: `sendInitialEvents`.
    pub initial_events: bool,
    /// The time after which the server ends the stream: `timeoutSeconds`. With none, the server chooses it.
    pub timeout: Option<Duration>,
}

/// One page of a list. All pages of a list show the state of its first.
#[derive(Debug, Default)]
pub struct SourcePage {
    /// The objects, in the server's order.
    pub objects: Vec<Object<Raw>>,
    /// The state that the list shows.
    pub revision: Revision,
    /// The `continue` token of the next page; none on the last.
    pub continue_token: Option<String>,
    /// Items that could not be used, with the reason. They are reported, and do not spoil the rest.
    pub unusable: Vec<String>,
}

/// One event of a watch, as the server sent it, or as the transformation left it.
#[derive(Clone, Debug)]
#[doc(alias = "watch.Event")]
pub enum WatchEvent<K = Raw> {
    /// The object was created, or began to match the selector.
    Added(Object<K>),
    /// The object changed.
    Modified(Object<K>),
    /// The object was deleted; this was its last state.
    Deleted(Object<K>),
    /// Nothing of this collection changed up to here.
    Bookmark {
        /// The resource version that the watch has reached.
        revision: Revision,
        /// True if it ends the initial events.
        initial_events_end: bool,
    },
    /// The server ends the watch with an error.
    Error(Box<Status>),
    /// The user's transformation failed for this object, which is therefore not cached.
    Rejected {
        /// The object.
        key: ObjectKey,
        /// Its resource version.
        revision: Revision,
        /// The error of the transformation.
        reason: String,
    },
    /// An event that cannot be used: not an object of the expected kind, or no object at all.
    Unusable(String),
}

impl<K> WatchEvent<K> {
    /// The resource version that the watch has reached with this event; none for an error and for an unusable event.
    pub(crate) fn revision(&self) -> Option<Revision> {
        match self {
            Self::Added(object) | Self::Modified(object) | Self::Deleted(object) => Some(object.revision()),
            Self::Bookmark { revision, .. } | Self::Rejected { revision, .. } => Some(*revision),
            Self::Error(_) | Self::Unusable(_) => None,
        }
    }
}

/// An open watch: batches of events, as they arrive.
///
/// It ends when the server closes it, and after an error. Dropping it closes the connection.
#[must_use = "a watch is read by polling it"]
#[doc(alias = "watch.Interface")]
pub struct WatchStream(BoxStream<'static, Result<Vec<WatchEvent>, SourceError>>);

impl WatchStream {
    /// Any stream of batches. Several events in one batch save work; an empty batch is allowed.
    pub fn new(stream: impl Stream<Item = Result<Vec<WatchEvent>, SourceError>> + Send + 'static) -> Self {
        Self(stream.boxed())
    }
}

impl fmt::Debug for WatchStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WatchStream")
    }
}

impl Stream for WatchStream {
    type Item = Result<Vec<WatchEvent>, SourceError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next_unpin(cx)
    }
}
