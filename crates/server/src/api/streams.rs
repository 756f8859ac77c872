//! [`OpenStreams`]: the open streams of many watches, found by their identifiers when their subscriptions are changed.
//!
//! A change comes in a request of its own, on any connection, so the stream must be found by name; the identifier is
//! unguessable and bound to the user. The streams themselves are `verbs/stream`; this holds a sender to each until the
//! stream ends.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use listwatch_wire::stream::ClientMessage;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::auth::User;

/// The open streams by their identifier. A stream is in it exactly as long as its [`StreamTicket`] exists.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenStreams(Arc<Mutex<HashMap<String, Arc<StreamInbox>>>>);

/// The messages of a client that wait until its stream gets to them. Bounded: a client that sends faster than the
/// stream takes is refused.
#[derive(Debug)]
pub(crate) struct StreamInbox {
    /// Name and uid of the user. Groups and the rest may change while credentials are renewed.
    owner: [String; 2],
    waiting: Mutex<VecDeque<ClientMessage>>,
    /// The most of them.
    room: usize,
    arrived: Notify,
}

/// The inbox is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many messages wait for the stream")]
pub(crate) struct InboxFull;

/// Held by a stream as long as it lasts. Dropping it makes the identifier unknown.
#[derive(Debug)]
pub(crate) struct StreamTicket {
    pub(crate) id: String,
    pub(crate) inbox: Arc<StreamInbox>,
    streams: OpenStreams,
}

impl OpenStreams {
    /// Registers a stream of this user, whose inbox holds at most `room` messages. Its identifier cannot be guessed.
    pub(crate) fn open(&self, user: &User, room: usize) -> StreamTicket {
        let inbox = Arc::new(StreamInbox {
            owner: [user.name.clone(), user.uid.clone()],
            waiting: Mutex::default(),
            room,
            arrived: Notify::new(),
        });
        let id = uuid::Uuid::new_v4().to_string();
        self.0.lock().insert(id.clone(), Arc::clone(&inbox));
        StreamTicket { id, inbox, streams: self.clone() }
    }

    /// The inbox of a stream, for the user who has opened it.
    pub(crate) fn find(&self, id: &str, user: &User) -> Option<Arc<StreamInbox>> {
        let inbox = self.0.lock().get(id).cloned()?;
        (inbox.owner == [user.name.as_str(), user.uid.as_str()]).then_some(inbox)
    }
}

impl Drop for StreamTicket {
    fn drop(&mut self) {
        self.streams.0.lock().remove(&self.id);
    }
}

impl StreamInbox {
    /// Queues a message.
    pub(crate) fn put(&self, message: ClientMessage) -> Result<(), InboxFull> {
        let mut waiting = self.waiting.lock();
        if waiting.len() >= self.room {
            return Err(InboxFull);
        }
        waiting.push_back(message);
        drop(waiting);
        self.arrived.notify_one();
        Ok(())
    }

    /// True if another message fits.
    pub(crate) fn has_room(&self) -> bool {
        self.waiting.lock().len() < self.room
    }

    /// Waits for the next message, for one task at a time. Dropping the future loses nothing.
    pub(crate) async fn next(&self) -> ClientMessage {
        loop {
            if let Some(message) = self.waiting.lock().pop_front() {
                return message;
            }
            self.arrived.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str) -> User {
        User { name: name.to_owned(), ..User::default() }
    }

    #[test]
    fn a_stream_is_found_by_its_user_as_long_as_it_lasts() {
        let streams = OpenStreams::default();
        let ticket = streams.open(&user("alice"), 1);
        assert!(streams.find(&ticket.id, &user("alice")).is_some());
        assert!(streams.find(&ticket.id, &user("bob")).is_none());
        assert!(streams.find("another", &user("alice")).is_none());
        let id = ticket.id.clone();
        drop(ticket);
        assert!(streams.find(&id, &user("alice")).is_none());
    }

    #[tokio::test]
    async fn an_inbox_has_a_bound() {
        let ticket = OpenStreams::default().open(&user("alice"), 1);
        assert_eq!(ticket.inbox.put(ClientMessage::default()), Ok(()));
        assert_eq!(ticket.inbox.put(ClientMessage::default()), Err(InboxFull));
        ticket.inbox.next().await;
        assert!(ticket.inbox.has_room());
    }
}
