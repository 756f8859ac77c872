//! [`UnreadAnswers`]: the bound on memory for responses that clients have not read yet.
//!
//! A response is held until it is written, which depends on the client: one HTTP/2 connection can request an object of a
//! megabyte a thousand times and read nothing. So the unread bytes of each user are counted, and further requests of a user
//! with too many unread bytes wait until some are read, or given up after [`crate::http::body::STALL`]. Other users are not
//! affected.
//!
//! The size of a response is known only once it is made. Responses that are made at the same time may exceed the bound
//! together; seats bound their number.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures::{StreamExt, stream};
use tokio::sync::Notify;

use crate::api::UserShares;
use crate::fairness::UserTurns;
use crate::http::body::{Body, BodyPieces, Response};

/// Shorter responses are not counted: the stream that carries one takes as much.
const COUNTED_ABOVE: usize = 4 << 10;

/// Counters of the bytes that were sent to clients and not read by them, per share of users. No response is ever cut
/// short by them: they only delay the next request.
#[derive(Debug)]
pub(crate) struct UnreadAnswers {
    /// The bytes that one user may leave unread.
    share: usize,
    /// The bytes that a response in pieces holds at a time.
    piece: usize,
    shares: UserShares<Arc<UnreadShare>>,
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
}

impl UnreadBytes {
    /// Counts the bytes until it is dropped.
    fn new(bytes: usize, share: &Arc<UnreadShare>) -> Self {
        share.unread.fetch_add(bytes, Ordering::Relaxed);
        Self { bytes, share: Arc::clone(share) }
    }
}

impl Drop for UnreadBytes {
    fn drop(&mut self) {
        self.share.unread.fetch_sub(self.bytes, Ordering::Release);
        self.share.read.notify_one();
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
    /// One user may leave `share` bytes unread; a response in pieces holds `piece` bytes at a time.
    pub(crate) fn new(share: usize, piece: usize) -> Self {
        Self { share, piece, shares: UserShares::new(Arc::default) }
    }

    /// Waits until the user has read enough of its earlier responses.
    pub(crate) async fn wait(&self, user: &str) {
        let Some(share) = self.shares.of(user) else { return };
        if share.unread.load(Ordering::Acquire) <= self.share {
            return;
        }
        while share.unread.load(Ordering::Acquire) > self.share {
            share.read.notified().await;
        }
        // There may be room for another one. Waking all of them each time would cost as many wake-ups as there are waiting
        // requests for every response that is read.
        share.read.notify_one();
    }

    /// Counts a response until it is written or given up. Each of its pieces takes a turn.
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
                let unread = UnreadBytes::new(bytes.len(), share);
                Body::Full(Bytes::from_owner(CountedBytes { bytes, _unread: unread }))
            }
            Body::Pieces(BodyPieces { stream, held }) => {
                let unread = UnreadBytes::new(self.piece.max(held), share);
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
        let answers = UnreadAnswers::new(100_000, 30_000);
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
        let answers = UnreadAnswers::new(100_000, 30_000);
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

    #[tokio::test]
    async fn a_part_of_an_answer_counts_as_the_whole_while_it_is_held() {
        let answers = UnreadAnswers::new(10_000, 0);
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
