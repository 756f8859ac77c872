//! Planning: from a checked expression to a vector of operations.
//!
//! Variables of comprehensions become slots, literals and conversions of constants are computed, membership in a
//! constant list becomes a hash lookup, and each operation carries its cost. Costs follow cel-go's interpreter: a
//! selection is free where cel-go folds it into an attribute, and an evaluated constant costs nothing. Changing an
//! optimization here changes costs that users see. The operations themselves are in `ops`; `eval` runs them.

mod ops;

use std::sync::Arc;

use listwatch_wire::json::Text;

pub(crate) use ops::{EvalPlan, FoldOp, Op, OpId};

use crate::ast::{AstKind, Fold, Id, Literal, MapEntry};
use crate::checker::Checked;
use crate::cost::runtime::CallCost;
use crate::error::EvalError;
use crate::library;
use crate::meter::Meter;
use crate::value::{MapValue, OwnedMap, Str, Value};

/// Constants are computed within this cost.
const CONSTANT_COST: u64 = 100_000;

/// Plans an expression.
///
/// # Errors
/// If a constant cannot be computed.
pub(crate) fn plan(checked: &Checked) -> Result<EvalPlan, EvalError> {
    let mut planner = Planner { checked, ops: Vec::new(), locals: Vec::new(), slots: 0 };
    let root = planner.plan(checked.ast.root)?;
    Ok(EvalPlan { ops: planner.ops, root, slots: planner.slots })
}

/// Turns a checked tree into a list of operations, with names resolved to slots and constants folded.
struct Planner<'c> {
    checked: &'c Checked,
    ops: Vec<Op>,
    /// Names of slots, the innermost last. A slot may have no name outside of its loop.
    locals: Vec<Option<Text>>,
    /// The highest number of slots so far.
    slots: usize,
}

