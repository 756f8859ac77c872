//! [`UnreadAnswers`]: the bound on memory for responses that clients have not read yet.
//!
//! A response is held until it is written, which depends on the client: one HTTP/2 connection can request an object of a
//! megabyte a thousand times and read nothing. So the unread bytes of each user are counted, and further requests of a user
//! with too many unread bytes wait until some are read, or given up after [`crate::http::body::STALL`]. Other users are not
//! affected.
//!
//! A user of one namespace can create many ServiceAccounts, so the bytes of all users are counted as well. Beyond their bound a
//! user may only leave a little unread.
//!
//! The size of a response is known only once it is made. Responses that are made at the same time may exceed the bound together; seats
//! bound their number.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures::{StreamExt, stream};
use tokio::sync::Notify;

use crate::auth::UserShares;
use crate::fairness::UserTurns;
use crate::http::body::{Body, BodyPieces, Response};

/// Shorter responses are not counted: the stream that carries one takes as much.
const COUNTED_ABOVE: usize = 4 << 10;

/// The bytes that a user may leave unread whatever the others do: an object and the beginning of a list.
const SOME_UNREAD: usize = 2 << 20;

/// Counters of the bytes that were sent to clients and not read by them, per share of users. No answer is ever cut
/// short by them: they only delay the next request.
#[derive(Debug)]
pub(crate) struct UnreadAnswers {
    /// The bytes that one user may leave unread.
    share: usize,
    /// The bytes that a response in pieces holds at a time.
    piece: usize,
    all: Arc<UnreadOfAll>,
    shares: UserShares<Arc<UnreadShare>>,
}

/// The bytes that all users together have not read.
#[derive(Debug)]
struct UnreadOfAll {
    bound: usize,
    unread: AtomicUsize,
    /// Told when the count falls below the bound.
    read: Notify,
}

/// The bytes that one share of users has not read.
#[derive(Debug, Default)]
struct UnreadShare {
    unread: AtomicUsize,
    read: Notify,
}

/// Bytes that are counted until they are dropped.
#[derive(Debug)]
struct UnreadBytes {
    bytes: usize,
    share: Arc<UnreadShare>,
    all: Arc<UnreadOfAll>,
}

impl Drop for UnreadBytes {
    fn drop(&mut self) {
        self.share.unread.fetch_sub(self.bytes, Ordering::Release);
        self.share.read.notify_one();
        let before = self.all.unread.fetch_sub(self.bytes, Ordering::AcqRel);
        if before > self.all.bound && before - self.bytes <= self.all.bound {
            self.all.read.notify_waiters();
        }
    }
}

/// A response and its count.
struct CountedBytes {
    bytes: Bytes,
    _unread: UnreadBytes,
}

impl AsRef<[u8]> for CountedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl UnreadAnswers {
    /// One user may leave `share` bytes unread, and all together `all`; an answer in pieces holds `piece` bytes at a time.
    pub(crate) fn new(share: usize, all: usize, piece: usize) -> Self {
        let all = UnreadOfAll { bound: all, unread: AtomicUsize::new(0), read: Notify::new() };
        Self { share, piece, all: Arc::new(all), shares: UserShares::new(Arc::default) }
    }

    /// Returns true if the user has read enough of its earlier responses.
    pub(crate) fn has_room(&self, user: &str) -> bool {
        self.shares.of(user).is_none_or(|share| self.share_has_room(share))
    }

    fn share_has_room(&self, share: &UnreadShare) -> bool {
        let unread = share.unread.load(Ordering::Acquire);
        unread <= SOME_UNREAD.min(self.share)
            || (unread <= self.share && self.all.unread.load(Ordering::Acquire) <= self.all.bound)
    }

    /// Waits until the user has read enough of its earlier responses.
    pub(crate) async fn wait(&self, user: &str) {
        let Some(share) = self.shares.of(user) else { return };
        if self.share_has_room(share) {
            return;
        }
        loop {
            // Made before the look at the counts, so that no change in between is missed.
            let (of_user, of_all) = (share.read.notified(), self.all.read.notified());
            if self.share_has_room(share) {
                break;
            }
            tokio::select! {
                () = of_user => {}
                () = of_all => {}
            }
        }
        // There may be room for another one. Waking all of them each time would cost as many wake-ups as there are waiting
        // requests for every response that is read.
        share.read.notify_one();
    }

    /// Counts bytes of a share until they are dropped.
    fn unread(&self, bytes: usize, share: &Arc<UnreadShare>) -> UnreadBytes {
        share.unread.fetch_add(bytes, Ordering::Relaxed);
        self.all.unread.fetch_add(bytes, Ordering::Relaxed);
        UnreadBytes { bytes, share: Arc::clone(share), all: Arc::clone(&self.all) }
    }

