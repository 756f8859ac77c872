//! Estimated cost of calls: per overload, from the sizes of the arguments.
//!
//! Three sets of rules are tried in order: those of the list and set libraries, those of Kubernetes' own functions
//! (`kubernetes`), and those of cel-go. Some results wrap around instead of saturating (`string_to_bytes`,
//! `list_slice`), because cel-go does and the total decides whether a definition is accepted. Sizes come from the
//! schema or from the literal; the counterpart at run time is `cost::runtime`.

use super::super::runtime::{LIST_COST, REGEX_FACTOR, STRING_FACTOR, orders_text};
use super::{CostRange, Coster, EstimateStep, SizeRange, both};
use crate::ast::{AstKind, Id, Literal};
use crate::types::Type;

pub(super) const ONE: CostRange = CostRange::fixed(1);

/// The cost of a call without its arguments, and the size of its result if that is known.
pub(super) struct Call {
    pub(super) cost: CostRange,
    pub(super) size: Option<SizeRange>,
}

impl Call {
    pub(super) fn of(cost: CostRange) -> Self {
        Self { cost, size: None }
    }

    pub(super) fn sized(cost: CostRange, size: SizeRange) -> Self {
        Self { cost, size: Some(size) }
    }
}

/// An argument of a call: its node and its size.
#[derive(Clone, Copy)]
pub(super) struct Arg {
    pub(super) id: Id,
    pub(super) size: SizeRange,
}

