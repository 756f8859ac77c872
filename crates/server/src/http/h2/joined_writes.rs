//! [`JoinedWrites`]: the frames that the streams of a connection have ready at the same time, written together.
//!
//! hyper writes each DATA frame by itself: one TLS record, one system call and one wake-up of the client per response. Writes
//! that are committed together are answered together, and the events of a batch follow at once. So frames are collected, the
//! tasks that are ready run once, and then everything is one write. A connection without other work is delayed by one
//! turn of the scheduler, in which hyper is only asked again if something has woken it ([`HyperWaker`]).

use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker, ready};

use bytes::{Buf, BytesMut};
use futures::task::AtomicWaker;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The most bytes that are collected, one TLS record. Longer writes are not copied.
const MOST: usize = 16 << 10;

/// A connection whose writes are collected until [`joined`] sends them.
///
/// hyper owns one handle and the task of the connection another; the lock is never contended.
#[derive(Debug)]
pub(super) struct JoinedWrites<S>(Arc<Mutex<Collected<S>>>);

#[derive(Debug)]
struct Collected<S> {
    io: S,
    /// Bytes that are not written yet. Without memory while it is empty: most connections only wait.
    bytes: BytesMut,
    /// The reason that they could not be, for the connection to end with.
    failed: Option<io::Error>,
}

impl<S> JoinedWrites<S> {
    pub(super) fn new(io: S) -> Self {
        Self(Arc::new(Mutex::new(Collected { io, bytes: BytesMut::new(), failed: None })))
    }

    fn handle(&self) -> Self {
        Self(Arc::clone(&self.0))
    }

    fn is_empty(&self) -> bool {
        self.0.lock().bytes.is_empty()
    }
}

/// Runs a connection over collected writes and sends them: `serve` makes it of the connection's `io`.
pub(super) async fn joined<S, F>(io: S, serve: impl FnOnce(JoinedWrites<S>) -> F) -> F::Output
where
    S: AsyncWrite + Unpin,
    F: Future,
{
    let writes = JoinedWrites::new(io);
    let mut connection = std::pin::pin!(serve(writes.handle()));
    let woken = Arc::new(HyperWaker::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut collecting = false;
    poll_fn(|cx| {
        let polled = woken.poll(cx, &waker, connection.as_mut());
        if polled.is_ready() || writes.is_empty() {
            collecting = false;
            return polled;
        }
        if !collecting {
            collecting = true;
            // Polled again after the tasks that are ready now, which may have more to write.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        // With hyper's waker, since it may wait for the same socket.
        collecting = writes.0.lock().poll_collected(&mut Context::from_waker(&waker)).is_pending();
        Poll::Pending
    })
    .await
}

/// The waker of hyper's part of a connection's task, which records that it was used.
///
/// The task is woken to send what was collected, too. hyper looks at all of its streams whenever it is asked, so it is not
/// asked then.
#[derive(Debug)]
struct HyperWaker {
    /// True before the first poll.
    is_woken: AtomicBool,
    task: AtomicWaker,
}

impl Default for HyperWaker {
    fn default() -> Self {
        Self { is_woken: AtomicBool::new(true), task: AtomicWaker::new() }
    }
}

impl HyperWaker {
    /// Polls a future if it was woken since it was last polled.
    fn poll<F: Future>(&self, cx: &Context<'_>, waker: &Waker, future: Pin<&mut F>) -> Poll<F::Output> {
        // Registered before looking, so that a wake-up in between is not missed.
        self.task.register(cx.waker());
        if !self.is_woken.swap(false, Ordering::AcqRel) {
            return Poll::Pending;
        }
        future.poll(&mut Context::from_waker(waker))
    }
}

impl Wake for HyperWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        self.task.wake();
    }
}

impl<S: AsyncWrite + Unpin> Collected<S> {
    /// Writes what is collected. The connection sees an error at its next flush, which follows at once.
    fn poll_collected(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Err(error) = ready!(self.poll_send(cx)) {
            (self.bytes, self.failed) = (BytesMut::new(), Some(error));
            cx.waker().wake_by_ref();
        }
        Poll::Ready(())
    }

    /// Writes and flushes all collected bytes, and frees their buffer.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.bytes.is_empty() {
            match ready!(Pin::new(&mut self.io).poll_write(cx, &self.bytes)) {
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Ok(written) => self.bytes.advance(written),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        self.bytes = BytesMut::new();
        Pin::new(&mut self.io).poll_flush(cx)
    }

