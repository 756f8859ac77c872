//! YAML bodies: the tree, and the keys that a mapping has twice.
//!
//! As in kube-apiserver the last of equal keys wins, and each repetition is reported with its line: as an error for
//! `fieldValidation=Strict`, otherwise as a warning. Documents without repetitions are parsed once; only those that
//! have some are read a second time to find the lines. Only the first document of a stream is read. Anchors can make
//! a small body large: `verbs/write.rs` runs such bodies in the blocking pool.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;

use listwatch_wire::json::{self, Value};
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{DuplicateKeyPolicy, Error, Options, Spanned};

use crate::files::yaml_tree;

/// A parsed document with its duplicate keys.
#[derive(Debug)]
pub(crate) struct YamlDocument {
    pub(crate) value: Value,
    /// Such as `line 5: key "name" already set in map`.
    pub(crate) repeated: Vec<String>,
}

/// The most duplicate keys that are reported; more would only make the response large.
const MAX_REPEATED: usize = 100;

/// The first document of a YAML stream.
///
/// Aliases and depth are bounded by the parser.
///
/// # Errors
///
/// In the form `yaml: …`, for a 400.
pub(crate) fn read(bytes: &[u8]) -> Result<YamlDocument, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "yaml: invalid UTF-8".to_owned())?;
    let text = first_document(text);
    let failed = |error: Error| format!("yaml: {error}");
    match yaml_tree(text) {
        Ok(value) => Ok(YamlDocument { value: as_json(value), repeated: Vec::new() }),
        Err(error) if is_repetition(&error) => {
            let value = serde_saphyr::from_str_with_options(text, lenient()).map_err(failed)?;
            Ok(YamlDocument { value: as_json(value), repeated: repeated(text).map_err(failed)? })
        }
        Err(error) => Err(failed(error)),
    }
}

/// The tree as JSON has it, which kube-apiserver makes of YAML first: there, `1e3` and `10.0` are whole numbers like any other.
pub(crate) fn as_json(value: Value) -> Value {
    if !has_whole_float(&value) {
        return value;
    }
    json::parse(&json::encode(&value)).map_or(value, |parsed| parsed.value)
}

/// True if a number is written as a float and is whole, such as `1.0`, anywhere in a value.
fn has_whole_float(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_f64() && number.as_f64().is_some_and(|n| n.fract() == 0.0),
        Value::Array(items) => items.iter().any(has_whole_float),
        Value::Object(members) => members.iter().any(|(_, member)| has_whole_float(member)),
        _ => false,
    }
}

/// The strict-decoding errors for repeated keys, as kube-apiserver words them.
pub(crate) fn unmarshal_errors(repeated: &[String]) -> String {
    format!("yaml: unmarshal errors:\n  {}", repeated.join("\n  "))
}

/// The last of duplicate keys wins, as in kube-apiserver.
fn lenient() -> Options {
    serde_saphyr::options! { duplicate_keys: DuplicateKeyPolicy::LastWins, legacy_octal_numbers: true }
}

/// Every other error is final.
fn is_repetition(error: &Error) -> bool {
    matches!(error.without_snippet(), Error::DuplicateMappingKey { .. })
}

/// The text up to the line that starts the second document.
fn first_document(text: &str) -> &str {
    let directives = text.starts_with('%').then(|| text.split_once("\n---\n")).flatten();
    let body = directives.map(|(_, body)| body).or_else(|| text.strip_prefix("---\n")).unwrap_or(text);
    let start = text.len() - body.len();
    match body.find("\n---\n").or_else(|| body.find("\n---\r\n")) {
        Some(end) => text.get(..=start + end).unwrap_or(text),
        None => text.strip_suffix("\n---").unwrap_or(text),
    }
}

/// Reads the document once more, for the lines of its duplicate keys.
fn repeated(text: &str) -> Result<Vec<String>, Error> {
    let found = RefCell::new(Vec::new());
    serde_saphyr::with_deserializer_from_str_with_options(text, lenient(), |yaml| {
        DuplicateKeyFinder(&found).deserialize(yaml)
    })?;
    Ok(found.into_inner())
}

/// Parses a document without keeping values, and records duplicate keys.
#[derive(Clone, Copy)]
struct DuplicateKeyFinder<'a>(&'a RefCell<Vec<String>>);

