//! Comprehensions: the loop behind `all`, `exists`, `map`, `filter` and the rest.
//!
//! A loop has three slots: the accumulator and two variables. The accumulator grows in place, because a copy for each turn
//! would make `map` quadratic while its cost stays linear. Every turn is metered as work, since cel-go charges nothing for
//! the loop itself.

use super::{EvalResult, Evaluator, settle};
use crate::error::EvalError;
use crate::plan::{FoldOp, OpId};
use crate::value::Value;

impl<'a> Evaluator<'_, 'a> {
    /// Evaluates a comprehension: one loop for all macros (`all`, `exists`, `map`, `filter`, …). Work is metered per
    /// turn, since cel-go charges nothing for the loop itself.
    pub(super) fn fold(&mut self, fold: &FoldOp) -> EvalResult<'a> {
        let range = self.eval(fold.range)?;
        let init = settle!(self.eval(fold.init));
        self.set(fold.slot, init);
        match &range {
            Value::List(list) => {
                for (at, item) in list.iter().enumerate() {
                    let first = if fold.two { Ok(Value::Int(at as i64)) } else { item.clone() };
                    if !self.step(fold, first, item)? {
                        break;
                    }
                }
            }
            Value::Map(map) => {
                for key in map.keys() {
                    self.meter.work(1)?;
                    let value = if fold.two {
                        map.get(&key).map(|value| value.unwrap_or(Value::Null))
                    } else {
                        Ok(Value::Null)
                    };
                    if !self.step(fold, Ok(key), value)? {
                        break;
                    }
                }
            }
            other => {
                let message = format!("got '{}', expected iterable type", other.type_name());
                return Err(EvalError::new(message));
            }
        }
        let result = self.eval(fold.result);
        self.set(fold.slot, Ok(Value::Null));
        result
    }

    /// One turn of a loop; whether another one may follow.
    fn step(
        &mut self,
        fold: &FoldOp,
        first: EvalResult<'a>,
        second: EvalResult<'a>,
    ) -> Result<bool, EvalError> {
        self.meter.work(1)?;
        self.set(fold.slot + 1, first);
        self.set(fold.slot + 2, second);
        if matches!(settle!(self.eval(fold.condition)), Ok(Value::Bool(false))) {
            return Ok(false);
        }
        let accumulated = settle!(self.eval(fold.step));
        self.set(fold.slot, accumulated);
        Ok(true)
    }

    /// Changes the accumulator in a slot and returns it. It is moved out of the slot for that, so that it is not shared
    /// and can be changed in place.
    ///
    /// Leaves null in the slot until the caller puts the result back, which the step of the loop does.
    pub(super) fn grow(
        &mut self,
        slot: usize,
        change: impl FnOnce(&mut Value<'a>) -> Result<(), EvalError>,
    ) -> EvalResult<'a> {
        let Some(slot) = self.slots.get_mut(slot) else { return Err(EvalError::no_such_overload()) };
        let mut value = std::mem::replace(slot, Ok(Value::Null))?;
        change(&mut value)?;
        Ok(value)
    }

    /// Adds to the map of a comprehension in place. Copying it each turn would make a loop quadratic, which its cost
    /// does not say.
    pub(super) fn insert(&mut self, slot: usize, args: &[OpId]) -> EvalResult<'a> {
        let values = args.iter().map(|arg| self.eval(*arg)).collect::<Result<Vec<_>, _>>();
        let values = settle!(values);
        self.meter.charge(2)?;
        let mut work = 0;
        let result = self.grow(slot, |map| match (map, values?.as_slice()) {
            (Value::Map(map), [key, value]) => map.insert(key.clone(), value.clone()),
            (Value::Map(map), [Value::Map(added)]) => {
                work = added.len() as u64;
                for key in added.keys() {
                    if let Some(value) = added.get(&key)? {
                        map.insert(key, value)?;
                    }
                }
                Ok(())
            }
            _ => Err(EvalError::no_such_overload()),
        });
        self.meter.work(work)?;
        result
    }

    /// Slots exist for the whole plan, so a missing one cannot occur; it would be ignored.
    fn set(&mut self, slot: usize, value: EvalResult<'a>) {
        if let Some(place) = self.slots.get_mut(slot) {
            *place = value;
        }
    }
}