    /// Collects slices, or writes them if they are long or there is no room.
    fn poll_slices(&mut self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let length: usize = slices.iter().map(|slice| slice.len()).sum();
        if self.bytes.len() + length > MOST {
            ready!(self.poll_send(cx))?;
            if length > MOST {
                return Pin::new(&mut self.io).poll_write_vectored(cx, slices);
            }
        }
        slices.iter().for_each(|slice| self.bytes.extend_from_slice(slice));
        Poll::Ready(Ok(length))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for JoinedWrites<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0.lock().io).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for JoinedWrites<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.lock().poll_slices(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0.lock().poll_slices(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Writes nothing: hyper flushes after each frame.
    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.0.lock().failed.take().map_or(Ok(()), Err))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut collected = self.0.lock();
        ready!(collected.poll_send(cx))?;
        Pin::new(&mut collected.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::task::yield_now;

    use super::*;

    /// Records the length of each write, and takes at most `room` bytes in all.
    #[derive(Debug, Default)]
    struct Socket {
        writes: Arc<Mutex<Vec<usize>>>,
        room: usize,
    }

    impl AsyncWrite for Socket {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _cx: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            let length = bytes.len().min(self.room);
            if length == 0 {
                return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
            }
            self.room -= length;
            self.writes.lock().push(length);
            Poll::Ready(Ok(length))
        }

        fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    fn socket(room: usize) -> (Socket, Arc<Mutex<Vec<usize>>>) {
        let socket = Socket { writes: Arc::default(), room };
        let writes = Arc::clone(&socket.writes);
        (socket, writes)
    }

    /// A response in frames of these lengths, each flushed and followed by other work.
    async fn frames(mut io: JoinedWrites<Socket>, lengths: &[usize]) -> io::Result<()> {
        for length in lengths {
            io.write_all(&vec![0; *length]).await?;
            io.flush().await?;
        }
        yield_now().await;
        Ok(())
    }

    #[tokio::test]
    async fn frames_that_are_ready_together_are_one_write() {
        let (io, writes) = socket(usize::MAX);
        joined(io, |io| async move {
            let second = io.handle();
            frames(io, &[10, 20]).await.unwrap();
            assert_eq!(*second.0.lock().io.writes.lock(), [0_usize; 0], "the other task comes first");
            frames(second, &[30]).await.unwrap();
            yield_now().await;
        })
        .await;
        assert_eq!(*writes.lock(), [60]);
    }

    #[tokio::test]
    async fn a_connection_is_polled_again_only_after_a_wake_up() {
        let (io, writes) = socket(usize::MAX);
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let asked = Arc::new(Mutex::new(0));
        let count = Arc::clone(&asked);
        let served = tokio::spawn(joined(io, |mut io| {
            let mut connection = Box::pin(async move {
                io.write_all(&[0; 4]).await.unwrap();
                stopped.await
            });
            poll_fn(move |cx| {
                *count.lock() += 1;
                connection.as_mut().poll(cx)
            })
        }));
        while writes.lock().is_empty() {
            yield_now().await;
        }
        assert_eq!(*asked.lock(), 1, "not to send what it has written");
        stop.send(()).unwrap();
        served.await.unwrap().unwrap();
        assert_eq!(*asked.lock(), 2);
    }

    #[tokio::test]
    async fn no_more_than_a_record_is_collected_and_longer_frames_are_not_copied() {
        let (io, writes) = socket(usize::MAX);
        joined(io, |io| async move {
            frames(io.handle(), &[MOST - 1, 2, MOST + 1]).await.unwrap();
            assert!(io.is_empty());
        })
        .await;
        assert_eq!(*writes.lock(), [MOST - 1, 2, MOST + 1]);
    }

    #[tokio::test]
    async fn a_write_that_fails_later_ends_the_connection() {
        let (io, writes) = socket(5);
        let ended = joined(io, |io| async move {
            for _ in 0..10 {
                frames(io.handle(), &[4]).await?;
            }
            io::Result::Ok(())
        });
        assert_eq!(ended.await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        assert_eq!(writes.lock().iter().sum::<usize>(), 5);
    }

    #[tokio::test]
    async fn what_is_collected_is_sent_before_the_end() {
        let (io, writes) = socket(usize::MAX);
        joined(io, |mut io| async move {
            frames(io.handle(), &[7]).await.unwrap();
            io.shutdown().await.unwrap();
        })
        .await;
        assert_eq!(*writes.lock(), [7]);
    }
}
