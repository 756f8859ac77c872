//! Estimated cost of the functions that Kubernetes adds to CEL, after `CostEstimator` of its `cel/library` package.
//!
//! kube-apiserver accepts or rejects a definition by these numbers, so all of them are kept, even where the function is cheaper
//! here. A function that is not listed falls through to the rules of cel-go.

use super::super::runtime::{LIST_COST, REGEX_FACTOR, STRING_FACTOR, STRUCT_COST, ceil};
use super::calls::{Arg, Call, ONE, regex};
use super::{CostRange, Coster, EstimateStep, SizeRange, UNKNOWN};
use crate::ast::{AstKind, Literal};
use crate::types::Type;

/// The functions that cost one for all arguments: they read a value that is parsed already.
const CONSTANT: [&str; 38] = [
    "serviceAccount",
    "path",
    "group",
    "resource",
    "subresource",
    "namespace",
    "name",
    "allowed",
    "reason",
    "error",
    "errored",
    "masked",
    "prefixLength",
    "family",
    "isUnspecified",
    "isLoopback",
    "isLinkLocalMulticast",
    "isLinkLocalUnicast",
    "isGlobalUnicast",
    "format.named",
    "sign",
    "asInteger",
    "isInteger",
    "asApproximateFloat",
    "isGreaterThan",
    "isLessThan",
    "compareTo",
    "add",
    "sub",
    "major",
    "minor",
    "patch",
    "getScheme",
    "getHostname",
    "getHost",
    "getPort",
    "getEscapedPath",
    "getQuery",
];

impl Coster<'_> {
    /// The rules of Kubernetes' estimator.
    ///
    /// A check of permissions costs 350,000, which is kube-apiserver's number and keeps expressions from making many.
    /// `validate` counts as a pattern of 128 characters, whichever format it is, because the format may be chosen at
    /// run time. Parsing functions cost a tenth of their text.
    pub(super) fn kubernetes(
        &mut self,
        function: &str,
        overload: &str,
        target: Option<Arg>,
        args: &[Arg],
    ) -> Option<Call> {
        Some(match (function, target, args) {
            ("check", ..) => Call::of(CostRange::fixed(350_000)),
            _ if CONSTANT.contains(&function) => Call::of(ONE),
            ("fieldSelector" | "labelSelector", _, [selector]) => Call::of(requirements(selector.size)),
            (
                "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" | "includes",
                Some(target),
                _,
            ) => self.traversal(function, target),
            ("url" | "jsonpatch.escapeKey", _, [arg]) => Call::sized(scan(arg.size, 1.0), arg.size),
            ("ip", ..) if overload == "cidr_ip" => Call::of(ONE),
            (
                "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver",
                _,
                [arg, ..],
            ) => Call::of(scan(arg.size, 1.0)),
            ("ip.isCanonical", _, [arg]) => Call::of(scan(arg.size, 2.0)),
            ("containsIP" | "containsCIDR", _, [arg]) => Call::of(containment(function, overload, arg.size)),
            ("validate", _, [arg, ..]) => Call::of(scan(arg.size, 1.0).scaled(128.0 * REGEX_FACTOR)),
            ("_==_", _, [left, right]) => return self.library_equality(*left, *right),
            _ => return self.text_function(function, target, args),
        })
    }

    /// The functions on strings and lists of strings.
    fn text_function(&self, function: &str, target: Option<Arg>, args: &[Arg]) -> Option<Call> {
        Some(match (function, target, args) {
            ("lowerAscii" | "upperAscii" | "substring" | "trim", Some(target), _) => {
                Call::sized(scan(target.size, 1.0), target.size)
            }
            ("replace", Some(target), [old, new, ..]) => {
                Call::sized(scan(target.size, 2.0), replaced(target.size, old.size, new.size))
            }
            ("split", Some(target), _) => {
                let parts = SizeRange { min: 0, max: self.split_limit(args.get(1), target.size.max) };
                Call::sized(scan(target.size, 2.0), parts)
            }
            ("join", Some(list), _) => self.join(list, args.first().copied()),
            ("find" | "findAll", Some(text), [pattern, ..]) => {
                Call::sized(regex(text.size, pattern.size), SizeRange { min: 0, max: text.size.max })
            }
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
    fn split_limit(&self, arg: Option<&Arg>, default: u64) -> u64 {
        match arg.map(|arg| self.checked.ast.kind(arg.id)) {
            Some(AstKind::Literal(Literal::Int(number))) => number.cast_unsigned(),
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

/// The cost of reading a text so many times.
fn scan(size: SizeRange, times: f64) -> CostRange {
    size.scaled(times * STRING_FACTOR)
}

/// The cost of parsing a selector: at most one requirement for two characters.
fn requirements(text: SizeRange) -> CostRange {
    let each = CostRange::fixed(LIST_COST + STRUCT_COST);
    CostRange::fixed(LIST_COST).plus(scan(text, 1.0)).plus(text.scaled(0.5).times(each))
}

/// The cost of comparing addresses, and of parsing the argument if it is a text.
fn containment(function: &str, overload: &str, arg: SizeRange) -> CostRange {
    let address = SizeRange { min: 4, max: 16 };
    let mut cost = scan(address.plus(address), 1.0);
    if function == "containsCIDR" {
        cost = cost.plus(scan(address, 1.0)).plus(ONE);
    }
    match overload {
        "cidr_contains_ip_string" | "cidr_contains_cidr_string" => cost.plus(scan(arg, 1.0)),
        _ => cost,
    }
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
