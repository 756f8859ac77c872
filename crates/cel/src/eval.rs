//! Evaluation: runs the operations of a plan over variables, within a limit of cost.
//!
//! It is a recursive walk over a vector of operations; depth is bounded by the parser, and the rarer operations are in
//! a function of their own to keep stack frames small. Costs are charged in the order in which cel-go charges them,
//! also for arguments of a call that fails, because the total is compared with limits. Errors are absorbed only where
//! CEL says so (`settle!` marks the places). Accumulators of comprehensions grow in place: copying them would make
//! `map` quadratic.

use std::sync::Arc;

use listwatch_wire::json::Text;

use crate::cost::runtime;
use crate::error::EvalError;
use crate::meter::Meter;
use crate::plan::{EvalPlan, FoldOp, Op, OpId};
use crate::value::{Map, OwnedMap, StructValue, Value, compare};

/// The values of the variables of an expression, after cel-go's `Activation`.
///
/// Asked at each read of a variable, so it should answer from memory or remember what it computed. Values borrow from
/// the host's objects for `'a`, which outlives the evaluation.
pub trait Activation<'a> {
    /// The value of a variable, or `None` if it has none.
    ///
    /// # Errors
    /// Why it cannot be read.
    fn variable(&self, name: &str) -> Result<Option<Value<'a>>, EvalError>;
}

/// Variables with their values: the simplest [`Activation`]. Of two with one name the later counts.
///
/// A linear search: hosts have a handful of variables. One with many, or with lazy ones, implements [`Activation`]
/// itself.
#[derive(Clone, Debug, Default)]
pub struct Variables<'a>(Vec<(&'a str, Value<'a>)>);

impl<'a> Variables<'a> {
    /// No variables.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a variable.
    #[must_use]
    pub fn with(mut self, name: &'a str, value: Value<'a>) -> Self {
        self.0.push((name, value));
        self
    }
}

impl<'a> Activation<'a> for Variables<'a> {
    fn variable(&self, name: &str) -> Result<Option<Value<'a>>, EvalError> {
        Ok(self.0.iter().rev().find(|(known, _)| *known == name).map(|(_, value)| value.clone()))
    }
}

type EvalResult<'a> = Result<Value<'a>, EvalError>;

/// Evaluates a plan.
///
/// Allocates one vector for the slots. Time is bounded by the meter, stack by the height of the tree.
///
/// # Errors
///
/// The error of the expression, or an exceeded limit, which [`EvalError::is_over_limit`] tells apart.
pub(crate) fn run<'a>(plan: &EvalPlan, variables: &dyn Activation<'a>, meter: &mut Meter) -> EvalResult<'a> {
    let slots = vec![Ok(Value::Null); plan.slots];
    Evaluator { plan, variables, meter, slots }.eval(plan.root)
}

struct Evaluator<'p, 'a> {
    plan: &'p EvalPlan,
    variables: &'p dyn Activation<'a>,
    /// Charged by operations and functions. Once it is exhausted every further charge fails, and no operator absorbs
    /// that error.
    meter: &'p mut Meter,
    /// Accumulators and variables of comprehensions. An accumulator may hold an error, which a later step can absorb.
    slots: Vec<EvalResult<'a>>,
}

/// The result of a step that can be absorbed, or the end of evaluation.
macro_rules! settle {
    ($result:expr) => {
        match $result {
            Err(error) if error.is_over_limit() => return Err(error),
            other => other,
        }
    };
}

