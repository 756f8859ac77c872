//! [`BlockingPool`] and [`UserPool`]: work that would block the async workers runs on separate threads.
//!
//! A worker that is busy with one large object serves no other request in that time, health checks included. Small work is
//! not worth a change of threads; large work moves to the pool, a bounded number of pieces at a time, and the kernel
//! schedules those threads beside the workers.
//!
//! A thread is held only while there is something to compute. Work that waits for a webhook or the store releases it, and
//! so does long work between its steps ([`pause`]): then other work can run, and work whose request was cancelled ends.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use listwatch_wire::Status;
use listwatch_wire::status::StatusReason;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::auth::UserShares;
use crate::fairness::UserTurns;

/// The bounded number of blocking threads for work on large objects.
///
/// Work takes a place of its user's share first and a thread then, so that a user with many large objects waits for
/// itself and leaves threads to the others.
#[derive(Debug)]
pub(crate) struct BlockingPool {
    above: usize,
    room: Arc<Semaphore>,
    shares: UserShares<Arc<Semaphore>>,
}

impl BlockingPool {
    /// Takes work on more than `above` bytes, at most `threads` pieces at a time, of which one user has all but one: the
    /// next request waits for one piece of each other user, not for all pending work of one of them.
    pub(crate) fn new(above: usize, threads: usize) -> Self {
        let room = Arc::new(Semaphore::new(threads.max(1)));
        let share = threads.saturating_sub(1).max(1);
        Self { above, room, shares: UserShares::new(|| Arc::new(Semaphore::new(share))) }
    }

    /// Returns true if work on that many bytes belongs here.
    pub(crate) fn takes(&self, bytes: usize) -> bool {
        bytes > self.above
    }

    /// The threads as a user may use them.
    pub(crate) fn of(&self, user: &str, turns: UserTurns) -> UserPool {
        let share = self.shares.of(user).unwrap_or(&self.room);
        UserPool { above: self.above, room: Arc::clone(&self.room), share: Arc::clone(share), turns }
    }
}

/// The threads for large objects, as one user may use them. Made per request; it holds handles only.
#[derive(Clone, Debug)]
pub(crate) struct UserPool {
    above: usize,
    room: Arc<Semaphore>,
    share: Arc<Semaphore>,
    /// The queue for work that is too short for a thread and too long to be done in one poll.
    pub(crate) turns: UserTurns,
}

type BlockingWork<T> = Pin<Box<dyn Future<Output = Result<T, Status>> + Send>>;

impl UserPool {
    /// Returns true if work on that many bytes belongs here.
    pub(crate) fn takes(&self, bytes: usize) -> bool {
        bytes > self.above
    }

    /// Runs work in the pool, once there is room. A panic is passed on. If this is dropped, the work ends where it next waits
    /// or [pauses](pause).
    ///
    /// # Errors
    /// The error of the work; 503 if the server is shutting down.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Status>> + Send + 'static,
    ) -> Result<T, Status> {
        // Nested work runs on a blocking thread already. A second thread could deadlock with the one that waits for it.
        if INSIDE.get() {
            return work.await;
        }
        let woken = Arc::new(Woken(Notify::new()));
        let mut work: BlockingWork<T> = Box::pin(work);
        loop {
            self.turns.wait_for_share().await;
            let permits = self.enter().await?;
            let waker = Waker::from(Arc::clone(&woken));
            let turns = self.turns.clone();
            let polled = tokio::task::spawn_blocking(move || {
                let _permits = permits;
                turns.counted(|| poll_inside(work, &waker))
            });
            match polled.await {
                Ok((_, Poll::Ready(result))) => return result,
                Ok((same, Poll::Pending)) => work = same,
                Err(error) => match error.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    Err(_) => return Err(shutting_down()),
                },
            }
            woken.0.notified().await;
        }
    }

    /// A place among those of the user, then one of all. Both queues are in the order of asking.
    async fn enter(&self) -> Result<[OwnedSemaphorePermit; 2], Status> {
        let own = Arc::clone(&self.share).acquire_owned().await.map_err(|_| shutting_down())?;
        let room = Arc::clone(&self.room).acquire_owned().await.map_err(|_| shutting_down())?;
        Ok([own, room])
    }
}

/// The pool takes nothing more when the server ends.
fn shutting_down() -> Status {
    Status::failure(503, StatusReason::ServiceUnavailable, "the server is shutting down")
}

/// Wakes the task that waits for the work rather than the thread that it ran on.
struct Woken(Notify);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

