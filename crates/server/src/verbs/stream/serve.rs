//! [`ServedStream`]: the body of a stream of many watches.
//!
//! It takes messages, admits subscriptions one after the other, begins them, and writes the events of all in the order of revisions.
//! A subscription whose initial state is asked for begins at the revision of that state: what the others have up to there comes
//! before it, what they have afterwards comes behind it.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::future::{BoxFuture, pending};
use http::StatusCode;
use listwatch_wire::stream::{
    ClientMessage, StreamFrame, StreamHead, Subscription, SubscriptionStart, enclose, event_prefix,
};
use listwatch_wire::{Revision, Status};
use smallvec::smallvec;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::api::Api;
use crate::api::streams::StreamTicket;
use crate::auth::Withdrawn;
use crate::cache::{Lost, Portion, SlotSight, WatchSlot};
use crate::http::body::{FrameBytes, WatchBody};
use crate::http::gzip::GzipMember;
use crate::observe::{LastingRequest, RequestSeries};
use crate::request::selectors::parse_version;
use crate::verbs::stream::admit::{AdmittedWatch, StreamAdmission, check_id, watches};
use crate::verbs::stream::subscriptions::{JoiningWatch, Subscriptions};
use crate::verbs::watch::plan::{BegunWatch, duration, recheck};

/// No revision is as late.
const END: Revision = Revision(u64::MAX);

/// A stream being served.
///
/// Bounds: `StreamLimits::watches` watches in all stages together, `waiting_messages` messages that were not looked
/// at, one portion of events taken and not written.
pub(super) struct ServedStream {
    admission: StreamAdmission,
    ticket: StreamTicket,
    live: Subscriptions,
    /// Subscriptions that nobody has looked at yet.
    wanted: VecDeque<Subscription>,
    admitting: Option<Admitting>,
    /// Watches that may begin, in this order.
    starting: VecDeque<StartingWatch>,
    /// Events that were taken and are not written yet.
    taken: VecDeque<SlotSight>,
    /// Frames on their way out.
    out: BytesMut,
    /// Goes off when something is due.
    timer: Pin<Box<Sleep>>,
    deadline: Instant,
    next_bookmark: Instant,
    /// The newest revision that the client has been told.
    told: Revision,
    /// A bookmark is wanted as soon as everything up to here was sent.
    bookmark_at: Option<Revision>,
    ended: bool,
    gzip: Option<GzipMember>,
    /// The request, counted when the stream ends.
    request: Option<LastingRequest>,
}

/// A subscription that is being admitted.
struct Admitting {
    id: String,
    watches: usize,
    outcome: BoxFuture<'static, Result<Vec<AdmittedWatch>, Status>>,
}

/// One watch of a subscription that may begin.
struct StartingWatch {
    id: Arc<str>,
    watch: AdmittedWatch,
    /// It is the first, or the last, of its subscription.
    first: bool,
    last: bool,
    /// Set once its turn has come.
    begun: Option<BegunWatch>,
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