impl<'a> Evaluator<'_, 'a> {
    /// Evaluates one operation. The frequent ones are here and the larger ones in `eval_rarer`, because each level of
    /// an expression is a stack frame of this function.
    ///
    /// `tests/bounds.rs` evaluates expressions as deep as the parser accepts on the stack of a worker, 2 MiB; growing
    /// this frame can break it.
    fn eval(&mut self, id: OpId) -> EvalResult<'a> {
        let plan = self.plan;
        let Some(op) = plan.ops.get(id) else { return Err(EvalError::new("no such operation")) };
        match op {
            Op::Const(value) => Ok(value.clone()),
            Op::Var { name, cost } => {
                self.meter.charge(*cost)?;
                let missing = || EvalError::new(format!("no such attribute(s): {name}"));
                self.variables.variable(name)?.ok_or_else(missing)
            }
            Op::Local { slot, cost } => {
                self.meter.charge(*cost)?;
                self.slots.get(*slot).cloned().unwrap_or(Ok(Value::Null))
            }
            Op::Select { operand, field, optional, cost } => self.select(*operand, field, *optional, *cost),
            Op::Has { operand, field } => self.has(*operand, field),
            Op::Index { operand, index, optional, cost } => self.index(*operand, *index, *optional, *cost),
            Op::And(left, right) => self.logic(*left, *right, false),
            Op::Or(left, right) => self.logic(*left, *right, true),
            Op::Ternary(test, yes, no) => match self.eval(*test)? {
                Value::Bool(true) => self.eval(*yes),
                Value::Bool(false) => self.eval(*no),
                _ => Err(EvalError::no_such_overload()),
            },
            Op::Equal { left, right, negated } => self.equal(*left, *right, *negated),
            _ => self.eval_rarer(op),
        }
    }

    /// The operations that take more room. They are apart so that deep expressions need little stack.
    #[inline(never)]
    fn eval_rarer(&mut self, op: &Op) -> EvalResult<'a> {
        match op {
            Op::Call { args, .. } if args.len() <= 2 => self.call(op),
            Op::Call { .. } => self.call_with_many(op),
            Op::NotStrictlyFalse(arg) => {
                let value = settle!(self.eval(*arg));
                self.meter.charge(1)?;
                Ok(Value::Bool(!matches!(value, Ok(Value::Bool(false)))))
            }
            Op::InSet { item, set } => Ok(Value::Bool(set.get(&self.eval(*item)?).is_some())),
            Op::OptionalOr { left, right, unwrap } => match (self.eval(*left)?, unwrap) {
                (Value::Optional(None), _) => self.eval(*right),
                (Value::Optional(Some(value)), true) => Ok((*value).clone()),
                (value @ Value::Optional(Some(_)), false) => Ok(value),
                _ => Err(EvalError::no_such_overload()),
            },
            Op::List { items, optional } => self.list(items, optional),
            Op::Map { entries } => self.map(entries),
            Op::Struct { name, fields } => {
                let given = settle!(self.fields(fields));
                self.meter.charge(runtime::STRUCT_COST)?;
                Ok(Value::Struct(Arc::new(StructValue { type_name: name.clone(), fields: given? })))
            }
            Op::Append { slot, item, cost } => {
                let item = settle!(self.eval(*item));
                self.meter.charge(*cost)?;
                self.grow(*slot, |list| match list {
                    Value::List(list) => {
                        list.push(item?);
                        Ok(())
                    }
                    _ => Err(EvalError::no_such_overload()),
                })
            }
            Op::Insert { slot, args } => self.insert(*slot, args),
            Op::Fold(fold) => self.fold(fold),
            _ => Err(EvalError::new("no such operation")),
        }
    }

    /// Calls a function of one or two arguments without a vector for them, since most calls are of that kind.
    ///
    /// An error of an argument is reported only after all of them were paid for, as in cel-go, where calls are
    /// strict.
    fn call(&mut self, op: &Op) -> EvalResult<'a> {
        let Op::Call { native, args, cost } = op else { return Err(EvalError::no_such_overload()) };
        let (mut values, mut error) = ([Value::Null, Value::Null], None);
        // All arguments are evaluated, and paid for, even if one has no value.
        for (value, arg) in values.iter_mut().zip(args) {
            match settle!(self.eval(*arg)) {
                Ok(evaluated) => *value = evaluated,
                Err(failed) => error = error.or(Some(failed)),
            }
        }
        let values = values.get(..args.len()).unwrap_or(&[]);
        let result = match error {
            Some(error) => Err(error),
            None => native(self.meter, values),
        };
        let charged = cost.cost(values, result.as_ref().ok());
        self.meter.charge(charged)?;
        result
    }

    /// Calls a function of three or more arguments. The first one that fails ends the call without the others, and the
    /// call itself is paid for if there are no others, as in cel-go.
    fn call_with_many(&mut self, op: &Op) -> EvalResult<'a> {
        let Op::Call { native, args, cost } = op else { return Err(EvalError::no_such_overload()) };
        let (mut values, mut error) = (Vec::with_capacity(args.len()), None);
        for arg in args {
            match settle!(self.eval(*arg)) {
                Ok(value) => values.push(value),
                Err(failed) => {
                    values.push(Value::Null);
                    error = Some(failed);
                    break;
                }
            }
        }
        let result = match error {
            Some(error) if values.len() < args.len() => return Err(error),
            Some(error) => Err(error),
            None => native(self.meter, &values),
        };
        let charged = cost.cost(&values, result.as_ref().ok());
        self.meter.charge(charged)?;
        result
    }

    /// Evaluates `==` and `!=`. Values of different types are unequal, not an error, unless a schema gives the left one
    /// its type.
    fn equal(&mut self, left: OpId, right: OpId, negated: bool) -> EvalResult<'a> {
        let left = settle!(self.eval(left));
        let right = settle!(self.eval(right));
        self.meter.charge(runtime::equality(left.as_ref().ok(), right.as_ref().ok()))?;
        let equal = settle!(compare::equal(&left?, &right?, self.meter));
        match equal {
            Ok(equal) => Ok(Value::Bool(equal != negated)),
            // What cannot be compared is not equal.
            Err(_) if negated => Ok(Value::Bool(true)),
            Err(error) => Err(error),
        }
    }

    /// `&&` and `||`: one side decides if it can, even if the other has no value.
    fn logic(&mut self, left: OpId, right: OpId, decisive: bool) -> EvalResult<'a> {
        let left = settle!(self.eval(left));
        if matches!(left, Ok(Value::Bool(flag)) if flag == decisive) {
            return left;
        }
        let right = settle!(self.eval(right));
        if matches!(right, Ok(Value::Bool(flag)) if flag == decisive) {
            return right;
        }
        match (left?, right?) {
            (Value::Bool(_), Value::Bool(_)) => Ok(Value::Bool(!decisive)),
            _ => Err(EvalError::no_such_overload()),
        }
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

    /// Charges for a selection and returns what it found. An absent value is an error unless it is optional, which costs one less.
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

    /// Reads a field. A selection on an optional yields an optional, so that a chain with one `?` needs no more of
    /// them.
    fn select(&mut self, operand: OpId, field: &str, optional: bool, cost: u64) -> EvalResult<'a> {
        let Some((operand, optional)) = self.operand(operand, optional, cost)? else {
            return Ok(Value::Optional(None));
        };
        let found = settle!(field_of(&operand, field, self.meter));
        self.selected(found, optional, cost, || format!("no such key: {field}"))
    }

    /// Tests for the presence of a field: the macro `has()`. Absence is no error; an operand that has no value is one.
    fn has(&mut self, operand: OpId, field: &str) -> EvalResult<'a> {
        let operand = match self.eval(operand)? {
            Value::Optional(None) => return Ok(Value::Bool(false)),
            Value::Optional(Some(inner)) => (*inner).clone(),
            other => other,
        };
        self.meter.charge(1)?;
        Ok(Value::Bool(field_of(&operand, field, self.meter)?.is_some()))
    }

    /// Reads an element of a list or map; on an optional it yields an optional, as `select` does.
    fn index(&mut self, operand: OpId, index: OpId, optional: bool, cost: u64) -> EvalResult<'a> {
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

    /// The value of an entry, or `None` if it is optional and absent.
    fn entry(&mut self, id: OpId, optional: bool) -> Result<Option<Value<'a>>, EvalError> {
        let value = self.eval(id)?;
        match value {
            value if !optional => Ok(Some(value)),
            Value::Optional(inner) => Ok(inner.map(|inner| (*inner).clone())),
            other => {
                let message = format!(
                    "cannot initialize optional list element from non-optional value {}",
                    compare::shown(&other)
                );
                Err(EvalError::new(message))
            }
        }
    }

    /// Makes a list. Optional elements without a value are left out. One that fails is paid for as well.
    fn list(&mut self, items: &[OpId], optional: &[usize]) -> EvalResult<'a> {
        let values = settle!(self.items(items, optional));
        self.meter.charge(runtime::LIST_COST)?;
        values.map(Value::list)
    }

    fn items(&mut self, items: &[OpId], optional: &[usize]) -> Result<Vec<Value<'a>>, EvalError> {
        let mut values = Vec::with_capacity(items.len());
        for (at, item) in items.iter().enumerate() {
            values.extend(self.entry(*item, optional.contains(&at))?);
        }
        Ok(values)
    }

    /// Makes a map. Optional entries without a value are left out; of two equal keys the later counts. One that fails is paid
    /// for as well.
    fn map(&mut self, entries: &[(OpId, OpId, bool)]) -> EvalResult<'a> {
        let map = settle!(self.entries(entries));
        self.meter.charge(runtime::MAP_COST)?;
        map.map(|map| Value::Map(Map::Owned(Arc::new(map))))
    }

    fn entries(&mut self, entries: &[(OpId, OpId, bool)]) -> Result<OwnedMap<'a>, EvalError> {
        let mut map = OwnedMap::default();
        for (key, value, optional) in entries {
            let key = self.eval(*key)?;
            if let Some(value) = self.entry(*value, *optional)? {
                map.insert(key, value)?;
            }
        }
        Ok(map)
    }

    /// The fields of a struct that have a value.
    fn fields(&mut self, fields: &[(Text, OpId, bool)]) -> Result<Vec<(Text, Value<'a>)>, EvalError> {
        let mut given = Vec::with_capacity(fields.len());
        for (name, value, optional) in fields {
            if let Some(value) = self.entry(*value, *optional)? {
                given.push((name.clone(), value));
            }
        }
        Ok(given)
    }

    /// Changes the accumulator in a slot and returns it. It is taken out for that, so that nobody else has it.
    ///
    /// Leaves null in the slot until the caller puts the result back, which the step of the loop does.
    fn grow(
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
    fn insert(&mut self, slot: usize, args: &[OpId]) -> EvalResult<'a> {
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

    /// Evaluates a comprehension: one loop for all macros (`all`, `exists`, `map`, `filter`, …). Work is metered per
    /// turn, since cel-go charges nothing for the loop itself.
    fn fold(&mut self, fold: &FoldOp) -> EvalResult<'a> {
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

    /// Slots exist for the whole plan, so a missing one cannot occur; it would be ignored.
    fn set(&mut self, slot: usize, value: EvalResult<'a>) {
        if let Some(place) = self.slots.get_mut(slot) {
            *place = value;
        }
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
