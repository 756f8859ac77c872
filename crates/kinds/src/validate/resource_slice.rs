//! ResourceSlices: the nodes that can use the devices.
//!
//! The devices themselves are rows of the tables in `rules`; claims on them are checked in `device`. Whether a slice is
//! complete is the driver's business: pools are published in several slices.

use listwatch_wire::json::Value;

use crate::field::Errors;
use crate::rules::{At, Check};
use crate::tree::Tree;

pub(super) const CHECKS: &[(&str, Check)] = checks![slice_is_in_one_place];

const PLACES: [&str; 4] = ["nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection"];

/// Devices are on one node, on those that a selector chooses, on all, or each says where. Empty text and `false` say nothing.
fn slice_is_in_one_place(at: &At<'_>, errors: &mut Errors) {
    let is_set = |key: &&str| match at.value.at(key) {
        Value::String(text) => !text.is_empty(),
        Value::Bool(flag) => *flag,
        other => !other.is_null(),
    };
    let set: Vec<String> = PLACES.iter().filter(|key| is_set(key)).map(|key| format!("`{key}`")).collect();
    let detail =
        "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    match set.len() {
        0 => errors.required(at.path, detail),
        1 => {}
        _ => {
            let text = format!("{{{}}}", set.join(", "));
            errors.invalid(at.path, text, format!("{detail}, but multiple fields are set"));
        }
    }
}
