//! [`Event`]: a change of the cache, as handlers receive it.
//!
//! It corresponds to `OnAdd`, `OnUpdate` and `OnDelete` of client-go's `ResourceEventHandler`, in one type so that a
//! handler can match on it, clone it and send it elsewhere. [`Event::Synced`] is an addition: client-go has `HasSynced`
//! of the registration, beside the events. Events of one key arrive in order, and an update continues from the state
//! that this handler received last, also when changes in between were folded.
//!
//! It is not [`WatchEvent`](crate::lister_watcher::WatchEvent), which is what a server sends.

use std::fmt;

use listwatch_wire::{ObjectKey, Revision};

use crate::object::{Object, Raw};

/// A change of the cache. The store already holds it, or something newer, when a handler is called.
///
/// ```
/// use listwatch::{Event, Object};
/// use serde_json::json;
///
/// let pod = |version: &str, node: &str| {
///     let metadata = json!({"namespace": "default", "name": "web", "resourceVersion": version});
///     Object::<listwatch::Raw>::from_value(&json!({"metadata": metadata, "spec": {"nodeName": node}}))
/// };
/// let event = Event::Updated { old: pod("7", "")?, new: pod("9", "node-1")? };
/// assert!(event.changed("spec.nodeName") && !event.changed("metadata.labels"));
/// assert_eq!(event.to_string(), "update default/web 7 -> 9");
///
/// let again = Event::Updated { old: pod("9", "node-1")?, new: pod("9", "node-1")? };
/// assert!(again.is_resync());
/// # Ok::<(), listwatch::object::ObjectError>(())
/// ```
pub enum Event<K = Raw> {
    /// The object is new to this handler.
    Added {
        /// The object.
        object: Object<K>,
        /// True if it was there when the informer, or this handler, started.
        is_initial: bool,
    },
    /// The object changed. The same object twice (`old == new`) is a resync.
    Updated {
        /// The state this handler received last.
        old: Object<K>,
        /// The new state.
        new: Object<K>,
    },
    /// The object was deleted. An object that was deleted and created again under its name is delivered as a deletion
    /// and an addition, even if the informer only saw the result.
    Deleted(Deleted<K>),
    /// Everything that was there at the start has been delivered. Comes exactly once.
    Synced,
}

/// A deletion.
#[doc(alias = "DeletedFinalStateUnknown")]
pub struct Deleted<K = Raw> {
    /// The last known state: what the server sent with the deletion, or what the cache held.
    pub object: Object<K>,
    /// True if the deletion was found out later, by a relist: then `object` is what the cache held, and the object
    /// may have changed before it went.
    pub final_state_unknown: bool,
}

impl<K> Event<K> {
    /// The key of the object it is about.
    #[must_use]
    pub fn key(&self) -> Option<&ObjectKey> {
        self.object().map(Object::key)
    }

    /// The object it is about, in its latest known state.
    #[must_use]
    pub fn object(&self) -> Option<&Object<K>> {
        match self {
            Self::Added { object, .. } => Some(object),
            Self::Updated { new, .. } => Some(new),
            Self::Deleted(deleted) => Some(&deleted.object),
            Self::Synced => None,
        }
    }

    /// True if this is a resync: the object is delivered again although it did not change.
    #[must_use]
    pub fn is_resync(&self) -> bool {
        matches!(self, Self::Updated { old, new } if old.same_content(new))
    }

    /// True unless this is an update in which the value at a dotted path, such as `spec.replicas`, did not change.
    #[must_use]
    pub fn changed(&self, path: &str) -> bool {
        match self {
            Self::Updated { old, new } => new.changed_since(old, path),
            Self::Added { .. } | Self::Deleted(_) | Self::Synced => true,
        }
    }

    pub(crate) fn revision(&self) -> Option<Revision> {
        self.object().map(Object::revision)
    }
}

impl<K> Clone for Event<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Added { object, is_initial } => {
                Self::Added { object: object.clone(), is_initial: *is_initial }
            }
            Self::Updated { old, new } => Self::Updated { old: old.clone(), new: new.clone() },
            Self::Deleted(deleted) => Self::Deleted(deleted.clone()),
            Self::Synced => Self::Synced,
        }
    }
}

impl<K> Clone for Deleted<K> {
    fn clone(&self) -> Self {
        Self { object: self.object.clone(), final_state_unknown: self.final_state_unknown }
    }
}

/// One line per event, as the scripted tests and `tracing` print it: `update default/web 7 -> 9`.
impl<K> fmt::Display for Event<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Added { object, is_initial } => {
                write!(f, "add {} {}", object.key(), object.revision())?;
                if *is_initial { f.write_str(" initial") } else { Ok(()) }
            }
            Self::Updated { new, .. } if self.is_resync() => {
                write!(f, "resync {} {}", new.key(), new.revision())
            }
            Self::Updated { old, new } => {
                write!(f, "update {} {} -> {}", new.key(), old.revision(), new.revision())
            }
            Self::Deleted(Deleted { object, final_state_unknown }) => {
                write!(f, "delete {} {}", object.key(), object.revision())?;
                if *final_state_unknown { f.write_str(" final state unknown") } else { Ok(()) }
            }
            Self::Synced => f.write_str("synced"),
        }
    }
}

impl<K> fmt::Debug for Event<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<K> fmt::Debug for Deleted<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "delete {} {}", self.object.key(), self.object.revision())
    }
}
