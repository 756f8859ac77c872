//! [`ColumnPath`]: the JSONPath of printer columns, as client-go's `util/jsonpath` evaluates it.
//!
//! Fields, wildcards, indexes, slices, unions, recursive descent and filters. Not `range` and not text around a path: a
//! column is one path. Maps are walked in the order of their keys; kube-apiserver's order is random. The parser is in
//! [`parse`].

use std::cmp::Ordering;

use listwatch_wire::json::Value;
use serde::Deserialize;

use super::budget::{NoCell, RowBudget};
use super::parse;

/// A path such as `.spec.ports[0].name` or `.status.conditions[?(@.type=="Ready")].status`. None if it cannot be parsed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "String")]
pub(super) struct ColumnPath(Option<Vec<ColumnStep>>);

/// A step of a path.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ColumnStep {
    Field(String),
    Wildcard,
    Recursive,
    Slice(SliceStep),
    Union(Vec<Vec<ColumnStep>>),
    Filter(FilterStep),
    /// A constant, as in the right side of a filter.
    Literal(Value),
}

/// An index or a slice of a list. Negative bounds count from the end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SliceStep {
    pub(super) start: i64,
    /// None is the end of the list.
    pub(super) end: Option<i64>,
    /// True for an index, whose end is computed: the end of `[-1]` is the end of the list, not 0.
    pub(super) is_index: bool,
    pub(super) step: Option<i64>,
}

/// The elements of a list for which a comparison holds, or for which the left side exists.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FilterStep {
    pub(super) left: Vec<ColumnStep>,
    pub(super) comparison: Option<(String, Vec<ColumnStep>)>,
}

type Matches<'a> = Result<Vec<&'a Value>, NoCell>;

impl From<String> for ColumnPath {
    fn from(text: String) -> Self {
        Self(parse::path(&text))
    }
}

impl ColumnPath {
    /// The first value that the path leads to.
    ///
    /// Linear in the parts of the object that wildcards and recursive descents lead to, each of which the budget counts.
    pub(super) fn find<'a>(&'a self, object: &'a Value, budget: &mut RowBudget) -> Option<&'a Value> {
        walk(self.0.as_ref()?, vec![object], budget).ok()?.first().copied()
    }
}

fn walk<'a>(steps: &'a [ColumnStep], start: Vec<&'a Value>, budget: &mut RowBudget) -> Matches<'a> {
    steps.iter().try_fold(start, |values, step| {
        budget.spend(values.len())?;
        take(step, values, budget)
    })
}

fn take<'a>(step: &'a ColumnStep, values: Vec<&'a Value>, budget: &mut RowBudget) -> Matches<'a> {
    match step {
        ColumnStep::Field(name) => Ok(values.into_iter().filter_map(|value| value.get(name)).collect()),
        ColumnStep::Wildcard => {
            let mut found = Vec::new();
            values.into_iter().try_for_each(|value| add_parts(value, &mut found, budget))?;
            Ok(found)
        }
        ColumnStep::Recursive => {
            let mut found = Vec::new();
            values.into_iter().try_for_each(|value| descend(value, &mut found, budget))?;
            Ok(found)
        }
        ColumnStep::Slice(slice) => cut(*slice, values, budget),
        ColumnStep::Union(paths) => {
            let mut found = Vec::new();
            for path in paths {
                budget.spend(values.len())?;
                found.extend(walk(path, values.clone(), budget)?);
            }
            Ok(found)
        }
        ColumnStep::Filter(filter) => filtered(filter, values, budget),
        ColumnStep::Literal(literal) => Ok(values.iter().map(|_| literal).collect()),
    }
}

/// Adds the values inside of an object or a list.
fn add_parts<'a>(value: &'a Value, found: &mut Vec<&'a Value>, budget: &mut RowBudget) -> Result<(), NoCell> {
    match value {
        Value::Object(fields) => {
            budget.spend(fields.len())?;
            found.extend(fields.values());
        }
        Value::Array(items) => {
            budget.spend(items.len())?;
            found.extend(items.iter());
        }
        _ => {}
    }
    Ok(())
}

/// Collects every object and list at and below a value, those around first.
fn descend<'a>(value: &'a Value, found: &mut Vec<&'a Value>, budget: &mut RowBudget) -> Result<(), NoCell> {
    let mut inside = Vec::new();
    add_parts(value, &mut inside, budget)?;
    if inside.is_empty() {
        return Ok(());
    }
    found.push(value);
    inside.into_iter().try_for_each(|part| descend(part, found, budget))
}

