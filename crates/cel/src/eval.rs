//! Evaluation: runs the operations of a plan over variables, within a limit of cost.
//!
//! It is a recursive walk over a vector of operations; depth is bounded by the parser, and the rarer operations are in
//! a function of their own to keep stack frames small. Costs are charged in the order in which cel-go charges them,
//! also for arguments of a call that fails, because the total is compared with limits. Errors are absorbed only where
//! CEL says so (`settle!` marks the places).
//!
//! This file has the dispatch, calls, operators and literals; fields and elements are in `selection`, loops in
//! `comprehension`. [`Activation`] is what a host implements to supply variables. All optimization happens before, in
//! `plan`.

mod activation;
mod comprehension;
mod selection;

use std::sync::Arc;

use listwatch_wire::json::Text;

pub use activation::{Activation, Variables};

use crate::cost::runtime;
use crate::error::EvalError;
use crate::meter::Meter;
use crate::plan::{EvalPlan, Op, OpId};
use crate::value::{MapValue, OwnedMap, StructValue, Value, compare};

/// The result of a step that can be absorbed, or the end of evaluation.
macro_rules! settle {
    ($result:expr) => {
        match $result {
            Err(error) if error.is_over_limit() => return Err(error),
            other => other,
        }
    };
}
use settle;

type EvalResult<'a> = Result<Value<'a>, EvalError>;

/// Evaluates a plan.
///
/// Allocates one vector for the slots. Time is bounded by the meter, stack by the height of the tree.
///
/// # Errors
///
/// The error of the expression, or an exceeded limit, which [`EvalError::is_over_limit`] distinguishes.
pub(crate) fn run<'a>(plan: &EvalPlan, variables: &dyn Activation<'a>, meter: &mut Meter) -> EvalResult<'a> {
    let slots = vec![Ok(Value::Null); plan.slots];
    Evaluator { plan, variables, meter, slots }.eval(plan.root)
}

/// One evaluation: the plan, the variables of the host, and the state that changes.
struct Evaluator<'p, 'a> {
    plan: &'p EvalPlan,
    variables: &'p dyn Activation<'a>,
    /// Charged by operations and functions. Once it is exhausted every further charge fails, and no operator absorbs
    /// that error.
    meter: &'p mut Meter,
    /// Accumulators and variables of comprehensions. An accumulator may hold an error, which a later step can absorb.
    slots: Vec<EvalResult<'a>>,
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

    /// The operations with larger stack frames. They are in a separate function so that deep expressions need little
    /// stack.
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
            // Values that cannot be compared are unequal.
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

    /// Evaluates the elements of a list in order, and stops at the first that fails.
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
        map.map(|map| Value::Map(MapValue::Owned(Arc::new(map))))
    }

    /// Evaluates the entries of a map in order: each key before its value, and no further after one that fails.
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
}
