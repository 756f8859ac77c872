//! Validation of the names of a definition: of its resource, its kind and its versions. Conflicts with the names of other
//! definitions are found in [`super::name_conflicts`].

use listwatch_wire::json::Value;
use listwatch_wire::status::FieldError;

use super::text;

/// Checks the names. They become path segments and, in discovery, command-line words, hence DNS labels.
pub(super) fn names(names: &Value) -> Vec<FieldError> {
    let required = ["plural", "singular", "kind", "listKind"].into_iter();
    let mut errors: Vec<_> = required
        .filter(|name| text(names, name).is_none_or(str::is_empty))
        .map(|name| FieldError::required(format!("spec.names.{name}"), ""))
        .collect();
    for name in ["plural", "singular", "kind", "listKind"] {
        let value = text(names, name).unwrap_or_default();
        // Kinds are written in camel case like types, the other names are path segments.
        let is_kind = matches!(name, "kind" | "listKind");
        let why = if is_kind { label_error(&value.to_lowercase()) } else { label_error(value) };
        if let Some(why) = why.filter(|_| !value.is_empty()) {
            let mixed = if is_kind { "may have mixed case, but should otherwise match: " } else { "" };
            errors.push(FieldError::invalid(format!("spec.names.{name}"), value, format!("{mixed}{why}")));
        }
    }
    for list in ["shortNames", "categories"] {
        let given = names.get(list).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        for (index, name) in given.enumerate() {
            let error = |why| FieldError::invalid(format!("spec.names.{list}[{index}]"), name, why);
            errors.extend(label_error(name).map(error));
        }
    }
    if text(names, "kind").is_some_and(|kind| !kind.is_empty() && Some(kind) == text(names, "listKind")) {
        errors.push(FieldError::invalid(
            "spec.names.listKind",
            text(names, "listKind"),
            "kind and listKind may not be the same",
        ));
    }
    errors
}

/// The text of apimachinery's `IsDNS1035Label`, including its two spaces.
const LABEL_RULE: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";

/// The reasons why a name is no DNS label: kinds and versions become labels in generated names.
pub(super) fn label_error(text: &str) -> Option<String> {
    let fits = text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.ends_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    let reasons = [(text.len() > 63).then_some(LABEL_LENGTH), (!fits).then_some(LABEL_RULE)];
    let reasons: Vec<_> = reasons.into_iter().flatten().collect();
    (!reasons.is_empty()).then(|| reasons.join(","))
}

const LABEL_LENGTH: &str = "must be no more than 63 characters";
