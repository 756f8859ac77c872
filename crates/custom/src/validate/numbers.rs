//! Bounds, multiples and formats of numbers.
//!
//! kube-openapi compares numbers as doubles, and so does this: integers beyond 2^53 lose precision.

use listwatch_wire::json::Value;
use listwatch_wire::status::FieldError;

use super::ValidateWalk;
use super::types::type_of;
use crate::schema::Schema;

impl ValidateWalk {
    /// Checks the bounds of a number, in the order of kube-openapi.
    /// For an integer, kube-openapi drops the fractions of the bounds.
    pub(super) fn number(&mut self, schema: &Schema, number: f64, value: &Value) {
        // A number that is not an integer has been reported with its format.
        if schema.type_name.as_str() != "integer" || type_of(value) == "integer" {
            self.number_format(schema, number);
        }
        let whole = value.as_i64().is_some();
        let bound = |bound: Option<f64>| bound.map(|bound| if whole { bound.trunc() } else { bound });
        self.multiple_of(bound(schema.multiple_of), number, value);
        if let Some(min) = bound(schema.minimum) {
            match schema.exclusive_minimum {
                true if number <= min => self.refuse(value.clone(), &format!("should be greater than {min}")),
                false if number < min => {
                    self.refuse(value.clone(), &format!("should be greater than or equal to {min}"));
                }
                _ => {}
            }
        }
        if let Some(max) = bound(schema.maximum) {
            match schema.exclusive_maximum {
                true if number >= max => self.refuse(value.clone(), &format!("should be less than {max}")),
                false if number > max => {
                    self.refuse(value.clone(), &format!("should be less than or equal to {max}"))
                }
                _ => {}
            }
        }
    }

    /// A factor that is not positive fails every number, with the factor as the value that is shown.
    fn multiple_of(&mut self, factor: Option<f64>, number: f64, value: &Value) {
        let Some(factor) = factor else { return };
        let quotient = if factor < 1.0 { 1.0 / factor * number } else { number / factor };
        if factor <= 0.0 {
            let shown =
                if value.as_i64().is_some() { Value::from(factor as i64) } else { Value::from(factor) };
            let detail =
                format!("factor MultipleOf declared for {} must be positive: {factor}", self.field());
            self.errors.push(FieldError::invalid(self.field(), shown, detail));
        } else if quotient.fract() != 0.0 {
            self.refuse(value.clone(), &format!("should be a multiple of {factor}"));
        }
    }

    /// Refuses a number outside the range of its format. As with types, kube-apiserver reports no path.
    fn number_format(&mut self, schema: &Schema, number: f64) {
        let fits = match schema.format.as_str() {
            "int32" => (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&number),
            "uint32" => (0.0..=f64::from(u32::MAX)).contains(&number),
            "float" | "float32" => number.abs() <= f64::from(f32::MAX),
            _ => true,
        };
        if !fits {
            let (kind, format) = (&schema.type_name, &schema.format);
            let detail =
                format!("Checked value must be of type {kind} with format {format} in {}", self.field());
            self.errors.push(FieldError::invalid("<nil>", "", detail));
        }
    }
}
