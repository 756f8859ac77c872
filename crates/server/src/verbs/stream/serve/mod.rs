//! [`ServedStream`]: the body of a stream of many watches.
//!
//! It takes messages ([`messages`]), admits subscriptions one after the other and begins them ([`begin`]), and writes
//! the events of all in the order of revisions. Subscriptions that have begun are [`super::subscriptions`].

mod begin;
mod messages;

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::future::BoxFuture;
use http::StatusCode;
use listwatch_wire::stream::{ClientMessage, StreamFrame, StreamHead, Subscription};
use listwatch_wire::{Revision, Status};
use smallvec::smallvec;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::api::Api;
use crate::api::streams::StreamTicket;
use crate::auth::Revoked;
use crate::cache::{Lost, Portion, SlotEvent, WatchSlot};
use crate::http::body::{FrameBytes, WatchBody};
use crate::http::gzip::GzipMember;
use crate::observe::{LastingRequest, RequestSeries};
use crate::verbs::stream::admit::StreamAdmission;
use crate::verbs::stream::subscriptions::Subscriptions;
use crate::verbs::watch::plan::duration;
use begin::{Admitting, StartingWatch, admitted};

/// No revision is as late.
const END: Revision = Revision(u64::MAX);

/// A stream being served.
pub(super) struct ServedStream {
    admission: StreamAdmission,
    ticket: StreamTicket,
    live: Subscriptions,
    /// Subscriptions that are not processed yet.
    wanted: VecDeque<Subscription>,
    admitting: Option<Admitting>,
    /// Watches that may begin, in this order.
    starting: VecDeque<StartingWatch>,
    /// Events that were taken and are not written yet.
    taken: VecDeque<SlotEvent>,
    /// Frames on their way out.
    out: BytesMut,
    /// Goes off when something is due.
    timer: Pin<Box<Sleep>>,
    deadline: Instant,
    next_bookmark: Instant,
    /// The newest revision that the client has received.
    told: Revision,
    /// A bookmark is wanted as soon as everything up to here was sent.
    bookmark_at: Option<Revision>,
    ended: bool,
    gzip: Option<GzipMember>,
    /// The request, counted when the stream ends.
    request: Option<LastingRequest>,
}

impl WatchBody for ServedStream {
    fn next(&mut self) -> BoxFuture<'_, Option<FrameBytes>> {
        Box::pin(self.batch())
    }

    fn is_binary(&self) -> bool {
        false
    }

    fn deadline(&self) -> Instant {
        self.deadline
    }

    fn count_as(&mut self, request: Arc<RequestSeries>, code: StatusCode) {
        self.request = Some(LastingRequest::new(request, code));
    }

    fn message_bytes(&self) -> usize {
        self.api().options.stream.message_bytes
    }

    fn has_room(&self) -> bool {
        self.ticket.inbox.has_room()
    }

    /// A message that cannot be parsed, or for which there is no room, is answered on the stream and does not end it.
    fn receive(&mut self, message: Bytes) {
        let received = ClientMessage::parse(&message).map_err(Status::bad_request).and_then(|message| {
            self.ticket.inbox.put(message).map_err(|full| Status::too_many_requests(full.to_string(), 1))
        });
        if let Err(status) = received {
            self.send_frame(&StreamFrame::Error(Box::new(status)));
        }
    }
}

impl ServedStream {
    /// A stream with the subscriptions of a first message.
    pub(super) fn new(
        admission: StreamAdmission,
        timeout_seconds: Option<u32>,
        first: Option<ClientMessage>,
        compressed: bool,
    ) -> Box<Self> {
        let api = Arc::clone(&admission.api);
        let limits = &api.options.stream;
        let ticket = api.streams.open(&admission.user, limits.waiting_messages);
        let asked = timeout_seconds.filter(|seconds| *seconds > 0);
        let deadline = Instant::now() + duration(&api, asked.map(|s| Duration::from_secs(u64::from(s))));
        let head = StreamHead { id: ticket.id.clone(), watches: limits.watches };
        let mut stream = Box::new(Self {
            live: Subscriptions::new(Arc::clone(&api.cache)),
            ticket,
            admission,
            wanted: VecDeque::new(),
            admitting: None,
            starting: VecDeque::new(),
            taken: VecDeque::new(),
            out: BytesMut::new(),
            timer: Box::pin(sleep_until(deadline)),
            deadline,
            next_bookmark: Instant::now() + api.options.watch.bookmark_every,
            told: api.cache.position().get(),
            bookmark_at: None,
            ended: false,
            gzip: compressed.then(GzipMember::default),
            request: None,
        });
        stream.send_frame(&StreamFrame::Stream(head));
        if let Some(first) = first {
            stream.take_message(first);
        }
        stream.schedule();
        stream
    }

    fn api(&self) -> &Arc<Api> {
        &self.admission.api
    }

    /// Frames are collected and sent together.
    fn send_frame(&mut self, frame: &StreamFrame) {
        frame.write(&mut self.out);
    }

    /// The next frames, compressed if the client asked for it.
    async fn batch(&mut self) -> Option<FrameBytes> {
        while self.out.is_empty() && !self.ended {
            self.step().await;
        }
        if self.out.is_empty() {
            return self.gzip.as_mut().and_then(GzipMember::end).map(|end| smallvec![end]);
        }
        let frames: FrameBytes = smallvec![self.out.split().freeze()];
        Some(match &mut self.gzip {
            Some(member) => member.batch(&frames),
            None => frames,
        })
    }

