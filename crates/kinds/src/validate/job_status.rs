//! The status of Jobs: what a controller may say about one, and what it may not take back.
//!
//! A rule about a field is asked only when that field or the state of the Job changes, so that a status that was stored before the
//! rule can still be written. `job.rs` has the rules of the spec.

use std::collections::HashSet;

use listwatch_wire::json::Value;

use super::job_policy::{indexes, intervals};
use crate::field::{Errors, Path};
use crate::rules::{At, Check};
use crate::time::parts;
use crate::tree::Tree;

pub(super) const CHECKS: &[(&str, Check)] = checks![job_status_moves_on];

fn job_status_moves_on(at: &At<'_>, errors: &mut Errors) {
    if let Some(old) = at.old {
        status(JobStatusChange { spec: at.top.at("spec"), new: at.value, old }, errors);
    }
}

/// Checks a new status against the stored one.
fn status(change: JobStatusChange<'_>, errors: &mut Errors) {
    let path = Path::root("status");
    counts(change.new, &path, errors);
    uncounted(change.new.at("uncountedTerminatedPods"), &path.child("uncountedTerminatedPods"), errors);
    change.outcomes_exclude_each_other(&path.child("conditions"), errors);
    change.completion_time(&path.child("completionTime"), errors);
    change.outcomes_are_announced(&path.child("conditions"), errors);
    change.finished(&path, errors);
    change.completed_indexes(&path.child("completedIndexes"), errors);
    change.failed_indexes(&path.child("failedIndexes"), errors);
    change.terminating_and_ready(&path, errors);
    change.success_is_no_failure(&path.child("conditions"), errors);
    change.nothing_is_taken_back(&path, errors);
}

fn counts(status: &Value, path: &Path<'_>, errors: &mut Errors) {
    for key in ["active", "succeeded", "failed", "ready", "terminating"] {
        errors.non_negative(&path.child(key), status.int(key));
    }
}

/// Each Pod is counted once, whatever became of it.
fn uncounted(pods: &Value, path: &Path<'_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for key in ["succeeded", "failed"] {
        for (index, uid) in pods.list(key).iter().filter_map(Value::as_str).enumerate() {
            let list = path.child(key);
            if uid.is_empty() {
                errors.invalid(&list.index(index), uid, "must not be empty");
            } else if !seen.insert(uid) {
                errors.duplicate(&list.index(index), uid);
            }
        }
    }
}

#[derive(Clone, Copy)]
struct JobStatusChange<'a> {
    spec: &'a Value,
    new: &'a Value,
    old: &'a Value,
}

