//! [`has_more_values`]: the number of values in a JSON text, before it is parsed.
//!
//! A value of two bytes takes some 80 in memory: a response of 16 MB without any text would be a tree of more than 400
//! MB. Bytes alone do not bound what a webhook can have this server hold.

/// Returns true if a text has more than `most` values. Texts that are not JSON may have any number.
pub(crate) fn has_more_values(text: &[u8], most: usize) -> bool {
    // Each value but the first of its container follows a comma, and takes two bytes.
    if text.len() <= most {
        return false;
    }
    let (mut values, mut rest) = (1_usize, text);
    while let Some(quote) = memchr::memchr(b'"', rest) {
        let (before, string) = rest.split_at(quote);
        values += begun(before);
        if values > most {
            return true;
        }
        rest = after_string(string.get(1..).unwrap_or_default());
    }
    values + begun(rest) > most
}

/// The containers and further values that begin in a text without strings.
fn begun(text: &[u8]) -> usize {
    text.iter().filter(|byte| matches!(byte, b',' | b'[' | b'{')).count()
}

/// The text after the end of a string.
fn after_string(mut text: &[u8]) -> &[u8] {
    while let Some(at) = memchr::memchr2(b'"', b'\\', text) {
        let escapes = text.get(at) == Some(&b'\\');
        text = text.get(at + 1 + usize::from(escapes)..).unwrap_or_default();
        if !escapes {
            return text;
        }
    }
    &[]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_and_texts_are_not_looked_into() {
        for (text, values) in [
            (r#"[1, 2, {"a": 3}]                        "#, 5),
            (r#"{"a,[{": ",,,[[[", "b\"": "\\", "c": [] }  "#, 5),
            (r#"["\\\",[", ",[{                         "#, 3),
            ("[[],[],[],[],[],[],[],[],[],[],[],[]]", 25),
        ] {
            assert!(!has_more_values(text.as_bytes(), values), "{text}");
            assert!(has_more_values(text.as_bytes(), values - 1), "{text}");
        }
        assert!(!has_more_values(b"[[[[", 4), "a text has no more values than bytes");
    }
}
