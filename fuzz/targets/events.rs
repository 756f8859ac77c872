#![no_main]
//! Watch streams: how the bytes are cut into pieces does not change what is read.

use libfuzzer_sys::fuzz_target;
use listwatch_wire::event::{Decoder, DecoderOptions};

fn read(pieces: impl Iterator<Item = Vec<u8>>) -> Vec<String> {
    let mut decoder = Decoder::new(DecoderOptions::default());
    let mut seen = Vec::new();
    for piece in pieces {
        decoder.push(piece);
        loop {
            match decoder.next_event() {
                Ok(Some(event)) => seen.push(format!("{event:?}")),
                Ok(None) => break,
                Err(_) => return seen,
            }
        }
    }
    seen
}

fuzz_target!(|input: &[u8]| {
    let Some((size, bytes)) = input.split_first() else { return };
    let whole = read(std::iter::once(bytes.to_vec()));
    let pieces = read(bytes.chunks(usize::from(*size).max(1)).map(<[u8]>::to_vec));
    assert_eq!(whole, pieces);
});