fn cut<'a>(slice: SliceStep, values: Vec<&'a Value>, budget: &mut RowBudget) -> Matches<'a> {
    let mut found = Vec::new();
    for value in values.into_iter().filter(|value| !value.is_null()) {
        let items = value.as_array().ok_or(NoCell)?;
        let Some((start, end)) = bounds(slice, items.len())? else { return Ok(found) };
        let step = usize::try_from(slice.step.unwrap_or(1)).ok().filter(|&step| step > 0).ok_or(NoCell)?;
        budget.spend(end - start)?;
        found.extend(items.get(start..end).ok_or(NoCell)?.iter().step_by(step));
    }
    Ok(found)
}

/// The bounds of a slice in a list of this length; none if it is empty by itself. Bounds outside of the list fail.
fn bounds(slice: SliceStep, length: usize) -> Result<Option<(usize, usize)>, NoCell> {
    let length = i64::try_from(length).map_err(|_| NoCell)?;
    let from_end = |bound: i64| bound.saturating_add(length);
    let start = if slice.start < 0 { from_end(slice.start) } else { slice.start };
    let end = match slice.end {
        None => length,
        Some(end) if end < 0 || (end == 0 && slice.is_index) => from_end(end),
        Some(end) => end,
    };
    if start == end {
        return Ok(None);
    }
    let inside = (0..length).contains(&start) && (0..=length).contains(&end) && start <= end;
    let at = |bound: i64| usize::try_from(bound).map_err(|_| NoCell);
    if inside { Ok(Some((at(start)?, at(end)?))) } else { Err(NoCell) }
}

fn filtered<'a>(filter: &'a FilterStep, values: Vec<&'a Value>, budget: &mut RowBudget) -> Matches<'a> {
    let mut found = Vec::new();
    for value in values {
        for item in value.as_array().ok_or(NoCell)? {
            // Also ends a filter whose own paths have used up the budget: a filter without a comparison would take
            // a path that failed for a match.
            budget.spend(1)?;
            if holds(filter, item, budget)? {
                found.push(item);
            }
        }
    }
    Ok(found)
}

/// Compares one value on each side. A side without a value passes no element; several values on a side fail.
fn holds(filter: &FilterStep, item: &Value, budget: &mut RowBudget) -> Result<bool, NoCell> {
    let left = walk(&filter.left, vec![item], budget);
    let Some((operator, right)) = &filter.comparison else {
        return Ok(left.map_or(true, |found| !found.is_empty()));
    };
    let (left, right) = (left?, walk(right, vec![item], budget)?);
    match (left.as_slice(), right.as_slice()) {
        ([], _) | (_, []) => Ok(false),
        ([left], [right]) => {
            budget.spend_text(left.as_str().unwrap_or_default())?;
            compare(left, operator, right)
        }
        _ => Err(NoCell),
    }
}

