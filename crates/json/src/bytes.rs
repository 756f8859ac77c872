//! Looks for bytes of a kind in long texts, many at a time.
//!
//! Texts of objects are mostly free of such bytes. A search for one given byte is `memchr`'s.

/// Returns true if `is_wanted` holds for a byte. It is compiled to comparisons of many bytes if it has no branches.
///
/// The pieces have a fixed size for that: a plain loop is compiled for single bytes where a profile says that most texts are short.
pub(crate) fn any(text: &[u8], is_wanted: impl Fn(u8) -> bool + Copy) -> bool {
    let (pieces, rest) = text.as_chunks::<16>();
    let in_piece = |piece: &[u8; 16]| u128::from_ne_bytes(piece.map(|byte| u8::from(is_wanted(byte)))) != 0;
    pieces.iter().any(in_piece) || rest.iter().any(|byte| is_wanted(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_is_found_wherever_it_is() {
        for length in 0..50 {
            let mut text = vec![b'a'; length];
            assert!(!any(&text, |byte| byte < 0x20), "{length}");
            for at in 0..length {
                text[at] = 0x1f;
                assert!(any(&text, |byte| byte < 0x20), "{at} of {length}");
                text[at] = b'a';
            }
        }
    }
}
