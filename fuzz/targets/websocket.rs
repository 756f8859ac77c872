#![no_main]
//! Frames of a WebSocket, in arbitrary pieces.

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (Vec<u8>, Vec<u8>)| {
    let (mut cuts, bytes) = input;
    cuts.truncate(8);
    listwatch_server::fuzzing::websocket(&cuts, &bytes);
});