/// Compares values of the same basic type; integers and fractions are different types.
fn compare(left: &Value, operator: &str, right: &Value) -> Result<bool, NoCell> {
    let order = match (left, right) {
        (Value::String(left), Value::String(right)) => left.as_str().cmp(right.as_str()),
        (Value::Bool(left), Value::Bool(right)) => match operator {
            "==" | "!=" => left.cmp(right),
            _ => return Err(NoCell),
        },
        (Value::Number(left), Value::Number(right)) if left.is_f64() == right.is_f64() => {
            match (left.as_i64(), right.as_i64()) {
                (Some(left), Some(right)) => left.cmp(&right),
                _ => left.as_f64().partial_cmp(&right.as_f64()).ok_or(NoCell)?,
            }
        }
        _ => return Err(NoCell),
    };
    match operator {
        "==" => Ok(order == Ordering::Equal),
        "!=" => Ok(order != Ordering::Equal),
        "<" => Ok(order == Ordering::Less),
        "<=" => Ok(order != Ordering::Greater),
        ">" => Ok(order == Ordering::Greater),
        ">=" => Ok(order != Ordering::Less),
        _ => Err(NoCell),
    }
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    fn find(path: &str, object: &Value) -> Option<Value> {
        ColumnPath::from(path.to_owned()).find(object, &mut RowBudget::default()).cloned()
    }

    fn object() -> Value {
        json!({"spec": {"ports": [{"name": "a", "port": 80}, {"name": "b", "port": 443, "tls": true}], "none": null},
            "metadata": {"labels": {"a.b/c": "x"}}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    }

    #[test]
    fn paths_lead_through_fields_elements_and_filters() {
        let object = object();
        assert_eq!(find(".spec.ports[1].name", &object), Some(json!("b")));
        assert_eq!(find(".spec['ports'][0].name", &object), Some(json!("a")));
        assert_eq!(find(r".metadata.labels.a\.b/c", &object), Some(json!("x")));
        assert_eq!(find(r".metadata.labels['a\.b/c']", &object), Some(json!("x")));
        assert_eq!(find(r#".status.conditions[?(@.type=="Ready")].status"#, &object), Some(json!("True")));
        assert_eq!(find(".spec.nothing.here", &object), None);
        assert_eq!(find(".spec.none", &object), Some(Value::Null));
    }

    #[test]
    fn the_first_of_several_values_counts() {
        let object = object();
        assert_eq!(find(".spec.ports[*].name", &object), Some(json!("a")));
        assert_eq!(find(".spec.ports[-1].name", &object), Some(json!("b")));
        assert_eq!(find(".spec.ports[1:2].name", &object), Some(json!("b")));
        assert_eq!(find(".spec.ports[1,0].name", &object), Some(json!("b")));
        assert_eq!(find("..port", &object), Some(json!(80)));
        assert_eq!(find(".spec.*[1].port", &object), Some(json!(443)));
        assert_eq!(find(".spec.ports[5].name", &object), None);
    }

    /// Each recursive descent finds a list once for every list around it, so that several of them multiply.
    #[test]
    fn a_path_that_leads_to_too_many_values_gives_no_cell() {
        let deep = (0..60).fold(json!([1]), |inner, _| json!([inner]));
        let object = json!({ "spec": deep });
        assert!(find(&format!(".spec{}", "..[*]".repeat(2)), &object).is_some());
        let began = std::time::Instant::now();
        assert_eq!(find(&format!(".spec{}", "..[*]".repeat(10)), &object), None);
        assert!(began.elapsed() < std::time::Duration::from_secs(5));
    }

    /// A union repeats what it leads to, and the next step multiplies it by the parts of each.
    #[test]
    fn what_a_union_repeats_counts_each_time() {
        let object = json!({ "spec": [vec![1; 2000]], "deep": [vec![json!({"x": "a", "y": "a"}); 2000]] });
        let union = vec!["0"; 20_000].join(",");
        let began = std::time::Instant::now();
        for (place, step) in [
            ("spec", ".*"),
            ("spec", "[:]"),
            ("spec", "[0:2000:1999]"),
            ("spec", "..[*]"),
            ("deep", "[?(@.x)].x"),
            ("deep", "[?(@..x)].x"),
            ("deep", "[?(@.x==@.y)].x"),
        ] {
            assert_eq!(find(&format!(".{place}[{union}]{step}"), &object), None, "{step}");
        }
        assert!(began.elapsed() < std::time::Duration::from_secs(5), "{:?}", began.elapsed());
    }

    #[test]
    fn comparisons_cost_the_length_of_their_texts() {
        let text = "x".repeat(1 << 20);
        let object = json!({ "spec": [[{"a": text, "b": text}]] });
        let path = |times| format!(".spec[{}][?(@.a==@.b)]", vec!["0"; times].join(","));
        assert!(find(&path(2), &object).is_some());
        assert_eq!(find(&path(2000), &object), None);
    }

    #[test]
    fn filters_compare_values_of_one_type() {
        let object = object();
        assert_eq!(find(".spec.ports[?(@.port>100)].name", &object), Some(json!("b")));
        assert_eq!(find(".spec.ports[?(@.port!=80)].name", &object), Some(json!("b")));
        assert_eq!(find(".spec.ports[?(@.tls)].name", &object), Some(json!("b")));
        assert_eq!(find(".spec.ports[?(@.tls==true)].name", &object), Some(json!("b")));
        assert_eq!(find(".spec.ports[?(@.name=='b')].port", &object), Some(json!(443)));
        assert_eq!(find(r#".spec.ports[?(@.port=="80")].name"#, &object), None);
    }
}
