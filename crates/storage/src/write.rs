//! Conditional writes: [`Write`] and its outcomes.
//!
//! A condition names the revision at which the caller read the key. Two writers that read the same state can both try; one
//! succeeds, the other is given the state that it lost to. There are no locks and no sessions, so a client that disappears
//! leaves nothing behind.

use std::sync::Arc;

use bytes::Bytes;
use listwatch_wire::Revision;

use crate::{Error, KeyValue};

/// The condition on a key under which a write takes place.
///
/// Revisions are compared for equality only. That is enough, because a revision is never used twice, and it is what
/// an etcd transaction on `mod_revision` offers, so every engine decides alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Nothing: put in any case, delete if there.
    Any,
    /// The key must not exist.
    Absent,
    /// The key must exist and have been last written at this revision.
    At(Revision),
}

impl Expect {
    /// Returns true if the condition holds for a key last written at `current`, or absent.
    ///
    /// A key that was deleted counts as absent, with any earlier revisions.
    #[must_use]
    pub fn holds(self, current: Option<Revision>) -> bool {
        match self {
            Self::Any => true,
            Self::Absent => current.is_none(),
            Self::At(revision) => current == Some(revision),
        }
    }
}

/// One conditional write: the store's form of optimistic concurrency. An update of an object is an [`Expect::At`] with
/// the revision that was read.
///
/// kube-apiserver's `GuaranteedUpdate` is built on the same primitive. The loop that reads, changes and retries is in
/// the server's pipeline, which knows which conflicts may be retried.
///
/// ```
/// use listwatch_storage::{Engine, Expect, MemoryEngine, Write, Written};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), listwatch_storage::Error> {
/// let engine = MemoryEngine::default();
/// let put = |value: &'static str, expect| Write {
///     key: "/registry/configmaps/default/a".into(),
///     value: Some(value.into()),
///     expect,
///     origin: None,
/// };
/// let Written::Done { revision } = engine.write(put("1", Expect::Absent)).await? else { unreachable!() };
/// engine.write(put("2", Expect::At(revision))).await?;
///
/// // A second writer that read the first version is refused, and given the second one to try again with.
/// let refused = engine.write(put("3", Expect::At(revision))).await?;
/// let Written::Refused { current: Some(current) } = refused else { unreachable!() };
/// assert_eq!(current.value, "2");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The key written: a slash and at least one more character.
    pub key: Arc<str>,
    /// The new value, or `None` to delete.
    pub value: Option<Bytes>,
    /// The condition under which the write takes place.
    pub expect: Expect,
    /// The origin of the change, as text of the caller: its user and time. The embedded engine stores it with the
    /// version; the others ignore it.
    pub origin: Option<Arc<str>>,
}

impl Write {
    /// Refuses what no engine takes: keys are paths.
    ///
    /// Called by each engine before anything else, so that a bad key fails alike everywhere. The etcd engine needs
    /// the leading slash: the key that is a slash alone is its marker.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a key that is not a path.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.key.len() > 1 && self.key.starts_with('/') {
            return Ok(());
        }
        Err(Error::Invalid(format!("the key {:?} is no path that starts with a slash", self.key)))
    }

    /// Refuses transactions that write a key twice: engines disagree about what that means.
    ///
    /// etcd refuses such a transaction, a log of one change per revision would keep both writes.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for the first key that is not a path or comes a second time.
    pub(crate) fn check_all(writes: &[Self]) -> Result<(), Error> {
        let mut keys = std::collections::HashSet::new();
        for write in writes {
            write.check()?;
            if !keys.insert(&write.key) {
                return Err(Error::Invalid(format!("the key {:?} is written twice", write.key)));
            }
        }
        Ok(())
    }

    /// Returns true if the write takes place on a key last written at `current`, or absent. Deleting nothing is not a write.
    #[must_use]
    pub fn applies(&self, current: Option<Revision>) -> bool {
        self.expect.holds(current) && (self.value.is_some() || current.is_some())
    }
}

/// The result of a write. A refusal is not an error: it is what a caller retries on, with the value that came back.
///
/// Callers that lose a race get the winner's value with the refusal: a conflict costs one round trip, not two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// It is durable at this revision.
    Done {
        /// The revision of this write.
        revision: Revision,
    },
    /// The condition did not hold (or a delete found nothing); nothing changed.
    Refused {
        /// The value that the key holds instead, so that the caller can retry without another read.
        current: Option<KeyValue>,
    },
}

/// The outcome of several writes that take place together or not at all.
///
/// Used where two objects must never disagree, such as a Service and the claims on its addresses. Transactions are
/// small: etcd takes 128 operations by default, and a larger one fails there with [`Error::Invalid`].
///
/// ```
/// use listwatch_storage::{Engine, Expect, MemoryEngine, Transacted, Write};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), listwatch_storage::Error> {
/// let engine = MemoryEngine::default();
/// let put = |key: &str, expect| Write { key: key.into(), value: Some("{}".into()), expect, origin: None };
/// engine.write(put("/claims/10.0.0.7", Expect::Absent)).await?;
///
/// // The address is taken, so the Service is not written either.
/// let both = vec![put("/services/web", Expect::Absent), put("/claims/10.0.0.7", Expect::Absent)];
/// assert!(matches!(engine.transact(both).await?, Transacted::Refused { .. }));
/// assert_eq!(engine.get("/services/web", None).await?, None);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transacted {
    /// All are durable; the revision of each, in the order of the writes. An engine may use one for all of them.
    Done {
        /// The revisions.
        revisions: Vec<Revision>,
    },
    /// At least one condition did not hold; nothing changed.
    Refused {
        /// The values that the keys hold, in the order of the writes.
        current: Vec<Option<KeyValue>>,
    },
}
