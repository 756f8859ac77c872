//! Field paths and the list of field errors of a validation, after apimachinery's `field.Path` and `field.ErrorList`.
//!
//! A [`Path`] is a chain on the stack; it becomes text only for an error, so a valid object pays nothing for its paths.

use std::collections::HashSet;
use std::fmt;

use listwatch_wire::json::Value;
use listwatch_wire::status::{FieldError, FieldErrorKind, FieldErrors};

#[derive(Clone, Copy, Debug)]
enum FieldStep<'a> {
    Name(&'a str),
    Index(usize),
    Key(&'a str),
}

/// A place in an object, such as `spec.ports[0].name` or `data[key]`. It borrows its parent, so that it costs nothing
/// to extend and is printed only for an error.
///
/// Two words and a reference to the parent; `Copy`, since checks pass it on in all directions.
///
/// ```
/// use listwatch_kinds::field::Path;
///
/// let (spec, data) = (Path::root("spec"), Path::root("data"));
/// let ports = spec.child("ports");
/// assert_eq!(ports.index(0).child("name").to_string(), "spec.ports[0].name");
/// assert_eq!(data.key("a.b").to_string(), "data[a.b]");
/// ```
#[derive(Clone, Copy, Debug)]
#[doc(alias = "field.Path")]
pub struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: FieldStep<'a>,
}

impl<'a> Path<'a> {
    /// A top-level field, such as `spec`. Validation begins here and extends the path as it descends.
    #[must_use]
    pub const fn root(name: &'a str) -> Self {
        Path { parent: None, step: FieldStep::Name(name) }
    }

    /// The object itself, which has no name in paths.
    #[must_use]
    pub const fn object() -> Self {
        Path { parent: None, step: FieldStep::Name("") }
    }

    /// A field of this struct: `spec` becomes `spec.ports`. A dotted name is a field further below.
    #[must_use]
    pub const fn child<'b>(&'b self, name: &'b str) -> Path<'b> {
        Path { parent: Some(self), step: FieldStep::Name(name) }
    }

    /// Another field of the same struct, for errors that name a field other than the one being checked.
    ///
    /// ```
    /// use listwatch_kinds::field::Path;
    ///
    /// let spec = Path::root("spec");
    /// assert_eq!(spec.child("min").sibling("max").to_string(), "spec.max");
    /// ```
    #[must_use]
    pub const fn sibling<'b>(&'b self, name: &'b str) -> Path<'b> {
        Path { parent: self.parent, step: FieldStep::Name(name) }
    }

    /// The struct that the field is in.
    #[must_use]
    pub(crate) fn above(&self) -> Path<'_> {
        self.parent.copied().unwrap_or(Path::object())
    }

    /// An element of this list: `spec.ports` becomes `spec.ports[0]`.
    #[must_use]
    pub const fn index(&self, index: usize) -> Path<'_> {
        Path { parent: Some(self), step: FieldStep::Index(index) }
    }

    /// An entry of this map: `data` becomes `data[tls.crt]`.
    #[must_use]
    pub const fn key<'b>(&'b self, key: &'b str) -> Path<'b> {
        Path { parent: Some(self), step: FieldStep::Key(key) }
    }
}

impl Path<'_> {
    fn is_object(&self) -> bool {
        matches!(self, Path { parent: None, step: FieldStep::Name("") })
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        let below = self.parent.is_some_and(|parent| !parent.is_object());
        match self.step {
            FieldStep::Name(name) if below => write!(f, ".{name}"),
            FieldStep::Name(name) => f.write_str(name),
            FieldStep::Index(index) => write!(f, "[{index}]"),
            FieldStep::Key(key) => write!(f, "[{key}]"),
        }
    }
}

