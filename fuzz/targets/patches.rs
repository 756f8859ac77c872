#![no_main]
//! Patches: none makes an object larger than its bounds, merging twice is merging once, and a patched object is encoded the
//! same whether or not what it shares is copied from the bytes of the old one.

use libfuzzer_sys::fuzz_target;
use listwatch_wire::json;
use listwatch_merge::patch::{JsonPatch, merge_patch, parse_object_patch, strategic_merge_patch};

fuzz_target!(|input: &[u8]| {
    let (object, patch) = listwatch_fuzz::two(input);
    let Ok(object) = json::parse(object) else { return };
    if let Ok(patch) = JsonPatch::parse(patch) {
        let _ = patch.apply(&mut object.value.clone());
    }
    let Ok(patch) = parse_object_patch(patch) else { return };
    let mut merged = object.value.clone();
    merge_patch(&mut merged, patch.value.clone());
    let old = json::encode_after(&object.value, None);
    let written = json::Written { bytes: &old.bytes, spans: &old.spans };
    assert_eq!(json::encode_after(&merged, Some(written)).bytes, json::encode_stored(&merged));
    let mut twice = merged.clone();
    merge_patch(&mut twice, patch.value.clone());
    assert_eq!(merged, twice);
    if let Some(pod) = listwatch_kinds::schema::node("", "v1", "Pod") {
        let _ = strategic_merge_patch(&mut object.value.clone(), patch.value, pod);
    }
});