impl Coster<'_> {
    /// The cost of a call: the range over all overloads that may be called, plus target and arguments.
    ///
    /// Several overloads remain where a type is `dyn`; the estimate is then the range over all of them.
    pub(super) fn call(&mut self, id: Id, function: &str, target: Option<Id>, args: &[Id]) -> CostRange {
        if let ("dyn", [arg]) = (function, args) {
            let cost = self.cost(*arg).plus(ONE);
            self.copy_sizes(id, *arg);
            return cost;
        }
        let mut costs = Vec::with_capacity(args.len());
        let mut given = Vec::with_capacity(args.len());
        for arg in args {
            costs.push(self.cost(*arg));
            given.push(Arg { id: *arg, size: self.size_or_unknown(*arg) });
        }
        let Some(overloads) = self.checked.overloads.get(&id) else { return CostRange::fixed(0) };
        let before = target.map_or(CostRange::fixed(0), |target| self.cost(target));
        let target = target.map(|target| Arg { id: target, size: self.size_or_unknown(target) });
        let mut cost = CostRange { min: u64::MAX, max: 0 };
        let mut result: Option<SizeRange> = None;
        for overload in overloads {
            let call = self.overload(id, function, overload, target, &given, &costs);
            cost = cost.or(call.cost);
            result = match (result, call.size) {
                (Some(before), Some(size)) => Some(before.or(size)),
                (before, size) => before.or(size),
            };
            if let ("index_list" | "index_map", Some(container)) = (*overload, args.first()) {
                result = self.entry_sizes(*container).map(|entries| entries.value);
                let mut path = self.path(*container);
                path.push(if *overload == "index_list" { EstimateStep::Items } else { EstimateStep::Values });
                self.paths.insert(id, path);
            }
            if result.is_none() {
                result = self.size(id);
            }
        }
        self.sizes.extend(result.map(|size| (id, size)));
        before.plus(cost)
    }

    /// The cost of one overload. Kubernetes' own libraries come first, as their estimator is called first; operators
    /// that skip arguments have a range.
    ///
    /// The minimum of `&&` and `||` is that of their left side, the maximum that of both.
    fn overload(
        &mut self,
        id: Id,
        function: &str,
        overload: &str,
        target: Option<Arg>,
        args: &[Arg],
        costs: &[CostRange],
    ) -> Call {
        let arguments = costs.iter().fold(CostRange::fixed(0), |sum, cost| sum.plus(*cost));
        let own = self
            .list_library(overload, target, args)
            .or_else(|| self.kubernetes(function, overload, target, args));
        if let Some(call) = own {
            return Call { cost: call.cost.plus(arguments), size: call.size };
        }
        match (overload, args, costs) {
            ("logical_and" | "logical_or", _, [left, right]) => {
                Call::of(CostRange { min: left.min, max: left.plus(*right).max })
            }
            ("conditional", [_, yes, no], [test, yes_cost, no_cost]) => {
                let entries = both(self.entry_sizes(yes.id), self.entry_sizes(no.id));
                self.entries.extend(entries.map(|entries| (id, entries)));
                Call::sized(test.plus(yes_cost.or(*no_cost)), yes.size.or(no.size))
            }
            _ => {
                let call = self.standard(id, overload, target, args);
                Call { cost: call.cost.plus(arguments), size: call.size }
            }
        }
    }

    /// The rules of cel-go.
    ///
    /// Everything that is not listed costs one. `&&`, `||` and `?:` are handled by the caller, since they may skip
    /// arguments.
    fn standard(&mut self, id: Id, overload: &str, target: Option<Arg>, args: &[Arg]) -> Call {
        match (overload, target, args) {
            ("string_format", Some(target), _) => Call::of(target.size.scaled(STRING_FACTOR)),
            ("string_to_bytes", _, [arg]) => {
                let size = SizeRange { min: arg.size.min, max: arg.size.max.wrapping_mul(4) };
                Call::sized(arg.size.scaled(STRING_FACTOR), size)
            }
            ("bytes_to_string", _, [arg]) => {
                let size = SizeRange { min: arg.size.min / 4, max: arg.size.max };
                Call::sized(arg.size.scaled(STRING_FACTOR), size)
            }
            ("strings_quote", _, [arg]) => {
                let max = arg.size.max.wrapping_mul(2).wrapping_add(2);
                let size = SizeRange { min: arg.size.min.wrapping_add(2), max };
                Call::sized(arg.size.scaled(STRING_FACTOR), size)
            }
            ("starts_with_string" | "ends_with_string", _, [arg]) => Call::of(arg.size.scaled(STRING_FACTOR)),
            ("in_list", _, [_, list]) => Call::of(list.size.scaled(1.0)),
            ("matches_string", Some(text), [pattern]) => Call::of(regex(text.size, pattern.size)),
            ("matches", None, [text, pattern]) => Call::of(regex(text.size, pattern.size)),
            ("contains_string", Some(text), [part]) => {
                Call::of(text.size.scaled(STRING_FACTOR).times(part.size.scaled(STRING_FACTOR)))
            }
            ("add_string" | "add_bytes" | "add_list", _, [left, right]) => {
                let size = left.size.plus(right.size);
                let entries = both(self.entry_sizes(left.id), self.entry_sizes(right.id));
                self.entries.extend(entries.map(|entries| (id, entries)));
                let cost = if overload == "add_list" { ONE } else { size.scaled(STRING_FACTOR) };
                Call::sized(cost, size)
            }
            (_, _, [left, right]) if orders_text(overload) || matches!(overload, "equals" | "not_equals") => {
                let max = left.size.max.min(right.size.max);
                let compared = CostRange { min: u64::from(max > 0), max };
                Call::of(compared.scaled(STRING_FACTOR))
            }
            _ => Call::of(ONE),
        }
    }

    /// The rules of the list and set libraries.
    ///
    /// Functions that make a list pay for its elements and for the list itself. Sorting and `distinct` are estimated
    /// as quadratic, although sorting here is not: the estimate is compared with kube-apiserver's limits and not with
    /// our clock. A size that wraps around is cel-go's.
    fn list_library(&self, overload: &str, target: Option<Arg>, args: &[Arg]) -> Option<Call> {
        let text = |list: Arg| match self.checked.ty(list.id) {
            Type::List(element) => matches!(**element, Type::String | Type::Bytes),
            _ => false,
        };
        let allocating = |factor: f64, size: SizeRange| {
            Call::sized(size.scaled(factor).plus(CostRange::fixed(1 + LIST_COST)), size)
        };
        let square = |list: Arg| {
            let factor = if text(list) { 2.0 + STRING_FACTOR } else { 2.0 };
            allocating(factor, list.size.times(list.size))
        };
        Some(match (overload, target, args) {
            ("list_slice", Some(list), [start, end]) => {
                let (start, end) = (self.literal(*start, 0), self.literal(*end, list.size.max));
                allocating(1.0, SizeRange::fixed(end.wrapping_sub(start)))
            }
            ("lists_range", None, [count]) => {
                allocating(1.0, SizeRange::fixed(self.literal(*count, u64::MAX)))
            }
            ("list_reverse", Some(list), []) => allocating(1.0, list.size),
            ("list_flatten", Some(list), []) => allocating(1.0, list.size),
            ("list_flatten_int", Some(list), [depth]) =>
            {
                #[expect(clippy::cast_precision_loss, reason = "a factor")]
                allocating(self.literal(*depth, u64::MAX) as f64, list.size)
            }
            ("list_distinct", Some(list), []) => allocating(2.0, list.size.times(list.size)),
            (sort, Some(list), []) if sort.ends_with("_sort") => square(list),
            (sort, Some(_), [keys]) if sort.ends_with("_sortByAssociatedKeys") => square(*keys),
            ("list_sets_contains_list" | "list_sets_intersects_list", None, [a, b]) => {
                Call::of(a.size.times(b.size).scaled(1.0).plus(ONE))
            }
            ("list_sets_equivalent_list", None, [a, b]) => {
                Call::of(a.size.times(b.size).scaled(2.0).plus(ONE))
            }
            _ => return None,
        })
    }

    /// A number that is written in the expression.
    ///
    /// Negative numbers count as zero; an expression in the place of a number counts with the default.
    fn literal(&self, arg: Arg, default: u64) -> u64 {
        match self.checked.ast.kind(arg.id) {
            AstKind::Literal(Literal::Int(number)) => u64::try_from(*number).unwrap_or(0),
            _ => default,
        }
    }
}

/// The plus one is cel-go's, so that a pattern on an empty text is not free.
pub(super) fn regex(text: SizeRange, pattern: SizeRange) -> CostRange {
    text.plus(SizeRange::fixed(1)).scaled(STRING_FACTOR).times(pattern.scaled(REGEX_FACTOR))
}