impl DuplicateKeyFinder<'_> {
    /// Keeps the first of them, up to the bound.
    fn note(self, key: &Spanned<String>) {
        let mut found = self.0.borrow_mut();
        if found.len() < MAX_REPEATED {
            found.push(format!("line {}: key {:?} already set in map", key.referenced.line(), key.value));
        }
    }
}

impl<'de> DeserializeSeed<'de> for DuplicateKeyFinder<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, yaml: D) -> Result<(), D::Error> {
        yaml.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for DuplicateKeyFinder<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = HashSet::new();
        while let Some(key) = map.next_key::<Spanned<String>>()? {
            if seen.contains(&key.value) {
                self.note(&key);
            }
            seen.insert(key.value);
            map.next_value_seed(self)?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(self)?.is_some() {}
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(self, yaml: D) -> Result<(), D::Error> {
        self.deserialize(yaml)
    }

    listwatch_wire::skip_scalars!();
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    #[test]
    fn the_first_document_counts() {
        let value = |text: &str| read(text.as_bytes()).unwrap().value;
        assert_eq!(value("a: 1\n---\na: 2\n"), json!({"a": 1}));
        assert_eq!(value("---\na: 1\n"), json!({"a": 1}));
        assert!(read(b"a: [b").is_err());
    }

    /// `replicas: 10.0` was refused, because a float is not an integer.
    #[test]
    fn whole_numbers_are_integers_however_they_are_written() {
        let value = read(b"a: 10.0\nb: [1e3, .5e1, 0.5]\n").unwrap().value;
        assert_eq!(value, json!({"a": 10, "b": [1000, 5, 0.5]}));
        assert_eq!(value["a"].as_i64(), Some(10));
        assert_eq!(read(b"a: 1e1\na: 2e1\n").unwrap().value, json!({"a": 20}));
    }

    /// `defaultMode: 0644` was text, and refused.
    #[test]
    fn numbers_with_a_leading_zero_are_octal() {
        let document = b"a: 0644\nb: \"0644\"\nc: [0, 0x1f, 10]\n";
        assert_eq!(read(document).unwrap().value, json!({"a": 420, "b": "0644", "c": [0, 31, 10]}));
        assert_eq!(read(b"a: 1\na: 0644\n").unwrap().value, json!({"a": 420}));
    }

    /// `on: x` became a member `on`.
    #[test]
    fn keys_are_scalars_of_yaml_1_1_too() {
        let value = read(b"on: a\nn: b\n\"y\": c\n0x10: d\n1.50: e\n").unwrap().value;
        assert_eq!(value, json!({"true": "a", "false": "b", "y": "c", "16": "d", "1.5": "e"}));
    }

    #[test]
    fn the_last_of_equal_keys_wins_and_each_is_reported_with_its_line() {
        let document = read(b"a: 1\nb:\n- c: null\n  d: x\n  c: true\na: 2\na: 3\n").unwrap();
        assert_eq!(document.value, json!({"a": 3, "b": [{"c": true, "d": "x"}]}));
        let told = [
            "line 5: key \"c\" already set in map",
            "line 6: key \"a\" already set in map",
            "line 7: key \"a\" already set in map",
        ];
        assert_eq!(document.repeated, told);
        assert_eq!(
            read(b"{\"k\": 1,\n\"k\": 2}").unwrap().repeated,
            ["line 2: key \"k\" already set in map"]
        );
    }

    proptest::proptest! {
        /// Any input is parsed or refused, within the bounds of the parser.
        #[test]
        fn any_text_is_read_or_refused(parts in proptest::collection::vec(proptest::sample::select(vec![
            "a", "b:", "- ", "\n", "  ", "&x ", "*x", "<<: *x", "{", "}", "[", "]", ",", ": ", "'", "\"", "|\n", ">-\n", "---\n", "...\n", "#", "!!binary ",
            "!!set", "? ", "~", "1e999", "0x7", ".inf", "\t", "\u{feff}", "%YAML 1.2\n", "\\x41",
        ]), 0..40)) {
            let text = parts.concat();
            if let Ok(document) = read(text.as_bytes()) {
                let json = listwatch_wire::json::encode(&document.value);
                proptest::prop_assert!(listwatch_wire::json::parse(&json).is_ok(), "{text:?}");
                proptest::prop_assert!(document.repeated.len() <= MAX_REPEATED);
            }
        }
    }
}
