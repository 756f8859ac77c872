//! Canonical encoding.
//!
//! Compact, keys sorted, except that an object begins with `kind`, `apiVersion`, `metadata`, so that a reader of the
//! bytes finds the metadata and the resource version in the first few hundred bytes. Parts shared with an object that
//! was encoded before are copied from its bytes; see [`super::spans`].

use super::bytes;
use super::spans::{EarlierEncoding, Spans};
use super::{MAX_DEPTH, Number, Text, Value};

/// The fields that come first, because readers of the bytes stop once they have found them.
const FIRST: [&str; 3] = ["kind", "apiVersion", "metadata"];

/// The canonical bytes of an object.
///
/// ```
/// use listwatch_json::json;
///
/// let object = json!({"apiVersion": "v1", "data": {}, "kind": "ConfigMap", "metadata": {"name": "a"}});
/// assert_eq!(listwatch_json::encode(&object), br#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"},"data":{}}"#);
/// ```
///
/// Equal trees have equal bytes, which is what lets the server compare objects as bytes and find deltas between
/// versions.
#[must_use]
pub fn encode(object: &Value) -> Vec<u8> {
    let mut encoder = JsonEncoder::new(None);
    encoder.object(object, |_| true);
    encoder.out
}

/// The canonical bytes of an object without `metadata.resourceVersion`: the form that is stored.
///
/// The version of a write is known only after the write, so it is put into the bytes when they are sent.
///
/// The watch cache splices the version in right after the name; see `cache/object.rs` in the server.
#[must_use]
pub fn encode_stored(object: &Value) -> Vec<u8> {
    encode_after(object, None).bytes
}

/// The result of encoding a tree: the bytes, and where its containers are in them, so that the next version can copy
/// what it shares.
///
/// Kept beside the tree of a recent write, within the server's bound on such trees.
#[derive(Clone, Debug)]
pub struct Encoded {
    /// The canonical bytes.
    pub bytes: Vec<u8>,
    /// The positions of the object's containers in them.
    pub spans: Spans,
    /// True if parsing the bytes yields the same tree. A float without a fraction reads back as an integer.
    ///
    /// A tree that is not exact must not be kept for the next write: it would differ from what a reader of the bytes
    /// sees.
    pub exact: bool,
    /// The containers inside each other. Above [`MAX_DEPTH`] the bytes are not those of the object.
    ///
    /// Callers refuse the object then, with the error of a body that is nested too deep.
    pub depth: usize,
}

/// The stored form of an object, taking from the bytes of another one what the two share.
///
/// ```
/// use listwatch_json::{EarlierEncoding, encode_after, encode_stored, json};
///
/// let old = json!({"metadata": {"name": "a"}, "spec": {"text": "long ".repeat(50)}});
/// let written = encode_after(&old, None);
/// let mut new = old.clone();
/// new["metadata"]["name"] = "b".into();
/// let before = EarlierEncoding { bytes: &written.bytes, spans: &written.spans };
/// assert_eq!(encode_after(&new, Some(before)).bytes, encode_stored(&new));
/// ```
///
/// The cost is that of the parts that `before` does not have, and of one copy of the bytes. `before` must belong to a
/// tree that is still alive, see [`Spans`].
#[must_use]
pub fn encode_after(object: &Value, before: Option<EarlierEncoding<'_>>) -> Encoded {
    let mut encoder = JsonEncoder::new(before);
    encoder.object(object, |key| key != "resourceVersion");
    // The bytes stay in memory as long as the object, so they must not keep unused capacity. A copy, because
    // `shrink_to_fit` may leave the allocation as it is, as mimalloc does above half.
    let bytes = encoder.out.as_slice().to_vec();
    Encoded { bytes, spans: encoder.spans.finish(), exact: encoder.exact, depth: encoder.deepest }
}

/// Appends a value, compact, with sorted keys.
///
/// Unlike [`encode`], it gives no field precedence: for parts of objects.
pub fn write_value(out: &mut Vec<u8>, value: &Value) {
    let mut encoder = JsonEncoder::appending(std::mem::take(out), None);
    encoder.value(value);
    *out = encoder.out;
}

