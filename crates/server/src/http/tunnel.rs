//! [`TunnelBody`]: an upgraded connection after the 101: bytes in both directions until one end closes.
//!
//! [`ByteTunnel`] copies bytes, for SPDY to a kubelet or a WebSocket to an extension API server. [`WebSocketTunnel`] wraps the
//! bytes of a far end without WebSocket in binary messages. A tunnel ends as soon as one direction ends, as in
//! kube-apiserver: the protocols inside do not use half-closed connections. There is no deadline, because kubectl keeps
//! such connections open for as long as its user needs them.
//!
//! Only HTTP/1.1 connections are upgraded ([`super::h1`]).

use std::io;

use bytes::BytesMut;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::http::body::{Duplex, STALL};
use crate::http::handler::Handler;
use crate::http::hangup::{ClientStream, LockedStream, hung_up};
use crate::http::websocket::pieces::{PieceReader, TunnelInput};
use crate::http::websocket::{BINARY, CLOSE, NORMAL, PONG, PROTOCOL_ERROR, write_frame};

/// Bytes of the far end in one message.
const PIECE_BYTES: usize = 16 << 10;

/// Resolves when a tunnel has ended.
pub(crate) type TunnelEnd<'a> = BoxFuture<'a, io::Result<()>>;

/// The use of a connection after an upgrade.
pub(crate) trait TunnelBody: Send {
    /// Serves the connection until it ends. `begun` is what the client has sent after its request.
    fn run<'a>(self: Box<Self>, client: &'a mut dyn Duplex, begun: BytesMut) -> TunnelEnd<'a>;
}

/// Serves a tunnel until it ends, the server stops, or its client has gone: as long as the far end takes nothing, nothing is
/// read from the client.
pub(crate) async fn serve<S>(
    io: &mut S,
    body: Box<dyn TunnelBody>,
    begun: BytesMut,
    service: &impl Handler,
) -> io::Result<()>
where
    S: ClientStream,
{
    let shared = Mutex::new(io);
    let mut client = LockedStream(&shared);
    tokio::select! {
        passed = body.run(&mut client, begun) => passed,
        () = service.stopping() => Ok(()),
        () = hung_up(|| shared.lock().is_hung_up(), service.limits().body_timeout) => Ok(()),
    }
}

/// A tunnel of plain bytes. `held` is dropped at its end.
pub(crate) struct ByteTunnel<H> {
    pub(crate) far: Box<dyn Duplex>,
    pub(crate) held: H,
}

impl<H: Send + 'static> TunnelBody for ByteTunnel<H> {
    fn run<'a>(self: Box<Self>, client: &'a mut dyn Duplex, begun: BytesMut) -> TunnelEnd<'a> {
        Box::pin(async move {
            let Self { mut far, held } = *self;
            send(&mut far, &begun).await?;
            drop(begun);
            let outcome = pass_bytes(client, &mut far).await;
            drop(held);
            outcome
        })
    }
}

/// Passes bytes both ways until one end closes.
async fn pass_bytes(client: &mut dyn Duplex, far: &mut dyn Duplex) -> io::Result<()> {
    let (mut from_client, mut to_client) = tokio::io::split(client);
    let (mut from_far, mut to_far) = tokio::io::split(far);
    let passed = tokio::select! {
        passed = tokio::io::copy(&mut from_client, &mut to_far) => passed,
        passed = tokio::io::copy(&mut from_far, &mut to_client) => passed,
    };
    passed.map(drop)
}

/// Writes bytes that were read with the request. The far end has just answered, so that it should take them.
async fn send(far: &mut dyn Duplex, bytes: &[u8]) -> io::Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    let write = async {
        far.write_all(bytes).await?;
        far.flush().await
    };
    timeout(STALL, write).await?
}

/// A tunnel whose client sends and receives binary WebSocket messages, and whose far end the bytes in them.
pub(crate) struct WebSocketTunnel<H> {
    pub(crate) far: Box<dyn Duplex>,
    pub(crate) held: H,
}

impl<H: Send + 'static> TunnelBody for WebSocketTunnel<H> {
    fn run<'a>(self: Box<Self>, client: &'a mut dyn Duplex, begun: BytesMut) -> TunnelEnd<'a> {
        Box::pin(async move {
            let Self { far, held } = *self;
            let (from_client, mut to_client) = tokio::io::split(client);
            let (from_far, to_far) = tokio::io::split(far);
            let (answers, mut pongs) = tokio::sync::mpsc::channel(1);
            let code = tokio::select! {
                code = messages_in(from_client, begun, to_far, answers) => code?,
                ended = messages_out(from_far, &mut to_client, &mut pongs) => ended.map(|()| NORMAL)?,
            };
            drop(held);
            timeout(STALL, write_frame(&mut to_client, CLOSE, &code.to_be_bytes())).await?
        })
    }
}