/// The field errors of one object, in the order they were found and bounded in number and size. Methods add an error;
/// those named after a condition add one only if it does not hold.
///
/// The bounds are those of [`FieldErrors`]: beyond them errors are dropped, and the object is refused all the same.
///
/// ```
/// use listwatch_kinds::field::{Errors, Path};
///
/// let (spec, mut errors) = (Path::root("spec"), Errors::new());
/// errors.one_of(&spec.child("type"), "Loud", &["Quiet"]);
/// errors.non_negative(&spec.child("replicas"), Some(-1));
/// let texts: Vec<String> = errors.into_vec().iter().map(ToString::to_string).collect();
/// assert_eq!(texts[1], "spec.replicas: Invalid value: -1: must be greater than or equal to 0");
/// ```
#[derive(Debug, Default)]
#[doc(alias = "ErrorList")]
pub struct Errors(FieldErrors);

impl Errors {
    /// An empty list: the object is valid so far.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the errors without repetitions, for [`Status::invalid`](listwatch_wire::Status::invalid).
    ///
    /// Compares the texts of all errors, which the bound on their number keeps cheap.
    #[must_use]
    pub fn into_vec(self) -> Vec<FieldError> {
        let mut kept = self.0.into_vec();
        // The same error twice is one, as in kube-apiserver.
        let mut seen = HashSet::new();
        if kept.len() > 1 {
            kept.retain(|error| seen.insert(error.to_string()));
        }
        kept
    }

    /// The elements of a list that have errors.
    ///
    /// For rules that check elements only if they have no other errors.
    pub(crate) fn elements(&self, list: &Path<'_>) -> HashSet<usize> {
        if self.0.is_empty() {
            return HashSet::new();
        }
        let start = format!("{list}[");
        let index = |error: &FieldError| {
            let (index, _) = error.field.strip_prefix(&start)?.split_once(']')?;
            index.parse().ok()
        };
        self.0.iter().filter_map(index).collect()
    }

    /// The fields that are complained about.
    #[cfg(test)]
    pub(crate) fn into_fields(self) -> Vec<String> {
        self.into_vec().into_iter().map(|error| error.field).collect()
    }

    /// Returns true if the object is valid so far. Later checks run only then, as in kube-apiserver.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of errors so far, for a rule that asks whether the ones before it found something.
    pub(crate) fn count(&self) -> usize {
        self.0.iter().count()
    }

    /// An error of any kind. Only some kinds show the value.
    pub(crate) fn push(
        &mut self,
        kind: FieldErrorKind,
        path: &Path<'_>,
        value: Value,
        detail: impl Into<String>,
    ) {
        let value = match kind {
            FieldErrorKind::Required | FieldErrorKind::Forbidden | FieldErrorKind::Internal => Value::Null,
            _ => value,
        };
        self.0.push(FieldError::new(kind, path.to_string(), value, detail));
    }

    /// Adds an error for a field that is absent or empty and must not be.
    pub fn required(&mut self, path: &Path<'_>, detail: impl Into<String>) {
        self.push(FieldErrorKind::Required, path, Value::Null, detail);
    }

    /// Adds an error for a value that breaks the rule in `detail`.
    pub fn invalid(&mut self, path: &Path<'_>, value: impl Into<Value>, detail: impl Into<String>) {
        self.push(FieldErrorKind::Invalid, path, value.into(), detail);
    }

    /// Adds an `Invalid` error without its value, which would only repeat the detail.
    pub(crate) fn invalid_without_value(&mut self, path: &Path<'_>, detail: impl Into<String>) {
        let error = FieldError::new(FieldErrorKind::Invalid, path.to_string(), Value::Null, detail);
        self.0.push(error.without_value());
    }

    /// Adds an error for a rule that could not be evaluated; the fault is the server's.
    pub fn internal(&mut self, path: &Path<'_>, detail: impl Into<String>) {
        self.push(FieldErrorKind::Internal, path, Value::Null, detail);
    }

    /// Adds an error for a field that may not be set here, or not be changed now.
    pub fn forbidden(&mut self, path: &Path<'_>, detail: impl Into<String>) {
        self.push(FieldErrorKind::Forbidden, path, Value::Null, detail);
    }

