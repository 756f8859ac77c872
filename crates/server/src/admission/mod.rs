//! Admission: the plugins that change or reject a write before it is stored.
//!
//! A [`Plugin`] may change the object ([`Plugin::admit`], before the strategy prepares and validates it) and may
//! reject it ([`Plugin::validate`], after that). The [`Chain`] calls the enabled plugins in kube-apiserver's order.
//! The write verbs call the chain; nothing here writes objects itself. The interface (`Plugin`, `Attributes`,
//! `Chain`) is in `api/`, below the plugins.
//!
//! Each plugin is a file named after it. To add one: write the file, declare it here, add a row to the table in
//! [`mod@chain`].

mod always_admit;
mod always_deny;
mod always_pull_images;
mod certificates;
mod chain;
mod cluster_trust_bundle_attest;
mod config_source;
mod configuration;
mod default_ingress_class;
mod default_storage_class;
mod default_toleration_seconds;
mod deny_service_external_ips;
mod event_rate_limit;
mod extended_resource_toleration;
mod image_policy_webhook;
mod limit_pod_hard_anti_affinity_topology;
mod limit_ranger;
mod matching;
mod namespace_exists;
mod namespace_lifecycle;
pub(crate) mod namespaces;
mod node_restriction;
mod owner_references_permission_enforcement;
mod param_access;
mod persistent_volume_claim_resize;
mod pod_node_selector;
pub(crate) mod pod_resources;
mod pod_security;
mod pod_toleration_restriction;
mod pod_topology_labels;
mod policy;
mod priority;
mod request_document;
pub(crate) mod resource_quota;
mod rights;
mod runtime_class;
mod service_account;
pub(crate) mod storage_object_in_use_protection;
mod taint_nodes_by_condition;
pub(crate) mod webhook;

use crate::registry::Resource;

pub(crate) use crate::api::{AdmissionRecord, Attributes, Chain, Operation, Plugin, RequestOptions};
pub use crate::outbound::WebhookLimits;
pub(crate) use chain::chain;
pub use chain::{AdmissionError, AdmissionOptions};
pub(crate) use default_storage_class::default_class;
pub use event_rate_limit::{EventLimit, EventLimitType};
pub use image_policy_webhook::ImagePolicyOptions;
pub use pod_security::PodSecurityOptions;

/// Returns true for resources that plugins read, whose changes should take effect at once.
///
/// The write of such an object is answered when this server's cache has it. Other replicas may be behind for the time
/// of a watch event, as in kube-apiserver.
pub(crate) fn is_configuration(resource: &Resource) -> bool {
    match &*resource.group {
        "" => matches!(&*resource.plural, "limitranges" | "resourcequotas" | "namespaces"),
        "admissionregistration.k8s.io" => true,
        "scheduling.k8s.io" | "node.k8s.io" => true,
        "storage.k8s.io" => &*resource.plural == "storageclasses",
        "networking.k8s.io" => &*resource.plural == "ingressclasses",
        _ => false,
    }
}
