//! Lists of the indexes of a Job (`1,3-5`), in its success policy and its status.
//!
//! They are written by people and controllers as text, and must be ascending, which lets them be read in one pass.
//! Other rules of Jobs are in `job` and in the tables of `rules`.

use crate::field::Errors;
use crate::rules::{At, Check};
use crate::tree::Tree;

pub(super) const CHECKS: &[(&str, Check)] =
    checks![indexes_are_counted, indexes_can_be_read, failed_indexes_have_not_completed];

/// A list in a success policy can be read, and has as many indexes as must succeed.
fn indexes_are_counted(at: &At<'_>, errors: &mut Errors) {
    let Some(text) = at.value.as_str() else { return };
    let listed = indexes(text, at.top.int("completions").unwrap_or(0));
    if let Err(error) = &listed {
        errors.invalid(at.path, text, format!("error parsing succeededIndexes: {error}"));
    }
    let total = listed.unwrap_or(0);
    if let Some(count) = at.parent.int("succeededCount").filter(|count| *count > total) {
        let detail = format!(
            "must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
        );
        errors.invalid(&at.path.sibling("succeededCount"), count, detail);
    }
}

/// A list in the status of a Job can be read.
fn indexes_can_be_read(at: &At<'_>, errors: &mut Errors) {
    let Some(text) = at.value.as_str() else { return };
    let completions = at.top.at("spec").int("completions").unwrap_or(0);
    if let Err(error) = indexes(text, completions) {
        let path = at.path.to_string();
        let field = path.rsplit('.').next().unwrap_or_default();
        errors.invalid(at.path, text, format!("error parsing {field}: {error}"));
    }
}

/// No index has both failed and completed. Intervals that cannot be read are left to other rules.
fn failed_indexes_have_not_completed(at: &At<'_>, errors: &mut Errors) {
    let Some(failed) = at.value.as_str() else { return };
    let completions = at.top.at("spec").int("completions").unwrap_or(0);
    let completed: Vec<_> = intervals(at.parent.text("completedIndexes"), completions).collect();
    for (first, last) in intervals(failed, completions) {
        if let Some((from, _)) = completed.iter().find(|(from, to)| *from <= last && first <= *to) {
            let index = first.max(*from);
            let detail = format!("failedIndexes and completedIndexes overlap at index: {index}");
            return errors.invalid(at.path, failed, detail);
        }
    }
}

/// The number of indexes that a list of intervals names.
fn indexes(text: &str, completions: i64) -> Result<i64, String> {
    let (mut total, mut last) = (0, None);
    for text in text.split(',').filter(|_| !text.is_empty()) {
        let (first, end) = interval(text, completions)?;
        if let Some(last) = last.filter(|last| *last >= first) {
            return Err(disorder(last, first));
        }
        total += end - first + 1;
        last = Some(end);
    }
    Ok(total)
}

/// The intervals of a list that can be read.
///
/// Ones that cannot be read are passed over: their errors were reported by [`indexes`].
fn intervals(text: &str, completions: i64) -> impl Iterator<Item = (i64, i64)> + '_ {
    text.split(',').filter_map(move |text| interval(text, completions).ok())
}

/// The first and the last index of one interval.
fn interval(text: &str, completions: i64) -> Result<(i64, i64), String> {
    let number = |digits: &str| match digits.parse::<i64>() {
        Err(_) => Err(format!("cannot convert string to integer for index: {digits:?}")),
        Ok(index) if index >= completions => Err(format!("too large index: {digits:?}")),
        Ok(index) => Ok(index),
    };
    match text.split('-').collect::<Vec<_>>().as_slice() {
        [one] => number(one).map(|index| (index, index)),
        [first, end] => match (number(first)?, number(end)?) {
            (first, end) if first >= end => Err(disorder(first, end)),
            both => Ok(both),
        },
        _ => Err(format!(
            "the fragment {text:?} violates the requirement that an index interval can have at most two parts separated by '-'"
        )),
    }
}

fn disorder(last: i64, now: i64) -> String {
    format!("non-increasing order, previous: {last}, current: {now}")
}
