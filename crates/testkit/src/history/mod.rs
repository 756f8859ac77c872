//! Recorded histories, and the promises that they are checked against.
//!
//! A test records what the store committed ([`Truth`]), what each watch delivered ([`Watch`]), what each list answered
//! ([`ListRecord`]), the writes that were acknowledged ([`Acknowledged`]) and the calls of each informer handler
//! ([`handler::HandlerCall`]); the validators then compare every record with the truth. They are pure functions over finished
//! records, independent of servers, sockets and time, and are used for every engine.
//!
//! Each promise is one variant of [`Violation`], so that a broken history names the promise it broke:
//!
//! | promise | in one sentence |
//! |---|---|
//! | ordered | revisions never go back within a stream |
//! | unique | no change is delivered twice |
//! | reliable | no matching change is left out between two that were delivered |
//! | atomic | an event shows exactly what was committed at its revision, whole |
//! | resumable | a stream opened after revision N begins with the first matching change after N |
//! | bookmarkable | a bookmark at N means: everything up to N was delivered, and only later changes follow |
//! | filter | the selector decides, on old and new content, whether and as which type a change is seen |
//! | previous value | a deletion carries the last content |
//! | initial | initial events are the matching state at the revision of their closing bookmark |
//! | snapshot | a list is the matching state at its revision, and not older than the version that was requested |
//! | durable | what was acknowledged is in the store's log, as acknowledged |
//! | delta | a stream of deltas yields the states that a stream of whole objects shows |

pub mod handler;
mod snapshot;
mod truth;
mod watch;

#[cfg(test)]
mod tests;

use listwatch_wire::event::EventType;
use listwatch_wire::selector::LabelSelector;
use listwatch_wire::{ObjectKey, Revision};
use serde_json::Value;

pub use truth::{Truth, TruthChange};

/// An object as it was seen at one revision.
///
/// The content leaves the resourceVersion out, which is in `revision`, and `kind` and `apiVersion`, which items of a
/// list do not have. So an item, an event and a stored value of one version are equal.
///
/// ```
/// use listwatch_testkit::history::Seen;
/// use serde_json::json;
///
/// let from_a_watch = json!({"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "a", "resourceVersion": "7"}});
/// let from_a_list = json!({"metadata": {"name": "a", "resourceVersion": "7"}});
/// assert_eq!(Seen::from_object(from_a_watch), Seen::from_object(from_a_list));
/// assert_eq!(Seen::from_object(json!({"metadata": {"name": "a"}})), None);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// The object's key.
    pub key: ObjectKey,
    /// Its resourceVersion.
    pub revision: Revision,
    /// Everything else.
    pub content: Value,
}

impl Seen {
    /// Takes an object apart as it came over the wire; `None` if it has no name or no resourceVersion.
    #[must_use]
    pub fn from_object(mut object: Value) -> Option<Self> {
        let metadata = object.get_mut("metadata")?.as_object_mut()?;
        let revision = metadata.remove("resourceVersion")?.as_str()?.parse().ok()?;
        let name = metadata.get("name")?.as_str()?;
        let namespace = metadata.get("namespace").and_then(Value::as_str).unwrap_or_default();
        let key = ObjectKey::namespaced(namespace, name);
        // Items of a typed list do not have these, and the path implies them.
        let fields = object.as_object_mut()?;
        fields.remove("kind");
        fields.remove("apiVersion");
        Some(Self { key, revision, content: object })
    }
}

/// One line of a watch stream, reduced to what the promises are about.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame {
    /// A change.
    Event {
        /// `ADDED`, `MODIFIED` or `DELETED`.
        kind: EventType,
        /// The object it carried.
        object: Seen,
    },
    /// A position without a change.
    Bookmark {
        /// The position.
        revision: Revision,
        /// True if it closes the initial events.
        ends_initial: bool,
    },
}

/// The position at which a watch was requested to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// With the first change after this revision.
    After(Revision),
    /// With the state, not older than this revision, as initial events closed by a bookmark.
    Initial(Revision),
}

