//! Request bodies of HTTP/1.1: by `Content-Length` or chunked, always bounded.
//!
//! A declared length above the limit is refused before a byte is read and before `100 Continue` is sent. Trailers are
//! read and ignored. [`RequestBody::finish`] decides whether a connection can be used again after a handler that left
//! its body unread: small rests are read, larger ones are not worth the transfer and the connection is closed
//! ([`super::linger`]).
//!
//! The limits are `RequestLimits::body_bytes` and [`super::connection`]'s body timeout; HTTP/2 has its own reader in
//! [`crate::http::h2`].

use bytes::{Buf, Bytes, BytesMut};
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::http::h1::head::Framing;
use crate::http::hangup::ClientStream;
use crate::http::request::{BodyProblem, BodySource};

/// The unread rest of a small body is skipped so that the connection can be used again; above it the connection is
/// closed instead.
const DRAIN_BYTES: u64 = 256 << 10;

/// The longest chunk-size line or trailer: a few hex digits, and room for an extension.
const CHUNK_LINE_BYTES: usize = 256;

/// The bound on the bytes of a request body that are forwarded at a time.
const PIECE_BYTES: usize = 16 << 10;

/// The bound on all trailers of a body. Clients hardly ever send any.
const TRAILER_BYTES: usize = 8 << 10;

/// Returns true for bytes with a carriage return or a line feed.
fn has_line_end(line: &[u8]) -> bool {
    memchr::memchr2(b'\r', b'\n', line).is_some()
}

