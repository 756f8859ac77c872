//! The cost of calls at run time, as cel-go and Kubernetes count it.
//!
//! The rule of a call is chosen when the expression is planned, by function and overload, so that evaluation only
//! multiplies sizes. A call whose overload is not known (arguments of type `dyn`) is charged by its function, or one.
//! Costs are computed in doubles and rounded up, as in Go, where the last digit may decide. Work that costs do not
//! cover is limited by `Meter::work`.

use crate::value::{ListValue, MapValue, Value};

/// The costs of making a list, a map and a struct of any size. Elements are paid for by the expressions that
/// make them.
pub(crate) const LIST_COST: u64 = 10;
pub(crate) const MAP_COST: u64 = 30;
pub(crate) const STRUCT_COST: u64 = 40;

/// The cost of passing over one character.
pub(super) const STRING_FACTOR: f64 = 0.1;
/// The cost of one character of a pattern, for each unit of the text.
pub(super) const REGEX_FACTOR: f64 = 0.25;

/// The dependence of the cost of a call on its arguments.
///
/// Small and `Copy`: it is part of an operation and used at each evaluation. Numbers are indexes of arguments, the
/// target being the first.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CallCost {
    Fixed(u64),
    /// Passing over an argument that many times.
    Scan(usize, f64),
    /// Passing over the result twice.
    Result,
    /// Passing over the first argument with everything in it.
    Traverse,
    /// A pattern over a text.
    Regex,
    /// A text in a text.
    Search,
    /// The elements of the second argument.
    Elements,
    /// The shorter of both arguments.
    Shorter,
    /// Both arguments together.
    Both,
    /// The elements of the result of a list function.
    Output,
    Flatten,
    /// Comparing the elements of an argument with each other.
    SelfCompare(usize),
    /// Comparing the elements of both arguments with each other.
    Sets(f64),
    ContainsIp(bool),
    ContainsCidr(bool),
    Selector,
    Validate,
}

/// Returns true for the overloads that order two texts, which cost as much as the shorter one is long.
pub(super) fn orders_text(overload: &str) -> bool {
    let Some((order, of)) = overload.rsplit_once('_') else { return false };
    matches!(order, "less" | "greater" | "less_equals" | "greater_equals") && matches!(of, "string" | "bytes")
}

impl CallCost {
    /// The rule for a function and the overload that was found for it, or `""` if there are several.
    ///
    /// Libraries come before functions before standard overloads, the order in which Kubernetes' estimator and cel-go's
    /// are called.
    pub(crate) fn of(function: &str, overload: &str) -> Self {
        Self::of_overload(overload).or_else(|| Self::of_function(function, overload)).unwrap_or(
            match overload {
                "starts_with_string" | "ends_with_string" => Self::Scan(1, STRING_FACTOR),
                "string_to_bytes" | "bytes_to_string" | "strings_quote" | "string_format" => {
                    Self::Scan(0, STRING_FACTOR)
                }
                "in_list" => Self::Elements,
                _ if orders_text(overload) => Self::Shorter,
                "add_string" | "add_bytes" => Self::Both,
                "matches" | "matches_string" => Self::Regex,
                "contains_string" => Self::Search,
                _ => Self::Fixed(1),
            },
        )
    }

    /// Rules that libraries bring for their overloads.
    fn of_overload(overload: &str) -> Option<Self> {
        Some(match overload {
            "list_slice" | "lists_range" | "list_reverse" => Self::Output,
            "list_flatten" | "list_flatten_int" => Self::Flatten,
            "list_distinct" => Self::SelfCompare(0),
            "list_sets_contains_list" | "list_sets_intersects_list" => Self::Sets(1.0),
            "list_sets_equivalent_list" => Self::Sets(2.0),
            _ if overload.ends_with("_sort") => Self::SelfCompare(0),
            _ if overload.ends_with("_sortByAssociatedKeys") => Self::SelfCompare(1),
            _ => return None,
        })
    }

    /// Rules of Kubernetes' estimator.
    fn of_function(function: &str, overload: &str) -> Option<Self> {
        Some(match function {
            "check" => Self::Fixed(350_000),
            "serviceAccount" | "path" | "group" | "resource" | "subresource" | "namespace" | "name"
            | "allowed" | "reason" | "error" | "errored" => Self::Fixed(1),
            "fieldSelector" | "labelSelector" => Self::Selector,
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" | "includes" => Self::Traverse,
            "url"
            | "lowerAscii"
            | "upperAscii"
            | "substring"
            | "trim"
            | "jsonpatch.escapeKey"
            | "cidr"
            | "isIP"
            | "isCIDR"
            | "quantity"
            | "isQuantity"
            | "semver"
            | "isSemver" => Self::Scan(0, STRING_FACTOR),
            "replace" | "split" | "ip.isCanonical" => Self::Scan(0, 2.0 * STRING_FACTOR),
            "join" => Self::Result,
            "find" | "findAll" => Self::Regex,
            "ip" if overload == "cidr_ip" => Self::Fixed(1),
            "ip" => Self::Scan(0, STRING_FACTOR),
            "containsIP" => Self::ContainsIp(overload == "cidr_contains_ip_string"),
            "containsCIDR" => Self::ContainsCidr(overload == "cidr_contains_cidr_string"),
            "validate" => Self::Validate,
            _ => return None,
        })
    }

