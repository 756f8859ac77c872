#![no_main]
//! Objects of every built-in kind: checking and normalising twice is doing it once.

use libfuzzer_sys::fuzz_target;
use listwatch_kinds::{defaults, schema, typecheck, validate};
use listwatch_wire::json;

fuzz_target!(|input: &[u8]| {
    let (name, body) = listwatch_fuzz::two(input);
    let Ok(parsed) = json::parse(body) else { return };
    let kind = listwatch_fuzz::kind(name);
    let Some(node) = schema::node(kind.group, kind.version, kind.kind) else { return };
    let mut object = parsed.value;
    if typecheck::decode(node, &mut object, None).error.is_some() {
        return;
    }
    let once = object.clone();
    let report = typecheck::decode(node, &mut object, None);
    assert!(report.error.is_none() && report.unknown.is_empty());
    assert_eq!(object, once);
    defaults::apply(kind, &mut object);
    let _ = validate::create(kind, &object);
    let _ = validate::update(kind, &object, &once);
});
