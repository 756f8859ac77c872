//! Rows of cluster infrastructure: storage, scheduling, leases, nodes, devices, API extension.
//!
//! A row states what cannot be derived from the schema: names, scope, subresources, selectable fields, and how
//! kube-apiserver's strategy treats writes (create on update, resourceVersion required, generation, response to a
//! deletion). The meaning of each builder method is documented at [`Kind`].

use crate::kind::{Kind, NameRule, SelectableField as Field, Subresource as Sub};

const STORAGE: &str = "storage.k8s.io";
const RESOURCE: &str = "resource.k8s.io";

pub(super) const KINDS: &[Kind] = &[
    Kind::cluster(STORAGE, "CSIDriver", "csidrivers", "csidriver")
        .conditional_update()
        .generation()
        .returns_deleted(),
    Kind::cluster(STORAGE, "CSINode", "csinodes", "csinode")
        .conditional_update()
        .returns_deleted()
        .sub(&[Sub::status("CSINode")]),
    Kind::namespaced(STORAGE, "CSIStorageCapacity", "csistoragecapacities", "csistoragecapacity")
        .conditional_update(),
    Kind::cluster(STORAGE, "StorageClass", "storageclasses", "storageclass").short(&["sc"]).returns_deleted(),
    Kind::cluster(STORAGE, "VolumeAttachment", "volumeattachments", "volumeattachment")
        .conditional_update()
        .returns_deleted()
        .sub(&[Sub::status("VolumeAttachment")]),
    Kind::cluster(STORAGE, "VolumeAttributesClass", "volumeattributesclasses", "volumeattributesclass")
        .short(&["vac"])
        .returns_deleted(),
    Kind::cluster("scheduling.k8s.io", "PriorityClass", "priorityclasses", "priorityclass")
        .short(&["pc"])
        .generation(),
    Kind::namespaced("coordination.k8s.io", "Lease", "leases", "lease")
        .conditional_update()
        .create_on_update(),
    Kind::cluster("node.k8s.io", "RuntimeClass", "runtimeclasses", "runtimeclass")
        .conditional_update()
        .create_on_update(),
    Kind::cluster(RESOURCE, "DeviceClass", "deviceclasses", "deviceclass").generation().returns_deleted(),
    Kind::cluster(RESOURCE, "DeviceTaintRule", "devicetaintrules", "devicetaintrule")
        .generation()
        .sub(&[Sub::status("DeviceTaintRule")]),
    Kind::namespaced(RESOURCE, "ResourceClaim", "resourceclaims", "resourceclaim")
        .returns_deleted()
        .sub(&[Sub::status("ResourceClaim")]),
    Kind::namespaced(RESOURCE, "ResourceClaimTemplate", "resourceclaimtemplates", "resourceclaimtemplate")
        .returns_deleted(),
    Kind::cluster(RESOURCE, "ResourceSlice", "resourceslices", "resourceslice")
        .generation()
        .returns_deleted()
        .fields(&[Field::text("spec.nodeName"), Field::text("spec.driver")]),
    Kind::cluster(
        "storagemigration.k8s.io",
        "StorageVersionMigration",
        "storageversionmigrations",
        "storageversionmigration",
    )
    .conditional_update()
    .sub(&[Sub::status("StorageVersionMigration")]),
    Kind::cluster(
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        "customresourcedefinition",
    )
    .short(&["crd", "crds"])
    .categories(&["api-extensions"])
    .conditional_update()
    .generation()
    .sub(&[Sub::status("CustomResourceDefinition")]),
    Kind::cluster("apiregistration.k8s.io", "APIService", "apiservices", "apiservice")
        .categories(&["api-extensions"])
        .conditional_update()
        .names(NameRule::PathSegment)
        .sub(&[Sub::status("APIService")]),
];
