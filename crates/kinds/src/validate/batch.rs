//! Jobs and CronJobs.

use listwatch_wire::json::{Value, json};

use super::{job_policy, pod, selector};
use crate::cron;
use crate::field::{Errors, Path};
use crate::tree::Tree;

/// Jobs of a CronJob get eleven characters appended to its name.
const MAX_CRON_NAME: usize = 52;

pub(super) fn job(new: &Value, errors: &mut Errors) {
    let (spec, path) = (new.at("spec"), Path::root("spec"));
    generated_selector(new, &path, errors);
    if spec.at("selector").is_null() {
        errors.required(&path.child("selector"), "");
    }
    job_spec(spec, &path, errors);
}

/// Who does not choose a selector gets one that takes the Pods of this Job and no others.
fn generated_selector(job: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (spec, meta) = (job.at("spec"), job.at("metadata"));
    let chosen = spec.at("selector");
    if spec.flag("manualSelector") || chosen.is_null() {
        return;
    }
    let (uid, name) = (meta.text("uid"), meta.text("name"));
    let labels = json!({
        "controller-uid": uid, "job-name": name,
        "batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": name,
    });
    if selector::is_usable(chosen) && !selector::matches(chosen, &labels) {
        errors.invalid(&path.child("selector"), chosen.clone(), "`selector` not auto-generated");
    }
}

fn job_spec(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    for key in
        ["parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"]
    {
        errors.non_negative(&path.child(key), spec.int(key));
    }
    job_policy::check(spec, path, errors);
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
        "OnFailure" if spec.has("podFailurePolicy") => {
            errors.invalid(
                &restart,
                "OnFailure",
                "only \"Never\" is supported when podFailurePolicy is specified",
            );
        }
        "OnFailure" | "Never" => {}
        other => errors.not_supported(&restart, other, &["OnFailure", "Never"]),
    }
}

pub(super) fn job_change(new: &Value, old: &Value, errors: &mut Errors) {
    let indexed = new.at("spec").text("completionMode") == "Indexed";
    if !indexed {
        super::same_spec(new, old, &["completions"], errors);
    }
    super::same_spec(new, old, &["selector"], errors);
    // Where its Pods may run can still be said while a Job is suspended and has not started any.
    let suspended = old.at("spec").flag("suspend") && !old.at("status").has("startTime");
    if !suspended {
        super::same_spec(new, old, &["template"], errors);
    }
    let fixed = &["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"];
    super::same_spec(new, old, fixed, errors);
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
    time_zone(spec, &path.child("timeZone"), errors);
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

/// A zone is named after its place; the one of the machine is none.
fn time_zone(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let Some(zone) = spec.at("timeZone").as_str() else { return };
    if zone.is_empty() {
        errors.invalid(path, zone, "timeZone must be nil or non-empty string");
    } else if zone.eq_ignore_ascii_case("local") {
        let detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        errors.invalid(path, zone, detail);
    } else if !is_zone(zone) {
        errors.invalid(path, zone, format!("unknown time zone {zone}"));
    }
}

/// Whether a name is in the form and from the areas of the IANA database. Places come and go with its releases, and a
/// server need not have one installed.
fn is_zone(name: &str) -> bool {
    const AREAS: [&str; 16] = [
        "Africa",
        "America",
        "Antarctica",
        "Arctic",
        "Asia",
        "Atlantic",
        "Australia",
        "Brazil",
        "Canada",
        "Chile",
        "Etc",
        "Europe",
        "Indian",
        "Mexico",
        "Pacific",
        "US",
    ];
    const ALONE: [&str; 43] = [
        "CET",
        "CST6CDT",
        "Cuba",
        "EET",
        "EST",
        "EST5EDT",
        "Egypt",
        "Eire",
        "Factory",
        "GB",
        "GB-Eire",
        "GMT",
        "GMT+0",
        "GMT-0",
        "GMT0",
        "Greenwich",
        "HST",
        "Hongkong",
        "Iceland",
        "Iran",
        "Israel",
        "Jamaica",
        "Japan",
        "Kwajalein",
        "Libya",
        "MET",
        "MST",
        "MST7MDT",
        "NZ",
        "NZ-CHAT",
        "Navajo",
        "PRC",
        "PST8PDT",
        "Poland",
        "Portugal",
        "ROC",
        "ROK",
        "Singapore",
        "Turkey",
        "UCT",
        "UTC",
        "Universal",
        "Zulu",
    ];
    let mut parts = name.split('/');
    let known = match name.contains('/') {
        true => parts.next().is_some_and(|area| AREAS.contains(&area)),
        false => ALONE.contains(&name) || matches!(name, "W-SU" | "WET"),
    };
    let is_place = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'+'))
    };
    known && parts.all(is_place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_places() {
        for (zone, known) in [
            ("Europe/Berlin", true),
            ("America/Argentina/Buenos_Aires", true),
            ("Etc/GMT+5", true),
            ("UTC", true),
            ("Foo/Bar", false),
            ("Europe/", false),
            ("Mars", false),
        ] {
            assert_eq!(is_zone(zone), known, "{zone}");
        }
    }

    #[test]
    fn a_selector_is_chosen_or_generated() {
        let found = |spec: Value| -> Vec<String> {
            let mut errors = Errors::new();
            generated_selector(
                &json!({"metadata": {"name": "j", "uid": "u"}, "spec": spec}),
                &Path::root("spec"),
                &mut errors,
            );
            errors.into_fields()
        };
        assert_eq!(
            found(json!({"selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}}})),
            [""; 0]
        );
        assert_eq!(found(json!({"selector": {"matchLabels": {"a": "b"}}})), ["spec.selector"]);
        assert_eq!(found(json!({"manualSelector": true, "selector": {"matchLabels": {"a": "b"}}})), [""; 0]);
    }
}
