#![no_main]
//! Request bodies: any bytes parse or are refused, and what parses means the same after encoding.

use libfuzzer_sys::fuzz_target;
use listwatch_wire::json;

fuzz_target!(|bytes: &[u8]| {
    let _ = json::raw::lookup(bytes, &["metadata", "labels"]);
    let Ok(parsed) = json::parse(bytes) else { return };
    assert!(json::check_syntax(bytes).is_ok());
    let encoded = json::encode(&parsed.value);
    let again = json::parse(&encoded).expect("what was encoded can be parsed");
    assert_eq!(json::encode(&again.value), encoded);
});
