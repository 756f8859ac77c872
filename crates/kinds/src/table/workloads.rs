//! Rows of workloads and networking: apps, batch, autoscaling, events, networking, discovery, policy.
//!
//! Kinds with two served versions or groups are stored in one of them (`stored_as`): an Event of `events.k8s.io` is the
//! core Event under other field names, and the autoscaler is stored as `v2`. Selectable fields of such a kind name the
//! path in the stored form and the label in the served one.

use crate::kind::{Kind, NameRule, SelectableField as Field, Subresource as Sub};

const APPS: &str = "apps";
const NETWORKING: &str = "networking.k8s.io";

/// `events.k8s.io` renames fields of the core event; its selectors use the new names, what is stored has the old ones.
const EVENT_FIELDS: &[Field] = &[
    Field::text("involvedObject.kind").label("regarding.kind"),
    Field::text("involvedObject.namespace").label("regarding.namespace"),
    Field::text("involvedObject.name").label("regarding.name"),
    Field::text("involvedObject.uid").label("regarding.uid"),
    Field::text("involvedObject.apiVersion").label("regarding.apiVersion"),
    Field::text("involvedObject.resourceVersion").label("regarding.resourceVersion"),
    Field::text("involvedObject.fieldPath").label("regarding.fieldPath"),
    Field::text("reason"),
    Field::text("reportingComponent").label("reportingController"),
    Field::text("type"),
];

pub(super) const KINDS: &[Kind] = &[
    Kind::namespaced(APPS, "ControllerRevision", "controllerrevisions", "controllerrevision"),
    Kind::namespaced(APPS, "DaemonSet", "daemonsets", "daemonset")
        .short(&["ds"])
        .categories(&["all"])
        .generation()
        .sub(&[Sub::status("DaemonSet")]),
    Kind::namespaced(APPS, "Deployment", "deployments", "deployment")
        .short(&["deploy"])
        .categories(&["all"])
        .generation()
        .sub(&[Sub::scale(), Sub::status("Deployment")]),
    Kind::namespaced(APPS, "ReplicaSet", "replicasets", "replicaset")
        .short(&["rs"])
        .categories(&["all"])
        .generation()
        .sub(&[Sub::scale(), Sub::status("ReplicaSet")]),
    Kind::namespaced(APPS, "StatefulSet", "statefulsets", "statefulset")
        .names(NameRule::Label)
        .short(&["sts"])
        .categories(&["all"])
        .generation()
        .sub(&[Sub::scale(), Sub::status("StatefulSet")]),
    Kind::namespaced("batch", "CronJob", "cronjobs", "cronjob")
        .short(&["cj"])
        .categories(&["all"])
        .generation()
        .sub(&[Sub::status("CronJob")]),
    Kind::namespaced("batch", "Job", "jobs", "job")
        .categories(&["all"])
        .generation()
        .sub(&[Sub::status("Job")])
        .fields(&[Field::text("status.succeeded").label("status.successful").absent("0")]),
    HPA.version("v2"),
    HPA.stored_as("autoscaling", "v2"),
    Kind::namespaced("events.k8s.io", "Event", "events", "event")
        .short(&["ev"])
        .create_on_update()
        .fields(EVENT_FIELDS)
        .stored_as("", "v1"),
    Kind::namespaced(NETWORKING, "Ingress", "ingresses", "ingress")
        .short(&["ing"])
        .generation()
        .sub(&[Sub::status("Ingress")]),
    Kind::cluster(NETWORKING, "IngressClass", "ingressclasses", "ingressclass").generation(),
    Kind::cluster(NETWORKING, "IPAddress", "ipaddresses", "ipaddress")
        .short(&["ip"])
        .names(NameRule::IpAddress),
    Kind::namespaced(NETWORKING, "NetworkPolicy", "networkpolicies", "networkpolicy")
        .short(&["netpol"])
        .generation(),
    Kind::cluster(NETWORKING, "ServiceCIDR", "servicecidrs", "servicecidr")
        .sub(&[Sub::status("ServiceCIDR")]),
    Kind::namespaced("discovery.k8s.io", "EndpointSlice", "endpointslices", "endpointslice").generation(),
    Kind::namespaced("policy", "PodDisruptionBudget", "poddisruptionbudgets", "poddisruptionbudget")
        .short(&["pdb"])
        .conditional_update()
        .generation()
        .sub(&[Sub::status("PodDisruptionBudget")]),
];

const HPA: Kind = Kind::namespaced(
    "autoscaling",
    "HorizontalPodAutoscaler",
    "horizontalpodautoscalers",
    "horizontalpodautoscaler",
)
.short(&["hpa"])
.categories(&["all"])
.generation()
.sub(&[Sub::status("HorizontalPodAutoscaler")]);