    /// Counts an answer until it is written or given up. Each of its pieces takes a turn.
    pub(crate) fn count(
        &self,
        user: &str,
        response: Response,
        turns: impl FnOnce() -> UserTurns,
    ) -> Response {
        if !is_counted(response.body()) {
            return response;
        }
        let Some(share) = self.shares.of(user) else { return response };
        response.map(|body| match body {
            Body::Full(bytes) => {
                let unread = self.unread(bytes.len(), share);
                Body::Full(Bytes::from_owner(CountedBytes { bytes, _unread: unread }))
            }
            Body::Pieces(BodyPieces { stream, held }) => {
                let unread = self.unread(self.piece.max(held), share);
                let counted =
                    stream::unfold((stream, unread, turns()), |(mut stream, unread, turns)| async move {
                        turns.enter().await;
                        let piece = stream.next().await?;
                        Some((piece, (stream, unread, turns)))
                    });
                Body::Pieces(BodyPieces { stream: counted.boxed(), held })
            }
            other => other,
        })
    }
}

/// Most responses are short and need no look at the share of their user.
fn is_counted(body: &Body) -> bool {
    match body {
        Body::Full(bytes) => bytes.len() > COUNTED_ABOVE,
        Body::Pieces(_) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn full(bytes: usize) -> Response {
        Response::new(Body::Full(vec![b'x'; bytes].into()))
    }

    fn turns() -> UserTurns {
        UserTurns::unlimited()
    }

    fn pieces(held: usize) -> Body {
        Body::Pieces(BodyPieces { stream: stream::iter([Ok(Bytes::new())]).boxed(), held })
    }

    /// Lists count by what they hold: one in protobuf keeps up to 4 MB until it is read, and a thousand of them held gigabytes.
    #[tokio::test]
    async fn the_ready_piece_of_a_list_counts_as_unread() {
        let answers = UnreadAnswers::new(100_000, 1 << 30, 30_000);
        let _small = answers.count("a", Response::new(pieces(1000)), turns);
        assert!(answers.wait("a").now_or_never().is_some());
        let large = answers.count("a", Response::new(pieces(200_000)), turns);
        assert!(answers.wait("a").now_or_never().is_none());
        let wait = async { tokio::join!(answers.wait("a"), answers.wait("a"), answers.wait("a")) };
        tokio::join!(wait, async { drop(large) });
    }

    /// One connection held 800 MB: a thousand streams with an object of a megabyte each, none of which was read.
    #[tokio::test]
    async fn a_client_that_reads_nothing_gets_no_more_answers() {
        let answers = UnreadAnswers::new(100_000, 1 << 30, 30_000);
        let first = answers.count("a", full(90_000), turns);
        assert!(answers.wait("a").now_or_never().is_some(), "within the share");
        let pieces = pieces(0);
        let second = answers.count("a", Response::new(pieces), turns);
        assert!(answers.wait("a").now_or_never().is_none(), "one answer too many is not read");
        let others = (0..100).filter(|n| answers.wait(&format!("user {n}")).now_or_never().is_some());
        assert!(others.count() > 90, "others go on");
        let wait = answers.wait("a");
        let read = async { drop(first) };
        tokio::join!(wait, read);
        drop(second);
        assert_eq!(answers.shares.of("a").unwrap().unread.load(Ordering::Relaxed), 0);
    }

    /// 40 ServiceAccounts with 64 MiB of unread answers each: 3.4 GB.
    #[tokio::test]
    async fn many_users_leave_no_more_unread_than_a_few() {
        let answers = UnreadAnswers::new(10 << 20, 20 << 20, 0);
        let mut held = Vec::new();
        for n in 0..600 {
            let user = format!("user {}", n % 100);
            if answers.has_room(&user) {
                held.push(answers.count(&user, full(1 << 20), turns));
            }
        }
        let unread = answers.all.unread.load(Ordering::Relaxed);
        assert!(unread < 400 << 20, "{unread} of 600 MB");
        let user = "user 0";
        let waiting = async { (answers.wait(user).await, answers.has_room(user)) };
        assert!(answers.wait(user).now_or_never().is_none());
        let read = async { held.truncate(10) };
        assert!(tokio::join!(waiting, read).0.1, "it goes on when others have read");
    }

    #[tokio::test]
    async fn a_part_of_an_answer_counts_as_the_whole_while_it_is_held() {
        let answers = UnreadAnswers::new(10_000, 1 << 30, 0);
        let Body::Full(mut bytes) = answers.count("a", full(20_000), turns).into_body() else {
            panic!("whole")
        };
        let last = bytes.split_off(19_000);
        drop(bytes);
        assert!(answers.wait("a").now_or_never().is_none());
        drop(last);
        assert!(answers.wait("a").now_or_never().is_some());
    }
}
