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

/// An alternative that was validated on its own.
struct Alternative {
    errors: Vec<FieldError>,
    /// The validators that were applied.
    matches: usize,
}

/// Adds an alternative that did not hold. The one with the most matches is kept, the first of several.
fn keep_closest(closest: &mut Option<Alternative>, found: Alternative) {
    if closest.as_ref().is_none_or(|closest| found.matches > closest.matches) {
        *closest = Some(found);
    }
}

impl ValidateWalk {
    /// Checks `anyOf`, `oneOf`, `allOf` and `not`.
    pub(super) fn combinations(&mut self, schema: &Schema, value: &Value) {
        self.any_of(&schema.any_of, value);
        self.one_of(&schema.one_of, value);
        self.all_of(&schema.all_of, value);
        if schema.not.as_deref().is_some_and(|part| self.alternative(part, value).errors.is_empty()) {
            self.refuse_whole("must not validate the schema (not)");
        }
    }

    /// At least one must hold. If none does, the errors of the closest one are reported, too.
    fn any_of(&mut self, parts: &[Schema], value: &Value) {
        let mut closest = None;
        for part in parts {
            let found = self.alternative(part, value);
            if found.errors.is_empty() {
                self.matches += found.matches;
                return;
            }
            keep_closest(&mut closest, found);
        }
        if let Some(closest) = closest {
            self.refuse_whole("must validate at least one schema (anyOf)");
            self.report(closest);
        }
    }

    /// Exactly one must hold. If none does, the errors of the closest one are reported, too.
    fn one_of(&mut self, parts: &[Schema], value: &Value) {
        let (mut closest, mut valid, mut matches) = (None, 0_usize, 0);
        for part in parts {
            let found = self.alternative(part, value);
            match found.errors.is_empty() {
                true => (valid, matches) = (valid + 1, found.matches),
                false => keep_closest(&mut closest, found),
            }
        }
        match valid {
            _ if parts.is_empty() => {}
            1 => self.matches += matches,
            0 => {
                self.refuse_whole("must validate one and only one schema (oneOf). Found none valid");
                closest.into_iter().for_each(|closest| self.report(closest));
            }
            valid => {
                let what = "must validate one and only one schema (oneOf)";
                self.refuse_whole(&format!("{what}. Found {valid} valid alternatives"));
            }
        }
    }

    /// Takes over the errors and matches of an alternative.
    fn report(&mut self, found: Alternative) {
        self.errors.extend(found.errors);
        self.matches += found.matches;
    }

    /// All must hold. The errors of each come before the summary.
    fn all_of(&mut self, parts: &[Schema], value: &Value) {
        let mut failed = 0;
        for part in parts {
            let found = self.alternative(part, value);
            failed += usize::from(!found.errors.is_empty());
            self.report(found);
        }
        if failed > 0 {
            let none = if failed == parts.len() { ". None validated" } else { "" };
            self.refuse_whole(&format!("must validate all the schemas (allOf){none}"));
        }
    }

    /// The errors and matches that one alternative alone would have here.
    fn alternative(&mut self, part: &Schema, value: &Value) -> Alternative {
        let outside = std::mem::replace(&mut self.errors, FieldErrors::new());
        let matches = std::mem::take(&mut self.matches);
        self.value(part, value, None);
        let matches = std::mem::replace(&mut self.matches, matches);
        let errors = std::mem::replace(&mut self.errors, outside);
        // The path of an error may be as long as the object.
        self.spend(STEPS_PER_ERROR * errors.len() + errors.bytes() / BYTES_PER_STEP);
        Alternative { errors: errors.into_vec(), matches }
    }
}