thread_local! {
    /// True on a thread that is computing for [`UserPool::run`].
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Polls a piece of work on a blocking thread, marked as such, so that work inside it does not ask for another
/// thread.
fn poll_inside<T>(mut work: BlockingWork<T>, waker: &Waker) -> (BlockingWork<T>, Poll<Result<T, Status>>) {
    /// Threads are used again, after a panic too.
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            INSIDE.set(false);
        }
    }
    INSIDE.set(true);
    let _leave = Leave;
    let polled = work.as_mut().poll(&mut Context::from_waker(waker));
    (work, polled)
}

/// Yields between two steps of work on a large object, so that other work can run; the work ends here if its request was
/// dropped. Free for small objects.
pub(crate) async fn pause() {
    if INSIDE.get() {
        tokio::task::yield_now().await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use super::*;

    fn of(threads: &BlockingPool, user: &str) -> UserPool {
        threads.of(user, UserTurns::unlimited())
    }

    #[tokio::test]
    async fn work_waits_for_room_and_leaves_the_worker_alone() {
        let threads = BlockingPool::new(10, 2);
        assert!(threads.takes(11) && !threads.takes(10));
        let running = Arc::new(Semaphore::new(2));
        let all = (0..6).map(|n| {
            let (pool, running) = (of(&threads, &format!("user {n}")), Arc::clone(&running));
            async move {
                pool.run(async move {
                    let alone = running.try_acquire().expect("no more than two at a time");
                    std::thread::sleep(Duration::from_millis(5));
                    drop(alone);
                    Ok(std::thread::current().id())
                })
                .await
            }
        });
        for thread in futures::future::join_all(all).await {
            assert_ne!(thread.unwrap(), std::thread::current().id());
        }
    }

    #[tokio::test]
    #[should_panic(expected = "in a library")]
    async fn a_panic_is_passed_on() {
        let pool = of(&BlockingPool::new(0, 1), "");
        let _ = pool.run(async { if true { panic!("in a library") } else { Ok(()) } }).await;
    }

    /// Three writes that waited for a slow webhook kept every other large write waiting with them; and work that
    /// needed a thread for its response, as the deletion of a collection does, waited for itself for ever.
    #[tokio::test]
    async fn work_that_waits_holds_no_thread() {
        let pool = of(&BlockingPool::new(0, 1), "");
        let again = pool.clone();
        let inner = pool.run(async move { again.run(async { Ok(7) }).await });
        assert_eq!(tokio::time::timeout(Duration::from_secs(10), inner).await.unwrap().unwrap(), 7);
    }

    /// Notifies when it is dropped.
    struct Ended(Arc<Notify>);

    impl Drop for Ended {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }

    /// The work of a request that had timed out went on to its end, however long that took.
    #[tokio::test]
    async fn cancelled_work_ends_at_its_next_step() {
        let pool = of(&BlockingPool::new(0, 1), "");
        let (reached, ended) = (Arc::new(AtomicBool::new(false)), Arc::new(Notify::new()));
        let begun = Arc::new(Notify::new());
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let work = {
            let (reached, begun, ended) =
                (Arc::clone(&reached), Arc::clone(&begun), Ended(Arc::clone(&ended)));
            async move {
                let _ended = ended;
                begun.notify_one();
                wait.recv().unwrap();
                pause().await;
                reached.store(true, Ordering::SeqCst);
                Ok(())
            }
        };
        let mut running = Box::pin(pool.run(work));
        tokio::select! {
            _ = &mut running => unreachable!("it waits"),
            () = begun.notified() => {}
        }
        drop(running);
        go.send(()).unwrap();
        tokio::time::timeout(Duration::from_secs(10), ended.notified()).await.unwrap();
        assert!(!reached.load(Ordering::SeqCst));
    }

    /// One user with a hundred large writes kept others waiting for all of them.
    #[tokio::test]
    async fn a_user_waits_for_a_piece_of_another_and_not_for_all_of_them() {
        let threads = BlockingPool::new(0, 2);
        let mut greedy = tokio::task::JoinSet::new();
        let finished = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        for _ in 0..50 {
            let (pool, finished) = (of(&threads, "greedy"), Arc::clone(&finished));
            greedy.spawn(async move {
                let work = async move {
                    std::thread::sleep(Duration::from_millis(10));
                    finished.fetch_add(1, Ordering::SeqCst);
                    Ok(())
                };
                pool.run(work).await
            });
        }
        tokio::task::yield_now().await;
        of(&threads, "modest").run(async { Ok(()) }).await.unwrap();
        assert!(finished.load(Ordering::SeqCst) < 25, "{finished:?} pieces of the greedy user came first");
        greedy.join_all().await;
    }
}
