//! WebSocket for watches: the handshake, frames out, control frames in. Browsers and older dashboards watch this way.
//!
//! Each watch event is one message: text for JSON, binary for protobuf. kube-apiserver does the same. Nothing that a
//! client sends matters except ping and close, so data frames are skipped without being stored and no frame is ever
//! buffered beyond its control payload of 125 bytes.
//!
//! Only HTTP/1.1 connections are upgraded. The bearer token in a subprotocol is read by `auth/bearer.rs`; here it
//! only must not be echoed. Exec, attach and port-forward are tunnels ([`crate::http::tunnel`]), which take from here the
//! handshake and the frames.

use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use http::header::{
    CONNECTION, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, StatusCode};
use listwatch_wire::Status;
use sha1::{Digest, Sha1};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::http::body::{Body, Response, WatchBody, with_write_grace};
use crate::http::h1::head::lists;
use crate::http::request::Request;
use crate::http::tunnel::TunnelBody;

/// The constant of RFC 6455, section 1.3.
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// Control frames have at most so much payload.
const CONTROL_BYTES: u64 = 125;
/// Bytes of the length that precedes each binary event of a watch in HTTP; a WebSocket message has a length of its
/// own.
const LENGTH_BYTES: usize = 4;
/// The size of the read buffer. A watch keeps it for as long as it lasts, and its client sends little.
const READ_BYTES: usize = 256;
/// Opcodes of RFC 6455, section 5.2. Continuation frames (0) are data.
const TEXT: u8 = 1;
/// Opcodes of frames (RFC 6455, section 5.2) and codes of a close (section 7.4.1).
pub(crate) const BINARY: u8 = 2;
pub(crate) const CLOSE: u8 = 8;
const PING: u8 = 9;
pub(crate) const PONG: u8 = 10;
pub(crate) const NORMAL: u16 = 1000;
pub(super) const PROTOCOL_ERROR: u16 = 1002;
/// Close codes of RFC 6455, section 7.4.
pub(super) const TOO_BIG: u16 = 1009;

/// A valid upgrade request, to be accepted once the watch itself is known to be possible. Until then an error is a
/// plain HTTP response.
#[derive(Debug)]
pub(crate) struct Upgrade {
    accept: HeaderValue,
    protocol: Option<HeaderValue>,
}

/// Reads the headers: `None` if no upgrade is requested.
///
/// # Errors
/// 400 for a malformed one. A missing `Origin` is fine: only browsers send it.
pub(crate) fn negotiate(request: &Request, token_protocol: &str) -> Result<Option<Upgrade>, Status> {
    let headers = &request.headers;
    let wanted = lists(headers, &CONNECTION, "upgrade") && lists(headers, &UPGRADE, "websocket");
    if !wanted || !request.upgradable {
        return Ok(None);
    }
    let protocol = protocol(headers, token_protocol).map_err(|why| bad(&why))?;
    upgrade(request, protocol).map(Some)
}

fn bad(why: &str) -> Status {
    Status::bad_request(format!("websocket: {why}"))
}

/// Checks the handshake of a request for an upgrade to WebSocket; the subprotocol has been chosen.
///
/// # Errors
/// 400 for a malformed one.
pub(crate) fn upgrade(request: &Request, protocol: Option<HeaderValue>) -> Result<Upgrade, Status> {
    if request.header(SEC_WEBSOCKET_VERSION) != Some("13") {
        return Err(bad("only version 13 is spoken"));
    }
    let key =
        request.header(SEC_WEBSOCKET_KEY).filter(|key| STANDARD.decode(key).is_ok_and(|k| k.len() == 16));
    let accept = accept_key(key.ok_or_else(|| bad("a key of 16 bytes is needed"))?);
    let accept = HeaderValue::from_str(&accept).map_err(|_| bad("bad key"))?;
    Ok(Upgrade { accept, protocol })
}

/// The subprotocols that a client offers.
pub(crate) fn offered(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|v| v.to_str().ok());
    values.flat_map(|v| v.split(',')).map(str::trim).filter(|p| !p.is_empty())
}

/// SHA-1 is demanded by the protocol; it proves that the server has read the request, and protects nothing.
fn accept_key(key: &str) -> String {
    let mut hash = Sha1::new();
    hash.update(key.as_bytes());
    hash.update(GUID);
    STANDARD.encode(hash.finalize())
}

/// At most one subprotocol beside the one that carries a token; it is echoed.
///
/// # Errors
///
/// A token without another protocol to answer with, or a choice between several: this server has no preference.
fn protocol(headers: &HeaderMap, token_protocol: &str) -> Result<Option<HeaderValue>, String> {
    let offered: Vec<&str> = offered(headers).collect();
    let others: Vec<&&str> = offered.iter().filter(|p| !p.starts_with(token_protocol)).collect();
    match (others.as_slice(), offered.len()) {
        ([], 0) => Ok(None),
        ([], _) => Err("a token in a subprotocol needs another subprotocol beside it".to_owned()),
        ([one], _) => HeaderValue::from_str(one).map(Some).map_err(|_| "bad subprotocol".to_owned()),
        _ => Err("at most one subprotocol can be offered".to_owned()),
    }
}

