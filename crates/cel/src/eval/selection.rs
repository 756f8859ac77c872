//! Fields of maps and objects, elements of lists and maps, and presence tests.
//!
//! A selection on an optional yields an optional, so a chain needs one `?` only. A missing value is charged one less where it
//! is allowed to be missing: that is cel-go's accounting, and totals are compared with limits.

use super::{EvalResult, Evaluator, settle};
use crate::error::EvalError;
use crate::meter::Meter;
use crate::plan::OpId;
use crate::value::{Value, compare};

impl<'a> Evaluator<'_, 'a> {
    /// Reads a field. A selection on an optional yields an optional, so that a chain with one `?` needs no more of
    /// them.
    pub(super) fn select(&mut self, operand: OpId, field: &str, optional: bool, cost: u64) -> EvalResult<'a> {
        let Some((operand, optional)) = self.operand(operand, optional, cost)? else {
            return Ok(Value::Optional(None));
        };
        let found = settle!(field_of(&operand, field, self.meter));
        self.selected(found, optional, cost, || format!("no such key: {field}"))
    }

    /// Tests for the presence of a field: the macro `has()`. Absence is not an error; an operand that has no value is one.
    pub(super) fn has(&mut self, operand: OpId, field: &str) -> EvalResult<'a> {
        let operand = match self.eval(operand)? {
            Value::Optional(None) => return Ok(Value::Bool(false)),
            Value::Optional(Some(inner)) => (*inner).clone(),
            other => other,
        };
        self.meter.charge(1)?;
        Ok(Value::Bool(field_of(&operand, field, self.meter)?.is_some()))
    }

    /// Reads an element of a list or map; on an optional it yields an optional, as `select` does.
    pub(super) fn index(&mut self, operand: OpId, index: OpId, optional: bool, cost: u64) -> EvalResult<'a> {
        let Some((operand, optional)) = self.operand(operand, optional, cost)? else {
            return Ok(Value::Optional(None));
        };
        let index = self.eval(index)?;
        let found = settle!(element_of(&operand, &index, self.meter));
        self.selected(found, optional, cost, || {
            let what = if matches!(operand, Value::List(_)) { "index out of bounds" } else { "no such key" };
            format!("{what}: {}", compare::shown(&index))
        })
    }

    /// Evaluates the operand of a selection, and says if the selection yields an optional. `None` for an optional without
    /// a value: nothing is selected from it, and its cost has been charged.
    fn operand(
        &mut self,
        operand: OpId,
        optional: bool,
        cost: u64,
    ) -> Result<Option<(Value<'a>, bool)>, EvalError> {
        match self.eval(operand)? {
            Value::Optional(None) => self.meter.charge(cost - 1).map(|()| None),
            Value::Optional(Some(inner)) => Ok(Some(((*inner).clone(), true))),
            other => Ok(Some((other, optional))),
        }
    }

    /// Charges for a selection and returns what it found. An absent value is an error unless it is optional, which
    /// costs one less.
    fn selected(
        &mut self,
        found: Result<Option<Value<'a>>, EvalError>,
        optional: bool,
        cost: u64,
        missing: impl FnOnce() -> String,
    ) -> EvalResult<'a> {
        let absent = matches!(found, Ok(None));
        self.meter.charge(if optional && absent { cost - 1 } else { cost })?;
        match (found?, optional) {
            (Some(value), false) => Ok(value),
            (Some(value), true) => Ok(Value::some(value)),
            (None, true) => Ok(Value::Optional(None)),
            (None, false) => Err(EvalError::new(missing())),
        }
    }
}

/// The field of a value, if there is one.
///
/// Anything that has no fields has none: selecting from a scalar is "no such key", since the checker has refused it
/// where types are known.
fn field_of<'a>(value: &Value<'a>, name: &str, meter: &mut Meter) -> Result<Option<Value<'a>>, EvalError> {
    match value {
        Value::Map(map) => map.field(name),
        Value::Struct(object) => {
            Ok(object.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone()))
        }
        Value::Host(object) => object.field(name, meter),
        Value::List(_) => Err(EvalError::new("unsupported index type 'string' in list")),
        _ => Ok(None),
    }
}

/// The element of a list or map, if there is one.
fn element_of<'a>(
    value: &Value<'a>,
    index: &Value<'a>,
    meter: &mut Meter,
) -> Result<Option<Value<'a>>, EvalError> {
    match (value, index) {
        (Value::Map(map), key) => map.get(key),
        (Value::List(list), Value::Int(at)) => u64::try_from(*at).map_or(Ok(None), |at| list.get(at)),
        (Value::List(list), Value::Uint(at)) => list.get(*at),
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a whole number in range"
        )]
        (Value::List(list), Value::Double(at)) if at.fract() == 0.0 && at.abs() < 1e18 => {
            if *at < 0.0 {
                Ok(None)
            } else {
                list.get(*at as u64)
            }
        }
        (Value::List(_), other) => {
            Err(EvalError::new(format!("unsupported index type '{}' in list", other.type_name())))
        }
        (_, Value::String(name)) => field_of(value, name, meter),
        _ => Ok(None),
    }
}