/// Writes a tree, copying what is unchanged from the bytes of before.
struct JsonEncoder<'a> {
    out: Vec<u8>,
    before: Option<EarlierEncoding<'a>>,
    spans: Spans,
    exact: bool,
    depth: usize,
    /// The largest depth since it was last set to the one at hand.
    ///
    /// Containers copied from earlier bytes count with the height that was noted for them.
    deepest: usize,
}

impl<'a> JsonEncoder<'a> {
    /// Allocates the size of the earlier encoding and a little more, because most writes change little.
    fn new(before: Option<EarlierEncoding<'a>>) -> Self {
        let room = before.map_or(2048, |before| before.bytes.len() + 256);
        Self::appending(Vec::with_capacity(room), before)
    }

    /// Writes after what is there.
    fn appending(out: Vec<u8>, before: Option<EarlierEncoding<'a>>) -> Self {
        Self { out, before, spans: Spans::default(), exact: true, depth: 0, deepest: 0 }
    }

    /// A whole object. `wanted` selects the fields of the metadata that are written.
    fn object(&mut self, object: &Value, wanted: impl Fn(&str) -> bool) {
        let Value::Object(map) = object else { return self.value(object) };
        self.enter();
        self.out.push(b'{');
        let first = FIRST.iter().filter_map(|key| map.get_key_value(key));
        let rest = map.iter().filter(|(key, _)| !FIRST.contains(&key.as_str()));
        for (i, (key, value)) in first.chain(rest).enumerate() {
            self.key(i, key);
            match value {
                // The name comes first, as in kube-apiserver, which makes raw objects easier to read.
                Value::Object(metadata) if key == "metadata" => {
                    let name = metadata.get_key_value("name");
                    let rest = metadata.iter().filter(|(key, _)| *key != "name" && wanted(key));
                    self.enter();
                    self.fields(name.into_iter().chain(rest));
                    self.depth -= 1;
                }
                value => self.value(value),
            }
        }
        self.out.push(b'}');
        self.depth -= 1;
    }

    /// Writes a value. A container that the earlier encoding has as well is copied from there.
    fn value(&mut self, value: &Value) {
        match value {
            Value::Null => self.out.extend_from_slice(b"null"),
            Value::Bool(true) => self.out.extend_from_slice(b"true"),
            Value::Bool(false) => self.out.extend_from_slice(b"false"),
            Value::Number(number) => self.exact &= write_number(&mut self.out, number),
            Value::String(text) => write_string(&mut self.out, text),
            Value::Array(items) => self.shared(items.address(), |encoder| encoder.items(items)),
            Value::Object(map) => self.shared(map.address(), |encoder| encoder.fields(map.iter())),
        }
    }

    /// Counts a level, for the depth that is stored with the bytes.
    fn enter(&mut self) {
        self.depth += 1;
        self.deepest = self.deepest.max(self.depth);
    }

    /// Writes the container at an address, unless it can be copied. One that is too deep is left out.
    ///
    /// Depth is bounded here rather than by an error: the result is marked as too deep, and its bytes are not used.
    fn shared(&mut self, address: usize, write: impl FnOnce(&mut Self)) {
        let copied = self.before.and_then(|before| before.copy(address, &mut self.out, &mut self.spans));
        if let Some(height) = copied {
            self.deepest = self.deepest.max(self.depth + height);
            return;
        }
        let outside = self.deepest;
        self.depth += 1;
        self.deepest = self.depth;
        if self.depth <= MAX_DEPTH {
            let start = self.out.len();
            write(self);
            self.spans.note(address, self.deepest + 1 - self.depth, start, &self.out);
        }
        self.depth -= 1;
        self.deepest = self.deepest.max(outside);
    }

    /// Writes an array.
    fn items(&mut self, items: &[Value]) {
        self.out.push(b'[');
        for (i, item) in items.iter().enumerate() {
            if i > 0 {
                self.out.push(b',');
            }
            self.value(item);
        }
        self.out.push(b']');
    }

    /// Writes an object. The caller decides about the order.
    fn fields<'v>(&mut self, fields: impl Iterator<Item = (&'v Text, &'v Value)>) {
        self.out.push(b'{');
        for (i, (key, value)) in fields.enumerate() {
            self.key(i, key);
            self.value(value);
        }
        self.out.push(b'}');
    }

    /// Writes a key, and the comma before it.
    fn key(&mut self, index: usize, key: &str) {
        if index > 0 {
            self.out.push(b',');
        }
        write_string(&mut self.out, key);
        self.out.push(b':');
    }
}

