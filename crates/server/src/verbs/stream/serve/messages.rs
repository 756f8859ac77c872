//! Messages of the client: it adds or ends subscriptions and requests bookmarks.
//!
//! A subscription is looked up in all its stages: requested, being admitted, beginning, and live.

use listwatch_wire::stream::{ClientMessage, StreamFrame, Subscription};
use listwatch_wire::{Revision, Status};

use super::ServedStream;
use crate::request::selectors::parse_version;
use crate::verbs::stream::admit::{check_id, watches};

impl ServedStream {
    /// Applies a message of the client.
    pub(super) fn take_message(&mut self, message: ClientMessage) {
        for id in message.unsubscribe {
            match self.remove(&id) {
                true => self.send_frame(&StreamFrame::Ended { subscription: id }),
                false => self.send_frame(&StreamFrame::Error(Box::new(Status::not_found(
                    "",
                    "subscriptions",
                    &id,
                )))),
            }
        }
        for asked in message.subscribe {
            self.subscribe(asked);
        }
        match message.bookmark.as_deref().map(parse_version) {
            None => {}
            Some(Ok(at)) => self.want_bookmark(at.unwrap_or(Revision::ZERO)),
            Some(Err(status)) => self.send_frame(&StreamFrame::Error(Box::new(status))),
        }
        self.admit_next();
    }

    /// Begins a subscription. An identifier that is taken, and one too many, are answered with an error and change
    /// nothing.
    pub(super) fn subscribe(&mut self, asked: Subscription) {
        // The error names no subscription: a client would take it for the end of the one that has this identifier.
        if let Err(status) = check_id(&asked.id) {
            return self.send_frame(&StreamFrame::Error(Box::new(status)));
        }
        if self.contains(&asked.id) {
            let status = Status::already_exists("", "subscriptions", &asked.id);
            return self.send_frame(&StreamFrame::Error(Box::new(status)));
        }
        let most = self.api().options.stream.watches;
        if self.count() + watches(&asked) > most {
            let text = format!("a stream carries at most {most} watches");
            return self.fail(&asked.id, Status::too_many_requests(text, 0));
        }
        self.wanted.push_back(asked);
    }

    /// In any stage: an id is in use from its message until its end is sent.
    pub(super) fn contains(&self, id: &str) -> bool {
        self.live.contains(id)
            || self.wanted.iter().any(|asked| asked.id == id)
            || self.admitting.as_ref().is_some_and(|admitting| admitting.id == id)
            || self.starting.iter().any(|starting| &*starting.id == id)
    }

    /// The number of watches in all stages.
    pub(super) fn count(&self) -> usize {
        let wanted: usize = self.wanted.iter().map(watches).sum();
        let admitting = self.admitting.as_ref().map_or(0, |admitting| admitting.watches);
        self.live.count() + wanted + admitting + self.starting.len()
    }

    /// Removes a subscription in any stage. Returns false if there is none.
    pub(super) fn remove(&mut self, id: &str) -> bool {
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
    pub(super) fn fail(&mut self, id: &str, status: Status) {
        self.remove(id);
        self.send_frame(&StreamFrame::Failed { subscription: id.to_owned(), status: Box::new(status) });
    }
}
