//! Validation of PersistentVolumes and PersistentVolumeClaims.
//!
//! Most of it is about changes: a claim may be bound (`volumeName` filled in), given a class, and, once bound, grow; it
//! may only shrink to what is above its actual capacity, which is how a failed expansion is taken back. The source of a
//! volume is immutable. Binding and expansion are done by controllers; validation only keeps the fields consistent for
//! them.

use std::cmp::Ordering;

use listwatch_wire::json::Value;
use listwatch_wire::names::label_key_errors;

use super::freeze::set_back;
use crate::field::{Errors, Path};
use crate::quantity;
use crate::rules::{At, Check};
use crate::tree::Tree;

pub(super) const CHECKS: &[(&str, Check)] = checks![
    claim_changes_little,
    node_affinity_stays,
    claimed_resources_are_known,
    resize_statuses_are_known
];

/// Rejects changes of a claim's spec, except those that binding makes and those that a bound claim may ask for.
fn claim_changes_little(at: &At<'_>, errors: &mut Errors) {
    const DETAIL: &str = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
    let Some(old) = at.old else { return };
    let (now, before) = (at.value.at("spec"), old.at("spec"));
    let bound = at.value.at("status").text("phase") == "Bound";
    let mut free =
        if bound { vec!["volumeAttributesClassName", "resources.requests.storage"] } else { Vec::new() };
    // A claim is bound by its volume name being filled in.
    if before.text("volumeName").is_empty() {
        free.push("volumeName");
    }
    // A claim that was created before there was a default class may get one later.
    if !before.has("storageClassName") && now.has("storageClassName") {
        free.push("storageClassName");
    }
    let path = at.path.child("spec");
    if set_back(now, before, &free) != *before {
        errors.forbidden(&path, DETAIL);
    }
    shrinking(at.value, old, &path, errors);
}

/// Equal to the capacity is refused as well: there would be nothing to take back.
fn shrinking(new: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    fn requested_size(claim: &Value) -> &str {
        claim.below("spec.resources.requests").text("storage")
    }
    let held = old.below("status.capacity").text("storage");
    let held = if held.is_empty() { "0" } else { held };
    let wanted = if requested_size(new).is_empty() { "0" } else { requested_size(new) };
    let less = quantity::compare(wanted, requested_size(old)) == Ok(Ordering::Less);
    if less && matches!(quantity::compare(wanted, held), Ok(Ordering::Less | Ordering::Equal)) {
        let path = path.child("resources.requests.storage");
        errors.forbidden(&path, "field can not be less than status.capacity");
    }
}

/// Resources of a claim: `storage`, or one with a qualified name, which another component defines.
fn claimed_resources_are_known(at: &At<'_>, errors: &mut Errors) {
    for (name, _) in at.value.as_object().into_iter().flatten() {
        let found = label_key_errors(name);
        errors.invalid_all(at.path, name, found.clone());
        let plain = found.is_empty() && name != "storage" && !name.contains('/');
        let reserved = name.starts_with("kubernetes.io/") || name.contains(".kubernetes.io/");
        if plain || reserved {
            errors.not_supported(at.path, name, &["storage"]);
        }
    }
}

/// Keys are names of resources, values the state of their expansion. Unknown states would stop the controllers.
fn resize_statuses_are_known(at: &At<'_>, errors: &mut Errors) {
    const KNOWN: [&str; 5] = [
        "ControllerResizeInProgress",
        "ControllerResizeInfeasible",
        "NodeResizePending",
        "NodeResizeInProgress",
        "NodeResizeInfeasible",
    ];
    for (name, status) in at.value.as_object().into_iter().flatten() {
        if !KNOWN.iter().any(|known| status == known) {
            errors.not_supported(at.path, name, &KNOWN);
        }
    }
}

/// Labels of nodes under the names that they had before they were stable.
const STABLE_LABELS: [(&str, &str); 5] = [
    ("beta.kubernetes.io/arch", "kubernetes.io/arch"),
    ("beta.kubernetes.io/os", "kubernetes.io/os"),
    ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
];