impl Upgrade {
    /// Returns the 101 response whose body is the watch.
    pub(crate) fn accept(self, stream: Box<dyn WatchBody>) -> Response {
        self.with(Body::WebSocket(stream))
    }

    /// Sets the subprotocol that is answered with.
    pub(crate) fn choose(&mut self, protocol: Option<HeaderValue>) {
        self.protocol = protocol;
    }

    /// Returns the 101 response after which the connection is a tunnel.
    pub(crate) fn tunnel(self, tunnel: Box<dyn TunnelBody>) -> Response {
        self.with(Body::Tunnel(tunnel))
    }

    /// The response that accepts the upgrade, with the protocol that was agreed.
    fn with(self, body: Body) -> Response {
        let mut response = Response::new(body);
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(HeaderName::from_static("upgrade"), HeaderValue::from_static("websocket"));
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(SEC_WEBSOCKET_ACCEPT, self.accept);
        if let Some(protocol) = self.protocol {
            headers.insert(SEC_WEBSOCKET_PROTOCOL, protocol);
        }
        response
    }
}

/// Runs a watch on an upgraded connection until the watch ends, the client closes, or the client sends something that
/// is not WebSocket. Events take precedence over control frames; writes are bounded by the deadline of the watch.
pub(crate) async fn run<S>(io: &mut S, mut watch: Box<dyn WatchBody>) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let mut reader = FrameReader::new(watch.message_bytes());
    let code = loop {
        let has_room = watch.has_room();
        tokio::select! {
            biased;
            frames = watch.next() => match frames {
                Some(frames) => with_write_grace(&*watch, write_events(io, &frames, watch.is_binary())).await?,
                None => break NORMAL,
            },
            control = reader.next(io), if has_room => match control? {
                Control::Message(message) => watch.receive(message),
                Control::Ping(payload) => with_write_grace(&*watch, write_frame(io, PONG, &payload)).await?,
                Control::TooBig => break TOO_BIG,
                Control::Close => break NORMAL,
                Control::Broken => break PROTOCOL_ERROR,
                Control::End => return Ok(()),
            },
        }
    };
    with_write_grace(&*watch, write_frame(io, CLOSE, &code.to_be_bytes())).await
}

/// Splits a batch of length-delimited events: a WebSocket carries each as one message, without its length.
fn messages(mut batch: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = batch.split_first_chunk::<LENGTH_BYTES>()?;
        let (message, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        batch = rest;
        Some(message)
    })
}

/// Each event is one message.
async fn write_events<S: AsyncWrite + Unpin>(io: &mut S, frames: &[Bytes], binary: bool) -> io::Result<()> {
    let mut out = BytesMut::with_capacity(frames.iter().map(|f| f.len() + 16).sum());
    if binary {
        frames.iter().flat_map(|frame| messages(frame)).for_each(|m| push_frame(&mut out, BINARY, m));
    } else {
        let lines = frames.iter().flat_map(|frame| frame.split(|b| *b == b'\n'));
        lines.filter(|line| !line.is_empty()).for_each(|line| push_frame(&mut out, TEXT, line));
    }
    io.write_all(&out).await?;
    io.flush().await
}

/// For control frames and messages of tunnels. Events are gathered by [`write_events`].
pub(crate) async fn write_frame<S: AsyncWrite + Unpin + ?Sized>(
    io: &mut S,
    opcode: u8,
    payload: &[u8],
) -> io::Result<()> {
    let mut out = BytesMut::with_capacity(payload.len() + 16);
    push_frame(&mut out, opcode, payload);
    io.write_all(&out).await?;
    io.flush().await
}

