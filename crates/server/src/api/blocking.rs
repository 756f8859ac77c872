//! [`BlockingPool`]: work that would hold up the async workers is done on threads of its own.
//!
//! A worker that is busy with one large object answers nobody meanwhile, health checks included. What is small is not worth
//! the way to another thread; what is large goes there, a bounded number at a time, and the system shares the processors
//! between those threads and the workers.

use std::future::Future;
use std::sync::Arc;

use listwatch_wire::Status;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

/// A bounded number of blocking threads for work on large objects. Clones share the bound.
#[derive(Clone, Debug)]
pub(crate) struct BlockingPool {
    above: usize,
    room: Arc<Semaphore>,
}

impl BlockingPool {
    /// Takes work on more than `above` bytes, at most `threads` pieces at a time.
    pub(crate) fn new(above: usize, threads: usize) -> Self {
        Self { above, room: Arc::new(Semaphore::new(threads.max(1))) }
    }

    /// Returns true if something of that many bytes belongs here.
    pub(crate) fn takes(&self, bytes: usize) -> bool {
        bytes > self.above
    }

    /// Runs work to its end on a thread of its own, once there is room. Work whose requester has gone is finished all the
    /// same. A panic is passed on.
    ///
    /// # Errors
    /// The error of the work; 503 if the server is shutting down.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Status>> + Send + 'static,
    ) -> Result<T, Status> {
        let gone = || {
            Status::failure(
                503,
                listwatch_wire::status::StatusReason::ServiceUnavailable,
                "the server is shutting down",
            )
        };
        let permit = Arc::clone(&self.room).acquire_owned().await.map_err(|_| gone())?;
        let runtime = Handle::current();
        let done = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            runtime.block_on(work)
        });
        match done.await {
            Ok(result) => result,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Err(gone()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_waits_for_room_and_leaves_the_worker_alone() {
        let blocking = Arc::new(BlockingPool::new(10, 2));
        assert!(blocking.takes(11) && !blocking.takes(10));
        let (running, most) = (Arc::new(Semaphore::new(2)), 6);
        let all = (0..most).map(|_| {
            let (blocking, running) = (Arc::clone(&blocking), Arc::clone(&running));
            async move {
                blocking
                    .run(async move {
                        let alone = running.try_acquire().expect("no more than two at a time");
                        std::thread::sleep(std::time::Duration::from_millis(5));
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
        let _ =
            BlockingPool::new(0, 1).run(async { if true { panic!("in a library") } else { Ok(()) } }).await;
    }
}
