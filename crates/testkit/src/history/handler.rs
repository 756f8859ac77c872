//! The history of one informer handler: the calls about each key must be consistent.
//!
//! An informer may leave out states that were overwritten while it was cut off, so the truth is not compared change by
//! change. It must never invent or repeat an object, go back in time, deliver an update of an object that it never
//! added, or end in a state that is not the server's.

use std::collections::BTreeMap;

use listwatch_wire::ObjectKey;
use serde_json::Value;

use super::Seen;

/// One call of an informer's handler, as the recording kept it. The order of calls is the order of the history.
#[derive(Clone, Debug, PartialEq)]
pub enum HandlerCall {
    /// An object appeared.
    Added(Seen),
    /// An object changed.
    Updated {
        /// The last event of the handler.
        old: Seen,
        /// The new state.
        new: Seen,
    },
    /// An object was deleted; this is its last known state.
    Deleted(Seen),
}

/// A violated rule of a handler's history. The text has the place.
///
/// Separate from the violations of a watch: an informer may compress history, a watch may not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HandlerViolation {
    /// An object was added that was there, or changed or deleted that was not.
    #[error("out of turn: {0}")]
    OutOfTurn(String),
    /// The old object of an update is not the one delivered before.
    #[error("wrong old object: {0}")]
    WrongOld(String),
    /// A key went back to an older revision.
    #[error("back in time: {0}")]
    BackInTime(String),
    /// One object was delivered as the update of another with the same name.
    #[error("mixed identities: {0}")]
    MixedIdentities(String),
    /// At the end, the state of the handler is not that of the server.
    #[error("not converged: {0}")]
    NotConverged(String),
}

/// Checks a handler's history against itself and against the server's state at the end.
///
/// `server` must be a list that was taken after the last write and after the informer caught up, or convergence is
/// checked too early. Linear in the history.
#[must_use]
pub fn check(history: &[HandlerCall], server: &BTreeMap<ObjectKey, Seen>) -> Vec<HandlerViolation> {
    let mut checked = HandlerHistory::default();
    history.iter().for_each(|call| checked.observe(call));
    checked.finish(server)
}

/// The state of a check: the objects of the handler after the calls so far.
#[derive(Default)]
struct HandlerHistory<'a> {
    /// The objects that exist according to the calls.
    present: BTreeMap<&'a ObjectKey, &'a Seen>,
    /// The newest state delivered per key, kept after a deletion: a key must not come back with an older state.
    newest: BTreeMap<&'a ObjectKey, &'a Seen>,
    broken: Vec<HandlerViolation>,
}

impl<'a> HandlerHistory<'a> {
    /// Checks one call against the calls before it.
    fn observe(&mut self, told: &'a HandlerCall) {
        match told {
            HandlerCall::Added(new) => {
                if self.present.contains_key(&new.key) {
                    self.broken.push(HandlerViolation::OutOfTurn(format!(
                        "{} added at {} but there",
                        new.key, new.revision
                    )));
                }
                self.forward(new);
                self.present.insert(&new.key, new);
            }
            HandlerCall::Updated { old, new } => self.updated(old, new),
            HandlerCall::Deleted(last) => {
                if self.present.remove(&last.key).is_none() {
                    self.broken.push(HandlerViolation::OutOfTurn(format!(
                        "{} deleted at {} but not there",
                        last.key, last.revision
                    )));
                }
                self.forward(last);
            }
        }
    }

    /// Checks an update: its old object must be the one delivered before, and of the same uid.
    fn updated(&mut self, old: &Seen, new: &'a Seen) {
        let at = format!("{} updated at {}", new.key, new.revision);
        match self.present.get(&new.key) {
            None => self.broken.push(HandlerViolation::OutOfTurn(format!("{at} but not there"))),
            Some(before) if *before != old => {
                self.broken.push(HandlerViolation::WrongOld(format!(
                    "{at}: told {} before, old is {}",
                    before.revision, old.revision
                )));
            }
            Some(_) if uid(old) != uid(new) => {
                self.broken.push(HandlerViolation::MixedIdentities(format!("{at}: another uid")))
            }
            Some(_) => {}
        }
        self.forward(new);
        self.present.insert(&new.key, new);
    }

    /// Compares revisions per key, also over a deletion: an object that is made again has a greater one.
    fn forward(&mut self, seen: &'a Seen) {
        if let Some(before) =
            self.newest.insert(&seen.key, seen).filter(|before| before.revision > seen.revision)
        {
            let text = format!("{} at {} after {}", seen.key, seen.revision, before.revision);
            self.broken.push(HandlerViolation::BackInTime(text));
        }
    }

    /// Compares the handler's final state with the server's.
    fn finish(mut self, server: &BTreeMap<ObjectKey, Seen>) -> Vec<HandlerViolation> {
        let keys: std::collections::BTreeSet<_> = self.present.keys().copied().chain(server.keys()).collect();
        let differing = keys.into_iter().filter(|key| self.present.get(key).copied() != server.get(*key));
        let describe =
            |side: Option<&Seen>| side.map_or("absent".to_owned(), |seen| seen.revision.to_string());
        let texts: Vec<_> = differing
            .map(|key| {
                let (here, there) = (describe(self.present.get(key).copied()), describe(server.get(key)));
                HandlerViolation::NotConverged(format!("{key}: handler {here}, server {there}"))
            })
            .collect();
        self.broken.extend(texts);
        self.broken
    }
}

fn uid(seen: &Seen) -> Option<&Value> {
    seen.content.pointer("/metadata/uid")
}
