//! Writes the events of a watch on an HTTP/1.1 connection that belongs to it, in chunks.
//!
//! Thousands of watches wait here at a time, so the future is small: what it needs only while it writes is boxed. Which
//! events there are, and when the watch ends, is [`WatchBody`]'s; WebSockets are [`crate::http::websocket`].

use std::io;
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::http::body::{FrameBytes, WatchBody, with_write_grace};
use crate::http::h1::connection::write_short;
use crate::http::h1::output::{END, write_chunk};

/// Writes events as they come, until the watch ends or the client disconnects. Returns true if the connection is to serve further
/// requests: it was to be kept, the response is complete, and the client has sent nothing meanwhile, which is not kept.
///
/// Events have priority over reading from the client, so a disconnect is noticed when no event is ready, or by a
/// failing write.
pub(super) async fn write_events<S>(
    io: &mut S,
    mut watch: Box<dyn WatchBody>,
    mut keep: bool,
) -> io::Result<bool>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let mut ignored = [0u8; 8];
    loop {
        let frames = tokio::select! {
            biased;
            frames = watch.next() => frames,
            // The client has nothing more to send; a read only notices that it has closed the connection.
            read = io.read(&mut ignored) => match read? {
                0 => return Ok(false),
                _ => {
                    keep = false;
                    continue;
                }
            },
        };
        let Some(write) = frames.map(|frames| write_batch(io, &*watch, frames)) else { break };
        write.await?;
    }
    if watch.is_broken() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Box::pin(write_short(io, &[END])).await.map(|()| keep)
}

/// Writes frames as one chunk. Boxed with them, as the end of the stream, so that the task of an idle watch has no room for a write.
fn write_batch<'a, S>(
    io: &'a mut S,
    watch: &dyn WatchBody,
    frames: FrameBytes,
) -> Pin<Box<impl Future<Output = io::Result<()>> + Send + use<'a, S>>>
where
    S: AsyncWrite + Unpin + Send,
{
    Box::pin(with_write_grace(watch, async move {
        write_chunk(io, &frames).await?;
        io.flush().await
    }))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::future::BoxFuture;
    use http::StatusCode;
    use tokio::time::Instant;

    use super::*;
    use crate::observe::RequestSeries;

    /// The memory of a watch that waits, beside its body and the TLS session.
    const IDLE: usize = 128;

    struct NoEvents;

    impl WatchBody for NoEvents {
        fn next(&mut self) -> BoxFuture<'_, Option<FrameBytes>> {
            Box::pin(std::future::ready(None))
        }

        fn is_binary(&self) -> bool {
            false
        }

        fn deadline(&self) -> Instant {
            Instant::now()
        }

        fn count_as(&mut self, _request: Arc<RequestSeries>, _code: StatusCode) {}
    }

    #[test]
    fn a_watch_that_waits_has_no_room_for_writes() {
        let mut io = tokio::io::empty();
        let size = size_of_val(&write_events(&mut io, Box::new(NoEvents), true));
        assert!(size <= IDLE, "{size} bytes");
    }
}
