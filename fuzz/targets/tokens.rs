#![no_main]
//! Tokens of users and of lists: none can be forged, and those of lists survive their own text.

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| listwatch_server::fuzzing::tokens(text));
