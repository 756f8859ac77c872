//! How a Job counts its Pods, and what it makes of those that fail or succeed.

use std::collections::HashSet;

use listwatch_wire::json::Value;
use listwatch_wire::names::label_key_errors;

use crate::field::{Errors, Path};
use crate::tree::Tree;

/// Above this an indexed Job would not fit into its own status.
const MAX_INDEXED: i64 = 100_000;
const NEEDS_INDEXES: &str = "requires indexed completion mode";

/// Indexes, limits per index, and the policies about Pods.
pub(super) fn check(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    errors.non_negative(&path.child("backoffLimitPerIndex"), spec.int("backoffLimitPerIndex"));
    errors.non_negative(&path.child("maxFailedIndexes"), spec.int("maxFailedIndexes"));
    if spec.has("maxFailedIndexes") && !spec.has("backoffLimitPerIndex") {
        errors.required(&path.child("backoffLimitPerIndex"), "when maxFailedIndexes is specified");
    }
    let mode = spec.text("completionMode");
    match mode {
        "Indexed" => indexed(spec, path, errors),
        "" | "NonIndexed" => {
            for key in ["backoffLimitPerIndex", "maxFailedIndexes"] {
                if let Some(number) = spec.int(key) {
                    errors.invalid(&path.child(key), number, NEEDS_INDEXES);
                }
            }
        }
        other => errors.not_supported(&path.child("completionMode"), other, &["Indexed", "NonIndexed"]),
    }
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

fn indexed(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    if !spec.has("completions") {
        errors.required(&path.child("completions"), "when completion mode is Indexed");
    }
    if let Some(number) = spec.int("parallelism").filter(|number| *number > MAX_INDEXED) {
        let detail = format!("must be less than or equal to {MAX_INDEXED} when completion mode is Indexed");
        errors.invalid(&path.child("parallelism"), number, detail);
    }
    let Some(failed) = spec.int("maxFailedIndexes") else { return };
    let path = path.child("maxFailedIndexes");
    if spec.int("completions").is_some_and(|all| failed > all) {
        errors.invalid(&path, failed, "must be less than or equal to completions");
    }
    if failed > MAX_INDEXED {
        errors.invalid(&path, failed, format!("must be less than or equal to {MAX_INDEXED}"));
    }
}

fn failures(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let pod = spec.path(&["template", "spec"]);
    let containers = pod.list("containers").iter().chain(pod.list("initContainers"));
    let containers: HashSet<&str> = containers.map(|container| container.text("name")).collect();
    for (index, rule) in spec.at("podFailurePolicy").list("rules").iter().enumerate() {
        let path = path.index(index);
        let action = rule.text("action");
        if action == "FailIndex" && !spec.has("backoffLimitPerIndex") {
            errors.invalid(&path.child("action"), action, "requires the backoffLimitPerIndex to be set");
        }
        chosen(action, &["Count", "FailIndex", "FailJob", "Ignore"], &path.child("action"), errors);
        let (codes, conditions) = (rule.has("onExitCodes"), rule.count("onPodConditions") > 0);
        if codes {
            exit_codes(&containers, rule.at("onExitCodes"), &path.child("onExitCodes"), errors);
        }
        for (index, condition) in rule.list("onPodConditions").iter().enumerate() {
            let path = path.child("onPodConditions");
            let path = path.index(index);
            let kind = condition.text("type");
            errors.invalid_all(&path.child("type"), kind, label_key_errors(kind));
            chosen(condition.text("status"), &["False", "True", "Unknown"], &path.child("status"), errors);
        }
        if codes == conditions {
            let detail = match codes {
                true => "specifying both OnExitCodes and OnPodConditions is not supported",
                false => "specifying one of OnExitCodes and OnPodConditions is required",
            };
            errors.invalid(&path, rule.clone(), detail);
        }
    }
}

/// One of the words, all of which are told where there is none.
fn chosen(word: &str, words: &[&str], path: &Path<'_>, errors: &mut Errors) {
    if word.is_empty() {
        let words: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
        errors.required(path, format!("valid values: [{}]", words.join(" ")));
    } else {
        errors.one_of(path, word, words);
    }
}

fn exit_codes(containers: &HashSet<&str>, rule: &Value, path: &Path<'_>, errors: &mut Errors) {
    chosen(rule.text("operator"), &["In", "NotIn"], &path.child("operator"), errors);
    if let Some(name) = rule.at("containerName").as_str()
        && !containers.contains(name)
    {
        let detail = "must be one of the container or initContainer names in the pod template";
        errors.invalid(&path.child("containerName"), name, detail);
    }
    let values: Vec<i64> = rule.list("values").iter().filter_map(Value::as_i64).collect();
    let path = path.child("values");
    if values.is_empty() {
        errors.invalid(&path, rule.at("values").clone(), "at least one value is required");
    }
    let mut seen = HashSet::new();
    for (index, value) in values.iter().enumerate() {
        if *value == 0 && rule.text("operator") == "In" {
            errors.invalid(&path.index(index), 0, "must not be 0 for the In operator");
        }
        if !seen.insert(*value) {
            errors.duplicate(&path.index(index), *value);
        }
    }
    if !values.is_sorted() {
        errors.invalid(&path, rule.at("values").clone(), "must be ordered");
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
    }
    for (index, rule) in policy.list("rules").iter().enumerate() {
        let path = path.index(index);
        if !rule.has("succeededCount") && !rule.has("succeededIndexes") {
            errors.required(&path, "at least one of succeededCount or succeededIndexes must be specified");
        }
        let Some(count) = rule.int("succeededCount") else { continue };
        errors.non_negative(&path.child("succeededCount"), Some(count));
        if let Some(all) = spec.int("completions").filter(|all| count > *all) {
            let detail = format!("must be less than or equal to {all} (the number of specified completions)");
            errors.invalid(&path.child("succeededCount"), count, detail);
        }
    }
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    fn complaints(spec: Value) -> Vec<String> {
        let mut errors = Errors::new();
        check(&spec, &Path::root("spec"), &mut errors);
        errors.into_vec().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn limits_per_index_need_indexes() {
        assert_eq!(
            complaints(json!({"maxFailedIndexes": 2})),
            [
                "spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified",
                "spec.maxFailedIndexes: Invalid value: 2: requires indexed completion mode",
            ]
        );
        assert_eq!(
            complaints(
                json!({"completionMode": "Indexed", "completions": 1, "maxFailedIndexes": 2, "backoffLimitPerIndex": 1})
            ),
            ["spec.maxFailedIndexes: Invalid value: 2: must be less than or equal to completions"]
        );
    }

    #[test]
    fn rules_about_failures_are_complete() {
        let rules = json!([
            {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [2, 0], "containerName": "x"}},
            {"onPodConditions": [{"type": "DisruptionTarget", "status": "Yes"}]},
        ]);
        let spec =
            json!({"podFailurePolicy": {"rules": rules}, "podReplacementPolicy": "TerminatingOrFailed"});
        let found = complaints(spec);
        let found: Vec<&str> =
            found.iter().map(|text| text.trim_start_matches("spec.podFailurePolicy.rules")).collect();
        assert_eq!(
            found,
            [
                "[0].action: Invalid value: \"FailIndex\": requires the backoffLimitPerIndex to be set",
                "[0].onExitCodes.containerName: Invalid value: \"x\": must be one of the container or initContainer names in the pod template",
                "[0].onExitCodes.values[1]: Invalid value: 0: must not be 0 for the In operator",
                "[0].onExitCodes.values: Invalid value: [2,0]: must be ordered",
                "[1].action: Required value: valid values: [\"Count\" \"FailIndex\" \"FailJob\" \"Ignore\"]",
                "[1].onPodConditions[0].status: Unsupported value: \"Yes\": supported values: \"False\", \"True\", \"Unknown\"",
                "spec.podReplacementPolicy: Unsupported value: \"TerminatingOrFailed\": supported values: \"Failed\"",
            ]
        );
    }

    #[test]
    fn success_is_counted() {
        let rules = json!([{"succeededCount": 3}, {}]);
        let found = complaints(
            json!({"completionMode": "Indexed", "completions": 2, "successPolicy": {"rules": rules}}),
        );
        assert_eq!(
            found,
            [
                "spec.successPolicy.rules[0].succeededCount: Invalid value: 3: must be less than or equal to 2 (the number of specified completions)",
                "spec.successPolicy.rules[1]: Required value: at least one of succeededCount or succeededIndexes must be specified",
            ]
        );
    }
}
