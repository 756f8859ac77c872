//! Defaults of volumes, claims, storage classes and CSI drivers.
//!
//! Sources that are served by drivers outside of the tree today still get their old defaults, since stored objects have
//! them. The default StorageClass of a claim is not filled here: that is an admission plugin, because it reads other
//! objects.

use listwatch_wire::json::{Map, json};

use crate::tree::Tree;

/// Defaults of a PersistentVolume.
pub(crate) fn volume(object: &mut Map) {
    let Some(spec) = object.inner_or_new("spec") else { return };
    spec.fill_text("persistentVolumeReclaimPolicy", "Retain");
    spec.fill("volumeMode", "Filesystem");
    if let Some(host) = spec.inner("hostPath") {
        host.fill("type", "");
    }
    super::pod::legacy_source(spec);
}

/// A volume or claim has a phase, whose owner is who takes it away.
pub(crate) fn phase(object: &mut Map) {
    object.inner_or_new("status").into_iter().for_each(|status| status.fill_text("phase", "Pending"));
}

pub(crate) fn claim(object: &mut Map) {
    if let Some(spec) = object.inner_or_new("spec") {
        spec.fill("volumeMode", "Filesystem");
    }
}

pub(crate) fn class(object: &mut Map) {
    object.fill("reclaimPolicy", "Delete");
    object.fill("volumeBindingMode", "Immediate");
}

/// Defaults of a CSIDriver. They describe the most common driver: it attaches, and needs nothing of the Pod.
pub(crate) fn csi_driver(object: &mut Map) {
    let Some(spec) = object.inner_or_new("spec") else { return };
    for (key, value) in [
        ("attachRequired", true),
        ("podInfoOnMount", false),
        ("storageCapacity", false),
        ("requiresRepublish", false),
        ("seLinuxMount", false),
        ("preventPodSchedulingIfMissing", false),
    ] {
        spec.fill(key, value);
    }
    spec.fill("fsGroupPolicy", "ReadWriteOnceWithFSType");
    if spec.count("volumeLifecycleModes") == 0 {
        spec.put("volumeLifecycleModes", json!(["Persistent"]));
    }
}
