//! Table columns of volumes, claims, storage classes, CSI objects and device resources.
//!
//! Access modes are abbreviated (`RWO`, `ROX`, `RWX`, `RWOP`), and an unbound claim shows neither capacity nor modes
//! although its spec has them. The default StorageClass is marked by its annotation, in the name column. An object that
//! is being deleted shows `Terminating` in any phase.

use jiff::Timestamp;
use listwatch_wire::json::Value;

use super::{AGE, Column, KindColumns, NAME, UNSET, age_of, name, text, wide};
use crate::tree::Tree;

/// A column of true and false, which kubectl prints as such.
const fn boolean(name: &'static str) -> Column {
    Column { name, kind: "boolean", format: "", priority: 0 }
}

pub(crate) const PERSISTENT_VOLUME: KindColumns = KindColumns {
    columns: &[
        NAME,
        text("Capacity"),
        text("Access Modes"),
        text("Reclaim Policy"),
        text("Status"),
        text("Claim"),
        text("StorageClass"),
        text("VolumeAttributesClass"),
        text("Reason"),
        AGE,
        wide("VolumeMode"),
    ],
    cells: volume,
};

pub(crate) const PERSISTENT_VOLUME_CLAIM: KindColumns = KindColumns {
    columns: &[
        NAME,
        text("Status"),
        text("Volume"),
        text("Capacity"),
        text("Access Modes"),
        text("StorageClass"),
        text("VolumeAttributesClass"),
        AGE,
        wide("VolumeMode"),
    ],
    cells: claim,
};

pub(crate) const STORAGE_CLASS: KindColumns = KindColumns {
    columns: &[
        NAME,
        text("Provisioner"),
        text("ReclaimPolicy"),
        text("VolumeBindingMode"),
        text("AllowVolumeExpansion"),
        AGE,
    ],
    cells: class,
};

pub(crate) const VOLUME_ATTRIBUTES_CLASS: KindColumns = KindColumns {
    columns: &[NAME, text("DriverName"), AGE],
    cells: |object, now| vec![name(object), object.text("driverName").into(), age_of(object, now)],
};

/// Only a PersistentVolume is named; an inline volume has no name.
pub(crate) const VOLUME_ATTACHMENT: KindColumns = KindColumns {
    columns: &[
        NAME,
        Column { name: "Attacher", kind: "string", format: "name", priority: 0 },
        text("PV"),
        text("Node"),
        boolean("Attached"),
        AGE,
    ],
    cells: |object, now| {
        let spec = object.at("spec");
        let volume = spec.at("source").text("persistentVolumeName");
        let attached = object.at("status").flag("attached");
        vec![
            name(object),
            spec.text("attacher").into(),
            volume.into(),
            spec.text("nodeName").into(),
            attached.into(),
            age_of(object, now),
        ]
    },
};

/// The number of drivers that have registered with the kubelet.
pub(crate) const CSI_NODE: KindColumns = KindColumns {
    columns: &[NAME, super::number("Drivers"), AGE],
    cells: |object, now| vec![name(object), object.at("spec").count("drivers").into(), age_of(object, now)],
};

pub(crate) const CSI_DRIVER: KindColumns = KindColumns {
    columns: &[
        NAME,
        boolean("AttachRequired"),
        boolean("PodInfoOnMount"),
        boolean("StorageCapacity"),
        text("TokenRequests"),
        boolean("RequiresRepublish"),
        text("Modes"),
        AGE,
    ],
    cells: csi_driver,
};

/// Selectors and configuration of a class do not fit into a cell.
pub(crate) const DEVICE_CLASS: KindColumns =
    KindColumns { columns: &[NAME, AGE], cells: |object, now| vec![name(object), age_of(object, now)] };

/// The state follows from `status` and `deletionTimestamp`; no field has it.
pub(crate) const RESOURCE_CLAIM: KindColumns = KindColumns {
    columns: &[NAME, text("State"), AGE],
    cells: |object, now| vec![name(object), claim_state(object).into(), age_of(object, now)],
};

/// A slice for several nodes has no node in its row.
pub(crate) const RESOURCE_SLICE: KindColumns = KindColumns {
    columns: &[NAME, text("Node"), text("Driver"), text("Pool"), AGE],
    cells: |object, now| {
        let spec = object.at("spec");
        let pool = spec.at("pool").text("name");
        vec![
            name(object),
            spec.text("nodeName").into(),
            spec.text("driver").into(),
            pool.into(),
            age_of(object, now),
        ]
    },
};

