//! [`BodyMemory`]: the bound on memory for request bodies, for all users together and per user.
//!
//! A body is read before its request waits for a seat, so seats do not bound bodies, and one HTTP/2 connection could send
//! a thousand. A request beyond the bound waits before its first byte is read. Memory for a whole body is reserved at
//! once, so that partly read bodies never wait for each other; it is held until the response.
//!
//! A body that does not come takes memory as well as one that does, and a user of one namespace can create many
//! ServiceAccounts. So the bound alone would let a few hundred idle requests stop all writes. While requests wait, bodies
//! that are slow to arrive are given up (429), of the users with most memory first, and the user with the least is next
//! ([`ledger`]).
//!
//! Waiting bodies are bounded, too: an HTTP/2 connection receives a part of a body before anybody reads it.

mod ledger;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use listwatch_wire::Status;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use self::ledger::{Full, Ledger};
use crate::options::RequestLimits;

/// The interval at which a waiting request looks for bodies that are slow to arrive.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Memory for request bodies.
#[derive(Debug)]
pub(crate) struct BodyMemory {
    ledger: Arc<Mutex<Ledger>>,
}

/// Memory for one body, or a place in the queue for it; given back when dropped.
#[derive(Debug)]
pub(crate) struct BodyReservation {
    ledger: Arc<Mutex<Ledger>>,
    user: Arc<str>,
    id: u64,
    /// Cancelled when the body is given up.
    given_up: CancellationToken,
}

/// A body that waits unread for something other than memory; no longer counted when dropped.
#[derive(Debug)]
pub(crate) struct UnreadBody {
    ledger: Arc<Mutex<Ledger>>,
    who: Arc<str>,
    bytes: usize,
}

impl BodyMemory {
    /// Memory of [`RequestLimits::bodies_bytes`].
    pub(crate) fn new(limits: &RequestLimits) -> Self {
        Self { ledger: Arc::new(Mutex::new(Ledger::new(limits, Instant::now()))) }
    }

    /// Waits for memory of a user for a body of at most `bytes`; `None` if it needs none.
    ///
    /// # Errors
    /// 429 if too many bodies wait already.
    pub(crate) async fn enter(&self, user: &str, bytes: usize) -> Result<Option<BodyReservation>, Status> {
        if bytes == 0 {
            return Ok(None);
        }
        let (user, given_up) = (Arc::from(user), CancellationToken::new());
        let (id, granted) =
            self.ledger.lock().ask(&user, bytes, &given_up, Instant::now()).map_err(too_many_wait)?;
        let reservation = BodyReservation { ledger: Arc::clone(&self.ledger), user, id, given_up };
        let Some(mut granted) = granted else { return Ok(Some(reservation)) };
        loop {
            tokio::select! {
                _ = &mut granted => return Ok(Some(reservation)),
                () = sleep(LOOK_EVERY) => self.ledger.lock().give_up_slow_ones(Instant::now()),
            }
        }
    }

    /// Counts a body that waits for something else, unread: `who` is its user, or the address of a client that is not
    /// authenticated yet.
    ///
    /// # Errors
    /// 429 if too many bodies wait already.
    pub(crate) fn unread(&self, who: &str, bytes: usize) -> Result<UnreadBody, Status> {
        let who = Arc::from(who);
        let bytes = self.ledger.lock().add_unread(&who, bytes).map_err(too_many_wait)?;
        Ok(UnreadBody { ledger: Arc::clone(&self.ledger), who, bytes })
    }
}

/// The answer to a request whose body cannot even wait.
fn too_many_wait(Full: Full) -> Status {
    Status::too_many_requests("too many request bodies are waiting", 1)
}

