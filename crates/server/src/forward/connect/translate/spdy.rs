//! The part of SPDY/3.1 that a client of a kubelet needs: open streams, send and receive data, answer pings.
//!
//! Headers form one compressed stream per connection. Sent headers are stored, not compressed, and each block ends with
//! a sync flush, so that the kubelet can decode it at once. Received headers are ignored: replies to streams have none that
//! matter. There is no flow control, as in the library that kubelets use; TCP limits the data in flight.

use std::io;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

/// The control bit and version 3, which begin every control frame.
const VERSION: u16 = 0x8003;
/// Opens a stream.
const SYN_STREAM: u16 = 1;
/// Resets a stream.
const RST_STREAM: u16 = 3;
/// A ping, which is answered with the same number.
const PING: u16 = 6;
/// The flag of the last frame of a stream.
const FIN: u8 = 1;
/// The bytes of a frame before its payload.
const HEAD_BYTES: usize = 8;
/// The begin of a zlib stream without a preset dictionary.
const ZLIB: [u8; 2] = [0x78, 0x01];
/// The largest control frame that is passed over. Those of kubelets have some hundred bytes.
const CONTROL_BYTES: usize = 64 << 10;
/// Bytes of data that are passed on at one time.
const PIECE_BYTES: usize = 16 << 10;

/// Writes frames of a client. Streams have odd numbers, in order.
#[derive(Debug, Default)]
pub(super) struct FrameWriter {
    streams: u32,
}

impl FrameWriter {
    /// Opens a stream with one header. Returns its number.
    pub(super) fn open(&mut self, out: &mut Vec<u8>, name: &str, value: &str) -> u32 {
        let is_first = self.streams == 0;
        let id = 2 * self.streams + 1;
        self.streams += 1;
        let mut headers = 1u32.to_be_bytes().to_vec();
        for text in [name, value] {
            headers.extend((text.len() as u32).to_be_bytes());
            headers.extend(text.as_bytes());
        }
        let mut payload = id.to_be_bytes().to_vec();
        // No associated stream, the highest priority, no slot.
        payload.extend([0; 6]);
        if is_first {
            payload.extend(ZLIB);
        }
        stored_block(&mut payload, &headers);
        stored_block(&mut payload, &[]);
        control(out, SYN_STREAM, &payload);
        id
    }

    /// Data of a stream; the last frame of it ends the stream.
    pub(super) fn data(out: &mut Vec<u8>, stream: u32, data: &[u8], last: bool) {
        out.extend(stream.to_be_bytes());
        out.push(if last { FIN } else { 0 });
        out.extend(length(data));
        out.extend(data);
    }

    /// The response to a ping.
    pub(super) fn pong(out: &mut Vec<u8>, id: u32) {
        control(out, PING, &id.to_be_bytes());
    }
}

/// A control frame without flags.
fn control(out: &mut Vec<u8>, kind: u16, payload: &[u8]) {
    out.extend(VERSION.to_be_bytes());
    out.extend(kind.to_be_bytes());
    out.push(0);
    out.extend(length(payload));
    out.extend(payload);
}

/// A length in three bytes.
fn length(payload: &[u8]) -> [u8; 3] {
    let [_, a, b, c] = (payload.len() as u32).to_be_bytes();
    [a, b, c]
}

/// A block of deflate that is stored as it is.
fn stored_block(out: &mut Vec<u8>, bytes: &[u8]) {
    let length = bytes.len() as u16;
    out.push(0);
    out.extend(length.to_le_bytes());
    out.extend((!length).to_le_bytes());
    out.extend(bytes);
}

/// A part of what a kubelet sends that matters.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SpdyEvent {
    /// Data of a stream, and whether the stream ends with it.
    Data { stream: u32, data: Vec<u8>, last: bool },
    /// The stream was given up.
    Reset(u32),
    /// A ping, which must be answered.
    Ping(u32),
    /// The connection has ended.
    End,
}

/// Reads frames of a server. Data comes in pieces, as it is read.
#[derive(Debug)]
pub(super) struct SpdyReader<R> {
    source: R,
    /// At most a piece of data, or a control frame.
    buf: BytesMut,
    /// The data frame under way: its stream, the bytes left, and whether it is the last.
    data: Option<(u32, usize, bool)>,
}

impl<R: AsyncRead + Unpin> SpdyReader<R> {
    /// A reader that has read nothing. Its buffer grows with the first frame, so that an idle command costs none.
    pub(super) fn new(source: R) -> Self {
        Self { source, buf: BytesMut::new(), data: None }
    }

    /// The next event. Dropping the future loses nothing.
    ///
    /// # Errors
    /// The connection breaks off, or carries something that is not SPDY.
    pub(super) async fn next(&mut self) -> io::Result<SpdyEvent> {
        loop {
            if let Some(event) = self.parse()? {
                return Ok(event);
            }
            self.buf.reserve(PIECE_BYTES);
            if self.source.read_buf(&mut self.buf).await? == 0 {
                return Ok(SpdyEvent::End);
            }
        }
    }