    /// The cost of a call with these arguments.
    ///
    /// Charged after the call, as in cel-go, because some rules need the result. What a call really does is metered
    /// before, by [`Meter::work`](crate::Meter::work).
    pub(crate) fn cost(self, args: &[Value<'_>], result: Option<&Value<'_>>) -> u64 {
        let size = |index: usize| args.get(index).map_or(1, Value::cost_size);
        let output = || result.map_or(1, Value::cost_size);
        let parsing = |text: bool| if text { ceil(size(1), STRING_FACTOR) } else { 0 };
        match self {
            Self::Fixed(cost) => cost,
            Self::Scan(index, factor) => ceil(size(index), factor),
            Self::Result => ceil(output(), 2.0 * STRING_FACTOR),
            Self::Traverse => args.first().map_or(0, |value| traversal(value, &mut 1_000_000)),
            Self::Regex => regex(size(0), size(1)),
            Self::Search => ceil(size(0), STRING_FACTOR).saturating_mul(ceil(size(1), STRING_FACTOR)),
            Self::Elements => size(1),
            Self::Shorter => ceil(size(0).min(size(1)), STRING_FACTOR),
            Self::Both => ceil(size(0).saturating_add(size(1)), STRING_FACTOR),
            Self::Output => list_call(1.0, output()),
            Self::Flatten => {
                #[expect(clippy::cast_precision_loss, reason = "a factor")]
                let depth = if let Some(Value::Int(depth)) = args.get(1) { *depth as f64 } else { 1.0 };
                list_call(depth, size(0))
            }
            Self::SelfCompare(index) => {
                let factor = if is_list_of_text(args.get(index)) { 2.0 + STRING_FACTOR } else { 2.0 };
                list_call(factor, size(index).saturating_mul(size(index)))
            }
            Self::Sets(factor) => 1_u64.saturating_add(times(size(0).saturating_mul(size(1)), factor)),
            Self::ContainsIp(text) => ceil(size(0) + size(0), STRING_FACTOR) + parsing(text),
            Self::ContainsCidr(text) => {
                ceil(size(0) + size(0), STRING_FACTOR) + ceil(size(0), STRING_FACTOR) + 1 + parsing(text)
            }
            Self::Selector => selector(size(1)),
            Self::Validate => match args.first() {
                Some(Value::Format(format)) => ceil(size(1).saturating_add(1), STRING_FACTOR)
                    .saturating_mul(ceil(format.regex_size, REGEX_FACTOR)),
                _ => 1,
            },
        }
    }
}

fn is_list_of_text(value: Option<&Value<'_>>) -> bool {
    let Some(Value::List(list)) = value else { return false };
    matches!(list.get(0), Ok(Some(Value::String(_) | Value::Bytes(_))))
}

/// The cost of comparing two values for equality.
///
/// Proportional to the shorter value, also where the first byte would decide: the numbers are cel-go's.
pub(crate) fn equality(left: Option<&Value<'_>>, right: Option<&Value<'_>>) -> u64 {
    match left {
        Some(
            Value::Quantity(_)
            | Value::Ip(_)
            | Value::Cidr(_)
            | Value::Format(_)
            | Value::Url(_)
            | Value::Semver(_)
            | Value::Check(_),
        ) => 1,
        _ => {
            let size = |value: Option<&Value<'_>>| value.map_or(1, Value::cost_size);
            ceil(size(left).min(size(right)), STRING_FACTOR)
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "costs are counted in doubles and rounded up; the conversion saturates"
)]
/// Rounded up, as cel-go rounds: a part of a unit costs one.
pub(super) fn ceil(size: u64, factor: f64) -> u64 {
    (size as f64 * factor).ceil() as u64
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "costs are counted in doubles; the conversion saturates"
)]
/// Rounded down, where cel-go does.
fn times(size: u64, factor: f64) -> u64 {
    (size as f64 * factor) as u64
}

/// The product of text and pattern, each weighted.
fn regex(text: u64, pattern: u64) -> u64 {
    ceil(text.saturating_add(1), STRING_FACTOR).saturating_mul(ceil(pattern, REGEX_FACTOR))
}

/// A new list costs what it holds and itself.
fn list_call(factor: f64, size: u64) -> u64 {
    let factor = if factor < 0.0 { 1.0 } else { factor };
    times(size, factor).saturating_add(1 + LIST_COST)
}

/// The cost of reading a selector: passing over it, and a requirement for every two characters.
fn selector(length: u64) -> u64 {
    let requirements = ceil(length, 0.5);
    LIST_COST
        .saturating_add(ceil(length, STRING_FACTOR))
        .saturating_add(requirements.saturating_mul(LIST_COST + STRUCT_COST))
}

/// The cost of passing over a value with everything in it. Ends at the budget: a limit is exceeded before that.
///
/// The budget of values is a million, and the cost at its end is far beyond every limit.
fn traversal(value: &Value<'_>, budget: &mut u64) -> u64 {
    if *budget == 0 {
        return u64::MAX / 2;
    }
    *budget -= 1;
    match value {
        Value::String(text) => times(text.len() as u64, STRING_FACTOR),
        Value::Bytes(bytes) => times(bytes.len() as u64, STRING_FACTOR),
        Value::List(list) => list_traversal(list, budget),
        Value::Map(map) => map_traversal(map, budget),
        _ => 1,
    }
}

/// Returns the cost of visiting a list and what is in it. Ends early when the budget is used up: the sum is above
/// every limit by then.
fn list_traversal(list: &ListValue<'_>, budget: &mut u64) -> u64 {
    let mut cost = 0_u64;
    for item in list.iter() {
        cost = cost.saturating_add(item.map_or(1, |item| traversal(&item, budget)));
        if *budget == 0 {
            break;
        }
    }
    cost
}

/// Returns the cost of visiting a map: that of its keys and its values.
fn map_traversal(map: &MapValue<'_>, budget: &mut u64) -> u64 {
    let mut cost = 0_u64;
    for key in map.keys() {
        let value = map.get(&key).ok().flatten().map_or(1, |value| traversal(&value, budget));
        cost = cost.saturating_add(traversal(&key, budget)).saturating_add(value);
    }
    cost
}