    fn receive(&mut self, message: Bytes) {
        let received = ClientMessage::parse(&message).map_err(Status::bad_request).and_then(|message| {
            self.ticket.inbox.put(message).map_err(|full| Status::too_many_requests(full.to_string(), 1))
        });
        if let Err(status) = received {
            self.say(&StreamFrame::Error(Box::new(status)));
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
        stream.say(&StreamFrame::Stream(head));
        if let Some(first) = first {
            stream.take_message(first);
        }
        stream.schedule();
        stream
    }

    fn api(&self) -> &Arc<Api> {
        &self.admission.api
    }

    fn say(&mut self, frame: &StreamFrame) {
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

    /// Does the next thing there is to do. Dropping the future loses nothing.
    async fn step(&mut self) {
        if !self.taken.is_empty() {
            self.write_taken().await;
        } else if !self.starting.is_empty() {
            self.start().await;
        } else {
            self.wait().await;
        }
    }

    /// Waits for whatever comes first.
    ///
    /// `biased`, so that the end, rights and messages are looked at before events, of which there may always be more.
    async fn wait(&mut self) {
        let (portion, until) = (self.portion(), self.bookmark_at.unwrap_or(END));
        let api = Arc::clone(self.api());
        tokio::select! {
            biased;
            () = api.cache.closed().cancelled() => self.end(),
            // Before events: rights are looked at again however many there are.
            () = self.timer.as_mut() => self.tick(Instant::now()),
            message = self.ticket.inbox.next() => self.take_message(message),
            admitted = admitted(&mut self.admitting) => self.admitted(admitted),
            events = self.live.next(portion, until) => match events {
                Ok(events) if events.is_empty() => self.tell_position(),
                events => self.take(events),
            },
        }
    }

    fn portion(&self) -> Portion {
        let limits = &self.api().options.watch;
        Portion { events: limits.batch_events, bytes: limits.batch_bytes }
    }

    fn take(&mut self, events: Result<Vec<SlotSight>, (WatchSlot, Lost)>) {
        match events {
            Ok(events) => self.taken.extend(events),
            Err((slot, lost)) => self.lose(slot, lost),
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
            let sights: Vec<_> = run.map(|(_, sight)| sight.clone()).collect();
            let written = self.live.write(&api, slot, &sights, &mut self.out).await;
            self.told = sights.last().map_or(self.told, |last| last.event.revision);
            self.taken.drain(..sights.len());
            if let (Err(status), Some(id)) = (written, self.live.id(slot)) {
                self.fail(&id, status);
            }
        }
    }

    /// Takes note of what the client wants.
    fn take_message(&mut self, message: ClientMessage) {
        for id in message.unsubscribe {
            match self.remove(&id) {
                true => self.say(&StreamFrame::Ended { subscription: id }),
                false => self.say(&StreamFrame::Error(Box::new(Status::not_found("", "subscriptions", &id)))),
            }
        }
        for asked in message.subscribe {
            self.subscribe(asked);
        }
        match message.bookmark.as_deref().map(parse_version) {
            None => {}
            Some(Ok(at)) => self.want_bookmark(at.unwrap_or(Revision::ZERO)),
            Some(Err(status)) => self.say(&StreamFrame::Error(Box::new(status))),
        }
        self.admit_next();
    }

    /// Counts watches of all stages before it accepts one, so that a message cannot exceed the bound by being fast.
    fn subscribe(&mut self, asked: Subscription) {
        // Not in the name of the subscription: it would seem that the one that has it already has ended.
        if let Err(status) = check_id(&asked.id) {
            return self.say(&StreamFrame::Error(Box::new(status)));
        }
        if self.contains(&asked.id) {
            let status = Status::already_exists("", "subscriptions", &asked.id);
            return self.say(&StreamFrame::Error(Box::new(status)));
        }
        let most = self.api().options.stream.watches;
        if self.count() + watches(&asked) > most {
            let text = format!("a stream carries at most {most} watches");
            return self.fail(&asked.id, Status::too_many_requests(text, 0));
        }
        self.wanted.push_back(asked);
    }

    fn contains(&self, id: &str) -> bool {
        self.live.contains(id)
            || self.wanted.iter().any(|asked| asked.id == id)
            || self.admitting.as_ref().is_some_and(|admitting| admitting.id == id)
            || self.starting.iter().any(|starting| &*starting.id == id)
    }

    /// The number of watches, of whatever stage.
    fn count(&self) -> usize {
        let wanted: usize = self.wanted.iter().map(watches).sum();
        let admitting = self.admitting.as_ref().map_or(0, |admitting| admitting.watches);
        self.live.count() + wanted + admitting + self.starting.len()
    }

    /// Removes a subscription, whatever its stage. Returns false if there is none.
    fn remove(&mut self, id: &str) -> bool {
        let known = self.contains(id);
        self.live.remove(id);
        self.wanted.retain(|asked| asked.id != id);
        self.starting.retain(|starting| &*starting.id != id);
        if self.admitting.take_if(|admitting| admitting.id == id).is_some() {
            self.admit_next();
        }
        known
    }

    /// Ends a subscription for a reason.
    fn fail(&mut self, id: &str, status: Status) {
        self.remove(id);
        self.say(&StreamFrame::Failed { subscription: id.to_owned(), status: Box::new(status) });
    }

    /// One at a time, and in order.
    fn admit_next(&mut self) {
        if self.admitting.is_some() {
            return;
        }
        let Some(asked) = self.wanted.pop_front() else { return };
        let (id, watches) = (asked.id.clone(), watches(&asked));
        let outcome = Box::pin(self.admission.clone().admit(asked));
        self.admitting = Some(Admitting { id, watches, outcome });
    }

    fn admitted(&mut self, (id, outcome): (String, Result<Vec<AdmittedWatch>, Status>)) {
        self.admitting = None;
        match outcome {
            Ok(watches) => {
                let (id, last): (Arc<str>, _) = (id.into(), watches.len().saturating_sub(1));
                let starting = watches.into_iter().enumerate().map(|(n, watch)| StartingWatch {
                    id: Arc::clone(&id),
                    watch,
                    first: n == 0,
                    last: n == last,
                    begun: None,
                });
                self.starting.extend(starting);
            }
            Err(status) => self.fail(&id, status),
        }
        self.admit_next();
    }

    /// Goes on with beginning the first of the watches that may begin.
    ///
    /// Returns after each piece, so that a large initial state does not keep messages from being read.
    async fn start(&mut self) {
        let (api, portion) = (Arc::clone(self.api()), self.portion());
        let Some(starting) = self.starting.front_mut() else { return };
        let begun =
            starting.begun.get_or_insert_with(|| starting.watch.plan.begin(&api, &starting.watch.target));
        let Some(initial) = &mut begun.initial else { return self.join(false) };
        // What the others have up to the revision of the state comes first.
        match self.live.next(portion, initial.revision).await {
            Ok(events) if events.is_empty() => {}
            events => return self.take(events),
        }
        if std::mem::take(&mut starting.first) {
            started(starting, &mut self.out);
        }
        let Some(BegunWatch { writer, initial: Some(initial), .. }) = &mut starting.begun else { return };
        initial.end_bookmark = starting.last;
        match writer.initial(&api, initial).await {
            Ok(lines) => {
                enclose(&event_prefix(&starting.id), &lines, &mut self.out);
                writer.sent(&[lines.freeze()], initial.revision);
                if initial.done {
                    self.join(true);
                }
            }
            Err(status) => {
                let id = Arc::clone(&starting.id);
                self.fail(&id, status);
            }
        }
    }

    /// The first of the watches that may begin joins the others.
    fn join(&mut self, complete: bool) {
        let Some(mut starting) = self.starting.pop_front() else { return };
        if std::mem::take(&mut starting.first) {
            started(&starting, &mut self.out);
        }
        let StartingWatch { id, watch, begun: Some(begun), .. } = starting else { return };
        let guard = recheck(self.api(), &watch.target);
        let deadline = watch.plan.timeout.map(|timeout| Instant::now() + timeout);
        let BegunWatch { cursor, writer, position, .. } = begun;
        self.live.join(JoiningWatch { id, cursor, writer, guard, deadline });
        self.told = if complete { self.told.max(position) } else { self.told };
        if !complete {
            // It tells the client that the past is over.
            self.want_bookmark(Revision::ZERO);
        }
        self.schedule();
    }

    /// A cursor cannot go on.
    fn lose(&mut self, slot: WatchSlot, lost: Lost) {
        let Some(id) = self.live.id(slot) else { return };
        match lost {
            Lost::Ended if self.api().cache.closed().is_cancelled() => self.end(),
            Lost::Ended => self.finish(&id),
            Lost::Expired { .. } => self.fail(&id, Status::expired(lost.to_string())),
            Lost::Failed(error) => self.fail(&id, Status::internal(error)),
        }
    }

    /// Ends a subscription in good order. A bookmark comes before, so that the client goes on from there.
    fn finish(&mut self, id: &str) {
        self.bookmark();
        self.remove(id);
        self.say(&StreamFrame::Ended { subscription: id.to_owned() });
    }

    /// Ends the stream in good order.
    fn end(&mut self) {
        self.bookmark();
        self.ended = true;
    }

    fn tick(&mut self, now: Instant) {
        let api = Arc::clone(self.api());
        for (id, withdrawn) in self.live.recheck(&api, now) {
            match withdrawn {
                // All of the stream has begun with them.
                Withdrawn::Credentials => return self.end(),
                Withdrawn::Rights(status) => self.fail(&id, *status),
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

    /// Tells how far all subscriptions are, if that is news.
    ///
    /// Only if every event that was taken has been written: a bookmark promises that nothing before it will come.
    fn bookmark(&mut self) {
        if !self.taken.is_empty() {
            return;
        }
        if let Some(position) = self.live.settle().filter(|position| *position > self.told) {
            self.told = position;
            self.say(&StreamFrame::Bookmark(position));
        }
    }

    /// A bookmark is wanted at a revision, or at the present if that is later.
    fn want_bookmark(&mut self, at: Revision) {
        let at = if at == Revision::ZERO { self.api().cache.position().get() } else { at };
        self.bookmark_at = Some(self.bookmark_at.map_or(at, |other| other.max(at)));
    }

    /// Everything up to the revision at which a bookmark is wanted was sent.
    fn tell_position(&mut self) {
        let Some(at) = self.bookmark_at.take() else { return };
        let position = self.live.settle().map_or(at, |position| position.max(at));
        self.told = self.told.max(position);
        self.say(&StreamFrame::Bookmark(position));
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

/// The outcome of the admission that is under way, if one is.
async fn admitted(admitting: &mut Option<Admitting>) -> (String, Result<Vec<AdmittedWatch>, Status>) {
    match admitting {
        Some(Admitting { id, outcome, .. }) => (id.clone(), outcome.as_mut().await),
        None => pending().await,
    }
}

/// Says that a subscription begins.
fn started(starting: &StartingWatch, out: &mut BytesMut) {
    let Some(begun) = &starting.begun else { return };
    let start = SubscriptionStart {
        resource_version: begun.position.to_string(),
        content_type: starting.watch.plan.form.stream_type().to_owned(),
    };
    StreamFrame::Started { subscription: starting.id.to_string(), start }.write(out);
}
