#![no_main]
//! Protobuf bodies of every built-in kind.

use libfuzzer_sys::fuzz_target;
use listwatch_kinds::proto;

fuzz_target!(|input: &[u8]| {
    let (name, message) = listwatch_fuzz::two(input);
    let kind = listwatch_fuzz::kind(name);
    let api_version = kind.api_version();
    let _ = proto::decode(message, (&api_version, kind.kind));
    let body = proto::envelope(&api_version, kind.kind, message);
    let Ok(object) = proto::decode(&body, (&api_version, kind.kind)) else { return };
    let Ok(encoded) = proto::encode(&api_version, kind.kind, &object) else { return };
    let again = proto::decode(&encoded, (&api_version, kind.kind)).expect("what was encoded can be decoded");
    assert_eq!(again, object);
});