impl BodyReservation {
    /// Reads the body, unless it is slow to arrive while others wait.
    ///
    /// # Errors
    /// 429 if it is given up, and the errors of reading.
    pub(crate) async fn read<T>(
        &self,
        reading: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, Status> {
        let read = tokio::select! {
            biased;
            read = reading => read,
            () = self.given_up.cancelled() => {
                Err(Status::too_many_requests("the request body was slow to arrive while others waited for memory", 1))
            }
        };
        self.ledger.lock().arrived(&self.user, self.id);
        read
    }
}

impl Drop for BodyReservation {
    fn drop(&mut self) {
        self.ledger.lock().give_back(&self.user, self.id, Instant::now());
    }
}

impl Drop for UnreadBody {
    fn drop(&mut self) {
        self.ledger.lock().remove_unread(&self.who, self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use futures::FutureExt;

    use super::*;

    const MB: usize = 1 << 20;

    fn memory(all: usize, share: usize) -> BodyMemory {
        BodyMemory::new(&RequestLimits {
            bodies_bytes: all,
            user_bodies_bytes: share,
            ..RequestLimits::default()
        })
    }

    /// A body that does not come, until it is given up.
    async fn stalled(memory: &BodyMemory, user: &str, bytes: usize) -> Result<(), Status> {
        let Some(reservation) = memory.enter(user, bytes).await? else { return Ok(()) };
        reservation.read(pending()).await
    }

    async fn arriving_for(seconds: u64) -> Result<(), Status> {
        sleep(Duration::from_secs(seconds)).await;
        Ok(())
    }

    #[tokio::test]
    async fn one_user_cannot_take_the_room_of_the_others() {
        let bodies = memory(30, 10);
        let first = bodies.enter("a", 8).await.unwrap();
        assert!(bodies.enter("a", 3).now_or_never().is_none(), "the share of a is used up");
        let others: Vec<String> = (0..100).map(|n| format!("user {n}")).collect();
        let entered = others.iter().filter_map(|user| bodies.enter(user, 3).now_or_never());
        assert_eq!(entered.map(Result::unwrap).take(7).count(), 7, "others have room");
        drop(first);
        assert!(bodies.enter("a", 10).now_or_never().unwrap().unwrap().is_some(), "given back");
        assert!(bodies.enter("a", 0).await.unwrap().is_none(), "no body, no room");
    }

    /// 136 idle requests of eight ServiceAccounts stopped all writes of the cluster for a minute at a time.
    #[tokio::test(start_paused = true)]
    async fn bodies_that_do_not_come_give_way() {
        let bodies = Arc::new(memory(256 * MB, 48 * MB));
        for n in 0..200 {
            let bodies = Arc::clone(&bodies);
            tokio::spawn(async move {
                loop {
                    let refused = stalled(&bodies, &format!("sa{}", n % 10), 3 * MB).await.unwrap_err();
                    assert_eq!(refused.code, 429);
                }
            });
        }
        sleep(Duration::from_secs(5)).await;
        for size in [1, 1000, MB, 3 * MB] {
            let began = Instant::now();
            let mine = bodies.enter("me", size).await.unwrap();
            assert!(began.elapsed() < Duration::from_secs(2), "{size}: {:?}", began.elapsed());
            drop(mine);
        }
    }

    /// Slow bodies are legitimate while nobody waits, and among equals for a while.
    #[tokio::test(start_paused = true)]
    async fn slow_bodies_have_time_while_nobody_needs_their_memory() {
        let bodies = memory(10, 10);
        let slow = bodies.enter("a", 6).await.unwrap().unwrap();
        let read = slow.read(arriving_for(50));
        assert!(read.await.is_ok(), "nobody waits");
        drop(slow);
        let slow = bodies.enter("a", 6).await.unwrap().unwrap();
        let read = async move { slow.read(arriving_for(5)).await };
        let began = Instant::now();
        let (read, entered) = tokio::join!(read, bodies.enter("b", 6));
        assert!(read.is_ok() && entered.unwrap().is_some(), "b needs as much as a has");
        assert_eq!(began.elapsed(), Duration::from_secs(5));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_has_arrived_is_not_given_up() {
        let bodies = memory(10, 10);
        let held = bodies.enter("a", 10).await.unwrap().unwrap();
        held.read(async { Ok(()) }).await.unwrap();
        let other = tokio::time::timeout(Duration::from_secs(30), bodies.enter("b", 1));
        assert!(other.await.is_err() && !held.given_up.is_cancelled());
        drop(held);
        assert!(bodies.enter("b", 10).now_or_never().unwrap().unwrap().is_some(), "no place is left behind");
    }

    /// 40 bodies of 256 KiB on each of 150 HTTP/2 connections, all waiting for memory: 830 MB were received.
    #[tokio::test]
    async fn waiting_bodies_are_bounded() {
        let bodies = memory(256 * MB, 48 * MB);
        let mut held = Vec::new();
        for _ in 0..16 {
            held.push(bodies.enter("a", 3 * MB).await.unwrap());
        }
        let mut waiting: Vec<_> = (0..1000).map(|_| Box::pin(bodies.enter("a", 3 * MB))).collect();
        let refused = waiting.iter_mut().filter_map(|body| body.now_or_never()?.err()).count();
        assert_eq!(refused, 1000 - 192);
        assert!(bodies.unread("a", 1000).is_err());
        assert!(bodies.unread("b", 1000).is_ok() && bodies.enter("b", 1000).now_or_never().is_some());
        drop(waiting);
        assert!(bodies.unread("a", 1000).is_ok(), "no longer");
        drop(held);
        assert!(bodies.ledger.lock().is_empty());
    }
}
