#![no_main]
//! Requests of HTTP/1.1, in arbitrary pieces: heads, bodies by length and in chunks.

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (Vec<u8>, Vec<u8>)| {
    let (mut cuts, bytes) = input;
    cuts.truncate(8);
    listwatch_server::fuzzing::http1(&cuts, &bytes);
});