    /// Waits for the next message or timer and handles it. Cancel safe.
    async fn step(&mut self) {
        if !self.taken.is_empty() {
            self.write_taken().await;
        } else if !self.starting.is_empty() {
            self.start().await;
        } else {
            self.wait().await;
        }
    }

    /// Waits for the first of them.
    async fn wait(&mut self) {
        let (portion, until) = (self.portion(), self.bookmark_at.unwrap_or(END));
        let api = Arc::clone(self.api());
        tokio::select! {
            biased;
            () = api.cache.closed().cancelled() => self.end(),
            // Checked before events, so that a busy stream cannot outlive its permissions.
            () = self.timer.as_mut() => self.tick(Instant::now()),
            message = self.ticket.inbox.next() => self.take_message(message),
            admitted = admitted(&mut self.admitting) => self.admitted(admitted),
            events = self.live.next(portion, until) => match events {
                Ok(events) if events.is_empty() => self.send_bookmark(),
                events => self.take(events),
            },
        }
    }

    /// The limits of a single watch, for all watches of the stream together.
    fn portion(&self) -> Portion {
        let limits = &self.api().options.watch;
        Portion { events: limits.batch_events, bytes: limits.batch_bytes }
    }

    fn take(&mut self, events: Result<Vec<SlotEvent>, (WatchSlot, Lost)>) {
        match events {
            Ok(events) => self.taken.extend(events),
            Err((slot, lost)) => self.on_lost_cursor(slot, lost),
        }
    }

    /// Writes events that were taken, as many as fit into a batch.
    async fn write_taken(&mut self) {
        let api = Arc::clone(self.api());
        while self.out.len() < api.options.watch.batch_bytes
            && let Some((slot, _)) = self.taken.front()
        {
            let slot = *slot;
            let run = self.taken.iter().take_while(|(other, _)| *other == slot);
            let events: Vec<_> = run.map(|(_, filtered)| filtered.clone()).collect();
            let written = self.live.write(&api, slot, &events, &mut self.out).await;
            self.told = events.last().map_or(self.told, |last| last.event.revision);
            self.taken.drain(..events.len());
            if let (Err(status), Some(id)) = (written, self.live.id(slot)) {
                self.fail(&id, status);
            }
        }
    }

    /// Ends the subscription of a cursor that cannot continue.
    fn on_lost_cursor(&mut self, slot: WatchSlot, lost: Lost) {
        let Some(id) = self.live.id(slot) else { return };
        match lost {
            Lost::Ended if self.api().cache.closed().is_cancelled() => self.end(),
            Lost::Ended => self.finish(&id),
            Lost::Expired { .. } => self.fail(&id, Status::expired(lost.to_string())),
            Lost::Failed(error) => self.fail(&id, Status::internal(error)),
        }
    }

    /// Ends a subscription normally. A bookmark precedes the end, so that the client can resume from there.
    fn finish(&mut self, id: &str) {
        self.bookmark();
        self.remove(id);
        self.send_frame(&StreamFrame::Ended { subscription: id.to_owned() });
    }

    /// Ends the stream gracefully.
    fn end(&mut self) {
        self.bookmark();
        self.ended = true;
    }

    /// Rights first, then the end of the stream and of single subscriptions, then the bookmark. The timer is set
    /// again at the end.
    fn tick(&mut self, now: Instant) {
        let api = Arc::clone(self.api());
        for (id, withdrawn) in self.live.recheck(&api, now) {
            match withdrawn {
                // All subscriptions of a stream have the same credentials.
                Revoked::Credentials => return self.end(),
                Revoked::Rights(status) => self.fail(&id, *status),
            }
        }
        if now >= self.deadline {
            return self.end();
        }
        self.live.due(now).iter().for_each(|id| self.finish(id));
        if self.next_bookmark <= now {
            self.next_bookmark = now + api.options.watch.bookmark_every;
            self.bookmark();
        }
        self.schedule();
    }

    /// Sends the common position of all subscriptions, if it has advanced.
    fn bookmark(&mut self) {
        if !self.taken.is_empty() {
            return;
        }
        if let Some(position) = self.live.settle().filter(|position| *position > self.told) {
            self.told = position;
            self.send_frame(&StreamFrame::Bookmark(position));
        }
    }

    /// A bookmark is wanted at a revision, or at the present if that is later.
    fn want_bookmark(&mut self, at: Revision) {
        let at = if at == Revision::ZERO { self.api().cache.position().get() } else { at };
        self.bookmark_at = Some(self.bookmark_at.map_or(at, |other| other.max(at)));
    }

    /// Sends the bookmark that is wanted, once everything up to its revision was sent.
    fn send_bookmark(&mut self) {
        let Some(at) = self.bookmark_at.take() else { return };
        let position = self.live.settle().map_or(at, |position| position.max(at));
        self.told = self.told.max(position);
        self.send_frame(&StreamFrame::Bookmark(position));
    }

    /// Sets the timer: to the next bookmark, to the next look at rights, to the end of a subscription or to that of the stream.
    fn schedule(&mut self) {
        let last = self.deadline - self.api().options.watch.bookmark_before_end;
        if self.next_bookmark > last && last > Instant::now() {
            self.next_bookmark = last;
        }
        let next = self.deadline.min(self.next_bookmark);
        let next = self.live.wakes().map_or(next, |wakes| next.min(wakes));
        self.timer.as_mut().reset(next);
    }
}
