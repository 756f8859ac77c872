//! The promises of a watch stream, checked frame by frame against the [`Truth`].
//!
//! The names follow etcd's robustness tests: ordered, unique, atomic, reliable, resumable, bookmarkable, filter,
//! previous value. Each frame moves a position: the stream must deliver every matching change after it and may deliver
//! none before it. A stream that was cut need not deliver anything after its last frame, unless `complete_until` is
//! set.

use std::collections::HashSet;

use listwatch_wire::event::EventType;
use listwatch_wire::{ObjectKey, Revision};

use super::{Frame, Seen, Start, Truth, Violation, Watch, WatchFilter};

impl Watch {
    /// The record of a stream that has delivered nothing yet.
    #[must_use]
    pub fn new(name: impl Into<String>, filter: WatchFilter, start: Start) -> Self {
        let (name, frames, deltas) = (name.into(), Vec::new(), Vec::new());
        Self { name, filter, start, frames, complete_until: None, deltas, misfit: None }
    }

    /// All violations of this stream; empty if there are none.
    ///
    /// Linear in the frames, with one search in the truth per frame.
    #[must_use]
    pub fn check(&self, truth: &Truth) -> Vec<Violation> {
        let mut violations = self.check_frames(truth);
        let misfit = self.misfit.as_ref();
        violations.extend(misfit.map(|why| Violation::Delta(format!("{}: {why}", self.name))));
        violations
    }

    /// Checks the initial events, if there are any, and everything that follows them.
    fn check_frames(&self, truth: &Truth) -> Vec<Violation> {
        let (begin, rest) = match self.start {
            Start::After(revision) => (revision, self.frames.as_slice()),
            Start::Initial(not_older) => match self.split_initial(truth, not_older) {
                Ok(split) => split,
                Err(violations) => return violations,
            },
        };
        let mut walk = StreamWalk::new(self, truth, begin);
        rest.iter().for_each(|frame| walk.frame(frame));
        walk.finish()
    }

    /// The last revision the stream had delivered everything up to: where it would resume.
    ///
    /// `None` before the end of the initial events: such a stream starts over.
    #[must_use]
    pub fn position(&self) -> Option<Revision> {
        self.frames.iter().rev().find_map(|frame| match frame {
            Frame::Bookmark { revision, .. } => Some(*revision),
            // An initial event has the revision of its object's last write, which is not a position of the stream.
            Frame::Event { object, .. } => self.is_past_initial().then_some(object.revision),
        })
    }

    /// False for a watch that was cut during its initial events, which need not be complete.
    fn is_past_initial(&self) -> bool {
        matches!(self.start, Start::After(_)) || self.frames.iter().any(ends_initial)
    }

    /// Checks the initial events and returns the revision of their bookmark with what follows it. A stream that was cut
    /// inside them need not be complete.
    fn split_initial(
        &self,
        truth: &Truth,
        not_older: Revision,
    ) -> Result<(Revision, &[Frame]), Vec<Violation>> {
        let Some(end) = self.frames.iter().position(ends_initial) else { return Err(Vec::new()) };
        let (initial, rest) = self.frames.split_at(end);
        let Some((Frame::Bookmark { revision, .. }, rest)) = rest.split_first() else {
            return Err(Vec::new());
        };
        let name = &self.name;
        let mut violations = Vec::new();
        if *revision < not_older {
            violations.push(Violation::Initial(format!(
                "{name}: state of {revision}, asked for {not_older} or later"
            )));
        }
        let added = initial.iter().filter_map(|frame| match frame {
            Frame::Event { kind: EventType::Added, object } => Some(object),
            _ => None,
        });
        if added.clone().count() != initial.len() {
            violations.push(Violation::Initial(format!(
                "{name}: something else than ADDED among the initial events"
            )));
        }
        violations.extend(
            truth
                .compare_state(&self.filter, *revision, added)
                .map(|what| Violation::Initial(format!("{name}: {what}"))),
        );
        if violations.is_empty() { Ok((*revision, rest)) } else { Err(violations) }
    }
}

fn ends_initial(frame: &Frame) -> bool {
    matches!(frame, Frame::Bookmark { ends_initial: true, .. })
}

/// One pass over a stream: what was delivered so far decides what may and must come next.
struct StreamWalk<'a> {
    watch: &'a Watch,
    truth: &'a Truth,
    /// The stream must deliver every matching change after this one, and none before it.
    position: Revision,
    /// The newest bookmark: nothing at or before it may follow.
    bookmark: Option<Revision>,
    /// Distinguishes a repeated event from a late one.
    delivered: HashSet<(ObjectKey, Revision)>,
    violations: Vec<Violation>,
}