    /// Adds an error for a value that occurs twice where it must be unique; `path` is that of the second.
    ///
    /// kube-apiserver names the second, because the first was there before.
    pub fn duplicate(&mut self, path: &Path<'_>, value: impl Into<Value>) {
        self.push(FieldErrorKind::Duplicate, path, value.into(), "");
    }

    /// Adds an error for a reference to something that the object does not declare.
    ///
    /// Such as a volume mount whose volume the Pod does not have. References to other objects are never checked.
    pub fn not_found(&mut self, path: &Path<'_>, value: impl Into<Value>) {
        self.push(FieldErrorKind::NotFound, path, value.into(), "");
    }

    /// Adds an error for a text of more than `max` bytes.
    ///
    /// The value is not shown: it may be large.
    pub fn too_long(&mut self, path: &Path<'_>, max: usize) {
        self.0.push(FieldError::too_long(path.to_string(), max));
    }

    /// Adds an error for a list of more than `max` elements.
    pub fn too_many(&mut self, path: &Path<'_>, actual: usize, max: usize) {
        self.0.push(FieldError::too_many(path.to_string(), actual, max));
    }

    /// Adds an error for a value outside an enumeration. The supported values are sorted, as kube-apiserver prints
    /// them.
    pub fn not_supported(&mut self, path: &Path<'_>, value: &str, supported: &[&str]) {
        let mut words = supported.to_vec();
        words.sort_unstable();
        self.0.push(FieldError::not_supported(path.to_string(), value, &words));
    }

    /// Adds an error for a value outside an enumeration that kube-apiserver lists in an order of its own.
    pub(crate) fn not_supported_in_order(&mut self, path: &Path<'_>, value: &str, supported: &[&str]) {
        self.0.push(FieldError::not_supported(path.to_string(), value, supported));
    }

    /// Adds one error per message, for checks that return several: see [`crate::names`].
    pub fn invalid_all<T: Into<String>>(
        &mut self,
        path: &Path<'_>,
        value: &str,
        details: impl IntoIterator<Item = T>,
    ) {
        for detail in details {
            self.invalid(path, value, detail);
        }
    }

    /// Adds an error if an update changes the field.
    pub fn immutable(&mut self, path: &Path<'_>, new: &Value, old: &Value) {
        if new != old {
            self.invalid(path, new.clone(), "field is immutable");
        }
    }

    /// Adds an error unless the text is one of the supported values.
    pub fn one_of(&mut self, path: &Path<'_>, value: &str, supported: &[&str]) {
        if !supported.contains(&value) {
            self.not_supported(path, value, supported);
        }
    }

    /// Adds an error unless the text is there and one of the supported values.
    pub fn required_one_of(&mut self, path: &Path<'_>, value: &str, supported: &[&str]) {
        if value.is_empty() {
            self.required(path, "");
        } else {
            self.one_of(path, value, supported);
        }
    }

    /// Adds an error if the number is negative. An absent number is fine.
    pub fn non_negative(&mut self, path: &Path<'_>, value: Option<i64>) {
        if let Some(value) = value.filter(|value| *value < 0) {
            self.invalid(path, value, "must be greater than or equal to 0");
        }
    }

    /// Adds an error unless the number is greater than zero. An absent number is fine.
    pub fn positive(&mut self, path: &Path<'_>, value: Option<i64>) {
        if let Some(value) = value.filter(|value| *value <= 0) {
            self.invalid(path, value, "must be greater than 0");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_read_as_in_kube_apiserver() {
        let spec = Path::root("spec");
        let ports = spec.child("ports");
        let first = ports.index(0);
        assert_eq!(first.child("name").to_string(), "spec.ports[0].name");
        assert_eq!(Path::root("data").key("tls.crt").to_string(), "data[tls.crt]");
    }
}