/// The body of the request at hand. Reading it takes bytes from the connection's buffer first.
#[derive(Debug)]
pub(crate) struct RequestBody<'a, S> {
    pub(crate) io: &'a mut S,
    /// Bytes that were read from the connection after the head: the beginning of the body, perhaps more.
    pub(crate) buf: &'a mut BytesMut,
    pub(crate) framing: Framing,
    /// True until `100 Continue` was sent to a client that waits for it.
    pub(crate) expects_continue: bool,
    /// Set once the body has been read to its end.
    pub(crate) done: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> RequestBody<'_, S> {
    /// Reads past a body that the handler did not read. Returns false if the connection cannot be used again.
    pub(crate) async fn finish(&mut self) -> bool {
        if self.done || self.framing == Framing::Length(0) {
            return true;
        }
        // A client that waits for `100 Continue` has not sent the body, and after a final response it may never do so.
        if self.expects_continue {
            return false;
        }
        matches!(self.framing, Framing::Length(n) if n <= DRAIN_BYTES)
            && self.take(DRAIN_BYTES as usize).await.is_ok()
    }

    /// Reads the whole body of at most `limit` bytes. `100 Continue` is sent first if the client waits for it.
    async fn take(&mut self, limit: usize) -> Result<Bytes, BodyProblem> {
        // No `100 Continue` for a body that is refused anyway.
        if matches!(self.framing, Framing::Length(length) if length > limit as u64) {
            return Err(BodyProblem::TooLarge);
        }
        self.go_on().await?;
        let body = match self.framing {
            Framing::Length(length) => self.exactly(length as usize).await?,
            Framing::Chunked => self.chunks(limit).await?,
            Framing::InChunk(_) => return Err(BodyProblem::Malformed),
        };
        self.done = true;
        Ok(body)
    }

    /// Sends `100 Continue` to a client that waits for it before sending its body.
    async fn go_on(&mut self) -> Result<(), BodyProblem> {
        if std::mem::take(&mut self.expects_continue) && self.framing != Framing::Length(0) {
            self.io.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await.map_err(|_| BodyProblem::Cut)?;
            self.io.flush().await.map_err(|_| BodyProblem::Cut)?;
        }
        Ok(())
    }

    /// Reads what has come of the body, at most [`PIECE_BYTES`]; `None` at its end.
    async fn next_piece(&mut self) -> Result<Option<Bytes>, BodyProblem> {
        self.go_on().await?;
        loop {
            match self.framing {
                _ if self.done => return Ok(None),
                Framing::Length(0) => self.done = true,
                Framing::Length(left) => {
                    let piece = self.at_most(usize::try_from(left).unwrap_or(usize::MAX)).await?;
                    self.framing = Framing::Length(left.saturating_sub(piece.len() as u64));
                    return Ok(Some(piece));
                }
                Framing::Chunked => match self.chunk_size().await? {
                    0 => {
                        self.trailers().await?;
                        self.done = true;
                    }
                    size => self.framing = Framing::InChunk(size),
                },
                Framing::InChunk(0) => {
                    if !self.exactly(2).await?.starts_with(b"\r\n") {
                        return Err(BodyProblem::Malformed);
                    }
                    self.framing = Framing::Chunked;
                }
                Framing::InChunk(left) => {
                    let piece = self.at_most(left).await?;
                    self.framing = Framing::InChunk(left - piece.len());
                    return Ok(Some(piece));
                }
            }
        }
    }

    /// Takes what is there of so many bytes, and reads if nothing is.
    async fn at_most(&mut self, left: usize) -> Result<Bytes, BodyProblem> {
        if self.buf.is_empty() {
            self.buf.reserve(PIECE_BYTES.min(left));
            self.more().await?;
        }
        let length = self.buf.len().min(left).min(PIECE_BYTES);
        Ok(self.buf.split_to(length).freeze())
    }

    /// Reads a body of known length. The buffer is as large as the body, which has been bounded.
    async fn exactly(&mut self, length: usize) -> Result<Bytes, BodyProblem> {
        self.buf.reserve(length.saturating_sub(self.buf.len()));
        while self.buf.len() < length {
            self.more().await?;
        }
        Ok(self.buf.split_to(length).freeze())
    }

    /// Reads a chunked body. The limit is on the sum of the chunks, checked before each is read.
    async fn chunks(&mut self, limit: usize) -> Result<Bytes, BodyProblem> {
        let mut body = BytesMut::new();
        loop {
            let size = self.chunk_size().await?;
            if size == 0 {
                self.trailers().await?;
                return Ok(body.freeze());
            }
            if size > limit.saturating_sub(body.len()) {
                return Err(BodyProblem::TooLarge);
            }
            let chunk = self.exactly(size).await?;
            body.extend_from_slice(&chunk);
            if !self.exactly(2).await?.starts_with(b"\r\n") {
                return Err(BodyProblem::Malformed);
            }
        }
    }

    /// The length of the next chunk; extensions are ignored.
    async fn chunk_size(&mut self) -> Result<usize, BodyProblem> {
        loop {
            match httparse::parse_chunk_size(self.buf) {
                Ok(httparse::Status::Complete((line, size))) => {
                    let line = self.buf.split_to(line);
                    // A line end inside an extension is one to some parsers and none to others.
                    let too_long = line.len() > CHUNK_LINE_BYTES;
                    if too_long || line.get(..line.len().saturating_sub(2)).is_none_or(has_line_end) {
                        return Err(BodyProblem::Malformed);
                    }
                    return usize::try_from(size).map_err(|_| BodyProblem::TooLarge);
                }
                Ok(httparse::Status::Partial) if self.buf.len() < CHUNK_LINE_BYTES => self.more().await?,
                _ => return Err(BodyProblem::Malformed),
            }
        }
    }

    /// Trailers are allowed and ignored, as long as they are a few header lines and nothing else.
    async fn trailers(&mut self) -> Result<(), BodyProblem> {
        let mut passed = 0;
        loop {
            match memchr::memmem::find(self.buf, b"\r\n") {
                Some(0) => {
                    self.buf.advance(2);
                    return Ok(());
                }
                Some(end) if end + 2 <= CHUNK_LINE_BYTES => {
                    let line = self.buf.split_to(end + 2);
                    passed += line.len();
                    let named = line.iter().position(|byte| *byte == b':').is_some_and(|at| at > 0);
                    if !named || passed > TRAILER_BYTES || line.get(..end).is_none_or(has_line_end) {
                        return Err(BodyProblem::Malformed);
                    }
                }
                None if self.buf.len() < CHUNK_LINE_BYTES => self.more().await?,
                _ => return Err(BodyProblem::Malformed),
            }
        }
    }

    /// Reads what there is; a connection that ends here has cut the body.
    async fn more(&mut self) -> Result<(), BodyProblem> {
        match self.io.read_buf(self.buf).await {
            Ok(0) | Err(_) => Err(BodyProblem::Cut),
            Ok(_) => Ok(()),
        }
    }
}

