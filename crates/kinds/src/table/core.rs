//! Rows of the core group, `/api/v1`.
//!
//! Selectable fields are those that kube-apiserver indexes or converts for this kind; any other field selector is
//! refused, so a missing row here is an error for clients. Old names (`spec.host`, `source`) are labels for the same
//! field. Subresources that only connect to a node or Pod list the HTTP methods they accept.

use crate::kind::{CREATE_ONLY, Kind, NameRule, SelectableField as Field, Subresource as Sub};

/// Connecting subresources answer every method a proxied server might want.
const CONNECT: &[&str] = &["create", "delete", "get", "patch", "update"];
/// Streaming subresources are opened by GET (WebSocket) or POST (SPDY).
const STREAM: &[&str] = &["create", "get"];

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

pub(super) const KINDS: &[Kind] = &[
    Kind::namespaced("", "Binding", "bindings", "binding").virtual_review(),
    Kind::cluster("", "ComponentStatus", "componentstatuses", "componentstatus")
        .short(&["cs"])
        .verbs(&["get", "list"]),
    Kind::namespaced("", "ConfigMap", "configmaps", "configmap").short(&["cm"]),
    Kind::namespaced("", "Endpoints", "endpoints", "endpoints").short(&["ep"]).create_on_update(),
    Kind::namespaced("", "Event", "events", "event")
        .short(&["ev"])
        .create_on_update()
        .names(NameRule::PathSegment)
        .fields(EVENT_FIELDS),
    Kind::namespaced("", "LimitRange", "limitranges", "limitrange").short(&["limits"]).create_on_update(),
    Kind::cluster("", "Namespace", "namespaces", "namespace")
        .short(&["ns"])
        .verbs(&["create", "delete", "get", "list", "patch", "update", "watch"])
        .names(NameRule::Label)
        .sub(&[Sub::other("finalize", "Namespace", &["update"]), Sub::status("Namespace")])
        .fields(&[Field::text("status.phase")]),
    Kind::cluster("", "Node", "nodes", "node")
        .short(&["no"])
        .sub(&[Sub::other("proxy", "NodeProxyOptions", CONNECT), Sub::status("Node")])
        .fields(&[Field::text("spec.unschedulable").absent("false")]),
    Kind::namespaced("", "PersistentVolumeClaim", "persistentvolumeclaims", "persistentvolumeclaim")
        .short(&["pvc"])
        .returns_deleted()
        .sub(&[Sub::status("PersistentVolumeClaim")]),
    Kind::cluster("", "PersistentVolume", "persistentvolumes", "persistentvolume")
        .short(&["pv"])
        .returns_deleted()
        .sub(&[Sub::status("PersistentVolume")]),
    Kind::namespaced("", "Pod", "pods", "pod")
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
        .fields(POD_FIELDS),
    Kind::namespaced("", "PodTemplate", "podtemplates", "podtemplate").returns_deleted().generation(),
    Kind::namespaced("", "ReplicationController", "replicationcontrollers", "replicationcontroller")
        .short(&["rc"])
        .categories(&["all"])
        .generation()
        .sub(&[Sub::scale(), Sub::status("ReplicationController")])
        .fields(&[Field::text("status.replicas").absent("0")]),
    Kind::namespaced("", "ResourceQuota", "resourcequotas", "resourcequota")
        .short(&["quota"])
        .returns_deleted()
        .sub(&[Sub::status("ResourceQuota")]),
    Kind::namespaced("", "Secret", "secrets", "secret").fields(&[Field::text("type")]),
    Kind::namespaced("", "ServiceAccount", "serviceaccounts", "serviceaccount")
        .short(&["sa"])
        .returns_deleted()
        .sub(&[Sub::other("token", "TokenRequest", CREATE_ONLY).of("authentication.k8s.io", "v1")]),
    Kind::namespaced("", "Service", "services", "service")
        .short(&["svc"])
        .categories(&["all"])
        .create_on_update()
        .returns_deleted()
        .names(NameRule::Label1035)
        .sub(&[Sub::other("proxy", "ServiceProxyOptions", CONNECT), Sub::status("Service")])
        .fields(&[Field::text("spec.clusterIP"), Field::text("spec.type")]),
];
