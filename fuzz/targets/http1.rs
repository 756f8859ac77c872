#![no_main]
//! Requests of HTTP/1.1, in arbitrary pieces: heads, bodies by length and in chunks.

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let (cuts, bytes) = listwatch_fuzz::two(input);
    listwatch_server::fuzzing::http1(&cuts[..cuts.len().min(8)], bytes);
});
