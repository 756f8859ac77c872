//! `metadata.generation`, and the count of a DaemonSet's templates: raised when what a controller acts on changes.
//!
//! The row of a kind chooses the function that counts (`count_generation`). [`super::update`] calls it after everything
//! that the server keeps or drops is settled, so that a write which changes nothing that counts raises nothing.

use listwatch_wire::json::{Text, Value};

use super::keep_inside;
use crate::defaults::workload::TEMPLATE_GENERATION;
use crate::tree::Tree;

/// The generation of most kinds follows their spec.
pub(crate) fn count_specs(new: &mut Value, old: &Value) {
    bump_generation(new, old, false);
}

/// The rollout of a Deployment reads its history from annotations.
pub(crate) fn count_specs_and_annotations(new: &mut Value, old: &Value) {
    bump_generation(new, old, true);
}

/// The first generation of a PriorityClass is its only one.
pub(crate) fn keep_generation(new: &mut Value, old: &Value) {
    keep_inside(new, old, "metadata", "generation");
}

/// The generation of a slice follows its labels too: readers choose slices by them.
pub(crate) fn count_specs_and_labels(new: &mut Value, old: &Value) {
    let labels = |object: &Value| object.at("metadata").at("labels").clone();
    bump_generation(new, old, false);
    if same_desired(new, old) && labels(new) != labels(old) {
        let next = old.at("metadata").int("generation").unwrap_or(0) + 1;
        new.inner("metadata").into_iter().for_each(|meta| meta.put("generation", next));
    }
}

/// Raises `metadata.generation` if anything but metadata and status differs.
///
/// Deployments also count their annotations, because the rollout reads its history from them.
///
/// Equal parts are mostly shared, so the comparison is by pointer.
pub fn bump_generation(new: &mut Value, old: &Value, with_annotations: bool) {
    let changed = !same_desired(new, old)
        || (with_annotations && new.at("metadata").at("annotations") != old.at("metadata").at("annotations"));
    count(new, old, changed);
}

/// Raises `metadata.generation` if anything but metadata differs: in a custom kind without a status subresource, `status`
/// is a field like any other.
pub fn bump_generation_with_status(new: &mut Value, old: &Value) {
    let changed = !same_desired(new, old) || new.at("status") != old.at("status");
    count(new, old, changed);
}

/// Sets the generation that follows that of the old object, or the same if nothing changed.
fn count(new: &mut Value, old: &Value, changed: bool) {
    let generation = old.at("metadata").int("generation").unwrap_or(0) + i64::from(changed);
    if let Some(meta) = new.inner("metadata")
        && generation > 0
    {
        meta.put("generation", generation);
    }
}

/// A parallel walk, since maps are sorted; parts that are shared with the stored object are equal by pointer.
pub(super) fn same_desired(new: &Value, old: &Value) -> bool {
    /// The fields that a generation counts: all but metadata and status.
    fn desired(object: &Value) -> impl Iterator<Item = (&Text, &Value)> {
        object
            .fields()
            .into_iter()
            .flatten()
            .filter(|(key, _)| !matches!(key.as_str(), "metadata" | "status"))
    }
    desired(new).eq(desired(old))
}

/// The first template of a DaemonSet is counted.
pub(crate) fn create_daemon_set(object: &mut Value) {
    count_templates(object, None);
}

/// The generation of a DaemonSet's template is kept in an annotation, where a field of an earlier version went.
fn count_templates(new: &mut Value, old: Option<&Value>) {
    const COUNT: &str = TEMPLATE_GENERATION;
    let read =
        |object: &Value| object.at("metadata").at("annotations").text(COUNT).parse::<i64>().unwrap_or(0);
    let count = match old {
        None => read(new).max(1),
        Some(old) => read(old) + i64::from(new.at("spec").at("template") != old.at("spec").at("template")),
    };
    if read(new) != count
        && let Some(annotations) =
            new.inner_or_new("metadata").and_then(|meta| meta.inner_or_new("annotations"))
    {
        annotations.put(COUNT, count.to_string());
    }
}

/// The generation of a DaemonSet's template follows it.
pub(crate) fn update_daemon_set(new: &mut Value, old: &Value) {
    count_templates(new, Some(old));
}
