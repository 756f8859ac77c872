#![no_main]
//! Bodies in YAML: what was understood survives being written.

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| listwatch_server::fuzzing::yaml(bytes));
