//! Canonical encoding.
//!
//! Compact, keys sorted, except that an object begins with `kind`, `apiVersion`, `metadata`: whoever reads the bytes
//! finds the metadata, and the place of the resource version, without looking further.

use super::{Map, Number, Text, Value};

const FIRST: [&str; 3] = ["kind", "apiVersion", "metadata"];

/// The canonical bytes of an object.
///
/// ```
/// use listwatch_wire::json;
///
/// let object = crate::json::json!({"apiVersion": "v1", "data": {}, "kind": "ConfigMap", "metadata": {"name": "a"}});
/// assert_eq!(json::encode(&object), br#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"},"data":{}}"#);
/// ```
#[must_use]
pub fn encode(object: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    match object {
        Value::Object(map) => write_object(&mut out, map, |_| true),
        other => write_value(&mut out, other),
    }
    out
}

/// The canonical bytes of an object without `metadata.resourceVersion`: the form that is stored.
///
/// The version of a write is known only after the write, so it is put into the bytes when they are sent.
#[must_use]
pub fn encode_stored(object: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    match object {
        Value::Object(map) => write_object(&mut out, map, |key| key != "resourceVersion"),
        other => write_value(&mut out, other),
    }
    // What is stored stays in memory for as long as the object lives: without the slack it grew by. A copy, because an
    // allocator that is asked to shrink something may leave it where it is, as mimalloc does above half.
    out.as_slice().to_vec()
}

/// `wanted` says which fields of the metadata are written.
fn write_object(out: &mut Vec<u8>, map: &Map, wanted: impl Fn(&str) -> bool) {
    out.push(b'{');
    let first = FIRST.iter().filter_map(|key| map.get_key_value(*key));
    let rest = map.iter().filter(|(key, _)| !FIRST.contains(&key.as_str()));
    for (i, (key, value)) in first.chain(rest).enumerate() {
        write_key(out, i, key);
        match value {
            // The name comes first, for people who look at raw objects; the reference has it there, too.
            Value::Object(metadata) if key == "metadata" => {
                let name = metadata.get_key_value("name");
                let rest = metadata.iter().filter(|(key, _)| *key != "name" && wanted(key));
                write_map(out, name.into_iter().chain(rest));
            }
            value => write_value(out, value),
        }
    }
    out.push(b'}');
}

/// Appends a value, compact, with sorted keys.
pub fn write_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => write_number(out, number),
        Value::String(text) => write_string(out, text),
        Value::Array(items) => {
            out.push(b'[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write_value(out, item);
            }
            out.push(b']');
        }
        Value::Object(map) => write_map(out, map.iter()),
    }
}

fn write_map<'a>(out: &mut Vec<u8>, entries: impl Iterator<Item = (&'a Text, &'a Value)>) {
    out.push(b'{');
    for (i, (key, value)) in entries.enumerate() {
        write_key(out, i, key);
        write_value(out, value);
    }
    out.push(b'}');
}

fn write_key(out: &mut Vec<u8>, index: usize, key: &str) {
    if index > 0 {
        out.push(b',');
    }
    write_string(out, key);
    out.push(b':');
}

/// Appends a quoted string; escapes only what must be.
pub fn write_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    // Without an early end the compiler checks many bytes at once; few strings need more.
    if !rest.iter().fold(false, |special, b| special | is_special(*b)) {
        out.extend_from_slice(rest);
        out.push(b'"');
        return;
    }
    while let Some(at) = rest.iter().position(|b| is_special(*b)) {
        let (plain, tail) = rest.split_at(at);
        out.extend_from_slice(plain);
        if let Some((byte, tail)) = tail.split_first() {
            write_escape(out, *byte);
            rest = tail;
        }
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

fn is_special(byte: u8) -> bool {
    (byte < 0x20) | (byte == b'"') | (byte == b'\\')
}

fn write_escape(out: &mut Vec<u8>, byte: u8) {
    let short = match byte {
        b'"' => b'"',
        b'\\' => b'\\',
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        _ => {
            out.extend_from_slice(format!("\\u{byte:04x}").as_bytes());
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

/// Integers as they are; floats as Go writes them, so that `1.0` comes out as `1` and equal objects stay equal.
fn write_number(out: &mut Vec<u8>, number: &Number) {
    if let Some(float) = number.as_f64().filter(|_| number.is_f64()) {
        let size = float.abs();
        let text = if size != 0.0 && !(1e-6..1e21).contains(&size) {
            let text = format!("{float:e}");
            if size >= 1.0 { text.replace('e', "e+") } else { text }
        } else {
            format!("{float}")
        };
        out.extend_from_slice(text.as_bytes());
    } else {
        out.extend_from_slice(number.to_string().as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    #[test]
    fn the_stored_form_has_no_version_at_the_top_only() {
        let object = json!({"metadata": {"resourceVersion": "5", "name": "a"}, "spec": {"metadata": {"resourceVersion": "6"}}});
        assert_eq!(
            encode_stored(&object),
            br#"{"metadata":{"name":"a"},"spec":{"metadata":{"resourceVersion":"6"}}}"#
        );
    }

    #[test]
    fn floats_read_as_go_writes_them() {
        for (float, text) in [
            (1.0, "1"),
            (0.1, "0.1"),
            (1e21, "1e+21"),
            (1.5e-7, "1.5e-7"),
            (-2.5, "-2.5"),
            (1e20, "100000000000000000000"),
        ] {
            assert_eq!(String::from_utf8(encode(&json!(float))).unwrap(), text);
        }
    }

    #[test]
    fn odd_characters_survive() {
        let value = json!({"k\"\\\u{1}": "é\n\t\r😀<>&\u{7f}"});
        assert_eq!(serde_json::from_slice::<Value>(&encode(&value)).unwrap(), value);
    }
}
