//! Jobs and CronJobs: selectors, counts and templates.

use listwatch_wire::json::{Value, json};
use listwatch_wire::names::label_errors;

use super::{checks, selector};
use crate::cron;
use crate::field::{Errors, Path};
use crate::rules::{At, Check};
use crate::tree::Tree;

pub(super) const CHECKS: &[(&str, Check)] = checks![
    selector_was_generated,
    job_template_changes_little,
    job_counts_fit_its_mode,
    job_template_ends,
    selector_is_not_manual,
    schedule_is_valid,
    cron_job_name_is_short,
];

/// Jobs of a CronJob get eleven characters appended to its name.
const MAX_CRON_NAME: usize = 52;
/// Above this an indexed Job would not fit into its own status.
const MAX_INDEXED: i64 = 100_000;
/// Above this many completions the other counts are limited further.
const MANY_COMPLETIONS: i64 = 100_000;
const MAX_OF_MANY: i64 = 10_000;
const NEEDS_INDEXES: &str = "requires indexed completion mode";

/// A Job whose selector is not chosen by hand gets one that takes the Pods of this Job and no others.
fn selector_was_generated(at: &At<'_>, errors: &mut Errors) {
    let (spec, meta, path) = (at.value.at("spec"), at.value.at("metadata"), at.path.child("spec"));
    let chosen = spec.at("selector");
    if chosen.is_null() {
        errors.required(&path.child("selector"), "");
        let template = path.child("template");
        let labels = spec.path(&["template", "metadata", "labels"]).clone();
        let detail = "`selector` does not match template `labels`";
        errors.invalid(&template.child("metadata").child("labels"), labels, detail);
    }
    indexed_name_fits(at, errors);
    // A change of the template is refused as such.
    if spec.flag("manualSelector") || chosen.is_null() || at.old.is_some() {
        return;
    }
    let (uid, name) = (meta.text("uid"), meta.text("name"));
    let labels = json!({
        "controller-uid": uid, "job-name": name,
        "batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": name,
    });
    let template = path.child("template");
    let template = template.child("metadata");
    let given = spec.path(&["template", "metadata", "labels"]);
    for (key, expected) in labels.fields().into_iter().flatten() {
        if given.at(key) != expected {
            let path = template.child("labels");
            match given.has(key) {
                true => errors.invalid(&path.key(key), given.at(key).clone(), "must be the Job's own"),
                false => errors.required(&path.key(key), ""),
            }
        }
    }
    if selector::is_usable(chosen) && !selector::matches(chosen, &labels) {
        errors.invalid(&path.child("selector"), chosen.clone(), "`selector` not auto-generated");
    }
}

/// The Pods of an indexed Job are named after it and their index.
fn indexed_name_fits(at: &At<'_>, errors: &mut Errors) {
    let (spec, name) = (at.value.at("spec"), at.value.at("metadata").text("name"));
    let Some(last) = spec.int("completions").filter(|count| *count > 0 && at.old.is_none()) else { return };
    if spec.text("completionMode") == "Indexed" && !label_errors(&format!("{name}-{}", last - 1)).is_empty() {
        let detail = "will not able to create pod with invalid DNS label";
        errors.invalid(&at.path.child("metadata").child("name"), name, detail);
    }
}

fn job_template_changes_little(at: &At<'_>, errors: &mut Errors) {
    let Some(old) = at.old else { return };
    let path = at.path.child("spec");
    let (now, before) = (at.value.at("spec"), old.at("spec"));
    completions_change(now, before, &path.child("completions"), errors);
    let started = old.at("status").has("startTime");
    let suspended = before.flag("suspend");
    let same = match suspended {
        true if !started => {
            template_without(now.at("template"), true) == template_without(before.at("template"), true)
        }
        _ => now.at("template") == before.at("template"),
    };
    if !same && suspended && !started {
        let template = path.child("template");
        let spec = now.at("template").at("spec").clone();
        errors.invalid(&template.child("spec"), spec, "field is immutable");
    } else if !same {
        errors.invalid(&path.child("template"), now.at("template").clone(), "field is immutable");
    }
}

fn completions_change(now: &Value, before: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (new, old) = (now.at("completions"), before.at("completions"));
    if new == old {
        return;
    }
    if now.text("completionMode") != "Indexed" {
        errors.invalid(path, new.clone(), "field is immutable");
    } else if !new.is_null() && new != now.at("parallelism") {
        errors.invalid(path, new.clone(), "can only be modified in tandem with spec.parallelism");
    }
}

