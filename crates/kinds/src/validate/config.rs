//! The sizes of ConfigMaps and Secrets.
//!
//! The bound is kube-apiserver's, so that an object which fits here can be moved to any cluster; the size of a whole
//! object is bounded by the server besides. The forms of keys are rows of the tables in `rules`.

use crate::field::{Errors, Path};
use crate::rules::{At, Check};
use crate::tree::Tree;

pub(super) const CHECKS: &[(&str, Check)] = checks![config_map_fits, secret_fits];

/// Keys and values of one ConfigMap or Secret together.
const MAX_SIZE: usize = 1024 * 1024;

/// Text counts by its bytes and binary data by its decoded bytes, not as base64. A key may be in one of the two maps
/// only, since both become files of one directory.
fn config_map_fits(at: &At<'_>, errors: &mut Errors) {
    let mut size = 0;
    let path = at.path.child("data");
    for (name, value) in at.value.entries("data") {
        size += value.as_str().map_or(0, str::len);
        if at.value.at("binaryData").has(name) {
            errors.invalid(&path.key(name), name.as_str(), "duplicate of key present in binaryData");
        }
    }
    for (_, value) in at.value.entries("binaryData") {
        size += decoded_len(value.as_str().unwrap_or_default());
    }
    if size > MAX_SIZE {
        // kube-apiserver reports the error at an empty index.
        errors.too_long(&Path::root("[]"), MAX_SIZE);
    }
}

/// The number of bytes encoded by padded base64. The type check has decoded it once, so only the length is needed.
fn decoded_len(text: &str) -> usize {
    let padding = text.bytes().rev().take_while(|byte| *byte == b'=').count();
    (text.len() / 4 * 3).saturating_sub(padding)
}

/// Values count decoded. Secrets have no second map: `stringData` has been merged before.
fn secret_fits(at: &At<'_>, errors: &mut Errors) {
    let sizes = at.value.entries("data").map(|(_, value)| decoded_len(value.as_str().unwrap_or_default()));
    if sizes.sum::<usize>() > MAX_SIZE {
        errors.too_long(&at.path.child("data"), MAX_SIZE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_counted_by_what_it_stands_for() {
        for (text, len) in [("", 0), ("eA==", 1), ("eHg=", 2), ("eHh4", 3)] {
            assert_eq!(decoded_len(text), len);
        }
    }
}
