//! PersistentVolumes and claims: the sources of data, which have an older and a newer field, and the phase.
//!
//! Binding is done by a controller; the rules about changes of a claim are in `validate/storage.rs`.

use listwatch_wire::json::{Text, Value, json};

use super::keep_field;
use crate::tree::Tree;

/// A new claim takes the sources that it may have.
///
/// A source in another namespace is dropped, since the feature for it is off.
pub(crate) fn create_claim(object: &mut Value) {
    same_data_sources(object, false);
}

/// The older field of a claim's source takes claims and snapshots only, and is the same as the newer one.
fn same_data_sources(object: &mut Value, any: bool) {
    fn copied(source: &Value) -> Value {
        let keys = ["apiGroup", "kind", "name"].into_iter().filter(|key| source.has(key));
        Value::Object(keys.map(|key| (key.to_owned(), source.at(key).clone())).collect())
    }
    let Some(spec) = object.inner("spec") else { return };
    let foreign = !spec.at("dataSourceRef").text("namespace").is_empty();
    if foreign {
        spec.remove("dataSourceRef");
    }
    let (source, reference) = (spec.at("dataSource").clone(), spec.at("dataSourceRef").clone());
    match (source.is_null(), reference.is_null()) {
        (false, true) => match (source.text("apiGroup"), source.text("kind")) {
            ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot") => {
                spec.put("dataSourceRef", copied(&source));
            }
            _ if any => spec.put("dataSourceRef", copied(&source)),
            _ => drop(spec.remove("dataSource")),
        },
        (true, false) => spec.put("dataSource", copied(&reference)),
        _ => {}
    }
}

/// A claim that has a source is held to it, however the update writes it.
pub(crate) fn update_data_sources(new: &mut Value, old: &Value) {
    const KEYS: [&str; 2] = ["dataSource", "dataSourceRef"];
    fn given(source: &Value) -> Vec<(&Text, &Value)> {
        source.fields().into_iter().flatten().filter(|(_, value)| !value.is_null()).collect()
    }
    let before = old.at("spec");
    same_data_sources(new, KEYS.iter().any(|key| before.has(key)));
    for key in KEYS {
        let same = given(new.at("spec").at(key)) == given(before.at(key));
        if let Some(spec) = new.inner("spec").filter(|_| same) {
            keep_field(spec, before, key);
        }
    }
}

/// The status of a new volume.
pub(crate) fn volume_status(object: &Value) -> Value {
    let born = object.at("metadata").at("creationTimestamp");
    json!({"phase": "Pending", "lastPhaseTransitionTime": born})
}

/// A volume or claim has a phase.
pub(crate) fn update_volume_status(new: &mut Value, _: &Value) {
    if let Some(status) = new.inner_or_new("status") {
        status.fill_text("phase", "Pending");
    }
}

/// Notes in the status of a volume when its phase changed.
///
/// Time is passed in; the caller runs it for volumes only.
pub fn note_phase(new: &mut Value, old: &Value, now: &str) {
    const TIME: &str = "lastPhaseTransitionTime";
    let was = old.at("status");
    let Some(status) = new.inner("status") else { return };
    if status.at("phase") == was.at("phase") {
        if was.has(TIME) {
            status.fill(TIME, was.at(TIME).clone());
        }
    } else if !status.has(TIME) || status.at(TIME) == was.at(TIME) {
        status.put(TIME, now);
    }
}
