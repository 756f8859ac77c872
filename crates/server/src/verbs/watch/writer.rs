//! [`EventWriter`]: writes the events of one watch in its form, and counts them.
//!
//! Ordinary watches (`verbs/watch`) and streams of many watches (`verbs/stream`) share it; they decide when and where
//! to write. The encodings are in [`super::format`].

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use listwatch_wire::{Revision, Status};

use crate::api::convert::{self, ConversionFreshness};
use crate::api::{Api, MemoryReservation};
use crate::cache::{CollectionSnapshot, FilteredEvent, View, Walk};
use crate::fairness::UserTurns;
use crate::http::body::{FrameBytes, PIECE_ROOM};
use crate::observe::{RequestSeries, WatchTicket};
use crate::verbs::slice::TimeSlice;
use crate::verbs::watch::format::EventFormat;

/// Objects of the present state between two looks at the clock.
const CLOCK_EVERY: usize = 16;

/// Writes the events of one watch.
#[derive(Debug)]
pub(crate) struct EventWriter {
    format: EventFormat,
    ticket: WatchTicket,
    /// Turns for long work, so that many watches of one user do not delay others.
    turns: UserTurns,
    /// The memory of the selector of the watch, given back at its end.
    _selector: Option<Arc<MemoryReservation>>,
}

/// The present state on its way out.
///
/// Holds the snapshot alive until it is written; a slow client keeps the objects of that moment in memory.
#[derive(Debug)]
pub(crate) struct InitialState {
    snapshot: Arc<CollectionSnapshot>,
    walk: Walk,
    /// Has the filter.
    view: Arc<View>,
    pub(crate) revision: Revision,
    /// A bookmark marks its end.
    pub(crate) end_bookmark: bool,
    /// True once all of it was written.
    pub(crate) done: bool,
}

impl InitialState {
    /// The initial state of a watch, before anything of it was sent.
    pub(super) fn new(
        snapshot: Arc<CollectionSnapshot>,
        walk: Walk,
        view: Arc<View>,
        revision: Revision,
        end_bookmark: bool,
    ) -> Self {
        Self { snapshot, walk, view, revision, end_bookmark, done: false }
    }
}

impl EventWriter {
    pub(super) fn new(
        format: EventFormat,
        ticket: WatchTicket,
        turns: UserTurns,
        selector: Option<Arc<MemoryReservation>>,
    ) -> Self {
        Self { format, ticket, turns, _selector: selector }
    }

    pub(super) fn is_binary(&self) -> bool {
        self.format.is_binary()
    }

    /// True if an event could not be encoded: the watch must end rather than skip it.
    pub(super) fn is_broken(&self) -> bool {
        self.format.is_broken()
    }

    /// Counts the request when the watch ends.
    pub(super) fn count_as(&mut self, request: Arc<RequestSeries>, code: StatusCode) {
        self.ticket.count_request(request, code);
    }

    /// Frames were sent, and with them everything up to the position.
    pub(crate) fn sent(&self, frames: &[Bytes], position: Revision) {
        self.ticket.sent(frames, position);
    }

    /// A bookmark.
    pub(super) fn bookmark(&mut self, revision: Revision, end_of_initial: bool) -> Bytes {
        let bookmark = self.format.bookmark(revision, end_of_initial);
        self.ticket.mark(&bookmark);
        bookmark
    }

    /// The end of a watch that cannot continue.
    pub(super) fn error(&self, status: &Status) -> Bytes {
        let line = self.format.error(status);
        self.ticket.mark(&line);
        line
    }

    /// Returns true if [`events`](Self::events) may have to wait: for a webhook that converts the objects, or for its turn.
    pub(super) fn waits(&self) -> bool {
        self.format.resource().conversion.is_some() || self.format.is_unshared()
    }

    /// Events, each a frame.
    ///
    /// One frame per event, in order. Frames of built-in objects in JSON are shared with other watchers.
    ///
    /// # Errors
    /// When the objects cannot be converted to the version that is watched.
    pub(crate) async fn events(&mut self, api: &Api, events: &[FilteredEvent]) -> Result<FrameBytes, Status> {
        if self.format.is_unshared() {
            self.turns.enter().await;
        }
        if self.format.resource().conversion.is_none() {
            return Ok(self.stored_events(api, events));
        }
        let frames = Box::pin(self.converted(api, events)).await?;
        self.ticket.events(&frames, self.format.take_delta_count());
        Ok(frames)
    }