/// A whole message in one frame; servers do not mask.
fn push_frame(out: &mut BytesMut, opcode: u8, payload: &[u8]) {
    out.extend_from_slice(&[0x80 | opcode]);
    match payload.len() {
        n @ 0..=125 => out.extend_from_slice(&[n as u8]),
        n @ 126..=0xffff => {
            out.extend_from_slice(&[126]);
            out.extend_from_slice(&(n as u16).to_be_bytes());
        }
        n => {
            out.extend_from_slice(&[127]);
            out.extend_from_slice(&(n as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(payload);
}

/// A part of what a client sends that matters.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Control {
    /// A message, from one or more frames.
    Message(Bytes),
    Ping(Vec<u8>),
    Close,
    /// A message of more bytes than may come.
    TooBig,
    /// Not WebSocket.
    Broken,
    /// The connection ended.
    End,
}

/// Reads frames from the client. Data is kept only where messages are expected, and passed over elsewhere.
#[derive(Debug, Default)]
pub(crate) struct FrameReader {
    /// At most a frame head and a control payload, or the part of a message that has come.
    buf: BytesMut,
    /// Bytes of a data frame still to be passed over.
    skip: u64,
    /// The longest message; zero if none is expected.
    limit: usize,
    /// The message so far.
    message: BytesMut,
}

/// The head of a frame.
#[derive(Clone, Copy)]
struct FrameHead {
    opcode: u8,
    /// It is the last of its message.
    last: bool,
    /// Bytes of the head, the mask included.
    head: usize,
    mask: [u8; 4],
    length: u64,
}

impl FrameReader {
    /// Frames of more than `limit` bytes end the connection.
    fn new(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    /// The next message that needs a response. Cancel safe.
    pub(crate) async fn next<S: AsyncRead + Unpin>(&mut self, io: &mut S) -> io::Result<Control> {
        loop {
            if let Some(control) = self.parse() {
                return Ok(control);
            }
            self.buf.reserve(READ_BYTES);
            if io.read_buf(&mut self.buf).await? == 0 {
                return Ok(Control::End);
            }
        }
    }

    /// Takes control frames and messages from the buffer; `None` if more bytes are needed. Where no messages are
    /// expected, data frames are counted off without being kept.
    fn parse(&mut self) -> Option<Control> {
        loop {
            let passed = self.buf.len().min(usize::try_from(self.skip).unwrap_or(usize::MAX));
            let _ = self.buf.split_to(passed);
            self.skip -= passed as u64;
            let head = match frame_head(&self.buf)? {
                Ok(head) => head,
                Err(control) => return Some(control),
            };
            match head.opcode {
                CLOSE => return Some(Control::Close),
                PING => return Some(Control::Ping(head.take_payload(&mut self.buf)?)),
                0..=2 if self.limit > 0 => {
                    if head.length > (self.limit - self.message.len()) as u64 {
                        return Some(Control::TooBig);
                    }
                    let payload = head.take_payload(&mut self.buf)?;
                    self.message.extend_from_slice(&payload);
                    if head.last {
                        return Some(Control::Message(self.message.split().freeze()));
                    }
                }
                0..=2 | PONG => {
                    let _ = self.buf.split_to(head.head);
                    self.skip = head.length;
                }
                _ => return Some(Control::Broken),
            }
        }
    }
}

/// The head of the next frame, once it is there.
fn frame_head(buf: &[u8]) -> Option<Result<FrameHead, Control>> {
    let (first, second) = (*buf.first()?, *buf.get(1)?);
    let (length, head) = match second & 0x7f {
        126 => (u64::from(u16::from_be_bytes(bytes(buf, 2)?)), 4),
        127 => (u64::from_be_bytes(bytes(buf, 2)?), 10),
        n => (u64::from(n), 2),
    };
    let opcode = first & 0x0f;
    // Clients must mask, extensions were not agreed, and control frames are short and whole.
    if second & 0x80 == 0
        || first & 0x70 != 0
        || (opcode >= CLOSE && (first & 0x80 == 0 || length > CONTROL_BYTES))
    {
        return Some(Err(Control::Broken));
    }
    let mask = bytes(buf, head)?;
    Some(Ok(FrameHead { opcode, last: first & 0x80 != 0, head: head + 4, mask, length }))
}

impl FrameHead {
    /// Takes the frame out of the buffer, once all of it is there.
    fn take_payload(self, buf: &mut BytesMut) -> Option<Vec<u8>> {
        let end = self.head.checked_add(usize::try_from(self.length).ok()?)?;
        let payload = buf.get(self.head..end)?;
        let unmasked = payload.iter().zip(self.mask.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect();
        let _ = buf.split_to(end);
        Some(unmasked)
    }
}

/// A fixed number of bytes, or `None` if they have not come yet.
fn bytes<const N: usize>(buf: &[u8], at: usize) -> Option<[u8; N]> {
    buf.get(at..at + N)?.try_into().ok()
}

/// The meaning of frames does not depend on how their bytes arrive, and what is kept of them is bounded.
#[cfg(fuzzing)]
pub(crate) fn frames_in_pieces(whole: &[&[u8]], pieces: &[&[u8]]) {
    const LIMIT: usize = 100;
    let read = |pieces: &[&[u8]]| {
        let (mut reader, mut seen) = (FrameReader::new(LIMIT), Vec::new());
        for piece in pieces {
            reader.buf.extend_from_slice(piece);
            while let Some(control) = reader.parse() {
                let goes_on = matches!(control, Control::Message(_) | Control::Ping(_));
                seen.push(control);
                if !goes_on {
                    return seen;
                }
            }
            assert!(
                reader.message.len() <= LIMIT && reader.buf.len() <= 14 + LIMIT.max(CONTROL_BYTES as usize)
            );
        }
        seen
    };
    assert_eq!(read(whole), read(pieces));
}

pub(crate) mod pieces;
#[cfg(test)]
mod tests;