impl Planner<'_> {
    fn add(&mut self, op: Op) -> OpId {
        self.ops.push(op);
        self.ops.len() - 1
    }

    fn op(&self, id: OpId) -> Option<&Op> {
        self.ops.get(id)
    }

    /// The value of an operation that needs no evaluation.
    fn constant(&self, id: OpId) -> Option<&Value<'static>> {
        if let Some(Op::Const(value)) = self.op(id) { Some(value) } else { None }
    }

    /// An attribute is what cel-go resolves as one: a variable with the selections and indexes after it, and a
    /// conditional between two of them.
    fn is_attribute(&self, id: OpId) -> bool {
        matches!(
            self.op(id),
            Some(
                Op::Var { .. }
                    | Op::Local { .. }
                    | Op::Select { .. }
                    | Op::Has { .. }
                    | Op::Index { .. }
                    | Op::Ternary(..)
            )
        )
    }

    /// Takes the cost of reading a variable away where cel-go does not count it: in keys, branches and presence tests.
    ///
    /// cel-go charges for an attribute once, where it is resolved; keys and branches that are attributes are resolved
    /// inside another one.
    fn free(&mut self, id: OpId) {
        let next = match self.ops.get_mut(id) {
            Some(Op::Var { cost, .. } | Op::Local { cost, .. }) => {
                *cost = 0;
                return;
            }
            Some(Op::Select { operand, cost, .. } | Op::Index { operand, cost, .. }) if *cost > 1 => {
                let _ = operand;
                *cost = 1;
                return;
            }
            Some(Op::Select { operand, .. } | Op::Index { operand, .. }) => *operand,
            _ => return,
        };
        self.free(next);
    }

    /// The cost of a selection: one more if it begins at something that is not a variable.
    fn selection_cost(&self, operand: OpId) -> u64 {
        if self.is_attribute(operand) { 1 } else { 2 }
    }

    /// Plans the operation of a node and of everything below it. Constant parts become constants here and cost nothing
    /// later, as in cel-go's optimised programs.
    fn plan(&mut self, id: Id) -> Result<OpId, EvalError> {
        if let Some(name) = self.checked.type_names.get(&id) {
            return Ok(self.add(Op::Const(Value::Type(name.clone()))));
        }
        let checked = self.checked;
        Ok(match checked.ast.kind(id) {
            AstKind::Literal(literal) => self.add(Op::Const(constant(literal))),
            AstKind::Ident(name) => self.variable(name),
            AstKind::Select { operand, field, test } => {
                let operand = self.plan(*operand)?;
                let field = Arc::from(field.as_str());
                if *test {
                    self.free(operand);
                    return Ok(self.add(Op::Has { operand, field }));
                }
                let cost = self.selection_cost(operand);
                self.add(Op::Select { operand, field, optional: false, cost })
            }
            AstKind::Call { function, target, args } => self.call(id, function, *target, args)?,
            AstKind::List { items, optional } => self.list(items, optional)?,
            AstKind::Map(entries) => self.map(entries)?,
            AstKind::Struct { name, fields } => {
                let name = name.strip_prefix('.').unwrap_or(name).into();
                let plan =
                    |field: &MapEntry<Text>| Ok((field.key.clone(), self.plan(field.value)?, field.optional));
                let fields = fields.iter().map(plan).collect::<Result<_, EvalError>>()?;
                self.add(Op::Struct { name, fields })
            }
            AstKind::Fold(fold) => self.fold(fold)?,
            AstKind::Missing => self.add(Op::Const(Value::Null)),
        })
    }

    /// A variable: a slot if a comprehension declares it, the host's otherwise. The innermost declaration counts.
    fn variable(&mut self, name: &Text) -> OpId {
        let slot = self.locals.iter().rposition(|local| local.as_ref() == Some(name));
        self.add(match slot {
            Some(slot) => Op::Local { slot, cost: 1 },
            None => Op::Var { name: name.clone(), cost: 1 },
        })
    }

    /// Plans a call. Operators that do not evaluate all their arguments, or that cost differently from functions, have
    /// operations of their own.
    fn call(&mut self, id: Id, function: &Text, target: Option<Id>, args: &[Id]) -> Result<OpId, EvalError> {
        let mut planned = Vec::with_capacity(args.len() + 1);
        for arg in target.iter().chain(args) {
            planned.push(self.plan(*arg)?);
        }
        let overload = self.checked.overload(id);
        Ok(match (function.as_str(), planned.as_slice()) {
            ("_&&_", [left, right]) => self.add(Op::And(*left, *right)),
            ("_||_", [left, right]) => self.add(Op::Or(*left, *right)),
            ("_?_:_", [test, yes, no]) => {
                for branch in [yes, no] {
                    if self.is_attribute(*branch) {
                        self.free(*branch);
                    }
                }
                self.add(Op::Ternary(*test, *yes, *no))
            }
            ("_==_", [left, right]) => self.add(Op::Equal { left: *left, right: *right, negated: false }),
            ("_!=_", [left, right]) => self.add(Op::Equal { left: *left, right: *right, negated: true }),
            ("@not_strictly_false", [arg]) => self.add(Op::NotStrictlyFalse(*arg)),
            ("_[_]" | "_[?_]", [operand, index]) => self.index(*operand, *index, function == "_[?_]"),
            ("_?._", [operand, field]) => {
                let field = self.constant(*field).and_then(Value::as_str).unwrap_or("");
                let (operand, field) = (*operand, Arc::from(field));
                let cost = self.selection_cost(operand);
                self.add(Op::Select { operand, field, optional: true, cost })
            }
            ("or", [left, right]) => self.add(Op::OptionalOr { left: *left, right: *right, unwrap: false }),
            ("orValue", [left, right]) => {
                self.add(Op::OptionalOr { left: *left, right: *right, unwrap: true })
            }
            ("@in", [item, list]) if overload == "in_list" => self.membership(*item, *list, overload),
            _ => self.function(function, overload, planned)?,
        })
    }

    /// An index that is an attribute is resolved with the operand and has no separate cost.
    fn index(&mut self, operand: OpId, index: OpId, optional: bool) -> OpId {
        if self.is_attribute(index) {
            self.free(index);
        }
        let cost = self.selection_cost(operand);
        self.add(Op::Index { operand, index, optional, cost })
    }

    /// Plans `in` on a constant list as a lookup in a set. On an empty list it is false for every item.
    ///
    /// The set has the same equality as `in`: numbers of different types that are equal are one key. The cost of the
    /// call is no longer charged, as in cel-go.
    fn membership(&mut self, item: OpId, list: OpId, overload: &'static str) -> OpId {
        if let Some(Value::List(list)) = self.constant(list) {
            if list.is_empty() {
                return self.add(Op::Const(Value::Bool(false)));
            }
            let mut set = OwnedMap::default();
            let simple = list.iter().all(|item| {
                item.is_ok_and(|item| !matches!(item, Value::Null) && set.insert(item, Value::Null).is_ok())
            });
            if simple {
                return self.add(Op::InSet { item, set: Arc::new(set) });
            }
        }
        let args = [item, list].into();
        let native = library::native("@in").unwrap_or(library::missing);
        self.add(Op::Call { native, args, cost: CallCost::of("@in", overload) })
    }

    /// Plans a call of a library function. Conversions of constants are done now and constant patterns are compiled, so that
    /// their errors appear when the expression is compiled.
    fn function(&mut self, name: &str, overload: &'static str, args: Vec<OpId>) -> Result<OpId, EvalError> {
        const CONVERSIONS: [&str; 10] =
            ["bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"];
        let native = library::native(name).unwrap_or(library::missing);
        if let [arg] = args.as_slice()
            && CONVERSIONS.contains(&name)
            && let Some(value) = self.constant(*arg)
        {
            let value = native(&mut Meter::new(CONSTANT_COST), std::slice::from_ref(value))?;
            return Ok(self.add(Op::Const(value)));
        }
        if let ("find" | "findAll", [_, pattern, ..]) = (name, args.as_slice())
            && let Some(Value::String(pattern)) = self.constant(*pattern)
        {
            library::regexes::pattern(pattern)?;
        }
        let cost = CallCost::of(name, overload);
        Ok(self.add(Op::Call { native, args: args.into(), cost }))
    }

    /// Plans a list literal; one of constants is made once.
    fn list(&mut self, items: &[Id], optional: &[usize]) -> Result<OpId, EvalError> {
        let planned = items.iter().map(|item| self.plan(*item)).collect::<Result<Vec<_>, _>>()?;
        let constants: Option<Vec<_>> = planned.iter().map(|item| self.constant(*item).cloned()).collect();
        Ok(match constants {
            Some(values) if optional.is_empty() => self.add(Op::Const(Value::list(values))),
            _ => self.add(Op::List { items: planned.into(), optional: optional.into() }),
        })
    }

    /// Plans a map literal; one of constants is made once.
    fn map(&mut self, entries: &[MapEntry<Id>]) -> Result<OpId, EvalError> {
        let mut planned = Vec::with_capacity(entries.len());
        for entry in entries {
            planned.push((self.plan(entry.key)?, self.plan(entry.value)?, entry.optional));
        }
        let mut constant = OwnedMap::default();
        let all = planned.iter().all(|(key, value, optional)| {
            let (Some(key), Some(value)) = (self.constant(*key), self.constant(*value)) else { return false };
            !optional && constant.insert(key.clone(), value.clone()).is_ok()
        });
        Ok(match all {
            true => self.add(Op::Const(Value::Map(MapValue::Owned(Arc::new(constant))))),
            false => self.add(Op::Map { entries: planned.into() }),
        })
    }

    /// Plans a comprehension. It has three slots: the accumulator and the variables. The result sees the accumulator
    /// only.
    ///
    /// Slots are numbered by nesting. The variables are invisible to the result, so that a name outside of the loop
    /// is found there.
    fn fold(&mut self, fold: &Fold) -> Result<OpId, EvalError> {
        let init = self.plan(fold.init)?;
        let range = self.plan(fold.range)?;
        let slot = self.locals.len();
        let two = fold.second.is_some();
        self.locals.push(Some(fold.accumulator.clone()));
        self.locals.push(Some(fold.variable.clone()));
        self.locals.push(fold.second.clone());
        self.slots = self.slots.max(self.locals.len());
        let condition = self.plan(fold.condition)?;
        let step = self.step(fold, slot)?;
        self.locals.truncate(slot + 1);
        let result = self.plan(fold.result)?;
        self.locals.truncate(slot);
        let fold = FoldOp { range, slot, two, init, condition, step, result };
        Ok(self.add(Op::Fold(Box::new(fold))))
    }

    /// The step of a loop. Steps that add to the accumulator do so in place.
    fn step(&mut self, fold: &Fold, slot: usize) -> Result<OpId, EvalError> {
        let checked = self.checked;
        if let AstKind::Call { function, args, .. } = checked.ast.kind(fold.step)
            && let ("_?_:_", [test, yes, no]) = (function.as_str(), args.as_slice())
            && let Some(yes) = self.growth(fold, *yes, slot)?
        {
            let (test, no) = (self.plan(*test)?, self.plan(*no)?);
            self.free(no);
            return Ok(self.add(Op::Ternary(test, yes, no)));
        }
        match self.growth(fold, fold.step, slot)? {
            Some(step) => Ok(step),
            None => self.plan(fold.step),
        }
    }

    /// The operation of a step that adds to the accumulator, if it is one. It changes the accumulator in place and
    /// charges what cel-go would for a copy.
    ///
    /// Only if the accumulator is the left operand: the right one would make `[x] + acc`, which grows at the wrong
    /// end.
    fn growth(&mut self, fold: &Fold, id: Id, slot: usize) -> Result<Option<OpId>, EvalError> {
        let checked = self.checked;
        let AstKind::Call { function, target: None, args } = checked.ast.kind(id) else { return Ok(None) };
        let Some((first, rest)) = args.split_first() else { return Ok(None) };
        if !matches!(checked.ast.kind(*first), AstKind::Ident(name) if *name == fold.accumulator) {
            return Ok(None);
        }
        match (function.as_str(), rest) {
            ("_+_", [added]) => {
                let AstKind::List { items, optional } = checked.ast.kind(*added) else { return Ok(None) };
                let ([item], []) = (items.as_slice(), optional.as_slice()) else { return Ok(None) };
                let item = self.plan(*item)?;
                // Reading the accumulator, making the list of one, adding.
                let cost = if self.constant(item).is_some() { 2 } else { 12 };
                Ok(Some(self.add(Op::Append { slot, item, cost })))
            }
            ("cel.@mapInsert", rest) => {
                let args = rest.iter().map(|arg| self.plan(*arg)).collect::<Result<_, _>>()?;
                Ok(Some(self.add(Op::Insert { slot, args })))
            }
            _ => Ok(None),
        }
    }
}

/// Returns the value of a literal. Texts are shared from here on: evaluating the literal copies a pointer.
fn constant(literal: &Literal) -> Value<'static> {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(flag) => Value::Bool(*flag),
        Literal::Int(number) => Value::Int(*number),
        Literal::Uint(number) => Value::Uint(*number),
        Literal::Double(number) => Value::Double(*number),
        Literal::String(text) => Value::String(Str::Shared(text.as_str().into())),
        Literal::Bytes(bytes) => Value::Bytes(bytes.as_slice().into()),
    }
}