    /// Events of objects as they are stored: what [`events`](Self::events) returns unless it [`waits`](Self::waits).
    pub(super) fn stored_events(&mut self, api: &Api, events: &[FilteredEvent]) -> FrameBytes {
        let frames: FrameBytes =
            events.iter().map(|filtered| self.format.event(filtered, &api.cache)).collect();
        self.ticket.events(&frames, self.format.take_delta_count());
        frames
    }

    /// A part of the present state; at its end the mark.
    ///
    /// # Errors
    /// As [`events`](Self::events).
    pub(crate) async fn initial(&mut self, api: &Api, state: &mut InitialState) -> Result<BytesMut, Status> {
        self.turns.enter().await;
        let mut out = match self.format.resource().conversion {
            Some(_) => Box::pin(self.initial_converted(api, state)).await?,
            None => self.initial_stored(api, state),
        };
        if out.is_empty() && !state.done {
            // Without a write there is no other await at which other tasks get their turn.
            tokio::task::yield_now().await;
        }
        if state.done && state.end_bookmark {
            let bookmark = self.bookmark(state.revision, true);
            out.extend_from_slice(&bookmark);
        }
        Ok(out)
    }

    /// Writes the next piece of the initial state: as much as fits, or as much as a slice of time allows if few
    /// objects match.
    fn initial_stored(&mut self, api: &Api, state: &mut InitialState) -> BytesMut {
        let limit = api.options.requests.piece_bytes;
        let mut out = BytesMut::with_capacity(limit + PIECE_ROOM);
        let (mut last, slice, mut stopped) = (None, TimeSlice::begin(), false);
        for (looked, object) in state.snapshot.range(&state.walk).enumerate() {
            if state.view.filter().matches(object) {
                let before = out.len();
                self.format.initial(object, &mut out);
                self.ticket.initial(out.len() - before);
            }
            last = Some(object.key());
            stopped = out.len() >= limit || (looked % CLOCK_EVERY == CLOCK_EVERY - 1 && slice.is_over());
            if stopped {
                break;
            }
        }
        match last {
            Some(last) if stopped => state.walk.advance(last),
            _ => state.done = true,
        }
        out
    }

    /// Writes a portion of the initial state whose objects a webhook converts.
    async fn initial_converted(&mut self, api: &Api, state: &mut InitialState) -> Result<BytesMut, Status> {
        let (mut looked, limit) = (0, api.options.watch.batch_events);
        let mut objects = Vec::new();
        let mut last = None;
        for object in state.snapshot.range(&state.walk).take(limit) {
            if state.view.filter().matches(object) {
                objects.push(Arc::clone(object));
            }
            (last, looked) = (Some(object.key()), looked + 1);
        }
        let objects =
            convert::shown(api, self.format.resource(), objects, ConversionFreshness::Shared).await?;
        match last {
            Some(last) if looked == limit => state.walk.advance(last),
            _ => state.done = true,
        }
        let mut out = BytesMut::new();
        for object in &objects {
            let before = out.len();
            self.format.initial(object, &mut out);
            self.ticket.initial(out.len() - before);
        }
        Ok(out)
    }

    /// The events of a batch where a webhook converts the objects.
    async fn converted(&mut self, api: &Api, events: &[FilteredEvent]) -> Result<FrameBytes, Status> {
        let subjects =
            events.iter().filter_map(|filtered| Some((filtered, filtered.event.subject(filtered.change)?)));
        let (events, objects): (Vec<_>, Vec<_>) =
            subjects.map(|(filtered, object)| (filtered, Arc::clone(object))).unzip();
        let objects =
            convert::shown(api, self.format.resource(), objects, ConversionFreshness::Shared).await?;
        let events = events.into_iter().zip(&objects);
        Ok(events
            .map(|(filtered, object)| {
                self.format.converted(filtered.change.into(), object, filtered.event.revision)
            })
            .collect())
    }
}