impl JobStatusChange<'_> {
    fn changes(self, key: &str) -> bool {
        self.new.at(key) != self.old.at(key)
    }

    fn is(self, condition: &str) -> bool {
        is_true(self.new, condition)
    }

    fn flips(self, condition: &str) -> bool {
        is_true(self.new, condition) != is_true(self.old, condition)
    }

    fn is_finished(self) -> bool {
        is_finished(self.new)
    }

    fn finishes(self) -> bool {
        is_finished(self.new) != is_finished(self.old)
    }

    fn outcomes_exclude_each_other(self, path: &Path<'_>, errors: &mut Errors) {
        let complete = self.is("Complete");
        if (self.flips("Complete") || self.flips("Failed")) && complete && self.is("Failed") {
            errors.invalid_without_value(path, "cannot set Complete=True and Failed=true conditions");
        }
        if (self.flips("Complete") || self.flips("FailureTarget")) && complete && self.is("FailureTarget") {
            errors.invalid_without_value(path, "cannot set Complete=True and FailureTarget=true conditions");
        }
    }

    fn completion_time(self, path: &Path<'_>, errors: &mut Errors) {
        let (completed, started) = (self.new.at("completionTime"), self.new.at("startTime"));
        let changes = self.changes("completionTime");
        if self.flips("Complete") || changes {
            if !completed.is_null() && !self.is("Complete") {
                let detail = "cannot set completionTime when there is no Complete=True condition";
                errors.invalid(path, completed.clone(), detail);
            }
            if completed.is_null() && self.is("Complete") {
                errors.required(path, "completionTime is required for Complete jobs");
            }
        }
        let time = |value: &Value| value.as_str().and_then(parts);
        let backwards = time(completed).zip(time(started)).is_some_and(|(end, start)| end < start);
        if (changes || self.changes("startTime")) && backwards {
            errors.invalid(path, completed.clone(), "must be equal to or after `startTime`");
        }
    }

    fn outcomes_are_announced(self, path: &Path<'_>, errors: &mut Errors) {
        let fails = self.flips("Failed") || self.changes("failedIndexes");
        if fails && self.is("Failed") && !self.is("FailureTarget") {
            let detail = "cannot set Failed=True condition without the FailureTarget=true condition";
            errors.invalid_without_value(path, detail);
        }
        let succeeds = self.flips("Complete") || self.flips("SuccessCriteriaMet");
        if succeeds && self.is("Complete") && !self.is("SuccessCriteriaMet") {
            let detail = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition";
            errors.invalid_without_value(path, detail);
        }
    }

    fn finished(self, path: &Path<'_>, errors: &mut Errors) {
        if !self.is_finished() {
            return;
        }
        let active = self.new.int("active").unwrap_or(0);
        if (self.finishes() || self.changes("active")) && active > 0 {
            errors.invalid(&path.child("active"), active, "active>0 is invalid for finished job");
        }
        let never_ran = self.spec.flag("suspend") && self.spec.int("completions") == Some(0);
        let started = self.new.has("startTime");
        if (self.finishes() || self.changes("startTime")) && !never_ran && !started {
            errors.required(&path.child("startTime"), "startTime is required for finished job");
        }
        let pods = self.new.at("uncountedTerminatedPods");
        let left = pods.count("failed") + pods.count("succeeded");
        if (self.finishes() || self.changes("uncountedTerminatedPods")) && left > 0 {
            let path = path.child("uncountedTerminatedPods");
            errors.invalid(&path, pods.clone(), "must be empty for finished job");
        }
    }

    fn completed_indexes(self, path: &Path<'_>, errors: &mut Errors) {
        let given = self.new.text("completedIndexes");
        if !self.changes("completedIndexes") {
            return;
        }
        if let Some(Err(why)) = self.spec.int("completions").map(|all| indexes(given, all)) {
            errors.invalid(path, given, format!("error parsing completedIndexes: {why}"));
        }
        if !given.is_empty() && self.spec.text("completionMode") != "Indexed" {
            let detail = "cannot set non-empty completedIndexes when non-indexed completion mode";
            errors.invalid(path, given, detail);
        }
    }

    fn failed_indexes(self, path: &Path<'_>, errors: &mut Errors) {
        let Some(given) = self.new.at("failedIndexes").as_str() else { return };
        let (completions, by_index) = (self.spec.int("completions"), self.spec.has("backoffLimitPerIndex"));
        if self.changes("failedIndexes") {
            if by_index && let Some(Err(why)) = completions.map(|all| indexes(given, all)) {
                errors.invalid(path, given, format!("error parsing failedIndexes: {why}"));
            }
            if !by_index {
                let detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
                errors.invalid(path, given, detail);
            }
        }
        if !self.changes("failedIndexes") && !self.changes("completedIndexes") {
            return;
        }
        let Some(completions) = completions else { return };
        if let Err(why) = disjoint(self.new.text("completedIndexes"), given, completions) {
            errors.invalid(path, given, why);
        }
    }

    fn terminating_and_ready(self, path: &Path<'_>, errors: &mut Errors) {
        let terminating = self.new.int("terminating").unwrap_or(0);
        let asked = self.finishes() || self.changes("terminating");
        if asked && terminating > 0 && self.is_finished() {
            let detail = "terminating>0 is invalid for finished job";
            errors.invalid(&path.child("terminating"), terminating, detail);
        }
        let (ready, active) = (self.new.int("ready"), self.new.int("active").unwrap_or(0));
        if (self.changes("ready") || self.changes("active"))
            && let Some(ready) = ready.filter(|ready| *ready > active)
        {
            errors.invalid(&path.child("ready"), ready, "cannot set more ready pods than active");
        }
    }

    fn success_is_no_failure(self, path: &Path<'_>, errors: &mut Errors) {
        let met = self.is("SuccessCriteriaMet");
        for (other, word) in [("Failed", "Failed=true"), ("FailureTarget", "FailureTarget=true")] {
            if met && self.is(other) {
                let detail = format!("cannot set SuccessCriteriaMet=True and {word} conditions");
                errors.invalid_without_value(path, detail);
            }
        }
        if self.spec.has("successPolicy") && !met && self.is("Complete") {
            let detail = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True";
            errors.invalid_without_value(path, detail);
        }
    }

    fn nothing_is_taken_back(self, path: &Path<'_>, errors: &mut Errors) {
        let conditions = path.child("conditions");
        for outcome in ["Failed", "Complete", "FailureTarget"] {
            if is_true(self.old, outcome) && !self.is(outcome) {
                let detail = format!("cannot disable the terminal {outcome}=True condition");
                errors.invalid_without_value(&conditions, detail);
            }
        }
        // An indexed Job that can be scaled may lose what it had completed.
        let scalable = self.spec.text("completionMode") == "Indexed"
            && self.spec.int("completions") == self.spec.int("parallelism");
        for (key, may_sink) in [("failed", false), ("succeeded", scalable)] {
            let (now, before) = (self.new.int(key).unwrap_or(0), self.old.int(key).unwrap_or(0));
            if now < before && !may_sink {
                errors.invalid(&path.child(key), now, format!("cannot decrease the {key} counter"));
            }
        }
        let both = self.new.has("completionTime") && self.old.has("completionTime");
        if both && self.changes("completionTime") {
            let value = self.new.at("completionTime").clone();
            errors.invalid(&path.child("completionTime"), value, "field is immutable");
        }
        let resumes = is_true(self.old, "Suspended") && has(self.new, "Suspended", "False");
        if self.old.has("startTime") && self.changes("startTime") && !resumes && !self.spec.flag("suspend") {
            let detail = "field is immutable for unsuspended job once set";
            errors.invalid(&path.child("startTime"), self.new.at("startTime").clone(), detail);
        }
        let (before, met) = (is_true(self.old, "SuccessCriteriaMet"), self.is("SuccessCriteriaMet"));
        if before && !met {
            let detail = "cannot disable the SuccessCriteriaMet=True condition";
            errors.invalid_without_value(&conditions, detail);
        }
        if is_true(self.old, "Complete") && !before && met {
            let detail = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions";
            errors.invalid_without_value(&conditions, detail);
        }
    }
}

