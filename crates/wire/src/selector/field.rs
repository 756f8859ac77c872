//! [`FieldSelector`]: conditions on a few chosen fields, such as `metadata.name=a,status.phase!=Running`.
//!
//! The server decides which fields of a resource are selectable; this parses, prints and evaluates. The only operators
//! are equality and inequality, as in kube-apiserver. Backslashes escape commas and equal signs in values.

use std::fmt;
use std::str::FromStr;

/// A conjunction of comparisons `field=value` or `field!=value`; the empty one selects everything.
///
/// Commas, equal signs and backslashes in values are written with a backslash before them.
///
/// ```
/// use listwatch_wire::selector::FieldSelector;
///
/// let selector: FieldSelector = r"metadata.name==a,status.phase!=x\,y".parse()?;
/// assert_eq!(selector.exact("metadata.name"), Some("a"));
/// assert!(selector.matches(|field| (field == "metadata.name").then_some("a")));
/// assert_eq!(selector.to_string(), r"metadata.name=a,status.phase!=x\,y");
/// # Ok::<(), listwatch_wire::selector::ParseFieldSelectorError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[doc(alias = "fields.Selector")]
pub struct FieldSelector {
    terms: Vec<FieldTerm>,
}

/// One comparison of a field with a value. Sets and existence, which label selectors have, are not part of the syntax.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldTerm {
    /// The path, for example `metadata.name`.
    pub field: String,
    /// The value to compare with.
    pub value: String,
    /// True if the field must differ from the value.
    pub negated: bool,
}

/// The error of a field selector; the texts are kube-apiserver's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseFieldSelectorError {
    /// A term without an operator.
    #[error("invalid selector: '{selector}'; can't understand '{term}'")]
    NoOperator {
        /// The whole selector.
        selector: String,
        /// The term.
        term: String,
    },
    /// A backslash before something that needs none.
    #[error("invalid field selector: invalid escape sequence: {0}")]
    InvalidEscape(String),
    /// A second equal sign without a backslash. kube-apiserver prints the character's number.
    #[error("invalid field selector: unescaped character in value: {}", u32::from(*.0))]
    Unescaped(char),
}

impl FieldSelector {
    /// The selector that holds if all terms do.
    #[must_use]
    pub fn new(terms: Vec<FieldTerm>) -> Self {
        Self { terms }
    }

    /// The selector of one field with one value.
    ///
    /// ```
    /// use listwatch_wire::selector::FieldSelector;
    ///
    /// let selector = FieldSelector::equals("metadata.name", "a");
    /// assert_eq!(selector.to_string(), "metadata.name=a");
    /// assert!(selector.matches(|field| (field == "metadata.name").then_some("a")));
    /// ```
    #[must_use]
    pub fn equals(field: impl Into<String>, value: impl Into<String>) -> Self {
        Self::new(vec![FieldTerm { field: field.into(), value: value.into(), negated: false }])
    }

    /// Returns true if everything is selected.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// The comparisons.
    ///
    /// In the order in which they were written.
    #[must_use]
    pub fn terms(&self) -> &[FieldTerm] {
        &self.terms
    }

    /// The value a field must have exactly, if the selector fixes it: a name in it makes a list a lookup, and a watch one of a
    /// single object.
    #[must_use]
    pub fn exact(&self, field: &str) -> Option<&str> {
        self.terms.iter().find(|t| !t.negated && t.field == field).map(|t| t.value.as_str())
    }

    /// Returns true if an object with these field values is selected; a missing field counts as empty.
    pub fn matches<'a>(&self, field: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.terms.iter().all(|t| (field(&t.field).unwrap_or_default() == t.value) != t.negated)
    }
}

impl FromStr for FieldSelector {
    type Err = ParseFieldSelectorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = split_terms(text);
        parts.sort_unstable();
        let terms = parts.into_iter().filter(|part| !part.is_empty()).map(|part| parse_term(text, part));
        Ok(Self { terms: terms.collect::<Result<_, _>>()? })
    }
}

/// Splits a term at its first operator. The field may be any text; the server checks whether it is selectable.
fn parse_term(selector: &str, term: &str) -> Result<FieldTerm, ParseFieldSelectorError> {
    let no_operator =
        || ParseFieldSelectorError::NoOperator { selector: selector.to_owned(), term: term.to_owned() };
    let at = term
        .char_indices()
        .position(|(i, _)| term.get(i..).is_some_and(|t| t.starts_with("!=") || t.starts_with('=')))
        .ok_or_else(no_operator)?;
    // Positions count characters; the operator starts at the byte of that character.
    let at = term.char_indices().nth(at).map_or(term.len(), |(i, _)| i);
    let (field, rest) = term.split_at(at);
    let operator = ["!=", "==", "="].into_iter().find(|op| rest.starts_with(op)).ok_or_else(no_operator)?;
    let value = unescape(rest.get(operator.len()..).unwrap_or_default())?;
    Ok(FieldTerm { field: field.to_owned(), value, negated: operator == "!=" })
}

/// Splits at commas that have no backslash before them.
fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (i, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b',' => {
                terms.push(text.get(start..i).unwrap_or_default());
                start = i + 1;
            }
            _ => {}
        }
    }
    terms.push(text.get(start..).unwrap_or_default());
    terms
}

/// Resolves the escapes of a value. A comma or an equal sign without a backslash is an error, as in
/// `fields.ParseSelector`.
fn unescape(value: &str) -> Result<String, ParseFieldSelectorError> {
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => out.push(c),
                Some(c) => return Err(ParseFieldSelectorError::InvalidEscape(format!("\\{c}"))),
                None => return Err(ParseFieldSelectorError::InvalidEscape("\\".to_owned())),
            },
            ',' | '=' => return Err(ParseFieldSelectorError::Unescaped(c)),
            c => out.push(c),
        }
    }
    Ok(out)
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, term) in self.terms.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            term.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for FieldTerm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.value.replace('\\', r"\\").replace(',', r"\,").replace('=', r"\=");
        write!(f, "{}{}{value}", self.field, if self.negated { "!=" } else { "=" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_have_the_messages_of_kube_apiserver() {
        for (text, expected) in [
            ("metadata.name", "invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
            ("a=b=c", "invalid field selector: unescaped character in value: 61"),
            (r"a=\x", r"invalid field selector: invalid escape sequence: \x"),
            (r"a=\", r"invalid field selector: invalid escape sequence: \"),
        ] {
            assert_eq!(text.parse::<FieldSelector>().unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn empty_terms_are_skipped_and_a_missing_field_is_empty() {
        let selector: FieldSelector = ",spec.nodeName=,".parse().unwrap();
        assert_eq!(selector.terms().len(), 1);
        assert!(selector.matches(|_| None));
        assert!(!selector.matches(|_| Some("n")));
    }
}
