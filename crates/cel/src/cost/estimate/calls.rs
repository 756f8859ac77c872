//! Estimated cost of calls: per overload, from the sizes of the arguments.
//!
//! Three sets of rules are asked in turn: those of the list and set libraries, those of Kubernetes' own functions, and
//! those of cel-go. Some results wrap around instead of saturating (`string_to_bytes`, `list_slice`), because cel-go
//! does and the total decides whether a definition is accepted. Sizes come from the schema or from the literal; the
//! counterpart at run time is `cost::runtime`.

use super::super::runtime::{LIST_COST, REGEX_FACTOR, STRING_FACTOR, STRUCT_COST, ceil, orders_text};
use super::{CostRange, Coster, EstimateStep, SizeRange, UNKNOWN, both};
use crate::ast::{AstKind, Id, Literal};
use crate::types::Type;

const ONE: CostRange = CostRange::fixed(1);

/// The cost of a call without its arguments, and the size of its result if that is known.
struct Call {
    cost: CostRange,
    size: Option<SizeRange>,
}

impl Call {
    fn of(cost: CostRange) -> Self {
        Self { cost, size: None }
    }

    fn sized(cost: CostRange, size: SizeRange) -> Self {
        Self { cost, size: Some(size) }
    }
}

/// An argument: its node and its size.
/// Copied freely: two words of data.
#[derive(Clone, Copy)]
struct Arg {
    id: Id,
    size: SizeRange,
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

    /// The cost of one overload. Kubernetes' own libraries come first, as their estimator is asked first; operators
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

    /// The rules of Kubernetes' estimator.
    ///
    /// A check of permissions costs 350,000, which is kube-apiserver's number and keeps expressions from making many.
    /// `validate` counts as a pattern of 128 characters, whichever format it is, because the format may be chosen at
    /// run time. Parsing functions cost a tenth of their text.
    fn kubernetes(
        &mut self,
        function: &str,
        overload: &str,
        target: Option<Arg>,
        args: &[Arg],
    ) -> Option<Call> {
        let scan = |size: SizeRange, times: f64| size.scaled(times * STRING_FACTOR);
        Some(match (function, target, args) {
            ("check", ..) => Call::of(CostRange::fixed(350_000)),
            (
                "serviceAccount"
                | "path"
                | "group"
                | "resource"
                | "subresource"
                | "namespace"
                | "name"
                | "allowed"
                | "reason"
                | "error"
                | "errored"
                | "masked"
                | "prefixLength"
                | "family"
                | "isUnspecified"
                | "isLoopback"
                | "isLinkLocalMulticast"
                | "isLinkLocalUnicast"
                | "isGlobalUnicast"
                | "format.named"
                | "sign"
                | "asInteger"
                | "isInteger"
                | "asApproximateFloat"
                | "isGreaterThan"
                | "isLessThan"
                | "compareTo"
                | "add"
                | "sub"
                | "major"
                | "minor"
                | "patch"
                | "getScheme"
                | "getHostname"
                | "getHost"
                | "getPort"
                | "getEscapedPath"
                | "getQuery",
                ..,
            ) => Call::of(ONE),
            ("fieldSelector" | "labelSelector", _, [selector]) => {
                let requirements = selector.size.scaled(0.5).times(CostRange::fixed(LIST_COST + STRUCT_COST));
                Call::of(CostRange::fixed(LIST_COST).plus(scan(selector.size, 1.0)).plus(requirements))
            }
            (
                "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" | "includes",
                Some(target),
                _,
            ) => self.traversal(function, target),
            ("url" | "jsonpatch.escapeKey", _, [arg]) => Call::sized(scan(arg.size, 1.0), arg.size),
            ("lowerAscii" | "upperAscii" | "substring" | "trim", Some(target), _) => {
                Call::sized(scan(target.size, 1.0), target.size)
            }
            ("replace", Some(target), [old, new, ..]) => {
                Call::sized(scan(target.size, 2.0), replaced(target.size, old.size, new.size))
            }
            ("split", Some(target), _) => {
                let most =
                    args.get(1).map_or(target.size.max, |most| self.split_limit(*most, target.size.max));
                Call::sized(scan(target.size, 2.0), SizeRange { min: 0, max: most })
            }
            ("join", Some(list), _) => self.join(list, args.first().copied()),
            ("find" | "findAll", Some(text), [pattern, ..]) => {
                Call::sized(regex(text.size, pattern.size), SizeRange { min: 0, max: text.size.max })
            }
            ("ip", ..) if overload == "cidr_ip" => Call::of(ONE),
            (
                "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver",
                _,
                [arg, ..],
            ) => Call::of(scan(arg.size, 1.0)),
            ("ip.isCanonical", _, [arg]) => Call::of(scan(arg.size, 2.0)),
            ("containsIP" | "containsCIDR", _, [arg]) => {
                let address = SizeRange { min: 4, max: 16 };
                let mut cost = address.plus(address).scaled(STRING_FACTOR);
                if function == "containsCIDR" {
                    cost = cost.plus(address.scaled(STRING_FACTOR)).plus(ONE);
                }
                let text = matches!(overload, "cidr_contains_ip_string" | "cidr_contains_cidr_string");
                Call::of(if text { cost.plus(scan(arg.size, 1.0)) } else { cost })
            }
            ("validate", _, [arg, ..]) => Call::of(scan(arg.size, 1.0).scaled(128.0 * REGEX_FACTOR)),
            ("_==_", _, [left, right]) => return self.library_equality(*left, *right),
            _ => return None,
        })
    }