fn is_true(status: &Value, condition: &str) -> bool {
    has(status, condition, "True")
}

fn has(status: &Value, condition: &str, word: &str) -> bool {
    let conditions = status.list("conditions");
    conditions.iter().any(|other| other.text("type") == condition && other.text("status") == word)
}

fn is_finished(status: &Value) -> bool {
    is_true(status, "Complete") || is_true(status, "Failed")
}

/// No index has both failed and completed. Intervals that cannot be read are left to other rules.
fn disjoint(completed: &str, failed: &str, completions: i64) -> Result<(), String> {
    let completed: Vec<_> = intervals(completed, completions).collect();
    for (first, last) in intervals(failed, completions) {
        if let Some((from, _)) = completed.iter().find(|(from, to)| *from <= last && first <= *to) {
            return Err(format!("failedIndexes and completedIndexes overlap at index: {}", first.max(*from)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    fn fields(new: Value, old: Value) -> Vec<String> {
        let mut errors = Errors::new();
        let spec = json!({"completions": 3, "parallelism": 1});
        status(JobStatusChange { spec: &spec, new: &new, old: &old }, &mut errors);
        errors.into_fields()
    }

    #[test]
    fn a_job_completes_with_its_times_and_its_reason() {
        let done = json!({"startTime": "2020-01-01T00:00:00Z", "completionTime": "2020-01-01T00:00:01Z", "conditions": [
            {"type": "SuccessCriteriaMet", "status": "True"}, {"type": "Complete", "status": "True"}]});
        assert_eq!(fields(done, json!({})), [""; 0]);
        let bare = json!({"conditions": [{"type": "Complete", "status": "True"}]});
        assert_eq!(
            fields(bare, json!({})),
            ["status.completionTime", "status.conditions", "status.startTime"]
        );
    }

    #[test]
    fn counters_and_outcomes_are_not_taken_back() {
        let failed = json!({"failed": 2, "startTime": "2020-01-01T00:00:00Z", "conditions": [
            {"type": "FailureTarget", "status": "True"}, {"type": "Failed", "status": "True"}]});
        assert_eq!(fields(failed.clone(), failed.clone()), [""; 0]);
        let less = json!({"failed": 1, "startTime": "2020-01-01T00:00:00Z"});
        assert_eq!(fields(less, failed), ["status.conditions", "status.conditions", "status.failed"]);
    }

    #[test]
    fn a_status_that_breaks_a_newer_rule_can_still_be_written() {
        let old = json!({"ready": 3, "active": 1});
        assert_eq!(fields(json!({"ready": 3, "active": 1, "succeeded": 1}), old), [""; 0]);
        assert_eq!(fields(json!({"ready": 3, "active": 1}), json!({})), ["status.ready"]);
    }
}
