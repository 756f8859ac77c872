#![no_main]
//! Frames of a WebSocket, in arbitrary pieces.

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let (cuts, bytes) = listwatch_fuzz::two(input);
    listwatch_server::fuzzing::websocket(&cuts[..cuts.len().min(8)], bytes);
});
