//! Tests of the handshake and of frames, split at any byte.

use super::*;

fn reader(bytes: &[u8]) -> FrameReader {
    FrameReader { buf: BytesMut::from(bytes), ..FrameReader::default() }
}

#[test]
fn a_message_may_come_in_several_frames_and_has_a_bound() {
    let frame = |first: u8, text: &[u8]| {
        let masked = text.iter().zip([1, 2, 3, 4].iter().cycle()).map(|(byte, mask)| byte ^ mask);
        [first, 0x80 | text.len() as u8, 1, 2, 3, 4].into_iter().chain(masked).collect::<Vec<_>>()
    };
    let bytes = [frame(0x01, b"abc"), frame(0x89, b""), frame(0x80, b"def"), frame(0x81, b"x")].concat();
    let mut whole = FrameReader { limit: 6, ..reader(&bytes) };
    assert_eq!(whole.parse(), Some(Control::Ping(Vec::new())), "between the frames of a message");
    assert_eq!(whole.parse(), Some(Control::Message(Bytes::from_static(b"abcdef"))));
    assert_eq!(whole.parse(), Some(Control::Message(Bytes::from_static(b"x"))));
    assert_eq!(whole.parse(), None);
    let mut short = FrameReader { limit: 5, ..reader(&bytes) };
    assert!(matches!(short.parse(), Some(Control::Ping(_))));
    assert_eq!(short.parse(), Some(Control::TooBig));
    let endless = [&[0x82, 0xff][..], &u64::MAX.to_be_bytes(), &[0; 4]].concat();
    assert_eq!(FrameReader { limit: 5, ..reader(&endless) }.parse(), Some(Control::TooBig));
}

#[test]
fn the_key_of_the_standard() {
    assert_eq!(accept_key("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

#[test]
fn data_is_passed_over_and_pings_are_answered() {
    let mut bytes = vec![0x81, 0x85, 1, 2, 3, 4, 9, 9, 9, 9, 9];
    bytes.extend([0x89, 0x82, 1, 2, 3, 4, b'a' ^ 1, b'b' ^ 2]);
    let mut reader = reader(&bytes);
    assert_eq!(reader.parse(), Some(Control::Ping(b"ab".to_vec())));
    assert_eq!(reader.parse(), None);
}

#[test]
fn garbage_is_noticed() {
    assert_eq!(reader(b"GET / HTTP/1.1\r\n").parse(), Some(Control::Broken));
    assert_eq!(reader(&[0x81, 0x05, 1, 2, 3, 4, 5]).parse(), Some(Control::Broken));
    assert_eq!(reader(&[0x89, 0xfe, 0x01, 0x00, 0, 0, 0, 0]).parse(), Some(Control::Broken));
    assert_eq!(reader(&[0x09, 0x80, 0, 0, 0, 0]).parse(), Some(Control::Broken), "a ping in fragments");
    assert_eq!(reader(&[0x88, 0x80, 0, 0, 0, 0]).parse(), Some(Control::Close));
}

proptest::proptest! {
    /// The meaning of frames does not depend on how their bytes arrive, and what is kept of them is bounded.
    #[test]
    fn pieces_do_not_matter(bytes in frames(), cuts in proptest::collection::vec(0..400usize, 0..6)) {
        let mut whole = reader(&bytes);
        let expected: Vec<Control> = std::iter::from_fn(|| all_but_broken(&mut whole)).collect();
        let (mut pieces, mut seen, mut rest) = (FrameReader::default(), Vec::new(), &bytes[..]);
        for cut in cuts.into_iter().chain([usize::MAX]) {
            let (piece, later) = rest.split_at(cut.min(rest.len()));
            pieces.buf.extend_from_slice(piece);
            rest = later;
            seen.extend(std::iter::from_fn(|| all_but_broken(&mut pieces)));
        }
        proptest::prop_assert_eq!(seen, expected);
        proptest::prop_assert!(pieces.is_broken() || pieces.buf.len() <= 14 + CONTROL_BYTES as usize);
    }
}

impl FrameReader {
    fn is_broken(&mut self) -> bool {
        matches!(self.parse(), Some(Control::Broken | Control::Close))
    }
}

/// The next frame that lets the connection go on.
fn all_but_broken(reader: &mut FrameReader) -> Option<Control> {
    reader.parse().filter(|control| matches!(control, Control::Ping(_)))
}

/// Well-formed frames, with some random bytes.
fn frames() -> impl proptest::strategy::Strategy<Value = Vec<u8>> {
    use proptest::prelude::*;
    let opcode = prop::sample::select(vec![0u8, 1, 2, 8, 9, 9, 9, 10, 3, 15]);
    let frame = (opcode, any::<[u8; 4]>(), prop::collection::vec(any::<u8>(), 0..300)).prop_map(
        |(opcode, mask, payload)| {
            let mut out = BytesMut::new();
            push_frame(&mut out, opcode, &payload);
            let head = out.len() - payload.len();
            let mut bytes = out.to_vec();
            bytes[1] |= 0x80;
            bytes.splice(head..head, mask);
            bytes
        },
    );
    let flip = (any::<prop::sample::Index>(), any::<u8>());
    (prop::collection::vec(frame, 1..5), prop::option::weighted(0.3, flip)).prop_map(|(frames, flip)| {
        let mut bytes = frames.concat();
        if let Some((at, value)) = flip {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        bytes
    })
}

#[test]
fn frames_have_three_lengths() {
    for (length, head) in [
        (5usize, vec![0x81, 5]),
        (300, vec![0x81, 126, 1, 44]),
        (70_000, vec![0x81, 127, 0, 0, 0, 0, 0, 1, 0x11, 0x70]),
    ] {
        let mut out = BytesMut::new();
        push_frame(&mut out, TEXT, &vec![b'x'; length]);
        assert_eq!(out[..head.len()], head[..]);
        assert_eq!(out.len(), head.len() + length);
    }
}

#[test]
fn a_batch_is_split_into_its_events() {
    let (one, two) = (*b"\0\0\0\x03one", *b"\0\0\0\x05other");
    let batch = [&one[..], &two[..]].concat();
    let parts: Vec<&[u8]> = messages(&batch).collect();
    assert_eq!(parts, [&one[4..], &two[4..]]);
    assert_eq!(messages(&batch[..batch.len() - 1]).count(), 1);
}
