//! ConfigMaps and Secrets.

use listwatch_wire::json::Value;

use crate::field::{Errors, Path};
use crate::names;
use crate::tree::Tree;

/// Keys and values of one ConfigMap or Secret together.
const MAX_SIZE: usize = 1024 * 1024;

pub(super) fn config_map(new: &Value, errors: &mut Errors) {
    let mut size = 0;
    for key in ["data", "binaryData"] {
        let path = Path::root(key);
        for (name, value) in new.entries(key) {
            errors.invalid_all(&path.key(name), name, names::config_key(name));
            if key == "binaryData" && new.at("data").has(name) {
                errors.invalid(&path.key(name), name.as_str(), "duplicate of key present in data");
            }
            let text = value.as_str().unwrap_or_default();
            size += if key == "data" { text.len() } else { decoded_len(text) };
        }
    }
    if size > MAX_SIZE {
        // The reference reports it at the index of nothing.
        errors.too_long(&Path::root("[]"), MAX_SIZE);
    }
}

/// How many bytes padded base64 stands for.
fn decoded_len(text: &str) -> usize {
    let padding = text.bytes().rev().take_while(|byte| *byte == b'=').count();
    (text.len() / 4 * 3).saturating_sub(padding)
}

pub(super) fn secret(new: &Value, errors: &mut Errors) {
    let path = Path::root("data");
    let mut size = 0;
    for (name, value) in new.entries("data") {
        errors.invalid_all(&path.key(name), name, names::config_key(name));
        size += decoded_len(value.as_str().unwrap_or_default());
    }
    if size > MAX_SIZE {
        errors.too_long(&path, MAX_SIZE);
    }
    secret_type(new, &path, errors);
}

/// Well-known types have keys they cannot do without.
fn secret_type(new: &Value, path: &Path<'_>, errors: &mut Errors) {
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
        // The reference keeps the secret itself out of the message, and so do we.
        errors.invalid(&path.key(key), "<secret contents redacted>", "invalid character in JSON");
    }
}

/// What is marked immutable stays, the mark included.
pub(super) fn immutable(new: &Value, old: &Value, keys: &[&str], errors: &mut Errors) {
    const DETAIL: &str = "field is immutable when `immutable` is set";
    if !old.flag("immutable") {
        return;
    }
    if !new.flag("immutable") {
        errors.forbidden(&Path::root("immutable"), DETAIL);
    }
    for key in keys {
        if new.at(key) != old.at(key) {
            errors.forbidden(&Path::root(key), DETAIL);
        }
    }
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    #[test]
    fn a_mebibyte_is_the_limit() {
        for (size, complaints) in [(MAX_SIZE, 0), (MAX_SIZE + 1, 1)] {
            let mut errors = Errors::new();
            config_map(&json!({"data": {"k": "x".repeat(size)}}), &mut errors);
            assert_eq!(errors.into_vec().len(), complaints);
        }
    }

    #[test]
    fn base64_is_counted_by_what_it_stands_for() {
        for (text, len) in [("", 0), ("eA==", 1), ("eHg=", 2), ("eHh4", 3)] {
            assert_eq!(decoded_len(text), len);
        }
    }
}