/// Passes messages of the client on as bytes. Returns the code to close with.
async fn messages_in(
    mut client: impl tokio::io::AsyncRead + Unpin,
    begun: BytesMut,
    mut far: impl tokio::io::AsyncWrite + Unpin,
    pings: tokio::sync::mpsc::Sender<Vec<u8>>,
) -> io::Result<u16> {
    let mut reader = PieceReader::new(begun);
    loop {
        match reader.next(&mut client).await? {
            TunnelInput::Piece { data, .. } => {
                far.write_all(&data).await?;
                far.flush().await?;
            }
            // If the queue is full, a pong is due already, which shows as well that this end is alive.
            TunnelInput::Ping(payload) => drop(pings.try_send(payload)),
            TunnelInput::Close | TunnelInput::End => return Ok(NORMAL),
            TunnelInput::Broken => return Ok(PROTOCOL_ERROR),
        }
    }
}

/// Passes bytes of the far end on as messages, until it ends.
async fn messages_out(
    mut far: impl tokio::io::AsyncRead + Unpin,
    client: &mut (impl tokio::io::AsyncWrite + Unpin),
    pongs: &mut tokio::sync::mpsc::Receiver<Vec<u8>>,
) -> io::Result<()> {
    let mut piece = BytesMut::with_capacity(PIECE_BYTES);
    loop {
        piece.clear();
        tokio::select! {
            read = far.read_buf(&mut piece) => match read? {
                0 => return Ok(()),
                _ => write_frame(client, BINARY, &piece).await?,
            },
            Some(payload) = pongs.recv() => write_frame(client, PONG, &payload).await?,
        }
        piece.reserve(PIECE_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{DuplexStream, duplex};

    use super::*;

    fn masked(first: u8, text: &[u8]) -> Vec<u8> {
        let payload = text.iter().zip([1, 2, 3, 4].iter().cycle()).map(|(byte, mask)| byte ^ mask);
        [first, 0x80 | text.len() as u8, 1, 2, 3, 4].into_iter().chain(payload).collect()
    }

    fn started<T: TunnelBody + 'static>(make: impl FnOnce(Box<dyn Duplex>) -> T, begun: &[u8]) -> Ends {
        let ((client, mut near), (node, far)) = (duplex(1024), duplex(1024));
        let (body, begun) = (Box::new(make(Box::new(far))), BytesMut::from(begun));
        let task = tokio::spawn(async move { body.run(&mut near, begun).await });
        Ends { client, node, task }
    }

    struct Ends {
        client: DuplexStream,
        node: DuplexStream,
        task: tokio::task::JoinHandle<io::Result<()>>,
    }

    #[tokio::test]
    async fn bytes_pass_both_ways_until_one_end_closes() {
        for node_ends in [true, false] {
            let mut ends = started(|far| ByteTunnel { far, held: () }, b"early ");
            ends.client.write_all(b"late").await.unwrap();
            let mut seen = [0; 10];
            ends.node.read_exact(&mut seen).await.unwrap();
            assert_eq!(&seen, b"early late");
            ends.node.write_all(b"answer").await.unwrap();
            let mut seen = [0; 6];
            ends.client.read_exact(&mut seen).await.unwrap();
            assert_eq!(&seen, b"answer");
            if node_ends {
                drop(ends.node);
                assert_eq!(ends.client.read(&mut seen).await.unwrap(), 0);
            } else {
                drop(ends.client);
                assert_eq!(ends.node.read(&mut seen).await.unwrap(), 0);
            }
            ends.task.await.unwrap().unwrap();
        }
    }

    #[tokio::test]
    async fn messages_carry_the_bytes_of_an_end_without_websocket() {
        let mut ends = started(|far| WebSocketTunnel { far, held: () }, &masked(0x82, b"abc"));
        ends.client.write_all(&masked(0x89, b"p")).await.unwrap();
        ends.client.write_all(&masked(0x82, b"def")).await.unwrap();
        let mut seen = [0; 6];
        ends.node.read_exact(&mut seen).await.unwrap();
        assert_eq!(&seen, b"abcdef");
        let mut pong = [0; 3];
        ends.client.read_exact(&mut pong).await.unwrap();
        assert_eq!(pong, [0x8a, 1, b'p']);
        ends.node.write_all(b"xyz").await.unwrap();
        let mut message = [0; 5];
        ends.client.read_exact(&mut message).await.unwrap();
        assert_eq!(message, *b"\x82\x03xyz");
        drop(ends.node);
        let mut close = Vec::new();
        ends.client.read_to_end(&mut close).await.unwrap();
        assert_eq!(close, [0x88, 2, 3, 0xe8]);
        ends.task.await.unwrap().unwrap();
    }
}
