//! The steps of a field path, in their wire form.
//!
//! `f:<name>` a field or map key; `k:<json object>` a list element by its keys; `v:<json>` a scalar in a set;
//! `i:<number>` a position.
//!
//! Elements are kept as text, because that is the form on the wire and hashing text is all that sets need. Two
//! elements are the same if their text is, which holds because the JSON inside is canonical.

use listwatch_json::{Text, Value};

use crate::patch::{ListKeys, ListKind, MergeSchema};
use listwatch_json as json;

/// The element of a field.
pub(super) fn field(name: &str) -> Text {
    let mut out = Text::with_capacity(name.len() + 2);
    out.push_str("f:");
    out.push_str(name);
    out
}

/// The field name of an element that is one.
pub(super) fn field_name(element: &str) -> Option<&str> {
    element.strip_prefix("f:")
}

/// The path element that identifies an item of a list.
///
/// Allocates a string of some dozen bytes per element; lists are walked once per write.
///
/// # Errors
/// The reason why the item has none, with kube-apiserver's message.
pub(super) fn of_item<S: MergeSchema>(item: &Value, list: S) -> Result<String, String> {
    match list.list_kind() {
        ListKind::Map(keys) => keyed(item, keys, list),
        _ if item.is_null() => {
            Err("associative list without keys has an element that's an explicit null".to_owned())
        }
        _ => Ok(encoded(b"v:", |out| json::write_value(out, item))),
    }
}

/// The path element of an item of a `map` list, such as `k:{"name":"a"}`: keys sorted and encoded canonically, so that
/// equal identities are equal text.
///
/// Default values of keys count, so that a port without `protocol` is the same element as one with `TCP`.
fn keyed<S: MergeSchema>(item: &Value, keys: ListKeys<'_>, list: S) -> Result<String, String> {
    let Value::Object(map) = item else {
        let problem = if item.is_null() { "a null element" } else { "non-map elements" };
        return Err(format!("associative list with keys may not have {problem}"));
    };
    let mut sorted: smallvec::SmallVec<[&str; 4]> = keys.iter().collect();
    sorted.sort_unstable();
    let mut told = 0;
    let text = encoded(b"k:{", |out| {
        for key in sorted {
            // A key that is left out and has no default is no part of the element's identity.
            let default = || list.key_default(key);
            let Some(value) = map.get(key).cloned().or_else(default) else { continue };
            if told > 0 {
                out.push(b',');
            }
            told += 1;
            json::write_string(out, key);
            out.push(b':');
            json::write_value(out, &value);
        }
        out.push(b'}');
    });
    if told > 0 || keys.is_empty() {
        return Ok(text);
    }
    let names: Vec<String> = keys.iter().map(listwatch_json::go::quote).collect();
    Err(format!(
        "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
        names.join(" ")
    ))
}

fn encoded(prefix: &[u8], write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::with_capacity(48);
    out.extend_from_slice(prefix);
    write(&mut out);
    String::from_utf8(out).unwrap_or_default()
}

/// As error texts show it: `.name`, `[name="web",port=80]`, `[="x"]`, `[3]`.
///
/// Only for messages: parsing the keys costs more than all else here.
pub(super) fn show(element: &str) -> String {
    match element.split_once(':') {
        Some(("f", name)) => format!(".{name}"),
        Some(("v", value)) => format!("[={value}]"),
        Some(("i", index)) => format!("[{index}]"),
        Some(("k", keys)) => {
            let Ok(Value::Object(keys)) = serde_json::from_str(keys) else { return format!("[{keys}]") };
            let pairs: Vec<String> = keys.iter().map(|(key, value)| format!("{key}={value}")).collect();
            format!("[{}]", pairs.join(","))
        }
        _ => element.to_owned(),
    }
}

/// Returns true if this has the form of an element. The JSON inside is not parsed: the server writes valid elements, and an
/// invalid one of a client matches nothing.
pub(super) fn is_valid(element: &str) -> bool {
    match element.split_once(':') {
        Some(("f", _)) => true,
        Some(("k", keys)) => keys.starts_with('{') && keys.ends_with('}'),
        Some(("v", value)) => !value.is_empty(),
        Some(("i", index)) => index.parse::<u64>().is_ok(),
        _ => false,
    }
}
