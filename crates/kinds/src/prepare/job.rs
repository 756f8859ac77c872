//! Jobs: the generated selector, and labels that follow the template.
//!
//! That a Job which brings its own selector brings a sensible one is checked in `validate/job.rs`.

use listwatch_wire::json::{Value, json};

use crate::tree::Tree;

/// A Job finds its Pods by its own uid, unless it was asked not to.
/// Labels are added to the template under old and new names, because controllers of older versions look for the old
/// ones.
pub(crate) fn generate_selector(object: &mut Value) {
    if object.at("spec").flag("manualSelector") {
        return;
    }
    let (uid, name) =
        (object.at("metadata").text("uid").to_owned(), object.at("metadata").text("name").to_owned());
    let Some(spec) = object.inner("spec") else { return };
    let Some(meta) = spec.inner_or_new("template").and_then(|template| template.inner_or_new("metadata"))
    else {
        return;
    };
    let had_labels = meta.has("labels");
    let Some(labels) = meta.inner_or_new("labels") else { return };
    for prefix in ["", "batch.kubernetes.io/"] {
        // Validation refuses labels of another Job.
        labels.fill(&format!("{prefix}controller-uid"), uid.clone());
        labels.fill(&format!("{prefix}job-name"), name.clone());
    }
    if !spec.has("selector") {
        spec.put("selector", json!({}));
    }
    if let Some(chosen) = spec.inner("selector").and_then(|selector| selector.inner_or_new("matchLabels")) {
        chosen.fill("batch.kubernetes.io/controller-uid", uid);
    }
    // If the template had no labels, the Job gets them after validation only.
    if had_labels {
        label_job(object);
    }
}

/// A Job without labels has those of its template. kube-apiserver fills them in whenever it reads one.
pub fn label_job(job: &mut Value) {
    let labels = job.at("spec").path(&["template", "metadata", "labels"]).clone();
    if labels.is_object()
        && let Some(meta) = job.inner_or_new("metadata")
        && meta.count("labels") == 0
    {
        meta.put("labels", labels);
    }
}

/// A Job without labels gets those of its template on update.
pub(crate) fn update_job(new: &mut Value, _: &Value) {
    label_job(new);
}
