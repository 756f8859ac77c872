//! [`PieceReader`]: the messages of a tunnel's client, piece by piece.
//!
//! A tunnel passes bytes on as they come. No message is kept until it is whole: a client could otherwise have this server hold the
//! longest one for each of its tunnels. So messages may have any length. Watches, which parse their messages, have [`super::FrameReader`].

use std::io;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::{CLOSE, FrameHead, PING, PONG, frame_head};

/// The bytes of a piece, and the room for a read.
const PIECE_BYTES: usize = 16 << 10;

/// A part of what the client of a tunnel sends.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TunnelInput {
    /// Bytes of a message; `begins` if they are its first.
    Piece { data: Bytes, begins: bool },
    /// A ping, whose payload must be sent back.
    Ping(Vec<u8>),
    /// The client closes.
    Close,
    /// Not WebSocket.
    Broken,
    /// The connection ended.
    End,
}

/// Reads frames of a tunnel's client.
#[derive(Debug)]
pub(crate) struct PieceReader {
    /// At most a piece and the head of a frame.
    buf: BytesMut,
    /// The data frame under way: the bytes left, their mask, and whether it is the last of its message.
    frame: Option<(u64, [u8; 4], bool)>,
    /// The next bytes are the first of a message.
    begins: bool,
}

impl PieceReader {
    /// A reader that begins with bytes that have come already.
    pub(crate) fn new(begun: BytesMut) -> Self {
        Self { buf: begun, frame: None, begins: true }
    }

    /// The next input. Dropping the future loses nothing.
    pub(crate) async fn next<S: AsyncRead + Unpin>(&mut self, io: &mut S) -> io::Result<TunnelInput> {
        loop {
            if let Some(input) = self.parse() {
                return Ok(input);
            }
            self.buf.reserve(PIECE_BYTES);
            if io.read_buf(&mut self.buf).await? == 0 {
                return Ok(TunnelInput::End);
            }
        }
    }

    /// Takes input from the buffer; `None` if more bytes are needed.
    fn parse(&mut self) -> Option<TunnelInput> {
        loop {
            match self.frame {
                Some((0, _, last)) => {
                    self.frame = None;
                    self.begins |= last;
                }
                Some((left, mask, last)) => return self.piece(left, mask, last),
                None => match frame_head(&self.buf)? {
                    Ok(head) => match self.begin(head)? {
                        Ok(()) => {}
                        Err(input) => return Some(input),
                    },
                    Err(_) => return Some(TunnelInput::Broken),
                },
            }
        }
    }

    /// Begins a frame of data, or takes a whole control frame.
    fn begin(&mut self, head: FrameHead) -> Option<Result<(), TunnelInput>> {
        match head.opcode {
            opcode @ 0..=2 => {
                self.buf.advance(head.head);
                self.frame = Some((head.length, head.mask, head.last));
                self.begins |= opcode != 0;
                Some(Ok(()))
            }
            CLOSE => Some(Err(TunnelInput::Close)),
            PING | PONG => {
                let payload = head.take_payload(&mut self.buf)?;
                Some(if head.opcode == PING { Err(TunnelInput::Ping(payload)) } else { Ok(()) })
            }
            _ => Some(Err(TunnelInput::Broken)),
        }
    }

    /// The bytes that have come of a data frame.
    fn piece(&mut self, left: u64, mut mask: [u8; 4], last: bool) -> Option<TunnelInput> {
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(PIECE_BYTES);
        let mut data = self.buf.split_to(most.min(self.buf.len()));
        if data.is_empty() {
            return None;
        }
        data.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
        mask.rotate_left(data.len() % 4);
        self.frame = Some((left - data.len() as u64, mask, last));
        Some(TunnelInput::Piece { data: data.freeze(), begins: std::mem::take(&mut self.begins) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(first: u8, mask: [u8; 4], payload: &[u8]) -> Vec<u8> {
        let masked = payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask);
        [first, 0x80 | payload.len() as u8].into_iter().chain(mask).chain(masked).collect()
    }

    /// The messages of input, and what ends it.
    fn messages(reader: &mut PieceReader, seen: &mut Vec<Vec<u8>>) -> Option<TunnelInput> {
        loop {
            match reader.parse()? {
                TunnelInput::Piece { data, begins } => {
                    if begins {
                        seen.push(Vec::new());
                    }
                    seen.last_mut().unwrap().extend_from_slice(&data);
                }
                TunnelInput::Ping(payload) => seen.push([b"ping ", &payload[..]].concat()),
                other => return Some(other),
            }
        }
    }

    #[test]
    fn messages_are_the_same_however_their_bytes_come() {
        let bytes = [
            frame(0x02, [1, 2, 3, 4], b"abcde"),
            frame(0x00, [5, 6, 7, 8], b""),
            frame(0x80, [9, 9, 9, 0], b"fgh"),
            frame(0x82, [0; 4], b""),
            frame(0x8a, [0; 4], b"pong"),
            frame(0x81, [1; 4], b"second"),
            frame(0x89, [2; 4], b"?"),
            frame(0x82, [3; 4], b"third"),
            frame(0x88, [0; 4], b""),
        ]
        .concat();
        let expected: [&[u8]; 4] = [b"abcdefgh", b"second", b"ping ?", b"third"];
        for cut in 1..bytes.len() {
            let (mut reader, mut seen, mut end) = (PieceReader::new(BytesMut::new()), Vec::new(), None);
            for piece in bytes.chunks(cut) {
                reader.buf.extend_from_slice(piece);
                end = messages(&mut reader, &mut seen);
            }
            assert_eq!(
                (seen, end),
                (expected.map(<[u8]>::to_vec).to_vec(), Some(TunnelInput::Close)),
                "{cut}"
            );
        }
    }

    /// A message of a megabyte was kept until it was whole: 1,000 tunnels, which one user may have, took 1.3 GB.
    #[test]
    fn a_message_is_passed_on_before_it_is_whole() {
        let head = [&[0x02, 0xff][..], &u64::MAX.to_be_bytes(), &[0; 4]].concat();
        let mut reader = PieceReader::new(BytesMut::from(&head[..]));
        assert_eq!(reader.parse(), None);
        for number in 0..100 {
            reader.buf.extend_from_slice(&[b'x'; PIECE_BYTES + 1]);
            let Some(TunnelInput::Piece { data, begins }) = reader.parse() else { panic!("a piece") };
            assert_eq!((data.len(), begins), (PIECE_BYTES, number == 0));
            while reader.parse().is_some() {}
            assert!(reader.buf.is_empty());
        }
    }

    #[test]
    fn garbage_ends_a_tunnel() {
        for bytes in [&b"GET / HTTP/1.1\r\n"[..], &[0x82, 0x01, b'a', 0, 0, 0], &[0x83, 0x80, 0, 0, 0, 0]] {
            assert_eq!(PieceReader::new(BytesMut::from(bytes)).parse(), Some(TunnelInput::Broken));
        }
    }
}