impl<'a> StreamWalk<'a> {
    /// Begins at the revision that the watch begins after.
    fn new(watch: &'a Watch, truth: &'a Truth, position: Revision) -> Self {
        Self { watch, truth, position, bookmark: None, delivered: HashSet::new(), violations: Vec::new() }
    }

    /// Checks one frame and moves on.
    fn frame(&mut self, frame: &Frame) {
        match frame {
            Frame::Event { kind, object } => self.event(*kind, object),
            Frame::Bookmark { revision, .. } => self.bookmark(*revision),
        }
    }

    /// Checks one event: its place in the stream, the changes that had to come before it, and its content.
    ///
    /// After a misplaced event the position stays, so that one fault is not reported again by everything after it.
    fn event(&mut self, kind: EventType, object: &Seen) {
        if let Some(violation) = self.misplaced(object) {
            self.violations.push(violation);
            return;
        }
        let before = Revision(object.revision.0.saturating_sub(1));
        self.owed_up_to(
            before,
            if self.delivered.is_empty() { Violation::Resumable } else { Violation::Reliable },
        );
        if let Some(violation) = self.wrong_content(kind, object) {
            self.violations.push(violation);
        }
        self.delivered.insert((object.key.clone(), object.revision));
        self.position = object.revision;
    }

    /// An event that is not allowed at this position of the stream, with any content.
    fn misplaced(&self, object: &Seen) -> Option<Violation> {
        let what = format!("{}: {} at {}", self.watch.name, object.key, object.revision);
        if self.delivered.contains(&(object.key.clone(), object.revision)) {
            return Some(Violation::Unique(format!("{what} came twice")));
        }
        if let Some(bookmark) = self.bookmark.filter(|bookmark| object.revision <= *bookmark) {
            return Some(Violation::Bookmarkable(format!("{what} came after the bookmark at {bookmark}")));
        }
        if object.revision > self.position {
            return None;
        }
        Some(if self.delivered.is_empty() {
            Violation::Resumable(format!("{what} is not after {}, where the stream began", self.position))
        } else {
            Violation::Ordered(format!("{what} came after {}", self.position))
        })
    }

    /// Compares an event with the committed change of its revision, as the filter of the watch shows it.
    fn wrong_content(&self, kind: EventType, object: &Seen) -> Option<Violation> {
        let what = format!("{}: {} {kind:?} at {}", self.watch.name, object.key, object.revision);
        let change = self.truth.at(object.revision).filter(|change| change.key == object.key);
        let Some(change) = change else {
            return Some(Violation::Atomic(format!("{what} was never committed")));
        };
        match change.seen_through(&self.watch.filter) {
            None => Some(Violation::Filter(format!("{what} does not match"))),
            Some((expected, _)) if expected != kind => {
                Some(Violation::Filter(format!("{what} should be {expected:?}")))
            }
            Some((_, content)) if *content == object.content => None,
            Some(_) if self.watch.deltas.contains(&object.revision) => {
                Some(Violation::Delta(format!("{what} is not what a whole object would show")))
            }
            Some((EventType::Deleted, _)) => {
                Some(Violation::PreviousValue(format!("{what} is not the last content")))
            }
            Some(_) => Some(Violation::Atomic(format!("{what} is not what was committed"))),
        }
    }

    /// A bookmark promises that everything before it has been delivered.
    fn bookmark(&mut self, revision: Revision) {
        if revision < self.position {
            let text = format!("{}: bookmark {revision} after {}", self.watch.name, self.position);
            self.violations.push(Violation::Bookmarkable(text));
            return;
        }
        self.owed_up_to(revision, Violation::Bookmarkable);
        self.position = revision;
        self.bookmark = Some(revision);
    }

    /// Names the first missing change only: the others are often missing for the same reason.
    fn owed_up_to(&mut self, upto: Revision, broken: fn(String) -> Violation) {
        if let Some((revision, change)) = self.truth.first_due(&self.watch.filter, self.position, upto) {
            self.violations
                .push(broken(format!("{}: {} at {revision} is missing", self.watch.name, change.key)));
        }
    }

    /// A watch that was ended by the test must have everything up to then.
    fn finish(mut self) -> Vec<Violation> {
        if let Some(upto) = self.watch.complete_until {
            self.owed_up_to(upto, Violation::Reliable);
        }
        self.violations
    }
}
