//! `anyOf`, `oneOf`, `allOf` and `not`: validation of a value against alternatives.
//!
//! An alternative is validated as if it were the whole schema, on the same count of steps. Ratcheting ends here:
//! alternatives have no old value.

use listwatch_wire::json::Value;
use listwatch_wire::status::{FieldError, FieldErrors};

use super::{BYTES_PER_STEP, ValidateWalk};
use crate::schema::Schema;

/// Steps that an error of an alternative counts for: its text is made even if another alternative holds.
const STEPS_PER_ERROR: usize = 4;

/// The alternatives that did not hold.
#[derive(Default)]
struct Failures {
    count: usize,
    /// The errors of the one with the fewest, the first of several.
    closest: Option<Vec<FieldError>>,
}

impl Failures {
    /// Keeps the errors of the alternative that came closest, which are the ones that help the user.
    fn add(&mut self, errors: Vec<FieldError>) {
        self.count += 1;
        if self.closest.as_ref().is_none_or(|closest| told(&errors) < told(closest)) {
            self.closest = Some(errors);
        }
    }
}

/// The number of errors that have a path. Those without repeat others.
fn told(errors: &[FieldError]) -> usize {
    errors.iter().filter(|error| error.field != "<nil>").count()
}

impl ValidateWalk {
    /// Checks `anyOf`, `oneOf`, `allOf` and `not`.
    pub(super) fn combinations(&mut self, schema: &Schema, value: &Value) {
        self.any_of(&schema.any_of, value);
        self.one_of(&schema.one_of, value);
        self.all_of(&schema.all_of, value);
        if schema.not.as_deref().is_some_and(|part| self.alternative(part, value).is_empty()) {
            self.refuse_whole("must not validate the schema (not)");
        }
    }

    /// At least one must hold. If none does, the errors of the closest one are reported, too.
    fn any_of(&mut self, parts: &[Schema], value: &Value) {
        let mut failures = Failures::default();
        for part in parts {
            match self.alternative(part, value) {
                errors if errors.is_empty() => return,
                errors => failures.add(errors),
            }
        }
        if failures.count > 0 {
            self.refuse_whole("must validate at least one schema (anyOf)");
            self.errors.extend(failures.closest.into_iter().flatten());
        }
    }

    /// Exactly one must hold. If none does, the errors of the closest one are reported, too.
    fn one_of(&mut self, parts: &[Schema], value: &Value) {
        let mut failures = Failures::default();
        for part in parts {
            match self.alternative(part, value) {
                errors if errors.is_empty() => {}
                errors => failures.add(errors),
            }
        }
        match parts.len() - failures.count {
            _ if parts.is_empty() => {}
            1 => {}
            0 => {
                self.refuse_whole("must validate one and only one schema (oneOf). Found none valid");
                self.errors.extend(failures.closest.into_iter().flatten());
            }
            valid => {
                let what = "must validate one and only one schema (oneOf)";
                self.refuse_whole(&format!("{what}. Found {valid} valid alternatives"));
            }
        }
    }

    /// All must hold. The errors of each come before the summary.
    fn all_of(&mut self, parts: &[Schema], value: &Value) {
        let mut failed = 0;
        for part in parts {
            let errors = self.alternative(part, value);
            failed += usize::from(!errors.is_empty());
            self.errors.extend(errors);
        }
        if failed > 0 {
            let none = if failed == parts.len() { ". None validated" } else { "" };
            self.refuse_whole(&format!("must validate all the schemas (allOf){none}"));
        }
    }

    /// The errors that one alternative alone would have here.
    fn alternative(&mut self, part: &Schema, value: &Value) -> Vec<FieldError> {
        let outside = std::mem::replace(&mut self.errors, FieldErrors::new());
        self.value(part, value, None);
        let errors = std::mem::replace(&mut self.errors, outside);
        // The path of an error may be as long as the object.
        self.spend(STEPS_PER_ERROR * errors.len() + errors.bytes() / BYTES_PER_STEP);
        errors.into_vec()
    }
}
