//! ConfigMaps, Secrets and Namespaces.

use listwatch_wire::json::Value;
use listwatch_wire::names::label_key_errors;

use super::checks;
use crate::field::{Errors, Path};
use crate::meta;
use crate::rules::{At, Check};
use crate::tree::Tree;

pub(super) const CHECKS: &[(&str, Check)] = checks![
    config_map_fits,
    marked_config_map_stays,
    secret_fits,
    secret_has_its_keys,
    marked_secret_stays,
    namespace_finalizers_are_qualified,
];

/// Keys and values of one ConfigMap or Secret together.
const MAX_SIZE: usize = 1024 * 1024;

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
        // kube-apiserver reports it at the index of nothing.
        errors.too_long(&Path::root("[]"), MAX_SIZE);
    }
}

/// The number of bytes that padded base64 stands for.
fn decoded_len(text: &str) -> usize {
    let padding = text.bytes().rev().take_while(|byte| *byte == b'=').count();
    (text.len() / 4 * 3).saturating_sub(padding)
}

fn secret_fits(at: &At<'_>, errors: &mut Errors) {
    let sizes = at.value.entries("data").map(|(_, value)| decoded_len(value.as_str().unwrap_or_default()));
    if sizes.sum::<usize>() > MAX_SIZE {
        errors.too_long(&at.path.child("data"), MAX_SIZE);
    }
}

/// Well-known types have keys they cannot do without.
fn secret_has_its_keys(at: &At<'_>, errors: &mut Errors) {
    let (new, path) = (at.value, &at.path.child("data"));
    let data = new.at("data");
    match new.text("type") {
        "kubernetes.io/service-account-token" => {
            const ACCOUNT: &str = "kubernetes.io/service-account.name";
            if new.at("metadata").at("annotations").text(ACCOUNT).is_empty() {
                errors.required(&Path::root("metadata").child("annotations").key(ACCOUNT), "");
            }
        }
        "kubernetes.io/dockercfg" => json_key(data, ".dockercfg", path, errors),
        "kubernetes.io/dockerconfigjson" => json_key(data, ".dockerconfigjson", path, errors),
        "kubernetes.io/basic-auth" if !data.has("username") && !data.has("password") => {
            required_keys(data, &["username", "password"], path, errors);
        }
        "kubernetes.io/ssh-auth" if data.text("ssh-privatekey").is_empty() => {
            errors.required(&path.key("ssh-privatekey"), "");
        }
        "kubernetes.io/tls" => required_keys(data, &["tls.crt", "tls.key"], path, errors),
        _ => {}
    }
}

fn required_keys(data: &Value, keys: &[&str], path: &Path<'_>, errors: &mut Errors) {
    for key in keys {
        if !data.has(key) {
            errors.required(&path.key(key), "");
        }
    }
}

fn json_key(data: &Value, key: &str, path: &Path<'_>, errors: &mut Errors) {
    use base64::Engine as _;

    if !data.has(key) {
        errors.required(&path.key(key), "");
        return;
    }
    let bytes = base64::engine::general_purpose::STANDARD.decode(data.text(key)).unwrap_or_default();
    if serde_json::from_slice::<serde::de::IgnoredAny>(&bytes).is_err() {
        // kube-apiserver keeps the secret itself out of the message.
        errors.invalid(&path.key(key), "<secret contents redacted>", "invalid character in JSON");
    }
}

fn marked_config_map_stays(at: &At<'_>, errors: &mut Errors) {
    marked_stays(at, &["data", "binaryData"], errors);
}

fn marked_secret_stays(at: &At<'_>, errors: &mut Errors) {
    marked_stays(at, &["data"], errors);
}

/// An object that is marked immutable stays, the mark included.
fn marked_stays(at: &At<'_>, keys: &[&str], errors: &mut Errors) {
    const DETAIL: &str = "field is immutable when `immutable` is set";
    let Some(old) = at.old.filter(|old| old.flag("immutable")) else { return };
    if !at.value.flag("immutable") {
        errors.forbidden(&at.path.child("immutable"), DETAIL);
    }
    for key in keys.iter().filter(|key| at.value.at(key) != old.at(key)) {
        errors.forbidden(&at.path.child(key), DETAIL);
    }
}

fn namespace_finalizers_are_qualified(at: &At<'_>, errors: &mut Errors) {
    for name in at.value.as_array().into_iter().flatten().filter_map(Value::as_str) {
        errors.invalid_all(at.path, name, label_key_errors(name));
        meta::qualified_finalizer(name, at.path, errors);
    }
}

/// Finalizers that are written by themselves are told apart by their places.
pub(super) fn namespace_finalizers(new: &Value, errors: &mut Errors) {
    let path = Path::root("spec");
    let path = path.child("finalizers");
    for (index, name) in new.at("spec").list("finalizers").iter().filter_map(Value::as_str).enumerate() {
        errors.invalid_all(&path.index(index), name, label_key_errors(name));
        meta::qualified_finalizer(name, &path.index(index), errors);
    }
}

/// The phase of a namespace fits whether it is being deleted. kube-apiserver spells the field with a capital.
pub(super) fn namespace_status(new: &Value, errors: &mut Errors) {
    let path = Path::root("status");
    let (path, phase) = (path.child("Phase"), new.at("status").text("phase"));
    match (new.at("metadata").has("deletionTimestamp"), phase) {
        (false, "Active") | (true, "Terminating") => {}
        (false, _) => errors.invalid(&path, phase, "may only be 'Active' if `deletionTimestamp` is empty"),
        (true, _) => {
            errors.invalid(&path, phase, "may only be 'Terminating' if `deletionTimestamp` is not empty");
        }
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