    /// Equality of values of Kubernetes' types does not depend on sizes.
    ///
    /// Values of these types are small and of a fixed form, or, like URLs, bounded by the text that they were made
    /// of.
    fn library_equality(&self, left: Arg, right: Arg) -> Option<Call> {
        let (a, b) = (self.checked.ty(left.id), self.checked.ty(right.id));
        match a {
            Type::Opaque("kubernetes.NamedFormat") if a.is_same(b) => {
                Some(Call::of(CostRange { min: 1, max: 64 }.scaled(STRING_FACTOR)))
            }
            Type::Opaque("kubernetes.URL") if a.is_same(b) => {
                let size = if right.size == UNKNOWN { 1 } else { right.size.max };
                Some(Call::of(CostRange { min: 1, max: size }.scaled(STRING_FACTOR)))
            }
            Type::Opaque(_) if a.is_same(b) => Some(Call::of(ONE)),
            _ => None,
        }
    }

    /// The size of the elements of a list, if they are of a type that has one.
    fn element_size(&self, list: Arg) -> Option<(bool, SizeRange)> {
        let Type::List(element) = self.checked.ty(list.id) else { return None };
        let text = matches!(**element, Type::String | Type::Bytes);
        let mut path = self.path(list.id);
        let size = if path.is_empty() {
            None
        } else {
            path.push(EstimateStep::Items);
            self.declared_size(&path)
        };
        Some((text, size.unwrap_or(UNKNOWN)))
    }

    /// A look at every element; of texts also at their characters.
    fn traversal(&self, function: &str, target: Arg) -> Call {
        match self.element_size(target) {
            Some((text, size)) => {
                let each = if text { ONE.plus(size.scaled(STRING_FACTOR)) } else { ONE };
                Call::of(target.size.times(each))
            }
            None if function == "includes" => Call::of(target.size),
            None => Call::of(target.size.scaled(STRING_FACTOR)),
        }
    }

    /// A negative limit means all parts and becomes a huge number, as the cast does in Go.
    fn split_limit(&self, arg: Arg, default: u64) -> u64 {
        match self.checked.ast.kind(arg.id) {
            AstKind::Literal(Literal::Int(number)) => number.cast_unsigned(),
            _ => default,
        }
    }

    /// The result is all elements and the separators between them.
    fn join(&self, list: Arg, separator: Option<Arg>) -> Call {
        let mut size =
            self.element_size(list).map_or(SizeRange::fixed(0), |(_, element)| list.size.times(element));
        if let Some(separator) = separator {
            let count =
                SizeRange { min: list.size.min.saturating_sub(1), max: list.size.max.saturating_sub(1) };
            size = size.plus(separator.size.times(count));
        }
        Call::sized(size.scaled(STRING_FACTOR), size)
    }
}

/// The plus one is cel-go's, so that a pattern on an empty text is not free.
fn regex(text: SizeRange, pattern: SizeRange) -> CostRange {
    text.plus(SizeRange::fixed(1)).scaled(STRING_FACTOR).times(pattern.scaled(REGEX_FACTOR))
}

/// The size of a text after replacements.
fn replaced(text: SizeRange, old: SizeRange, new: SizeRange) -> SizeRange {
    let (mut count, mut kept) = (SizeRange::fixed(0), SizeRange::fixed(0));
    if old.min == 0 {
        count.max = text.max.saturating_add(1);
        kept.max = text.max;
    } else if new.max <= old.min {
        kept.max = text.max;
    } else {
        count.max = divided(text.max, old.min);
    }
    if old.max == 0 {
        count.min = text.min.saturating_add(1);
        kept.min = text.min;
    } else if old.max <= new.min {
        kept.min = text.min;
    } else {
        count.min = divided(text.min, old.max);
    }
    count.times(new).plus(kept)
}

/// Rounded up, and never a division by zero: the caller has excluded it.
#[expect(clippy::cast_precision_loss, reason = "counted in doubles, as Kubernetes does")]
fn divided(size: u64, by: u64) -> u64 {
    ceil(size, 1.0 / by as f64)
}