/// The record of one watch stream, from its request to the last frame that was read.
///
/// A stream that was cut is checked like one that ended: missing events at its end are not a violation unless
/// `complete_until` is set.
///
/// ```
/// use listwatch_testkit::history::{Frame, Seen, Start, Truth, Violation, Watch, WatchFilter};
/// use listwatch_wire::event::EventType;
/// use listwatch_wire::{ObjectKey, Revision};
/// use serde_json::json;
///
/// let key = ObjectKey::namespaced("", "a");
/// let content = json!({"metadata": {"name": "a"}});
/// let mut truth = Truth::default();
/// truth.push(Revision(5), key.clone(), Some(content.clone()));
///
/// let mut watch = Watch::new("example", WatchFilter::default(), Start::After(Revision(4)));
/// let object = Seen { key, revision: Revision(5), content };
/// let added = Frame::Event { kind: EventType::Added, object };
/// watch.frames = vec![added.clone()];
/// assert!(watch.check(&truth).is_empty());
///
/// // The same change a second time breaks a promise, and the violation names it.
/// watch.frames.push(added);
/// assert!(matches!(watch.check(&truth)[..], [Violation::Unique(_), ..]));
/// ```
#[derive(Clone, Debug)]
pub struct Watch {
    /// The watcher, for the message.
    pub name: String,
    /// The selection of the watch.
    pub filter: WatchFilter,
    /// The position at which the watch was requested to begin.
    pub start: Start,
    /// Everything it delivered, in order.
    pub frames: Vec<Frame>,
    /// The stream stayed open until every change up to here must have come, if the test made sure of that.
    pub complete_until: Option<Revision>,
    /// The revisions of the events that came as deltas; their frames show what the deltas made of the objects before.
    pub deltas: Vec<Revision>,
    /// The reason why a delta could not be applied, if one could not.
    pub misfit: Option<String>,
}

/// The response to one list, with the revision that it had to reflect.
#[derive(Clone, Debug)]
pub struct ListRecord {
    /// The lister, for the message.
    pub name: String,
    /// The selection of the list.
    pub filter: WatchFilter,
    /// The newest revision that was acknowledged to any client before the request was sent, for a consistent list.
    pub not_older_than: Revision,
    /// The resourceVersion of the list.
    pub revision: Revision,
    /// Its items, in order.
    pub items: Vec<Seen>,
}

/// An acknowledged write. Only these are checked: a write without a response may have taken place or not.
#[derive(Clone, Debug)]
pub struct Acknowledged {
    /// The object's key.
    pub key: ObjectKey,
    /// The object that the response carried; `None` for a deletion, whose response carries no revision.
    pub object: Option<Seen>,
}

/// The objects that a watch or a list selects.
#[derive(Clone, Debug, Default)]
pub struct WatchFilter {
    /// Only this namespace.
    pub namespace: Option<String>,
    /// Only objects with these labels.
    pub labels: LabelSelector,
}

impl WatchFilter {
    /// Returns true if a watch or list with this filter must show an object with this content.
    #[must_use]
    pub fn matches(&self, key: &ObjectKey, content: &Value) -> bool {
        let labels = content.pointer("/metadata/labels");
        self.namespace.as_deref().is_none_or(|namespace| key.namespace() == namespace)
            && self
                .labels
                .matches(|label| labels.and_then(|labels| labels.get(label)).and_then(Value::as_str))
    }
}

/// A violated guarantee. The text has the watcher, the revision and the two values that differ.
///
/// The names are those of the table in the [module](self), so that a failed test names the guarantee.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// Revisions went back within a stream.
    #[error("broke ordered: {0}")]
    Ordered(String),
    /// A change was delivered twice.
    #[error("broke unique: {0}")]
    Unique(String),
    /// A matching change between two delivered ones was left out.
    #[error("broke reliable: {0}")]
    Reliable(String),
    /// An event showed what was never committed at its revision.
    #[error("broke atomic: {0}")]
    Atomic(String),
    /// A resumed stream repeated what came before its start or left out what came first after it.
    #[error("broke resumable: {0}")]
    Resumable(String),
    /// Something up to a bookmark was missing before it, or came after it.
    #[error("broke bookmarkable: {0}")]
    Bookmarkable(String),
    /// A change was delivered that the selector excludes, or as the wrong type.
    #[error("broke filter: {0}")]
    Filter(String),
    /// A deletion carried something else than the last content.
    #[error("broke previous value: {0}")]
    PreviousValue(String),
    /// The initial events were not the matching state at their closing bookmark.
    #[error("broke initial: {0}")]
    Initial(String),
    /// A list was not the matching state at its revision, or was older than what it had to reflect.
    #[error("broke snapshot: {0}")]
    Snapshot(String),
    /// An acknowledged write is not in the log.
    #[error("broke durable: {0}")]
    Durable(String),
    /// A delta did not fit what the stream had sent before, or made something else of it than was committed.
    #[error("broke delta: {0}")]
    Delta(String),
}