impl<S: ClientStream> BodySource for RequestBody<'_, S> {
    fn most(&self) -> Option<u64> {
        match self.framing {
            Framing::Length(length) => Some(length),
            Framing::Chunked | Framing::InChunk(_) => None,
        }
    }

    fn read(&mut self, limit: usize) -> BoxFuture<'_, Result<Bytes, BodyProblem>> {
        self.take(limit).boxed()
    }

    fn piece(&mut self) -> BoxFuture<'_, Result<Option<Bytes>, BodyProblem>> {
        self.next_piece().boxed()
    }

    fn is_hung_up(&self) -> bool {
        self.io.is_hung_up()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(text: &str) -> Result<Bytes, BodyProblem> {
        let (mut io, _other) = tokio::io::duplex(64);
        let mut buf = BytesMut::from(text);
        let framing = Framing::Chunked;
        RequestBody { io: &mut io, buf: &mut buf, framing, expects_continue: false, done: false }
            .take(100)
            .await
    }

    #[tokio::test]
    async fn ambiguous_framing_is_refused() {
        // A line feed in an extension, and a request among the trailers, are where a proxy and a server may see different requests.
        for (text, good) in [
            ("3;a=b\r\nabc\r\n0\r\nX: y\r\n\r\n", true),
            ("3;a\nb\r\nabc\r\n0\r\n\r\n", false),
            ("3\r\nabc\r\n0\r\nGET / HTTP/1.1\r\n\r\n", false),
            ("3\r\nabc\r\n0\r\nX: a\nb\r\n\r\n", false),
            ("3\r\nabc\r\n0\r\n: y\r\n\r\n", false),
        ] {
            assert_eq!(read(text).await.ok().as_deref(), good.then_some(&b"abc"[..]), "{text:?}");
        }
    }

    /// A body that is passed on has the bytes of one that is read whole, in pieces of any size, and the next request is left.
    #[tokio::test]
    async fn a_body_can_be_read_piece_by_piece() {
        let chunks = "3;a=b\r\nabc\r\n14\r\nthis is a long chunk\r\n0\r\nX: y\r\n\r\nGET /";
        for (framing, text, expected) in [
            (Framing::Chunked, chunks, Some("abcthis is a long chunk")),
            (Framing::Length(5), "abcdeGET /", Some("abcde")),
            (Framing::Length(0), "GET /", Some("")),
            (Framing::Chunked, "3\r\nabcX\r\n", None),
            (Framing::Length(50), "cut", None),
        ] {
            for begun in [0, 2, 7] {
                let (begun, rest) = text.split_at(begun.min(text.len()));
                let mut io = tokio::io::join(rest.as_bytes(), tokio::io::sink());
                let mut buf = BytesMut::from(begun);
                let mut body =
                    RequestBody { io: &mut io, buf: &mut buf, framing, expects_continue: false, done: false };
                let mut read = Vec::new();
                let whole = loop {
                    match body.next_piece().await {
                        Ok(Some(piece)) => read.extend_from_slice(&piece),
                        Ok(None) => break true,
                        Err(_) => break false,
                    }
                };
                assert_eq!(whole.then_some(&read[..]), expected.map(str::as_bytes), "{text}");
                assert!(!whole || body.finish().await);
            }
        }
    }

    /// A line that was too long was refused if it came in pieces, and taken if it came at once.
    #[tokio::test]
    async fn long_lines_are_refused_however_they_come() {
        for (length, good) in [(CHUNK_LINE_BYTES, true), (CHUNK_LINE_BYTES + 1, false)] {
            let line = |begin: &str| format!("{begin}{}\r\n", "x".repeat(length - begin.len() - 2));
            for text in
                [format!("3\r\nabc\r\n{}\r\n", line("0;")), format!("3\r\nabc\r\n0\r\n{}\r\n", line("X:"))]
            {
                assert_eq!(read(&text).await.is_ok(), good, "{length}");
                let (begun, rest) = text.split_at(100);
                let mut io = tokio::io::join(rest.as_bytes(), tokio::io::sink());
                let mut buf = BytesMut::from(begun);
                let framing = Framing::Chunked;
                let mut body =
                    RequestBody { io: &mut io, buf: &mut buf, framing, expects_continue: false, done: false };
                assert_eq!(body.take(100).await.is_ok(), good, "{length} in pieces");
            }
        }
    }

    #[tokio::test]
    async fn trailers_end() {
        let text = format!("0\r\n{}\r\n", "X: y\r\n".repeat(5000));
        assert!(read(&text).await.is_err());
    }
}
