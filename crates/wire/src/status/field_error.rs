//! [`FieldError`]: one error about one field, with its type and the message of kube-apiserver.
//!
//! It is `field.Error` of `apimachinery`: the type decides the text before the detail, whether the value is shown, and
//! the reason of the cause in a 422. Values are printed as Go prints them (`go::quote`). A list of errors and the bound
//! on its size are [`FieldErrors`](super::FieldErrors); a whole response is
//! [`Status::invalid`](super::Status::invalid).

use std::collections::HashSet;
use std::fmt;

use crate::json::Value;

use super::StatusCause;
use crate::go;

/// The type of a field error. It decides the text before the detail, the reason of the cause, and whether the value is
/// shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(alias = "ErrorType")]
pub enum FieldErrorKind {
    /// The field refers to something that does not exist.
    NotFound,
    /// A required field is missing.
    Required,
    /// Something that must be unique is there twice.
    Duplicate,
    /// The value is malformed.
    Invalid,
    /// The value is none of the supported ones.
    NotSupported,
    /// The field must not be set here.
    Forbidden,
    /// Too many bytes.
    TooLong,
    /// Too many elements.
    TooMany,
    /// The server failed, not the caller.
    Internal,
    /// The value is of another type than the schema declares.
    TypeInvalid,
}

impl FieldErrorKind {
    /// The reason of the cause in a [`Status`](super::Status), such as `FieldValueInvalid`: what programs compare.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::Internal => "InternalError",
            Self::TypeInvalid => "FieldValueTypeInvalid",
        }
    }

    /// The text before the value in an error.
    const fn text(self) -> &'static str {
        match self {
            Self::NotFound => "Not found",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::Internal => "Internal error",
        }
    }

    const fn shows_value(self) -> bool {
        !matches!(self, Self::Required | Self::Forbidden | Self::TooLong | Self::Internal)
    }
}

/// One error about one field of an object or of request options.
///
/// ```
/// use listwatch_wire::status::FieldError;
///
/// let error = FieldError::invalid("spec.replicas", -1, "must be greater than or equal to 0");
/// assert_eq!(error.to_string(), "spec.replicas: Invalid value: -1: must be greater than or equal to 0");
/// let error = FieldError::not_supported("type", "x", &["a", "b"]);
/// assert_eq!(error.to_string(), r#"type: Unsupported value: "x": supported values: "a", "b""#);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[doc(alias = "field.Error")]
pub struct FieldError {
    /// The type of the error.
    pub kind: FieldErrorKind,
    /// The path, for example `spec.ports[0].name`; empty prints as `<nil>`.
    pub field: String,
    /// The offending value; shown for some kinds only.
    pub value: Value,
    /// The explanation; may be empty.
    pub detail: String,
    /// True if the value is left out, because it is large or of no help.
    omitted: bool,
}

impl FieldError {
    /// An error of any type; the constructors below are preferred.
    #[must_use]
    pub fn new(
        kind: FieldErrorKind,
        field: impl Into<String>,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) -> Self {
        Self { kind, field: field.into(), value: value.into(), detail: detail.into(), omitted: false }
    }

    /// Leaves the value out of the text, because it is large or of no help.
    #[must_use]
    pub fn without_value(mut self) -> Self {
        self.omitted = true;
        self
    }

