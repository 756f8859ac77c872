//! Jobs and CronJobs.

use listwatch_wire::json::{Value, json};

use super::{pod, selector};
use crate::cron;
use crate::field::{Errors, Path};
use crate::tree::Tree;

/// Jobs of a CronJob get eleven characters appended to its name.
const MAX_CRON_NAME: usize = 52;

pub(super) fn job(new: &Value, errors: &mut Errors) {
    job_spec(new.at("spec"), &Path::root("spec"), errors);
}

fn job_spec(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    for key in
        ["parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"]
    {
        errors.non_negative(&path.child(key), spec.int(key));
    }
    match spec.text("completionMode") {
        "Indexed" if !spec.has("completions") => {
            errors.required(&path.child("completions"), "when completion mode is Indexed");
        }
        "" | "Indexed" | "NonIndexed" => {}
        other => errors.not_supported(&path.child("completionMode"), other, &["Indexed", "NonIndexed"]),
    }
    let chosen = spec.at("selector");
    if !chosen.is_null() {
        selector::check(chosen, &path.child("selector"), errors);
    }
    let owner = (!chosen.is_null()).then_some(chosen);
    pod::template(spec.at("template"), &path.child("template"), owner, errors);
    let restart = path.child("template");
    let restart = restart.child("spec");
    let restart = restart.child("restartPolicy");
    match spec.path(&["template", "spec", "restartPolicy"]).as_str().unwrap_or_default() {
        "" | "Always" => errors.required(&restart, "valid values: \"OnFailure\", \"Never\""),
        "OnFailure" | "Never" => {}
        other => errors.not_supported(&restart, other, &["OnFailure", "Never"]),
    }
}

pub(super) fn job_change(new: &Value, old: &Value, errors: &mut Errors) {
    super::same_spec(
        new,
        old,
        &["selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy"],
        errors,
    );
    let indexed = new.at("spec").text("completionMode") == "Indexed";
    if !indexed {
        super::same_spec(new, old, &["completions"], errors);
    }
    // Where its Pods may run can still be said while a Job is suspended and has not started any.
    let suspended = old.at("spec").flag("suspend") && !old.at("status").has("startTime");
    if !suspended {
        super::same_spec(new, old, &["template"], errors);
    }
}

pub(super) fn cron_job(new: &Value, errors: &mut Errors) {
    let (spec, path) = (new.at("spec"), Path::root("spec"));
    let name = new.at("metadata").text("name");
    if name.len() > MAX_CRON_NAME {
        errors.invalid(&Path::root("metadata").child("name"), name, "must be no more than 52 characters");
    }
    let schedule = spec.text("schedule");
    if schedule.is_empty() {
        errors.required(&path.child("schedule"), "");
    } else if schedule.contains("TZ=") {
        let detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        errors.invalid(&path.child("schedule"), schedule, detail);
    } else if let Err(error) = cron::check(schedule) {
        errors.invalid(&path.child("schedule"), schedule, error.to_string());
    }
    errors.non_negative(&path.child("startingDeadlineSeconds"), spec.int("startingDeadlineSeconds"));
    let policies = &["Allow", "Forbid", "Replace"];
    errors.required_one_of(&path.child("concurrencyPolicy"), spec.text("concurrencyPolicy"), policies);
    for key in ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        errors.non_negative(&path.child(key), spec.int(key));
    }
    let template = spec.at("jobTemplate").at("spec");
    let at = path.child("jobTemplate");
    if template.has("manualSelector") && template.at("manualSelector") != &json!(false) {
        errors.not_supported(&at.child("spec").child("manualSelector"), "true", &["nil", "false"]);
    }
    job_spec(template, &at.child("spec"), errors);
}
