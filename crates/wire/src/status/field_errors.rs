//! [`FieldErrors`]: the field errors of one object, bounded in number.
//!
//! An object may be wrong in a million places; the first errors are enough for people, and collecting the others would
//! be work that any client can cause.

use super::FieldError;

/// The most bytes of errors that are kept and returned. kube-apiserver keeps all of them; but each may show the value
/// it is about and the path to it, so that a small object could lead to a response of any size. The bound is far above
/// what people read.
const MAX_BYTES: usize = 256 << 10;

/// The most errors that are kept.
const MAX_ERRORS: usize = 1000;

/// Errors in the order they were found, up to a bound; what is beyond it is dropped.
///
/// ```
/// use listwatch_wire::status::{FieldError, FieldErrors};
///
/// let mut errors = FieldErrors::new();
/// for index in 0..5_000 {
///     errors.push(FieldError::required(format!("spec.items[{index}]"), ""));
/// }
/// // A thousand are kept. The object is refused in any case.
/// assert!(errors.is_full() && errors.len() < 5_000);
/// ```
#[derive(Clone, Debug, Default)]
pub struct FieldErrors {
    kept: Vec<FieldError>,
    taken: usize,
    bytes: usize,
}

impl FieldErrors {
    /// An empty list.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an error, if there is room. Others are left out of the response; the object is refused in any case.
    pub fn push(&mut self, error: FieldError) {
        if self.takes(&error) {
            self.kept.push(error);
        }
    }

    /// Returns true if there is room for another error, and reserves it.
    pub(super) fn takes(&mut self, error: &FieldError) -> bool {
        if self.is_full() {
            return false;
        }
        self.taken += 1;
        self.bytes += error.weight();
        true
    }

    /// Returns true if more errors would be dropped, so that looking for them is of no use.
    ///
    /// A walk over a large object may end then.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.bytes >= MAX_BYTES || self.taken >= MAX_ERRORS
    }

    /// The bytes of their texts.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The number of errors.
    #[must_use]
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Returns true if there are no errors.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// The errors so far.
    pub fn iter(&self) -> impl Iterator<Item = &FieldError> {
        self.kept.iter()
    }

    /// Returns the errors.
    #[must_use]
    pub fn into_vec(self) -> Vec<FieldError> {
        self.kept
    }
}

impl Extend<FieldError> for FieldErrors {
    fn extend<I: IntoIterator<Item = FieldError>>(&mut self, errors: I) {
        errors.into_iter().for_each(|error| self.push(error));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Status;

    #[test]
    fn errors_are_bounded_however_many_faults_an_object_has() {
        // A string of 1 MB that failed 100 patterns was answered with 200 MB.
        let text = "x".repeat(1 << 20);
        let mut errors = FieldErrors::new();
        for n in 0..100 {
            errors.push(FieldError::invalid("spec.text", text.as_str(), format!("should match '{n}'")));
        }
        assert_eq!(errors.len(), 1);
        let status = Status::invalid("", "Pod", "a", &errors.into_vec());
        assert!(status.to_json().len() < (2 << 20) + 1000);
        let many: Vec<_> = (0..100_000).map(|n| FieldError::required(format!("spec.a[{n}]"), "")).collect();
        assert!(Status::invalid("", "Pod", "a", &many).to_json().len() < 1 << 20);
    }
}