    /// Takes an event from the buffer; `None` if more bytes are needed.
    fn parse(&mut self) -> io::Result<Option<SpdyEvent>> {
        loop {
            if let Some((stream, left, last)) = self.data.take() {
                return Ok(self.take_data(stream, left, last));
            }
            let Some(&[a, b, c, d, flags, e, f, g]) = self.buf.first_chunk::<HEAD_BYTES>() else {
                return Ok(None);
            };
            let (first, length) =
                (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([0, e, f, g]) as usize);
            if first & 0x8000_0000 == 0 {
                self.buf.advance(HEAD_BYTES);
                self.data = Some((first, length, flags & FIN != 0));
                continue;
            }
            if length > CONTROL_BYTES {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a control frame is too long"));
            }
            if self.buf.len() < HEAD_BYTES + length {
                return Ok(None);
            }
            self.buf.advance(HEAD_BYTES);
            let payload = self.buf.split_to(length);
            if let Some(event) = control_event(u16::from_be_bytes([c, d]), &payload) {
                return Ok(Some(event));
            }
        }
    }

    /// The data that is there of a frame.
    fn take_data(&mut self, stream: u32, left: usize, last: bool) -> Option<SpdyEvent> {
        let data = self.buf.split_to(left.min(self.buf.len()).min(PIECE_BYTES));
        let rest = left - data.len();
        if rest > 0 {
            self.data = Some((stream, rest, last));
        }
        if rest > 0 && data.is_empty() {
            return None;
        }
        Some(SpdyEvent::Data { stream, data: data.to_vec(), last: last && rest == 0 })
    }
}

/// The meaning of a control frame; `None` if it has none for a client of a kubelet.
fn control_event(kind: u16, payload: &[u8]) -> Option<SpdyEvent> {
    let number = u32::from_be_bytes(*payload.first_chunk()?) & 0x7fff_ffff;
    match kind {
        RST_STREAM => Some(SpdyEvent::Reset(number)),
        // Pings of a server have even numbers; odd ones are answers to ours.
        PING if number % 2 == 0 => Some(SpdyEvent::Ping(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    /// The header blocks of a connection are one zlib stream, which a decompressor can read block by block.
    #[test]
    fn headers_can_be_decompressed() {
        let (mut writer, mut out) = (FrameWriter::default(), Vec::new());
        assert_eq!(writer.open(&mut out, "streamtype", "error"), 1);
        let first = out.len();
        assert_eq!(writer.open(&mut out, "streamtype", "stdin"), 3);
        assert_eq!(out[..4], [0x80, 3, 0, 1]);
        assert_eq!(u32::from_be_bytes([0, out[5], out[6], out[7]]) as usize, first - HEAD_BYTES);
        let blocks = [&out[HEAD_BYTES + 10..first], &out[first + HEAD_BYTES + 10..]].concat();
        let mut headers = Vec::new();
        drop(flate2::read::ZlibDecoder::new(&blocks[..]).read_to_end(&mut headers));
        let expected = |value: &str| {
            let text = |text: &str| [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat();
            [&1u32.to_be_bytes()[..], &text("streamtype"), &text(value)].concat()
        };
        assert_eq!(headers, [expected("error"), expected("stdin")].concat());
    }

    #[tokio::test]
    async fn frames_are_read_in_pieces() {
        let mut sent = Vec::new();
        control(&mut sent, 2, &[0, 0, 0, 1, 9, 9]);
        FrameWriter::data(&mut sent, 1, b"abcdef", true);
        FrameWriter::data(&mut sent, 3, b"", true);
        FrameWriter::pong(&mut sent, 2);
        FrameWriter::pong(&mut sent, 3);
        control(&mut sent, RST_STREAM, &[0, 0, 0, 5, 0, 0, 0, 1]);
        for cut in [1, 7, 8, 20, 1000] {
            let pieces = in_two_parts(&sent, cut);
            let (mut reader, mut seen, mut read) = (SpdyReader::new(pieces), Vec::new(), Vec::new());
            loop {
                match reader.next().await.unwrap() {
                    SpdyEvent::Data { stream: 1, data, last } => {
                        read.extend(data);
                        assert_eq!(last, read == b"abcdef");
                    }
                    SpdyEvent::End => break,
                    event => seen.push(event),
                }
            }
            assert_eq!(read, b"abcdef");
            let ended = SpdyEvent::Data { stream: 3, data: Vec::new(), last: true };
            assert_eq!(seen, [ended, SpdyEvent::Ping(2), SpdyEvent::Reset(5)], "{cut}");
        }
        let mut huge = SpdyReader::new(&[0x80, 3, 0, 2, 0, 0xff, 0xff, 0xff][..]);
        assert!(huge.next().await.is_err());
    }

    /// A connection whose bytes come in two parts.
    fn in_two_parts(bytes: &[u8], cut: usize) -> impl AsyncRead + Unpin + '_ {
        let (first, second) = bytes.split_at(cut.min(bytes.len()));
        tokio::io::AsyncReadExt::chain(first, second)
    }
}
