#![no_main]
//! Ownership of fields: hostile managedFields are survived, and applying the same again changes nothing.

use libfuzzer_sys::fuzz_target;
use listwatch_merge::apply::{FieldManager, FieldSet};
use listwatch_wire::json;
use listwatch_wire::json::json as value;

fuzz_target!(|input: &[u8]| {
    let (live, applied) = listwatch_fuzz::two(input);
    let (Ok(live), Ok(applied)) = (json::parse(live), json::parse(applied)) else { return };
    let Some(schema) = listwatch_kinds::schema::node("", "v1", "Pod") else { return };
    let (zero, ignored) = (value!({"metadata": {}}), FieldSet::new());
    let manager = FieldManager {
        schema,
        zero: &zero,
        ignored: &ignored,
        manager: "fuzz",
        api_version: "v1",
        subresource: "",
        now: "2026-01-01T00:00:00Z",
    };
    manager.update(Some(&live.value), &mut applied.value.clone());
    let Ok(first) = manager.apply(Some(&live.value), &applied.value, true) else { return };
    let second = manager
        .apply(Some(&first.object), &applied.value, false)
        .expect("what was applied can be applied again");
    assert_eq!(first.object, second.object);
});