    /// A value that breaks a rule of its field, with the rule in `detail`. Prints `Invalid value`.
    ///
    /// ```
    /// use listwatch_wire::status::FieldError;
    ///
    /// let error = FieldError::invalid("spec.replicas", -1, "must not be negative");
    /// assert_eq!(error.to_string(), "spec.replicas: Invalid value: -1: must not be negative");
    /// ```
    #[must_use]
    pub fn invalid(field: impl Into<String>, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Invalid, field, value, detail)
    }

    /// A value of another JSON type than the schema declares. It prints like [`invalid`](Self::invalid) but has another
    /// reason.
    #[must_use]
    pub fn type_invalid(
        field: impl Into<String>,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) -> Self {
        Self::new(FieldErrorKind::TypeInvalid, field, value, detail)
    }

    /// A field that is absent or empty and must not be. Prints no value.
    ///
    /// ```
    /// use listwatch_wire::status::FieldError;
    ///
    /// assert_eq!(FieldError::required("spec.name", "").to_string(), "spec.name: Required value");
    /// ```
    #[must_use]
    pub fn required(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Required, field, Value::Null, detail)
    }

    /// A field that must not be set here, or not be changed. Prints no value.
    #[must_use]
    pub fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Forbidden, field, Value::Null, detail)
    }

    /// A value that occurs twice where it must be unique. The path is that of the second.
    ///
    /// ```
    /// use listwatch_wire::status::FieldError;
    ///
    /// assert_eq!(FieldError::duplicate("a[1]", "x").to_string(), "a[1]: Duplicate value: \"x\"");
    /// ```
    #[must_use]
    pub fn duplicate(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::new(FieldErrorKind::Duplicate, field, value, "")
    }

    /// A reference to something that is not there, such as the name of an undeclared volume.
    #[must_use]
    pub fn not_found(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::new(FieldErrorKind::NotFound, field, value, "")
    }

    /// A value outside an enumeration. The supported values are printed in the order given, so callers sort them where
    /// kube-apiserver does.
    #[must_use]
    pub fn not_supported(field: impl Into<String>, value: impl Into<Value>, supported: &[&str]) -> Self {
        let list: Vec<String> = supported.iter().map(|s| go::quote(s)).collect();
        let detail =
            if list.is_empty() { String::new() } else { format!("supported values: {}", list.join(", ")) };
        Self::new(FieldErrorKind::NotSupported, field, value, detail)
    }

    /// A text of more than `max` bytes. The value is not printed, since it is too long.
    #[must_use]
    pub fn too_long(field: impl Into<String>, max: usize) -> Self {
        Self::new(FieldErrorKind::TooLong, field, Value::Null, format!("may not be more than {max} bytes"))
    }

    /// A list of more than `max` elements. It prints the number of elements in place of the value.
    #[must_use]
    pub fn too_many(field: impl Into<String>, actual: usize, max: usize) -> Self {
        let items = if max == 1 { "item" } else { "items" };
        Self::new(FieldErrorKind::TooMany, field, actual, format!("must have at most {max} {items}"))
    }

    /// About the bytes of its text.
    pub(super) fn weight(&self) -> usize {
        let value = match &self.value {
            _ if self.omitted || !self.kind.shows_value() => 0,
            Value::String(text) => text.len(),
            Value::Array(_) | Value::Object(_) => self.value.to_string().len(),
            _ => 8,
        };
        self.field.len() + value + self.detail.len()
    }

    /// The text without the path: the message of the cause, whose field names the path.
    #[must_use]
    pub fn body(&self) -> String {
        let mut out = self.kind.text().to_owned();
        if self.kind.shows_value() && !self.omitted {
            out.push_str(": ");
            match &self.value {
                Value::String(text) => out.push_str(&go::quote(text)),
                other => out.push_str(&other.to_string()),
            }
        }
        if !self.detail.is_empty() {
            out.push_str(": ");
            out.push_str(&self.detail);
        }
        out
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let field = if self.field.is_empty() { "<nil>" } else { &self.field };
        write!(f, "{field}: {}", self.body())
    }
}

impl From<&FieldError> for StatusCause {
    fn from(error: &FieldError) -> Self {
        Self { reason: error.kind.reason().to_owned(), message: error.body(), field: error.field.clone() }
    }
}

/// Several texts as one: alone as it is, many in brackets, repeated ones once.
///
/// As apimachinery joins errors; the order is kept.
#[must_use]
pub fn aggregate(texts: impl IntoIterator<Item = String>) -> String {
    let mut known = HashSet::new();
    let seen: Vec<String> = texts.into_iter().filter(|text| known.insert(text.clone())).collect();
    if seen.len() == 1 { seen.concat() } else { format!("[{}]", seen.join(", ")) }
}
