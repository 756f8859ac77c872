//! [`Positions`]: the resourceVersion that each source of an informer has reached.
//!
//! Written by the applier, under the lock of the processor, so that a consistent state of store, events and positions
//! can be captured.

use std::sync::Arc;

use listwatch_wire::Revision;

use crate::warm::SavedPosition;

/// The life of a position in the delta queue. A position is given to another namespace only when nothing of the one
/// before can still be in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Active,
    /// Its namespace was taken away, but its objects are still there.
    Leaving,
    /// Its objects are to be removed, but the delta for that is still in the queue.
    Emptied,
    /// Can be given to another namespace.
    Free,
}

/// One source.
struct SourcePosition {
    namespace: Option<Arc<str>>,
    scope: String,
    /// None before its first state.
    revision: Option<Revision>,
    /// Its state is that of the server, not a saved one.
    current: bool,
    state: State,
}

/// All sources of an informer, by position.
#[derive(Default)]
pub(crate) struct Positions {
    list: Vec<SourcePosition>,
    /// The namespaces to follow are not known yet.
    awaiting: bool,
    /// Counts changes of objects.
    pub(super) changes: u64,
    /// A namespace was taken away before.
    removed: bool,
}

impl Positions {
    /// No source yet. `awaiting` is true if namespaces are followed and not listed yet.
    pub(super) fn new(awaiting: bool) -> Self {
        Self { awaiting, ..Self::default() }
    }

    /// Assigns the position to a source.
    pub(super) fn put(&mut self, position: usize, namespace: Option<Arc<str>>, scope: String) {
        let entry = SourcePosition { namespace, scope, revision: None, current: false, state: State::Active };
        match self.list.get_mut(position) {
            Some(place) => *place = entry,
            None => self.list.push(entry),
        }
    }

    /// Positions that exist, free ones included: the next new one is this.
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// The positions that are read.
    fn active(&self) -> impl Iterator<Item = &SourcePosition> {
        self.list.iter().filter(|position| position.state == State::Active)
    }

    pub(super) fn is_active(&self, position: usize) -> bool {
        self.list.get(position).is_some_and(|position| position.state == State::Active)
    }

    /// True if a namespace may be given this position: nothing of the last one can arrive any more.
    pub(super) fn is_free(&self, position: usize) -> bool {
        self.list.get(position).is_none_or(|position| position.state == State::Free)
    }

    pub(super) fn namespace(&self, position: usize) -> Option<Arc<str>> {
        self.list.get(position)?.namespace.clone()
    }

    /// The resourceVersion up to which this source has been applied.
    pub(super) fn revision(&self, position: usize) -> Option<Revision> {
        self.list.get(position)?.revision
    }

    /// True if the source has a state of the server. A namespace that is not there has none.
    pub(super) fn is_current(&self, namespace: &str) -> bool {
        self.active().any(|position| position.namespace.as_deref() == Some(namespace) && position.current)
    }

    /// Records the revision that a source has reached.
    pub(super) fn advance(&mut self, position: usize, revision: Revision) {
        if let Some(position) = self.list.get_mut(position) {
            position.revision = Some(revision);
        }
    }

    /// Notes that the first list or its equivalent is complete.
    pub(super) fn set_current(&mut self, position: usize) {
        if let Some(position) = self.list.get_mut(position) {
            position.current = true;
        }
    }

    /// The namespaces to follow are known.
    pub(super) fn set_known(&mut self) {
        self.awaiting = false;
    }

    /// True if every source has the state of its server.
    pub(super) fn all_current(&self) -> bool {
        !self.awaiting && self.active().all(|position| position.current)
    }

    /// The resource version that the slowest source has reached. Sources without a state count only until the informer
    /// has `synced`: a namespace that is added later does not hold up a wait for a change of another.
    pub(super) fn slowest(&self, synced: bool) -> Option<Revision> {
        if !synced && self.active().any(|position| position.revision.is_none()) {
            return None;
        }
        self.active().filter_map(|position| position.revision).min()
    }

    /// True if the first state of a source can be delivered as part of the initial state. If a namespace was taken away
    /// before, its deletions may be unread, and the initial state must not overtake them.
    pub(super) fn is_initial(&self, position: usize, synced: bool) -> bool {
        !synced && !self.removed && self.revision(position).is_none()
    }

    /// Takes the namespace away; its objects leave the store next.
    pub(super) fn leave(&mut self, position: usize) {
        self.removed = true;
        if let Some(position) = self.list.get_mut(position) {
            position.state = State::Leaving;
        }
    }

    /// True if objects of a namespace that was taken away are still there.
    pub(super) fn is_leaving(&self, namespace: &str) -> bool {
        let leaving = |entry: &SourcePosition| entry.state == State::Leaving;
        self.list.iter().any(|entry| leaving(entry) && entry.namespace.as_deref() == Some(namespace))
    }

    /// The earlier source of the same namespace, if its objects are still there.
    pub(super) fn predecessor(&self, position: usize) -> Option<usize> {
        let namespace = self.namespace(position)?;
        let leaving = |entry: &SourcePosition| {
            entry.state == State::Leaving && entry.namespace.as_deref() == Some(&*namespace)
        };
        self.list.iter().position(leaving)
    }

    /// Records that the objects of a source were removed. Returns its namespace if they were present before.
    pub(super) fn empty(&mut self, position: usize) -> Option<Arc<str>> {
        let entry = self.list.get_mut(position).filter(|entry| entry.state == State::Leaving)?;
        entry.state = State::Emptied;
        entry.namespace.clone()
    }

    /// Makes the position available, once the queue has nothing of it.
    pub(super) fn free(&mut self, position: usize) {
        if let Some(entry) = self.list.get_mut(position).filter(|entry| entry.state == State::Emptied) {
            entry.state = State::Free;
        }
    }

    /// True if every source has a state, be it a saved one.
    pub(super) fn all_have_state(&self) -> bool {
        !self.awaiting && self.active().all(|position| position.revision.is_some())
    }

    /// The sources that have a saved position: each with its namespace and that revision.
    pub(super) fn restored(&self, saved: &[SavedPosition]) -> Vec<(usize, Option<Arc<str>>, Revision)> {
        let active = self.list.iter().enumerate().filter(|(_, entry)| entry.state == State::Active);
        let found = active.filter_map(|(position, entry)| {
            let saved =
                saved.iter().find(|saved| saved.namespace.as_deref() == entry.namespace.as_deref())?;
            Some((position, entry.namespace.clone(), Revision(saved.revision)))
        });
        found.collect()
    }

    /// The first saved position whose namespace has another scope now, with that scope.
    pub(super) fn other_scope<'a>(&self, saved: &'a [SavedPosition]) -> Option<(&'a SavedPosition, String)> {
        self.active().find_map(|position| {
            let same = |saved: &&SavedPosition| saved.namespace.as_deref() == position.namespace.as_deref();
            let saved = saved.iter().find(same).filter(|saved| saved.scope != position.scope)?;
            Some((saved, position.scope.clone()))
        })
    }

    /// The positions of all sources that have a state, to be saved.
    pub(super) fn saved(&self) -> Vec<SavedPosition> {
        let saved = self.active().filter_map(|position| {
            let namespace = position.namespace.as_deref().map(str::to_owned);
            Some(SavedPosition { namespace, scope: position.scope.clone(), revision: position.revision?.0 })
        });
        saved.collect()
    }
}
