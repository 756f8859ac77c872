//! Rows of the core group, `/api/v1`.
//!
//! Selectable fields are those that kube-apiserver indexes or converts for this kind; any other field selector is
//! refused, so a missing row here is an error for clients. Old names (`spec.host`, `source`) are labels for the same
//! field. Subresources that only connect to a node or Pod list the HTTP methods they accept.

use listwatch_wire::json::json;

use crate::kind::{CREATE_ONLY, Kind, NameRule, SelectableField as Field, Subresource as Sub};
use crate::strategy::{KindStrategy, RESET_STATUS};
use crate::{columns, defaults, prepare, validate, warnings};

/// Connect subresources accept every method that a proxied server may use.
const CONNECT: &[&str] = &["create", "delete", "get", "patch", "update"];
/// Streaming subresources are opened by GET (WebSocket) or POST (SPDY).
const STREAM: &[&str] = &["create", "get"];

/// Events have more selectable fields than any other kind, because `kubectl describe` finds the events of an object
/// by them. `source` falls back to the newer reporting component.
const EVENT_FIELDS: &[Field] = &[
    Field::text("involvedObject.kind"),
    Field::text("involvedObject.namespace"),
    Field::text("involvedObject.name"),
    Field::text("involvedObject.uid"),
    Field::text("involvedObject.apiVersion"),
    Field::text("involvedObject.resourceVersion"),
    Field::text("involvedObject.fieldPath"),
    Field::text("reason"),
    Field::text("reportingComponent"),
    Field::text("source.component").label("source").or("reportingComponent"),
    Field::text("type"),
];

/// `spec.nodeName` is the one that every kubelet watches by; the server keeps an index for it. `spec.host` and
/// `status.podIPs` are other labels for stored fields, kept for old clients.
const POD_FIELDS: &[Field] = &[
    Field::text("spec.nodeName"),
    Field::text("spec.nodeName").label("spec.host"),
    Field::text("spec.restartPolicy"),
    Field::text("spec.schedulerName"),
    Field::text("spec.serviceAccountName"),
    Field::text("spec.hostNetwork").absent("false"),
    Field::text("status.phase"),
    Field::text("status.podIP"),
    Field::text("status.podIP").label("status.podIPs"),
    Field::text("status.nominatedNodeName"),
];

/// The place of the pod spec of a workload.
const POD_TEMPLATE: Option<&[&str]> = Some(&["spec", "template", "spec"]);

