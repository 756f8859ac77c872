//! Rows of cluster infrastructure: storage, scheduling, leases, nodes, devices, API extension.
//!
//! A row states what cannot be derived from the schema: names, scope, subresources, selectable fields, and how
//! kube-apiserver's strategy treats writes (create on update, resourceVersion required, generation, response to a
//! deletion). The meaning of each builder method is documented in `kind/row.rs`.

use listwatch_wire::json::json;

use crate::kind::{Kind, NameRule, SelectableField as Field, Subresource as Sub};
use crate::strategy::{KindStrategy, RESETS_OF_STATUS_ONLY};
use crate::tree::Tree;
use crate::{columns, defaults, prepare, warnings};

const STORAGE: &str = "storage.k8s.io";
const RESOURCE: &str = "resource.k8s.io";

/// All metadata that people write.
const METADATA: &[&str] = &["labels", "annotations", "finalizers", "ownerReferences"];

pub(super) const KINDS: &[Kind] = &[
    Kind::cluster(STORAGE, "CSIDriver", "csidrivers", "csidriver")
        .conditional_update()
        .generation()
        .returns_deleted()
        .strategy(KindStrategy {
            defaults: defaults::storage::csi_driver,
            generation_at_creation: false,
            warnings: warnings::objects::driver,
            columns: columns::storage::CSI_DRIVER,
            ..KindStrategy::PLAIN
        }),
    Kind::cluster(STORAGE, "CSINode", "csinodes", "csinode")
        .rechecks_prefix()
        .conditional_update()
        .returns_deleted()
        .sub(&[Sub::status("CSINode")])
        .strategy(KindStrategy {
            create: |object| object.fill("status", json!({})),
            columns: columns::storage::CSI_NODE,
            ..KindStrategy::STATUS_ONLY
        }),
    Kind::namespaced(STORAGE, "CSIStorageCapacity", "csistoragecapacities", "csistoragecapacity")
        .rechecks_prefix()
        .conditional_update()
        .strategy(KindStrategy { warnings: warnings::places::storage_capacity, ..KindStrategy::PLAIN }),
    Kind::cluster(STORAGE, "StorageClass", "storageclasses", "storageclass")
        .rechecks_prefix()
        .short(&["sc"])
        .returns_deleted()
        .strategy(KindStrategy {
            defaults: defaults::storage::class,
            warnings: warnings::places::storage_class,
            columns: columns::storage::STORAGE_CLASS,
            ..KindStrategy::PLAIN
        }),
    Kind::cluster(STORAGE, "VolumeAttachment", "volumeattachments", "volumeattachment")
        .rechecks_prefix()
        .conditional_update()
        .returns_deleted()
        .sub(&[Sub::status("VolumeAttachment")])
        .strategy(KindStrategy { columns: columns::storage::VOLUME_ATTACHMENT, ..KindStrategy::STATUS_ONLY }),
    Kind::cluster(STORAGE, "VolumeAttributesClass", "volumeattributesclasses", "volumeattributesclass")
        .rechecks_prefix()
        .short(&["vac"])
        .returns_deleted()
        .strategy(KindStrategy { columns: columns::storage::VOLUME_ATTRIBUTES_CLASS, ..KindStrategy::PLAIN }),
    Kind::cluster("scheduling.k8s.io", "PriorityClass", "priorityclasses", "priorityclass")
        .short(&["pc"])
        .generation()
        .strategy(KindStrategy {
            defaults: defaults::cluster::priority_class,
            count_generation: prepare::keep_generation,
            columns: columns::cluster::PRIORITY_CLASS,
            ..KindStrategy::PLAIN
        }),
    Kind::namespaced("coordination.k8s.io", "Lease", "leases", "lease")
        .conditional_update()
        .create_on_update()
        .strategy(KindStrategy {
            disabled: &["spec.strategy", "spec.preferredHolder"],
            columns: columns::cluster::LEASE,
            qualified_finalizers: false,
            ..KindStrategy::PLAIN
        }),
    Kind::cluster("node.k8s.io", "RuntimeClass", "runtimeclasses", "runtimeclass")
        .conditional_update()
        .create_on_update()
        .strategy(KindStrategy {
            warnings: warnings::places::runtime_class,
            columns: columns::cluster::RUNTIME_CLASS,
            qualified_finalizers: false,
            ..KindStrategy::PLAIN
        }),
    Kind::cluster(RESOURCE, "DeviceClass", "deviceclasses", "deviceclass")
        .names(NameRule::DeclaredSubdomain)
        .generation()
        .returns_deleted()
        .strategy(KindStrategy { columns: columns::storage::DEVICE_CLASS, ..KindStrategy::PLAIN }),
    Kind::cluster(RESOURCE, "DeviceTaintRule", "devicetaintrules", "devicetaintrule")
        .generation()
        .sub(&[Sub::status("DeviceTaintRule")])
        .strategy(KindStrategy {
            defaults: defaults::cluster::device_taint_rule,
            columns: columns::extension::DEVICE_TAINT_RULE,
            ..KindStrategy::STATUS_ONLY
        }),
    Kind::namespaced(RESOURCE, "ResourceClaim", "resourceclaims", "resourceclaim")
        .returns_deleted()
        .sub(&[Sub::status("ResourceClaim")])
        .strategy(KindStrategy {
            defaults: defaults::cluster::resource_claim,
            status_update: prepare::drop_deallocated_devices,
            columns: columns::storage::RESOURCE_CLAIM,
            ..KindStrategy::STATUS_ONLY
        }),
    Kind::namespaced(RESOURCE, "ResourceClaimTemplate", "resourceclaimtemplates", "resourceclaimtemplate")
        .rechecks_prefix()
        .returns_deleted()
        .strategy(KindStrategy {
            defaults: defaults::cluster::resource_claim_template,
            columns: columns::storage::DEVICE_CLASS,
            ..KindStrategy::PLAIN
        }),
    Kind::cluster(RESOURCE, "ResourceSlice", "resourceslices", "resourceslice")
        .generation()
        .returns_deleted()
        .fields(&[Field::text("spec.nodeName"), Field::text("spec.driver"), Field::text("spec.pool.name")])
        .strategy(KindStrategy {
            defaults: defaults::cluster::resource_slice,
            columns: columns::storage::RESOURCE_SLICE,
            ..KindStrategy::PLAIN
        }),
    Kind::cluster(
        "storagemigration.k8s.io",
        "StorageVersionMigration",
        "storageversionmigrations",
        "storageversionmigration",
    )
    .rechecks_prefix()
    .conditional_update()
    .sub(&[Sub::status("StorageVersionMigration")])
    .strategy(KindStrategy {
        columns: columns::extension::STORAGE_VERSION_MIGRATION,
        ..KindStrategy::STATUS_ONLY
    }),
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
    .sub(&[Sub::status("CustomResourceDefinition")])
    .strategy(KindStrategy {
        defaults: defaults::cluster::definition,
        status_defaults: defaults::cluster::stored_version,
        columns: columns::extension::CUSTOM_RESOURCE_DEFINITION,
        resets: RESETS_OF_STATUS_ONLY,
        qualified_finalizers: false,
        ..KindStrategy::PLAIN
    }),
    Kind::cluster("apiregistration.k8s.io", "APIService", "apiservices", "apiservice")
        .categories(&["api-extensions"])
        .conditional_update()
        .names(NameRule::PathSegment)
        .sub(&[Sub::status("APIService")])
        .strategy(KindStrategy {
            defaults: defaults::cluster::api_service,
            initial_status: Some(prepare::api_service_status),
            kept_by_status: METADATA,
            resets: RESETS_OF_STATUS_ONLY,
            qualified_finalizers: false,
            columns: columns::cluster::API_SERVICE,
            ..KindStrategy::PLAIN
        }),
];
