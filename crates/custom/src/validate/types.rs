//! Checks of JSON types, with the names and messages of go-openapi.
//!
//! The rest of a schema is checked in the other files of this folder, once the type is right.

use listwatch_wire::json::{Number, Value};
use listwatch_wire::status::FieldError;

use super::{ValidateWalk, ValidationMode};
use crate::format;
use crate::schema::Schema;

impl ValidateWalk {
    /// Checks the JSON type. A mismatch does not end the validation of the value.
    pub(super) fn check_type(&mut self, schema: &Schema, value: &Value) {
        let actual = type_of(value);
        if schema.int_or_string {
            if self.mode == ValidationMode::Default {
                return;
            }
            return self.expect_type(matches!(actual, "integer" | "string"), "integer,string", actual);
        }
        match schema.type_name.as_str() {
            "" => {}
            "string" if format::is_known(&schema.format) => self.formatted_type(&schema.format, actual),
            "number" => self.expect_type(matches!(actual, "integer" | "number"), "number", actual),
            "integer" if actual == "number" => self.no_integer(&schema.format),
            expected => self.expect_type(expected == actual, expected, actual),
        }
    }

    /// Checks the type of a value that should be a text with a format. kube-openapi compares formats instead of types,
    /// and leaves lists like texts to the validator of formats, which accepts them.
    fn formatted_type(&mut self, format: &str, actual: &str) {
        match actual {
            "string" | "array" => {}
            "null" => self.expect_type(false, "string", actual),
            "integer" => self.expect_type(false, format, "int64"),
            "number" => self.expect_type(false, format, "float64"),
            _ => self.expect_type(false, format, ""),
        }
    }

    /// Reports a number that is not an integer. kube-apiserver checks the format too and loses the path; formats with a
    /// size it takes for types.
    fn no_integer(&mut self, format: &str) {
        let field = self.field();
        let form = match format {
            "int32" | "int64" | "uint32" | "uint64" => {
                self.expect_type(false, format, "float64");
                format!("with format {format}")
            }
            _ => {
                self.expect_type(false, "integer", "number");
                "(default format)".to_owned()
            }
        };
        let detail = format!("Checked value must be of type integer {form} in {field}");
        self.errors.push(FieldError::invalid("<nil>", "", detail));
    }

    /// Types are reported as by go-openapi, with the type that was found.
    fn expect_type(&mut self, fits: bool, expected: &str, actual: &str) {
        if !fits {
            let detail = self.in_body(&format!("must be of type {expected}: {actual:?}"));
            self.errors.push(FieldError::type_invalid(self.field(), actual, detail));
        }
    }
}

/// The largest number up to which every integer is one in floating point.
const MAX_EXACT: f64 = 9_007_199_254_740_991.0;
/// The part of a number that its fraction may be of for it to pass as an integer.
const NEGLIGIBLE: f64 = 1e-9;

/// Returns true for an integer of 64 bits, and for one in floating point as go-openapi has it: exact, and nearly without a
/// fraction.
fn is_integer(number: &Number) -> bool {
    let nearly = |number: f64| {
        let distance = (number - number.round()).abs();
        number.abs() <= MAX_EXACT && (distance == 0.0 || distance < NEGLIGIBLE * number.round().abs())
    };
    number.as_i64().is_some() || (number.is_f64() && number.as_f64().is_some_and(nearly))
}

/// go-openapi's name of the JSON type. A float without a fraction counts as an integer.
pub(super) fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if !is_integer(number) => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