/// Sorted by [`all`](super::all); the order here is for readers.
pub(super) const KINDS: &[Kind] = &[
    Kind::namespaced("", "Binding", "bindings", "binding").virtual_review(),
    Kind::cluster("", "ComponentStatus", "componentstatuses", "componentstatus")
        .short(&["cs"])
        .verbs(&["get", "list"])
        .strategy(KindStrategy {
            deprecated: Some("v1 ComponentStatus is deprecated in v1.19+"),
            columns: columns::cluster::COMPONENT_STATUS,
            ..KindStrategy::PLAIN
        }),
    Kind::namespaced("", "ConfigMap", "configmaps", "configmap")
        .rechecks_prefix()
        .short(&["cm"])
        .strategy(KindStrategy { columns: columns::cluster::CONFIG_MAP, ..KindStrategy::PLAIN }),
    Kind::namespaced("", "Endpoints", "endpoints", "endpoints")
        .rechecks_prefix()
        .short(&["ep"])
        .create_on_update()
        .strategy(KindStrategy {
            defaults: defaults::service::endpoints,
            deprecated: Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"),
            warnings: warnings::places::endpoints,
            columns: columns::network::ENDPOINTS,
            ..KindStrategy::PLAIN
        }),
    Kind::namespaced("", "Event", "events", "event")
        .short(&["ev"])
        .create_on_update()
        .names(NameRule::PathSegment)
        .fields(EVENT_FIELDS)
        .strategy(KindStrategy {
            columns: columns::cluster::EVENT,
            metadata_last: true,
            qualified_finalizers: false,
            ..KindStrategy::PLAIN
        }),
    Kind::namespaced("", "LimitRange", "limitranges", "limitrange")
        .rechecks_prefix()
        .short(&["limits"])
        .create_on_update()
        .strategy(KindStrategy { defaults: defaults::cluster::limit_range, ..KindStrategy::PLAIN }),
    Kind::cluster("", "Namespace", "namespaces", "namespace")
        .short(&["ns"])
        .verbs(&["create", "delete", "get", "list", "patch", "update", "watch"])
        .names(NameRule::Label)
        .sub(&[Sub::other("finalize", "Namespace", &["update"]), Sub::status("Namespace")])
        .fields(&[Field::text("status.phase")])
        .strategy(KindStrategy {
            defaults: defaults::namespace,
            defaults_metadata: true,
            initial_status: Some(|_| json!({"phase": "Active"})),
            create: prepare::add_namespace_finalizer,
            update: prepare::update_namespace,
            status_update: prepare::update_namespace_status,
            resets: &[RESET_STATUS, ("status", &[&["spec"]]), ("finalize", &[&["status"]])],
            columns: columns::cluster::NAMESPACE,
            ..KindStrategy::PLAIN
        }),
    Kind::cluster("", "Node", "nodes", "node")
        .rechecks_prefix()
        .short(&["no"])
        .sub(&[Sub::other("proxy", "NodeProxyOptions", CONNECT), Sub::status("Node")])
        .fields(&[Field::text("spec.unschedulable").absent("false")])
        .strategy(KindStrategy {
            defaults: defaults::cluster::node,
            status_defaults: defaults::cluster::node_status,
            initial_status: None,
            disabled: &["spec.configSource", "status.config"],
            status_update: prepare::update_node_status,
            warnings: warnings::objects::node,
            columns: columns::node::NODE,
            ..KindStrategy::PLAIN
        }),
    Kind::namespaced("", "PersistentVolumeClaim", "persistentvolumeclaims", "persistentvolumeclaim")
        .rechecks_prefix()
        .short(&["pvc"])
        .returns_deleted()
        .sub(&[Sub::status("PersistentVolumeClaim")])
        .strategy(KindStrategy {
            defaults: defaults::storage::claim,
            status_defaults: defaults::storage::phase,
            initial_status: Some(|_| json!({"phase": "Pending"})),
            create: prepare::create_claim,
            update: prepare::update_data_sources,
            status_update: prepare::update_volume_status,
            warnings: warnings::objects::claim,
            columns: columns::storage::PERSISTENT_VOLUME_CLAIM,
            ..KindStrategy::PLAIN
        }),
    Kind::cluster("", "PersistentVolume", "persistentvolumes", "persistentvolume")
        .rechecks_prefix()
        .short(&["pv"])
        .returns_deleted()
        .sub(&[Sub::status("PersistentVolume")])
        .strategy(KindStrategy {
            defaults: defaults::storage::volume,
            status_defaults: defaults::storage::phase,
            initial_status: Some(prepare::volume_status),
            status_update: prepare::update_volume_status,
            warnings: warnings::objects::volume,
            columns: columns::storage::PERSISTENT_VOLUME,
            ..KindStrategy::PLAIN
        }),
    Kind::namespaced("", "Pod", "pods", "pod")
        .rechecks_prefix()
        .short(&["po"])
        .categories(&["all"])
        .graceful()
        .returns_deleted()
        .generation()
        .sub(&[
            Sub::other("attach", "PodAttachOptions", STREAM),
            Sub::other("binding", "Binding", CREATE_ONLY),
            Sub::view("ephemeralcontainers", "Pod"),
            Sub::other("eviction", "Eviction", CREATE_ONLY).of("policy", "v1"),
            Sub::other("exec", "PodExecOptions", STREAM),
            Sub::other("log", "Pod", &["get"]),
            Sub::other("portforward", "PodPortForwardOptions", STREAM),
            Sub::other("proxy", "PodProxyOptions", CONNECT),
            Sub::view("resize", "Pod"),
            Sub::status("Pod"),
        ])
        .fields(POD_FIELDS)
        .strategy(KindStrategy {
            defaults: defaults::pod::pod,
            status_defaults: prepare::pod_addresses,
            complete: prepare::pod_new::create,
            initial_status: Some(prepare::pod::initial_status),
            update: prepare::pod::update,
            status_update: prepare::pod::status_update,
            kept_by_status: &["ownerReferences"],
            resets: &[
                RESET_STATUS,
                (
                    "status",
                    &[&["spec"], &["metadata", "deletionTimestamp"], &["metadata", "ownerReferences"]],
                ),
            ],
            pod_spec: Some(&["spec"]),
            warnings_as_sent: warnings::pod::apparmor,
            warnings: warnings::pod,
            columns: columns::pod::POD,
            row_condition: columns::pod::row_condition,
            ..KindStrategy::PLAIN
        }),
    Kind::namespaced("", "PodTemplate", "podtemplates", "podtemplate")
        .returns_deleted()
        .generation()
        .strategy(KindStrategy {
            defaults: defaults::pod::template,
            pod_spec: Some(&["template", "spec"]),
            warnings: warnings::pod_template,
            columns: columns::pod::TEMPLATE,
            ..KindStrategy::PLAIN
        }),
    Kind::namespaced("", "ReplicationController", "replicationcontrollers", "replicationcontroller")
        .names(NameRule::DeclaredSubdomain)
        .short(&["rc"])
        .categories(&["all"])
        .generation()
        .sub(&[Sub::scale(), Sub::status("ReplicationController")])
        .fields(&[Field::text("status.replicas").absent("0")])
        .strategy(KindStrategy {
            defaults: defaults::workload::replication_controller,
            defaults_metadata: true,
            pod_spec: POD_TEMPLATE,
            warnings: warnings::named_workload,
            columns: columns::workload::REPLICA_SET,
            ..KindStrategy::PLAIN
        }),
    Kind::namespaced("", "ResourceQuota", "resourcequotas", "resourcequota")
        .short(&["quota"])
        .returns_deleted()
        .sub(&[Sub::status("ResourceQuota")])
        .strategy(KindStrategy {
            warnings: warnings::objects::quota,
            columns: columns::cluster::RESOURCE_QUOTA,
            ..KindStrategy::PLAIN
        }),
    Kind::namespaced("", "Secret", "secrets", "secret")
        .rechecks_prefix()
        .fields(&[Field::text("type")])
        .strategy(KindStrategy {
            defaults: defaults::secret,
            warnings: warnings::objects::secret,
            columns: columns::cluster::SECRET,
            ..KindStrategy::PLAIN
        }),
    Kind::namespaced("", "ServiceAccount", "serviceaccounts", "serviceaccount")
        .rechecks_prefix()
        .short(&["sa"])
        .returns_deleted()
        .sub(&[Sub::other("token", "TokenRequest", CREATE_ONLY).of("authentication.k8s.io", "v1")])
        .strategy(KindStrategy {
            create: prepare::name_secrets,
            update: |new, _| prepare::name_secrets(new),
            warnings: warnings::objects::service_account,
            columns: columns::cluster::SERVICE_ACCOUNT,
            ..KindStrategy::PLAIN
        }),
    Kind::namespaced("", "Service", "services", "service")
        .rechecks_prefix()
        .short(&["svc"])
        .categories(&["all"])
        .create_on_update()
        .returns_deleted()
        .names(NameRule::Label)
        .sub(&[Sub::other("proxy", "ServiceProxyOptions", CONNECT), Sub::status("Service")])
        .fields(&[Field::text("spec.clusterIP"), Field::text("spec.type")])
        .strategy(KindStrategy {
            defaults: defaults::service::service,
            initial_status: Some(prepare::balanced_status),
            create: prepare::service::create,
            update: prepare::service::update,
            status_update: prepare::service::status_update,
            validate_first: validate::service_address::before_allocation,
            warnings: warnings::objects::service,
            columns: columns::network::SERVICE,
            ..KindStrategy::PLAIN
        }),
];
