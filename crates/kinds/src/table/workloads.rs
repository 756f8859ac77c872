//! Rows of workloads and networking: apps, batch, autoscaling, events, networking, discovery, policy.
//!
//! Kinds with two served versions or groups are stored in one of them (`stored_as`): an Event of `events.k8s.io` is the
//! core Event under other field names, and the autoscaler is stored as `v2`. Selectable fields of such a kind name the
//! path in the stored form and the label in the served one.

use crate::kind::{Kind, NameRule, SelectableField as Field, Subresource as Sub};
use crate::strategy::{KindStrategy, RESET_STATUS};
use crate::{columns, convert, defaults, prepare, warnings};

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

/// The place of the pod spec of a workload.
const POD_TEMPLATE: Option<&[&str]> = Some(&["spec", "template", "spec"]);

pub(super) const KINDS: &[Kind] = &[
    Kind::namespaced(APPS, "ControllerRevision", "controllerrevisions", "controllerrevision")
        .rechecks_prefix()
        .strategy(KindStrategy { columns: columns::workload::CONTROLLER_REVISION, ..KindStrategy::PLAIN }),
    Kind::namespaced(APPS, "DaemonSet", "daemonsets", "daemonset")
        .short(&["ds"])
        .categories(&["all"])
        .generation()
        .sub(&[Sub::status("DaemonSet")])
        .strategy(KindStrategy {
            defaults: defaults::workload::daemon_set,
            create: prepare::create_daemon_set,
            update: prepare::update_daemon_set,
            status_update: prepare::update_daemon_set,
            pod_spec: POD_TEMPLATE,
            warnings: warnings::workload,
            columns: columns::workload::DAEMON_SET,
            ..KindStrategy::PLAIN
        }),
    Kind::namespaced(APPS, "Deployment", "deployments", "deployment")
        .short(&["deploy"])
        .categories(&["all"])
        .generation()
        .sub(&[Sub::scale(), Sub::status("Deployment")])
        .strategy(KindStrategy {
            defaults: defaults::workload::deployment,
            count_generation: prepare::count_specs_and_annotations,
            kept_by_status: &["labels"],
            resets: &[RESET_STATUS, ("status", &[&["spec"], &["metadata", "labels"]])],
            pod_spec: POD_TEMPLATE,
            warnings: warnings::named_workload,
            columns: columns::workload::DEPLOYMENT,
            ..KindStrategy::PLAIN
        }),
    Kind::namespaced(APPS, "ReplicaSet", "replicasets", "replicaset")
        .short(&["rs"])
        .categories(&["all"])
        .generation()
        .sub(&[Sub::scale(), Sub::status("ReplicaSet")])
        .strategy(KindStrategy {
            defaults: defaults::workload::replica_set,
            pod_spec: POD_TEMPLATE,
            warnings: warnings::named_workload,
            columns: columns::workload::REPLICA_SET,
            ..KindStrategy::PLAIN
        }),
    Kind::namespaced(APPS, "StatefulSet", "statefulsets", "statefulset")
        .rechecks_prefix()
        .names(NameRule::Label)
        .short(&["sts"])
        .categories(&["all"])
        .generation()
        .sub(&[Sub::scale(), Sub::status("StatefulSet")])
        .strategy(KindStrategy {
            defaults: defaults::workload::stateful_set,
            pod_spec: POD_TEMPLATE,
            warnings: warnings::stateful_set,
            columns: columns::workload::STATEFUL_SET,
            ..KindStrategy::PLAIN
        }),
    Kind::namespaced("batch", "CronJob", "cronjobs", "cronjob")
        .short(&["cj"])
        .categories(&["all"])
        .generation()
        .sub(&[Sub::status("CronJob")])
        .strategy(KindStrategy {
            defaults: defaults::batch::cron_job,
            pod_spec: Some(&["spec", "jobTemplate", "spec", "template", "spec"]),
            warnings: warnings::cron_job,
            columns: columns::workload::CRON_JOB,
            ..KindStrategy::PLAIN
        }),
    Kind::namespaced("batch", "Job", "jobs", "job")
        .categories(&["all"])
        .generation()
        .sub(&[Sub::status("Job")])
        .fields(&[Field::text("status.succeeded").label("status.successful").absent("0")])
        .strategy(KindStrategy {
            defaults: defaults::batch::job,
            create: prepare::generate_selector,
            update: prepare::update_job,
            complete_status: prepare::label_job,
            status_update: prepare::update_job,
            pod_spec: POD_TEMPLATE,
            warnings: warnings::job,
            columns: columns::workload::JOB,
            ..KindStrategy::PLAIN
        }),
    HPA.version("v2").strategy(KindStrategy {
        defaults: defaults::workload::autoscaler_v2,
        defaults_metadata: true,
        columns: columns::workload::HORIZONTAL_POD_AUTOSCALER,
        ..KindStrategy::PLAIN
    }),
    HPA.stored_as("autoscaling", "v2").strategy(KindStrategy {
        convert: convert::autoscaler_v1,
        defaults: defaults::workload::autoscaler_v1,
        defaults_metadata: true,
        columns: columns::workload::HORIZONTAL_POD_AUTOSCALER,
        ..KindStrategy::PLAIN
    }),
    Kind::namespaced("events.k8s.io", "Event", "events", "event")
        .short(&["ev"])
        .create_on_update()
        .fields(EVENT_FIELDS)
        .stored_as("", "v1")
        .strategy(KindStrategy {
            convert: convert::event,
            columns: columns::cluster::EVENT,
            ..KindStrategy::PLAIN
        }),
    Kind::namespaced(NETWORKING, "Ingress", "ingresses", "ingress")
        .rechecks_prefix()
        .short(&["ing"])
        .generation()
        .sub(&[Sub::status("Ingress")])
        .strategy(KindStrategy {
            initial_status: Some(prepare::balanced_status),
            warnings: warnings::objects::ingress,
            columns: columns::network::INGRESS,
            ..KindStrategy::PLAIN
        }),
    Kind::cluster(NETWORKING, "IngressClass", "ingressclasses", "ingressclass")
        .rechecks_prefix()
        .generation()
        .strategy(KindStrategy {
            defaults: defaults::service::ingress_class,
            columns: columns::network::INGRESS_CLASS,
            ..KindStrategy::PLAIN
        }),
    Kind::cluster(NETWORKING, "IPAddress", "ipaddresses", "ipaddress")
        .short(&["ip"])
        .names(NameRule::IpAddress)
        .strategy(KindStrategy { columns: columns::network::IP_ADDRESS, ..KindStrategy::PLAIN }),
    Kind::namespaced(NETWORKING, "NetworkPolicy", "networkpolicies", "networkpolicy")
        .short(&["netpol"])
        .generation()
        .strategy(KindStrategy {
            defaults: defaults::service::network_policy,
            warnings: warnings::places::network_policy,
            columns: columns::network::NETWORK_POLICY,
            ..KindStrategy::PLAIN
        }),
    Kind::cluster(NETWORKING, "ServiceCIDR", "servicecidrs", "servicecidr")
        .sub(&[Sub::status("ServiceCIDR")])
        .strategy(KindStrategy { columns: columns::network::SERVICE_CIDR, ..KindStrategy::STATUS_ONLY }),
    Kind::namespaced("discovery.k8s.io", "EndpointSlice", "endpointslices", "endpointslice")
        .rechecks_prefix()
        .generation()
        .strategy(KindStrategy {
            defaults: defaults::service::endpoint_slice,
            count_generation: prepare::count_specs_and_labels,
            disabled: &["endpoints.*.deprecatedTopology"],
            counts_dropped_fields: true,
            warnings: warnings::places::endpoint_slice,
            columns: columns::network::ENDPOINT_SLICE,
            ..KindStrategy::PLAIN
        }),
    Kind::namespaced("policy", "PodDisruptionBudget", "poddisruptionbudgets", "poddisruptionbudget")
        .short(&["pdb"])
        .conditional_update()
        .generation()
        .names(NameRule::PathSegment)
        .sub(&[Sub::status("PodDisruptionBudget")])
        .strategy(KindStrategy {
            columns: columns::workload::POD_DISRUPTION_BUDGET,
            metadata_last: true,
            qualified_finalizers: false,
            ..KindStrategy::PLAIN
        }),
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
