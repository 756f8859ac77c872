//! Defaults of Jobs and CronJobs.
//!
//! `completions` is filled only if `parallelism` is absent too: parallelism alone means a work queue, which has no
//! number of completions. `backoffLimit` and `podReplacementPolicy` depend on other fields of the same spec, so their
//! order in the function matters. The Job inside a CronJob gets only the defaults of its Pod template; the rest is
//! filled when the controller creates the Job.

use listwatch_wire::json::Map;

use super::{empty, pod};
use crate::tree::Tree;

/// Defaults of a Job.
pub(crate) fn job(object: &mut Map) {
    // With a generated selector, the labels are copied after they have been added to the template.
    let labels = object.at("spec").path(&["template", "metadata", "labels"]).clone();
    if object.at("spec").flag("manualSelector")
        && labels.is_object()
        && let Some(meta) = object.inner_or_new("metadata")
        && meta.count("labels") == 0
    {
        meta.put("labels", labels);
    }
    let Some(spec) = object.inner_or_new("spec") else { return };
    pod::template(spec);
    // Neither number given means one Pod once; only parallelism given means a work queue, which has no completions.
    if !spec.has("completions") && !spec.has("parallelism") {
        spec.put("completions", 1);
    }
    spec.fill("parallelism", 1);
    let limit = if spec.has("backoffLimitPerIndex") { i64::from(i32::MAX) } else { 6 };
    spec.fill("backoffLimit", limit);
    spec.fill("completionMode", "NonIndexed");
    spec.fill("suspend", false);
    spec.fill("manualSelector", false);
    let replacement = if spec.has("podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
    spec.fill("podReplacementPolicy", replacement);
    if let Some(policy) = spec.inner("podFailurePolicy") {
        for rule in policy.each("rules") {
            for condition in rule.each("onPodConditions") {
                condition.fill_text("status", "True");
            }
        }
    }
}

/// Defaults of a CronJob. Of its template only the Pod's defaults are filled in: those of the Job follow when one is
/// created from it.
pub(crate) fn cron_job(object: &mut Map) {
    let Some(spec) = object.inner_or_new("spec") else { return };
    spec.fill_text("concurrencyPolicy", "Allow");
    spec.fill("suspend", false);
    spec.fill("successfulJobsHistoryLimit", 3);
    spec.fill("failedJobsHistoryLimit", 1);
    let Some(template) = spec.inner_or_new("jobTemplate") else { return };
    template.fill("metadata", empty());
    if let Some(job) = template.inner_or_new("spec") {
        pod::template(job);
    }
}
