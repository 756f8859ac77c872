//! Validation of ResourceSlices: where the devices are, and what they are called.
//!
//! `device` has the rules of the claims on them.

use listwatch_wire::json::Value;
use listwatch_wire::names::subdomain_errors;

use crate::field::{Errors, Path};
use crate::rules::{At, Check};
use crate::tree::Tree;

pub(super) const CHECKS: &[(&str, Check)] =
    checks![slice_is_in_one_place, pool_is_complete, device_version_is_semantic];

const PLACES: [&str; 4] = ["nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection"];
const MAX_POOL_NAME: usize = 253;
const MAX_VERSION: usize = 64;
const MAX_DEVICES: usize = 128;

/// Devices are on one node, on those that a selector chooses, on all, or each says where.
fn slice_is_in_one_place(at: &At<'_>, errors: &mut Errors) {
    let spec = at.value;
    if let Some(name) = spec.at("nodeName").as_str() {
        let path = at.path.child("nodeName");
        if name.is_empty() {
            errors.invalid(&path, name, "must be either unset or set to a non-empty string");
        }
        errors.invalid_all(&path, name, subdomain_errors(name).into_iter().filter(|_| !name.is_empty()));
    }
    for key in ["allNodes", "perDeviceNodeSelection"] {
        if spec.at(key) == &Value::Bool(false) {
            errors.invalid(&at.path.child(key), false, "must be either unset or set to true");
        }
    }
    let is_set = |key: &&str| match spec.at(key) {
        Value::String(text) => !text.is_empty(),
        Value::Bool(said) => *said,
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
    if spec.count("devices") > MAX_DEVICES {
        errors.too_many(&at.path.child("devices"), spec.count("devices"), MAX_DEVICES);
    }
    pool(spec.at("pool"), &at.path.child("pool"), errors);
}

/// A pool that is there has a name and counts its slices; see [`slice_is_in_one_place`] for one that is not.
fn pool_is_complete(at: &At<'_>, errors: &mut Errors) {
    if at.value.int("generation").is_some_and(|generation| generation < 0) {
        errors.invalid(
            &at.path.child("generation"),
            at.value.at("generation").clone(),
            "must be greater than or equal to zero",
        );
    }
}

fn pool(pool: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (name, at) = (pool.text("name"), path.child("name"));
    if name.is_empty() {
        errors.required(&at, "");
    } else {
        if name.len() > MAX_POOL_NAME {
            errors.too_long(&at, MAX_POOL_NAME);
        }
        for part in name.split('/') {
            errors.invalid_all(&at, part, subdomain_errors(part));
        }
    }
    let count = pool.int("resourceSliceCount").unwrap_or(0);
    if count <= 0 {
        errors.invalid(&path.child("resourceSliceCount"), count, "must be greater than zero");
    }
}

/// Versions of devices follow semantic versioning 2.0.0.
fn device_version_is_semantic(at: &At<'_>, errors: &mut Errors) {
    let Some(version) = at.value.as_str() else { return };
    if !is_semantic(version) {
        let detail = "must be a string compatible with semver.org spec 2.0.0";
        errors.invalid(at.path, version, detail);
    }
    if version.len() > MAX_VERSION {
        errors.too_long(at.path, MAX_VERSION);
    }
}

fn is_semantic(version: &str) -> bool {
    let (version, build) = version.split_once('+').unwrap_or((version, "0"));
    let (core, before) = version.split_once('-').unwrap_or((version, "0"));
    let number = |text: &str| {
        !text.is_empty()
            && text.bytes().all(|b| b.is_ascii_digit())
            && (text == "0" || !text.starts_with('0'))
    };
    let word = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    core.split('.').count() == 3
        && core.split('.').all(number)
        && before
            .split('.')
            .all(|part| word(part) && (number(part) || part.bytes().any(|b| !b.is_ascii_digit())))
        && build.split('.').all(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_semantic() {
        for version in ["1.2.3", "0.0.0", "1.2.3-rc.1+build.5"] {
            assert!(is_semantic(version), "{version}");
        }
        for version in ["", "1.2", "01.2.3", "v1.2.3", "1.2.3-", "1.2.3-01"] {
            assert!(!is_semantic(version), "{version}");
        }
    }
}