/// The node affinity of a volume is immutable, except that labels may get their stable names. kube-apiserver reports it
/// without the spec.
fn node_affinity_stays(at: &At<'_>, errors: &mut Errors) {
    let Some(old) = at.old else { return };
    let (now, before) = (at.value.at("spec").at("nodeAffinity"), old.at("spec").at("nodeAffinity"));
    if !same_but_for_stable_labels(now, before) {
        let detail = "field is immutable, except for updating from beta label to GA";
        errors.invalid(&at.path.child("nodeAffinity"), now.clone(), detail);
    }
}

fn same_but_for_stable_labels(new: &Value, old: &Value) -> bool {
    match (new, old) {
        (Value::Object(now), Value::Object(before)) => {
            let mut keys = now.keys().chain(before.keys());
            keys.all(|key| match key.as_str() {
                "key" => new.text(key) == old.text(key) || stable(old.text(key)) == new.text(key),
                _ => same_but_for_stable_labels(new.at(key), old.at(key)),
            })
        }
        (Value::Array(now), Value::Array(before)) => {
            now.len() == before.len()
                && now.iter().zip(before.iter()).all(|(a, b)| same_but_for_stable_labels(a, b))
        }
        _ => new == old,
    }
}

/// Empty for a label that has no stable name: kube-apiserver then takes an empty key for its new name, which is an
/// error elsewhere.
fn stable(label: &str) -> &'static str {
    STABLE_LABELS.iter().find(|(beta, _)| *beta == label).map_or("", |(_, stable)| stable)
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;
    use crate::{by_kind, validate};

    fn fields(group: &str, kind: &str, spec: Value) -> Vec<String> {
        let kind = by_kind(group, "v1", kind).unwrap();
        let mut object = json!({"metadata": {"name": "x"}, "spec": spec});
        if kind.is_namespaced() {
            object["metadata"]["namespace"] = json!("n");
        }
        crate::defaults::apply(kind, &mut object);
        validate::create(kind, &object).into_iter().map(|error| error.field).collect()
    }

    /// A volume inside of an attachment was not looked at.
    #[test]
    fn an_inline_volume_is_one_of_a_driver() {
        let attached = |volume: Value| {
            let spec = json!({"attacher": "a.b", "nodeName": "n", "source": {"inlineVolumeSpec": volume}});
            fields("storage.k8s.io", "VolumeAttachment", spec)
        };
        let driver = json!({"driver": "a.b", "volumeHandle": "h"});
        let inline = json!({"accessModes": ["ReadWriteOnce"], "csi": driver});
        assert_eq!(attached(inline), [""; 0]);
        let other = json!({"accessModes": ["ReadWriteOnce"], "nfs": {"server": "s", "path": "/"}, "capacity": {"storage": "1"}});
        let at = "spec.source.inlineVolumeSpec";
        assert_eq!(attached(other), [format!("{at}.capacity"), format!("{at}.csi")]);
    }

    #[test]
    fn a_mode_for_one_pod_stands_alone_or_repeated() {
        let claim = |modes: Value| {
            let spec = json!({"accessModes": modes, "resources": {"requests": {"storage": "1Gi"}}});
            fields("", "PersistentVolumeClaim", spec)
        };
        assert_eq!(claim(json!(["ReadWriteOncePod", "ReadWriteOncePod"])), [""; 0]);
        assert_eq!(claim(json!(["ReadWriteOncePod", "ReadOnlyMany"])), ["spec.accessModes"]);
    }

    #[test]
    fn topology_keys_are_named_once() {
        let keys = |keys: Value| {
            fields(
                "storage.k8s.io",
                "CSINode",
                json!({"drivers": [{"name": "a.b", "nodeID": "n", "topologyKeys": keys}]}),
            )
        };
        assert_eq!(keys(json!(["a/b", "a/c"])), [""; 0]);
        assert_eq!(keys(json!(["a/b", "a/b"])), ["spec.drivers[0]"]);
    }
}