/// `RWO,ROX`: access modes by their short names.
fn modes(list: &[Value]) -> String {
    let short = |mode: &Value| match mode.as_str().unwrap_or_default() {
        "ReadWriteOnce" => Some("RWO"),
        "ReadOnlyMany" => Some("ROX"),
        "ReadWriteMany" => Some("RWX"),
        "ReadWriteOncePod" => Some("RWOP"),
        _ => None,
    };
    list.iter().filter_map(short).collect::<Vec<_>>().join(",")
}

/// `<unset>` and not `<none>` is what kube-apiserver writes in this column.
fn or_unset(text: &str) -> Value {
    if text.is_empty() { UNSET.into() } else { text.into() }
}

/// The text of a field, which may be empty, or `<unset>` if the field is absent.
fn field_or_unset(spec: &Value, key: &str) -> Value {
    if spec.has(key) { spec.text(key).into() } else { UNSET.into() }
}

/// Deletion hides the phase, since a claim that waits for its finalizer is still `Bound`.
fn phase(object: &Value) -> Value {
    if object.at("metadata").has("deletionTimestamp") {
        "Terminating".into()
    } else {
        object.at("status").text("phase").into()
    }
}

/// The claim as `namespace/name`, where it is bound.
fn volume(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, bound) = (object.at("spec"), object.at("spec").at("claimRef"));
    let claim = if bound.is_null() {
        String::new()
    } else {
        format!("{}/{}", bound.text("namespace"), bound.text("name"))
    };
    vec![
        name(object),
        spec.at("capacity").text("storage").into(),
        modes(spec.list("accessModes")).into(),
        spec.text("persistentVolumeReclaimPolicy").into(),
        phase(object),
        claim.into(),
        spec.text("storageClassName").into(),
        field_or_unset(spec, "volumeAttributesClassName"),
        object.at("status").text("reason").into(),
        age_of(object, now),
        or_unset(spec.text("volumeMode")),
    ]
}

/// Capacity and modes are those of the status: the volume may have more than was asked for.
fn claim(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (object.at("spec"), object.at("status"));
    let bound = !spec.text("volumeName").is_empty();
    // An absent quantity is printed as 0.
    let capacity = match status.at("capacity").text("storage") {
        _ if !bound => "",
        "" => "0",
        capacity => capacity,
    };
    let access = if bound { modes(status.list("accessModes")) } else { String::new() };
    vec![
        name(object),
        phase(object),
        spec.text("volumeName").into(),
        capacity.into(),
        access.into(),
        class_of(object).into(),
        field_or_unset(spec, "volumeAttributesClassName"),
        age_of(object, now),
        or_unset(spec.text("volumeMode")),
    ]
}

/// The class that a claim asks for; the annotation is from before the field.
fn class_of(claim: &Value) -> &str {
    let annotations = claim.at("metadata").at("annotations");
    let key = "volume.beta.kubernetes.io/storage-class";
    if annotations.has(key) { annotations.text(key) } else { claim.at("spec").text("storageClassName") }
}

/// Which of several classes is the default depends on the others, so that lists mark it.
fn class(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        object.text("provisioner").into(),
        object.text("reclaimPolicy").into(),
        object.text("volumeBindingMode").into(),
        object.flag("allowVolumeExpansion").into(),
        age_of(object, now),
    ]
}

/// Audiences of token requests, or `<unset>`.
fn csi_driver(object: &Value, now: Timestamp) -> Vec<Value> {
    let spec = object.at("spec");
    let audiences: Vec<_> =
        spec.list("tokenRequests").iter().map(|request| request.text("audience")).collect();
    let lifecycle: Vec<_> = spec.list("volumeLifecycleModes").iter().filter_map(Value::as_str).collect();
    vec![
        name(object),
        spec.flag("attachRequired").into(),
        spec.flag("podInfoOnMount").into(),
        spec.flag("storageCapacity").into(),
        if audiences.is_empty() { UNSET.into() } else { audiences.join(",").into() },
        spec.flag("requiresRepublish").into(),
        super::or_none(&lifecycle.join(",")),
        age_of(object, now),
    ]
}

/// Words separated by commas, in the order in which a claim gets them. A deleted claim keeps the others.
fn claim_state(object: &Value) -> String {
    let status = object.at("status");
    let mut states = Vec::new();
    if object.at("metadata").has("deletionTimestamp") {
        states.push("deleted");
    }
    states.push(if status.has("allocation") { "allocated" } else { "pending" });
    if status.count("reservedFor") > 0 {
        states.push("reserved");
    }
    states.join(",")
}
