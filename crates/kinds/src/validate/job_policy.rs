//! Validation of the Pod failure policy and the success policy of a Job.

use std::collections::HashSet;

use listwatch_wire::json::Value;

use super::checks;
use crate::field::{Errors, Path};
use crate::rules::{At, Check};
use crate::tree::Tree;

pub(super) const CHECKS: &[(&str, Check)] = checks![job_policies_are_valid, exit_codes_are_a_set];

const NEEDS_INDEXES: &str = "requires indexed completion mode";
const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];
const MAX_RULES: usize = 20;
const MAX_EXIT_CODES: usize = 255;

fn job_policies_are_valid(at: &At<'_>, errors: &mut Errors) {
    let (spec, path) = (at.value, at.path);
    if spec.has("podFailurePolicy") {
        failures(spec, &path.child("podFailurePolicy").child("rules"), errors);
    }
    if spec.has("successPolicy") {
        successes(spec, &path.child("successPolicy"), errors);
    }
    if spec.has("podReplacementPolicy") {
        // While it runs down a Pod has not failed yet, so no rule could judge it.
        let choices: &[&str] =
            if spec.has("podFailurePolicy") { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
        let policy = spec.text("podReplacementPolicy");
        errors.one_of(&path.child("podReplacementPolicy"), policy, choices);
    }
}

fn failures(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let pod = spec.path(&["template", "spec"]);
    let names: HashSet<&str> = ["containers", "initContainers"]
        .into_iter()
        .flat_map(|list| pod.list(list))
        .map(|container| container.text("name"))
        .collect();
    let rules = spec.at("podFailurePolicy").list("rules");
    if rules.len() > MAX_RULES {
        errors.too_many(path, rules.len(), MAX_RULES);
    }
    for (index, rule) in rules.iter().enumerate() {
        let path = path.index(index);
        match rule.text("action") {
            "" => {
                let words = format!("valid values: {ACTIONS:?}").replace(',', "");
                errors.required(&path.child("action"), words);
            }
            "FailIndex" if !spec.has("backoffLimitPerIndex") => {
                let detail = "requires the backoffLimitPerIndex to be set";
                errors.invalid(&path.child("action"), "FailIndex", detail);
            }
            action => errors.one_of(&path.child("action"), action, &ACTIONS),
        }
        if let Some(name) = rule.at("onExitCodes").at("containerName").as_str()
            && !names.contains(name)
        {
            let detail = "must be one of the container or initContainer names in the pod template";
            errors.invalid(&path.child("onExitCodes").child("containerName"), name, detail);
        }
        let (codes, conditions) = (rule.has("onExitCodes"), rule.count("onPodConditions") > 0);
        if codes == conditions {
            let detail = match codes {
                true => "specifying both OnExitCodes and OnPodConditions is not supported",
                false => "specifying one of OnExitCodes and OnPodConditions is required",
            };
            errors.invalid(&path, rule.clone(), detail);
        }
    }
}

fn exit_codes_are_a_set(at: &At<'_>, errors: &mut Errors) {
    let values: Vec<i64> = at.value.as_array().into_iter().flatten().filter_map(Value::as_i64).collect();
    if values.is_empty() {
        errors.invalid(at.path, at.value.clone(), "at least one value is required");
    } else if values.len() > MAX_EXIT_CODES {
        errors.too_many(at.path, values.len(), MAX_EXIT_CODES);
    }
    let mut seen = HashSet::new();
    for (index, value) in values.iter().enumerate() {
        if *value == 0 && at.parent.text("operator") == "In" {
            errors.invalid(&at.path.index(index), 0, "must not be 0 for the In operator");
        }
        if !seen.insert(value) {
            errors.duplicate(&at.path.index(index), *value);
        }
    }
    if !values.is_sorted() {
        errors.invalid(at.path, at.value.clone(), "must be ordered");
    }
}

fn successes(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let policy = spec.at("successPolicy");
    if spec.text("completionMode") != "Indexed" {
        errors.invalid(path, policy.clone(), NEEDS_INDEXES);
        return;
    }
    let path = path.child("rules");
    if policy.count("rules") == 0 {
        errors.required(&path, "at least one rules must be specified when the successPolicy is specified");
    } else if policy.count("rules") > MAX_RULES {
        errors.too_many(&path, policy.count("rules"), MAX_RULES);
    }
    for (index, rule) in policy.list("rules").iter().enumerate() {
        success(spec.int("completions").unwrap_or(0), rule, &path.index(index), errors);
    }
}

fn success(completions: i64, rule: &Value, path: &Path<'_>, errors: &mut Errors) {
    if !rule.has("succeededCount") && !rule.has("succeededIndexes") {
        errors.required(path, "at least one of succeededCount or succeededIndexes must be specified");
    }
    let listed = rule.at("succeededIndexes").as_str().map(|text| indexes(text, completions));
    if let Some(Err(error)) = &listed {
        let detail = format!("error parsing succeededIndexes: {error}");
        errors.invalid(&path.child("succeededIndexes"), rule.text("succeededIndexes"), detail);
    }
    let Some(count) = rule.int("succeededCount") else { return };
    let path = path.child("succeededCount");
    if count > completions {
        let detail =
            format!("must be less than or equal to {completions} (the number of specified completions)");
        errors.invalid(&path, count, detail);
    }
    if let Some(total) = listed.map(|listed| listed.unwrap_or(0)).filter(|total| count > *total) {
        let detail = format!(
            "must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
        );
        errors.invalid(&path, count, detail);
    }
}

/// The number of indexes that a list of intervals names (`1,3-5`).
pub(super) fn indexes(text: &str, completions: i64) -> Result<i64, String> {
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
pub(super) fn intervals(text: &str, completions: i64) -> impl Iterator<Item = (i64, i64)> + '_ {
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