/// Appends a quoted string; escapes only what must be.
///
/// Go escapes `<`, `>` and `&` for HTML; this does not, and both read back alike.
pub fn write_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    if !bytes::any(rest, is_special) {
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

/// Bytes that must be escaped in a JSON string. Without branches, so that the compiler can compare many at once.
fn is_special(byte: u8) -> bool {
    (byte < 0x20) | (byte == b'"') | (byte == b'\\')
}

/// Go's escapes: the short ones, else `\u00XX`.
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

/// Integers as they are; floats as Go writes them, so that `1.0` comes out as `1` and equal objects stay equal. False if
/// it reads back as a number of another kind.
///
/// The notation changes at 1e-6 and 1e21, where Go's encoder changes it.
fn write_number(out: &mut Vec<u8>, number: &Number) -> bool {
    if let Some(float) = number.as_f64().filter(|_| number.is_f64()) {
        // Minus zero would read back as zero, and be written differently the next time.
        let float = if float == 0.0 { 0.0 } else { float };
        let size = float.abs();
        let text = if size != 0.0 && !(1e-6..1e21).contains(&size) {
            let text = format!("{float:e}");
            if size >= 1.0 { text.replace('e', "e+") } else { text }
        } else {
            format!("{float}")
        };
        out.extend_from_slice(text.as_bytes());
        text.contains(['.', 'e'])
    } else {
        out.extend_from_slice(number.to_string().as_bytes());
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    const WORTH_A_SPAN: usize = 200;

    #[test]
    fn the_stored_form_has_no_version_at_the_top_only() {
        let object = json!({"metadata": {"resourceVersion": "5", "name": "a"}, "spec": {"metadata": {"resourceVersion": "6"}}});
        assert_eq!(
            encode_stored(&object),
            br#"{"metadata":{"name":"a"},"spec":{"metadata":{"resourceVersion":"6"}}}"#
        );
    }

    #[test]
    fn shared_containers_are_copied_by_every_encoding() {
        let line = "x".repeat(WORTH_A_SPAN);
        let mut object =
            json!({"metadata": {"name": "a"}, "spec": {"a": [line, {"b": line}], "c": [1, line]}});
        let mut written = encode_after(&object, None);
        for n in 0..5 {
            let old = object.clone();
            object["spec"]["c"] = json!([n, line]);
            object["metadata"]["generation"] = n.into();
            let before = EarlierEncoding { bytes: &written.bytes, spans: &written.spans };
            let next = encode_after(&object, Some(before));
            assert_eq!(next.bytes, encode_stored(&object), "{n}");
            drop(old);
            written = next;
        }
    }

    #[test]
    fn depth_is_counted_through_what_is_copied_and_bounded() {
        let nested =
            |levels: usize| (0..levels).fold(json!("x".repeat(WORTH_A_SPAN)), |inner, _| json!([inner]));
        let old = json!({"metadata": {"name": "a"}, "deep": nested(300)});
        let written = encode_after(&old, None);
        assert_eq!((written.depth, encode_after(&json!({"metadata": {}}), None).depth), (301, 2));
        let before = EarlierEncoding { bytes: &written.bytes, spans: &written.spans };
        for (levels, depth) in [(100, 401), (250, 551)] {
            let deep = (0..levels).fold(old["deep"].clone(), |inner, _| Value::Array(vec![inner].into()));
            let object = Value::Object([("deep", deep)].into_iter().collect());
            assert_eq!(encode_after(&object, Some(before)).depth, depth);
            assert_eq!(encode_after(&object, None).depth, depth.min(MAX_DEPTH + 1));
        }
    }

    #[test]
    fn a_float_without_a_fraction_does_not_read_back() {
        let exact = |value: Value| encode_after(&value, None).exact;
        assert!(exact(json!({"a": [1, 1.5, -3, 1e300]})) && !exact(json!({"a": [1.0]})));
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
            (-0.0, "0"),
        ] {
            assert_eq!(String::from_utf8(encode(&json!(float))).unwrap(), text);
        }
    }

    #[test]
    fn unusual_characters_survive_encoding() {
        let value = json!({"k\"\\\u{1}": "é\n\t\r😀<>&\u{7f}"});
        assert_eq!(serde_json::from_slice::<Value>(&encode(&value)).unwrap(), value);
    }
}