/// A template without what a suspended Job may still change: where its Pods run, and what they use.
fn template_without(template: &Value, resources: bool) -> Value {
    let mut template = template.clone();
    if let Some(meta) = template.inner("metadata") {
        meta.remove("labels");
        meta.remove("annotations");
    }
    if template.at("metadata").fields().is_some_and(|meta| meta.is_empty()) {
        template.drop_field("metadata");
    }
    let Some(spec) = template.inner("spec") else { return template };
    for key in ["nodeSelector", "tolerations", "schedulingGates"] {
        spec.remove(key);
    }
    if let Some(affinity) = spec.inner("affinity") {
        affinity.remove("nodeAffinity");
    }
    if spec.at("affinity").fields().is_some_and(|affinity| affinity.is_empty()) {
        spec.remove("affinity");
    }
    for list in ["containers", "initContainers"].into_iter().filter(|_| resources) {
        for container in spec.each(list) {
            container.remove("resources");
        }
    }
    template
}

fn job_counts_fit_its_mode(at: &At<'_>, errors: &mut Errors) {
    let (spec, path) = (at.value, at.path);
    if spec.has("maxFailedIndexes") && !spec.has("backoffLimitPerIndex") {
        errors.required(&path.child("backoffLimitPerIndex"), "when maxFailedIndexes is specified");
    }
    match spec.text("completionMode") {
        "Indexed" => indexed(spec, path, errors),
        "" | "NonIndexed" => {
            for key in ["backoffLimitPerIndex", "maxFailedIndexes"] {
                if let Some(number) = spec.int(key) {
                    errors.invalid(&path.child(key), number, NEEDS_INDEXES);
                }
            }
        }
        _ => {}
    }
}

fn indexed(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (completions, parallelism) = (spec.int("completions"), spec.int("parallelism").unwrap_or(0));
    let failed = spec.int("maxFailedIndexes");
    if completions.is_none() {
        errors.required(&path.child("completions"), "when completion mode is Indexed");
    }
    let mut above = |key: &str, number: i64, most: i64, detail: String| {
        if number > most {
            errors.invalid(&path.child(key), number, detail);
        }
    };
    let detail = format!("must be less than or equal to {MAX_INDEXED} when completion mode is Indexed");
    above("parallelism", parallelism, MAX_INDEXED, detail);
    if let (Some(failed), Some(all)) = (failed, completions) {
        above("maxFailedIndexes", failed, all, "must be less than or equal to completions".to_owned());
    }
    let detail = format!("must be less than or equal to {MAX_INDEXED}");
    above("maxFailedIndexes", failed.unwrap_or(0), MAX_INDEXED, detail);
    if completions.is_none_or(|all| all <= MANY_COMPLETIONS) || !spec.has("backoffLimitPerIndex") {
        return;
    }
    let detail = format!(
        "must be less than or equal to {MAX_OF_MANY} when completions are above {MANY_COMPLETIONS} and used with backoff limit per index"
    );
    above("parallelism", parallelism, MAX_OF_MANY, detail.clone());
    above("maxFailedIndexes", failed.unwrap_or(0), MAX_OF_MANY, detail);
    if failed.is_none() {
        let detail = format!("must be specified when completions is above {MANY_COMPLETIONS}");
        errors.required(&path.child("maxFailedIndexes"), detail);
    }
}

/// Pods of a Job come to an end.
fn job_template_ends(at: &At<'_>, errors: &mut Errors) {
    let path = at.path.child("template");
    let path = path.child("spec");
    let path = path.child("restartPolicy");
    match at.value.path(&["template", "spec", "restartPolicy"]).as_str().unwrap_or_default() {
        "" | "Always" => errors.required(&path, "valid values: \"OnFailure\", \"Never\""),
        "OnFailure" if at.value.has("podFailurePolicy") => {
            let detail = "only \"Never\" is supported when podFailurePolicy is specified";
            errors.invalid(&path, "OnFailure", detail);
        }
        "OnFailure" | "Never" => {}
        other => errors.not_supported(&path, other, &["OnFailure", "Never"]),
    }
}

fn selector_is_not_manual(at: &At<'_>, errors: &mut Errors) {
    if at.value == &Value::Bool(true) {
        errors.not_supported(at.path, "true", &["nil", "false"]);
    }
}

/// A time zone inside the schedule is only left to who had it before there was a field for it.
fn schedule_is_valid(at: &At<'_>, errors: &mut Errors) {
    let schedule = at.value.as_str().unwrap_or_default();
    if schedule.contains("TZ") {
        let detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        errors.invalid(at.path, schedule, detail);
    } else if let Err(error) = cron::check(schedule) {
        errors.invalid(at.path, schedule, error.to_string());
    }
}

fn cron_job_name_is_short(at: &At<'_>, errors: &mut Errors) {
    let name = at.value.at("metadata").text("name");
    if name.len() > MAX_CRON_NAME && at.old.is_none() {
        let path = at.path.child("metadata");
        errors.invalid(&path.child("name"), name, "must be no more than 52 characters");
    }
}
