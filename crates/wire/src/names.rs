//! Validation of names, label keys and label values, with kube-apiserver's messages.
//!
//! Each function returns the list of errors, empty if the text is valid; callers put them behind a field path. The
//! words are part of the API: users and tests match on them. Formats that only fields of built-in kinds use are in
//! `listwatch_kinds::names`.

const QUALIFIED: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const QUALIFIED_TEXT: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const SUBDOMAIN_TEXT: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, \
    '-' or '.', and must start and end with an alphanumeric character";
const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const LABEL_TEXT: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', \
    and must start and end with an alphanumeric character";
const VALUE_TEXT: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or \
    '.', and must start and end with an alphanumeric character";

/// The longest subdomain.
pub const SUBDOMAIN_MAX: usize = 253;
/// The longest label, label value, and name part of a qualified name.
pub const LABEL_MAX: usize = 63;

/// The errors of a label or annotation key: a name, optionally behind a DNS prefix and a slash.
///
/// ```
/// use listwatch_wire::names::label_key_errors;
/// assert!(label_key_errors("example.com/app").is_empty());
/// assert_eq!(label_key_errors("/app"), ["prefix part must be non-empty"]);
/// ```
#[must_use]
pub fn label_key_errors(key: &str) -> Vec<String> {
    let examples = ["MyName", "my.name", "123-abc"];
    let mut parts = key.split('/');
    let (prefix, name) = match (parts.next(), parts.next(), parts.next()) {
        (Some(name), None, None) => (None, name),
        (Some(prefix), Some(name), None) => (Some(prefix), name),
        _ => {
            let text = pattern_error(QUALIFIED_TEXT, QUALIFIED, &examples);
            return vec![format!(
                "a valid label key {text} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    let mut errors: Vec<String> = prefix.map(prefix_errors).unwrap_or_default();
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_MAX {
        errors.push(format!("name part must be no more than {LABEL_MAX} bytes"));
    }
    if !is_qualified_part(name) {
        errors.push(format!("name part {}", pattern_error(QUALIFIED_TEXT, QUALIFIED, &examples)));
    }
    errors
}

/// The part before the slash is a subdomain, and its errors say so.
fn prefix_errors(prefix: &str) -> Vec<String> {
    if prefix.is_empty() {
        return vec!["prefix part must be non-empty".to_owned()];
    }
    subdomain_errors(prefix).into_iter().map(|e| format!("prefix part {e}")).collect()
}

/// The errors of a label value: at most 63 characters, or empty.
///
/// ```
/// use listwatch_wire::names::label_value_errors;
///
/// assert!(label_value_errors("v1.2_rc").is_empty());
/// assert!(label_value_errors("").is_empty());
/// assert_eq!(label_value_errors(&"a".repeat(64)), ["must be no more than 63 bytes"]);
/// ```
#[must_use]
pub fn label_value_errors(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > LABEL_MAX {
        errors.push(format!("must be no more than {LABEL_MAX} bytes"));
    }
    if !value.is_empty() && !is_qualified_part(value) {
        let pattern = format!("({QUALIFIED})?");
        errors.push(pattern_error(VALUE_TEXT, &pattern, &["MyValue", "my_value", "12345"]));
    }
    errors
}

/// The errors of an RFC 1123 subdomain, the form of most object names.
///
/// ```
/// use listwatch_wire::names::subdomain_errors;
///
/// assert!(subdomain_errors("web-0.shop").is_empty());
/// assert_eq!(subdomain_errors("Web").len(), 1);
/// ```
#[must_use]
pub fn subdomain_errors(name: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if name.len() > SUBDOMAIN_MAX {
        errors.push(format!("must be no more than {SUBDOMAIN_MAX} characters"));
    }
    if !name.split('.').all(is_dns_label) {
        errors.push(pattern_error(SUBDOMAIN_TEXT, SUBDOMAIN, &["example.com"]));
    }
    errors
}

/// The errors of an RFC 1123 label, the form of namespaces and some other names.
#[must_use]
pub fn label_errors(name: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if name.len() > LABEL_MAX {
        errors.push(format!("must be no more than {LABEL_MAX} characters"));
    }
    if !is_dns_label(name) {
        if name.split('.').all(is_dns_label) {
            errors.push("must not contain dots".to_owned());
        } else {
            errors.push(pattern_error(LABEL_TEXT, LABEL, &["my-name", "123-abc"]));
        }
    }
    errors
}

/// `text (e.g. 'a',  or 'b', regex used for validation is 'pattern')`, with kube-apiserver's two blanks before "or".
#[must_use]
pub fn pattern_error(text: &str, pattern: &str, examples: &[&str]) -> String {
    let mut out = format!("{text} (");
    if !examples.is_empty() {
        out.push_str("e.g. ");
    }
    for (i, example) in examples.iter().enumerate() {
        if i > 0 {
            out.push_str(" or ");
        }
        out.push_str(&format!("'{example}', "));
    }
    out.push_str(&format!("regex used for validation is '{pattern}')"));
    out
}

/// The form alone, without the length.
fn is_dns_label(text: &str) -> bool {
    let edge = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    spans(text, edge, |b| edge(b) || b == b'-')
}

/// The form of label values and of the part behind the slash of a key.
fn is_qualified_part(text: &str) -> bool {
    spans(
        text,
        |b| b.is_ascii_alphanumeric(),
        |b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'),
    )
}

/// Not empty, `edge` at both ends, `inner` throughout.
fn spans(text: &str, edge: impl Fn(u8) -> bool, inner: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    bytes.first().copied().is_some_and(&edge)
        && bytes.last().copied().is_some_and(&edge)
        && bytes.iter().copied().all(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_with_two_slashes_gets_the_long_explanation() {
        assert_eq!(
            label_key_errors("x/y/z"),
            [
                "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with \
              an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
              '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. \
              'example.com/MyName')"
            ]
        );
    }

    #[test]
    fn lengths_are_bounded() {
        assert_eq!(label_value_errors(&"x".repeat(64)), ["must be no more than 63 bytes"]);
        assert_eq!(label_errors(&"x".repeat(64)), ["must be no more than 63 characters"]);
        assert_eq!(subdomain_errors(&"x".repeat(254)), ["must be no more than 253 characters"]);
        assert_eq!(label_errors("a.b"), ["must not contain dots"]);
        assert!(label_value_errors("").is_empty());
    }
}
