//! [`ClientStream`]: the connection of a client, which reports that the client has gone while nothing is read from it.
//!
//! Work that waits for another server, or writes to one that does not read, reads nothing from the client. The end of the
//! client's connection stays unnoticed behind unread bytes, and both connections would stay open until the
//! other server ends them. The operating system reports the end beside those bytes, and [`hung_up`] looks for it at intervals.
//!
//! Requests that only read ([`super::h1`]) and HTTP/2 streams notice the end by reading.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// Looks within the time that a client's last bytes have to be passed on.
const LOOKS: u32 = 12;

/// The connection of a client.
pub(crate) trait ClientStream: AsyncRead + AsyncWrite + Unpin + Send {
    /// The socket, if it has one.
    fn socket(&self) -> Option<&TcpStream> {
        None
    }

    /// Returns true if the client has closed or reset the connection, also if bytes that it sent before are not read yet.
    fn is_hung_up(&self) -> bool {
        let ready = self.socket().and_then(|socket| socket.ready(Interest::READABLE).now_or_never());
        ready.is_some_and(|ready| ready.is_ok_and(|ready| ready.is_read_closed()))
    }
}

impl ClientStream for TcpStream {
    fn socket(&self) -> Option<&TcpStream> {
        Some(self)
    }
}

impl ClientStream for TlsStream<TcpStream> {
    fn socket(&self) -> Option<&TcpStream> {
        Some(self.get_ref().0)
    }
}

impl<S: ClientStream> ClientStream for Box<S> {
    fn socket(&self) -> Option<&TcpStream> {
        (**self).socket()
    }
}

impl ClientStream for tokio::io::Empty {}

#[cfg(fuzzing)]
impl<R: AsyncRead + Unpin + Send, W: AsyncWrite + Unpin + Send> ClientStream for tokio::io::Join<R, W> {}

/// Waits until a client has hung up, and then for the time in which what it sent last can be passed on.
pub(crate) async fn hung_up(mut is_hung_up: impl FnMut() -> bool, grace: Duration) {
    while !is_hung_up() {
        tokio::time::sleep(grace / LOOKS).await;
    }
    tokio::time::sleep(grace).await;
}

/// A connection that can be looked at while it is read and written.
#[derive(Debug)]
pub(crate) struct LockedStream<'a, 'io, S>(pub(crate) &'a Mutex<&'io mut S>);

impl<S: AsyncRead + Unpin> AsyncRead for LockedStream<'_, '_, S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut **self.0.lock()).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for LockedStream<'_, '_, S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut **self.0.lock()).poll_write(context, data)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut **self.0.lock()).poll_write_vectored(context, data)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.lock().is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut **self.0.lock()).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut **self.0.lock()).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;

    /// The end of a connection is seen although bytes wait before it.
    #[tokio::test]
    async fn a_client_that_has_gone_is_seen_behind_unread_bytes() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        client.write_all(&[0; 10_000]).await.unwrap();
        server.readable().await.unwrap();
        assert!(!server.is_hung_up());
        drop(client);
        let waiting = hung_up(|| server.is_hung_up(), Duration::from_millis(100));
        tokio::time::timeout(Duration::from_secs(10), waiting).await.unwrap();
    }
}
