//! PrepareForCreate and PrepareForUpdate: the parts of a request that count, and the fields that the server sets.
//!
//! The row of a kind in [`crate::table`] names its functions. A write goes through [`create`], [`update`] or
//! [`status_update`] after the defaults and before validation. `metadata` has been stamped or carried over by then
//! ([`crate::meta`]). Custom resources have their own, simpler rules; they share [`bump_generation`].

mod certificate;
mod device;
mod disabled;
mod empty_lists;
mod generation;
mod job;
pub(crate) mod pod;
pub(crate) mod pod_new;
pub(crate) mod service;
mod volume;

use listwatch_wire::json::{Map, Value, json};

use crate::Kind;
use crate::tree::Tree;

pub use certificate::stamp_conditions;
pub(crate) use certificate::update_request_status;
pub(crate) use device::drop_deallocated_devices;
pub(crate) use empty_lists::is_owned_empty;
use generation::same_desired;
pub use generation::{bump_generation, bump_generation_with_status};
pub(crate) use generation::{
    count_specs, count_specs_and_annotations, count_specs_and_labels, create_daemon_set, keep_generation,
    update_daemon_set,
};
pub use job::label_job;
pub(crate) use job::{generate_selector, update_job};
pub(crate) use pod::{POD_CLAIM_LISTS, pod_addresses};
pub use pod::{bind, qos_class, set_condition};
pub use pod_new::pod_amounts;
pub(crate) use pod_new::{APPARMOR, profile_of};
pub use service::{Needs, assign as assign_service, needs as service_needs};
pub use volume::note_phase;
pub(crate) use volume::{create_claim, update_data_sources, update_volume_status, volume_status};

/// The finalizer that holds a namespace until it is empty.
const NAMESPACE_FINALIZER: &str = "kubernetes";

/// Makes a decoded object a new one: initial status, first generation, what only the server decides.
///
/// The caller has stamped the metadata. Validation comes after, on the result.
pub fn create(kind: &Kind, object: &mut Value) {
    empty_lists::drop_empty_lists(kind, object);
    disabled::drop_disabled(kind, object, None);
    (kind.strategy.complete)(object);
    if kind.flags.generation
        && kind.strategy.generation_at_creation
        && let Some(meta) = object.inner_or_new("metadata")
    {
        meta.put("generation", 1);
    }
    if kind.has_status()
        && let Some(initial) = kind.strategy.initial_status
    {
        let status = initial(object);
        object.put("status", status);
    }
    (kind.strategy.create)(object);
}

/// A ServiceAccount refers to secrets of its own namespace by name only.
pub(crate) fn name_secrets(object: &mut Value) {
    for secret in object.each("secrets") {
        secret.retain(|key, _| key == "name");
    }
}

/// The status of a new APIService: one that this server answers itself is available from the start.
pub(crate) fn api_service_status(object: &Value) -> Value {
    if object.at("spec").has("service") {
        return json!({});
    }
    let born = object.at("metadata").at("creationTimestamp");
    json!({"conditions": [{"type": "Available", "status": "True", "lastTransitionTime": born,
        "reason": "Local", "message": "Local APIServices are always available"}]})
}

/// The status of a new object that traffic from outside may reach.
pub(crate) fn balanced_status(_: &Value) -> Value {
    json!({"loadBalancer": {}})
}

/// A namespace stays until it is empty.
pub(crate) fn add_namespace_finalizer(object: &mut Value) {
    let Some(spec) = object.inner_or_new("spec") else { return };
    let mut finalizers = spec.list("finalizers").to_vec();
    if !finalizers.iter().any(|finalizer| finalizer == NAMESPACE_FINALIZER) {
        finalizers.push(NAMESPACE_FINALIZER.into());
    }
    spec.put("finalizers", finalizers);
}

/// An empty status is that of a namespace in use.
pub(crate) fn update_namespace_status(new: &mut Value, _old: &Value) {
    if let Some(status) = new.inner_or_new("status") {
        status.fill_text("phase", "Active");
    }
}

/// Makes a decoded object the successor of the stored one: the status is kept, the generation follows the spec.
///
/// Keeps the stored status, so that a client with an old copy cannot set it back.
pub fn update(kind: &Kind, new: &mut Value, old: &Value) {
    empty_lists::drop_empty_lists(kind, new);
    let sent = (kind.strategy.counts_dropped_fields && !same_desired(new, old)).then(|| new.clone());
    disabled::drop_disabled(kind, new, Some(old));
    if kind.has_status() {
        keep(new, old, "status");
    }
    (kind.strategy.update)(new, old);
    if kind.flags.generation {
        (kind.strategy.count_generation)(new, old);
    }
    // The generation was counted before the fields were dropped.
    if let Some(mut sent) = sent.filter(|_| kind.flags.generation && same_desired(new, old)) {
        (kind.strategy.count_generation)(&mut sent, old);
        let generation = sent.at("metadata").at("generation").clone();
        new.inner("metadata").into_iter().for_each(|meta| meta.put("generation", generation.clone()));
    }
}

/// Kubelets are no longer configured through their Nodes: an existing `status.config` is kept, and a new one dropped.
pub(crate) fn update_node_status(new: &mut Value, old: &Value) {
    if !old.at("status").has("config")
        && let Some(status) = new.inner("status")
    {
        status.remove("config");
    }
}

/// Finalizers of a namespace change only through their own endpoint.
pub(crate) fn update_namespace(new: &mut Value, old: &Value) {
    keep_inside(new, old, "spec", "finalizers");
}

/// The spec of a CertificateSigningRequest is immutable.
pub(crate) fn keep_spec(new: &mut Value, old: &Value) {
    keep(new, old, "spec");
}

/// Makes a decoded object a change of status only: everything else is the stored object's.
///
/// Labels and annotations may be changed through `/status` for most kinds, as in kube-apiserver; `kept_by_status`
/// lists the others.
pub fn status_update(kind: &Kind, new: &mut Value, old: &Value) {
    (kind.strategy.complete_status)(new);
    let status = new.drop_field("status");
    let mut meta = new.drop_field("metadata").unwrap_or_default();
    keep_metadata(kind, &mut meta, old.at("metadata"));
    *new = old.clone();
    new.put("metadata", meta);
    match status {
        Some(status) => new.put("status", status),
        None => drop(new.drop_field("status")),
    }
    (kind.strategy.status_update)(new, old);
}

/// The metadata that a status write may change differs by kind, for historical reasons.
fn keep_metadata(kind: &Kind, meta: &mut Value, old: &Value) {
    for key in kind.strategy.kept_by_status {
        keep(meta, old, key);
    }
}

/// Fields of a request that an endpoint ignores, and that a request therefore does not own, by subresource.
///
/// Server-side apply must not record ownership of fields that the endpoint ignores.
#[must_use]
pub fn reset_fields(kind: &Kind) -> &'static [(&'static str, &'static [&'static [&'static str]])] {
    kind.strategy.resets
}

/// Copies a field, or its absence, from another object.
pub fn keep(new: &mut Value, old: &Value, key: &str) {
    keep_field(new, old, key);
}

/// The stored value, or its absence.
fn keep_field(new: &mut impl Tree, old: &Value, key: &str) {
    match old.fields().and_then(|fields| fields.get(key)) {
        Some(value) => new.put(key, value.clone()),
        None => drop(new.drop_field(key)),
    }
}

/// Makes the outer object if it is missing, so that the inner field can stay.
fn keep_inside(new: &mut Value, old: &Value, outer: &str, key: &str) {
    let value = old.at(outer).at(key).clone();
    new.fill(outer, Value::Object(Map::new()));
    if let Some(inside) = new.inner(outer) {
        if value.is_null() { drop(inside.remove(key)) } else { inside.put(key, value) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::by_kind;

    fn deployment() -> &'static Kind {
        by_kind("apps", "v1", "Deployment").unwrap()
    }

    #[test]
    fn a_new_object_starts_over() {
        let mut object = json!({"metadata": {"generation": 9}, "spec": {}, "status": {"replicas": 3}});
        create(deployment(), &mut object);
        assert_eq!(object, json!({"metadata": {"generation": 1}, "spec": {}, "status": {}}));
    }

    #[test]
    fn generation_moves_with_the_spec_only() {
        let old = json!({"metadata": {"generation": 1}, "spec": {"replicas": 1}, "status": {"replicas": 1}});
        for (change, expected) in [
            (json!({"metadata": {"generation": 1, "labels": {"l": "1"}}}), 1),
            (json!({"metadata": {"generation": 1, "annotations": {"a": "1"}}}), 2),
            (json!({"spec": {"replicas": 2}}), 2),
            (json!({"status": {"replicas": 7}}), 1),
        ] {
            let mut new = old.clone();
            new.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
            update(deployment(), &mut new, &old);
            assert_eq!(new.at("metadata").int("generation"), Some(expected), "{change}");
            assert_eq!(new.at("status"), old.at("status"));
        }
    }

    #[test]
    fn a_status_of_some_kinds_is_written_without_metadata() {
        for (group, name) in
            [("storage.k8s.io", "CSINode"), ("storagemigration.k8s.io", "StorageVersionMigration")]
        {
            let kind = by_kind(group, "v1", name).unwrap();
            let old = json!({"metadata": {"name": "a"}, "spec": {}});
            let mut new = json!({"metadata": {"name": "a", "labels": {"l": "1"}}, "spec": {}, "status": {}});
            status_update(kind, &mut new, &old);
            assert!(!new.at("metadata").has("labels"), "{name}");
        }
    }

    #[test]
    fn a_status_write_cannot_add_the_configuration_of_a_node() {
        let kind = by_kind("", "v1", "Node").unwrap();
        for (before, kept) in [(json!({}), false), (json!({"config": {}}), true)] {
            let old = json!({"metadata": {"name": "n"}, "spec": {}, "status": before});
            let mut new =
                json!({"metadata": {"name": "n"}, "spec": {}, "status": {"config": {"error": "e"}}});
            status_update(kind, &mut new, &old);
            assert_eq!(new.at("status").has("config"), kept);
        }
    }

    #[test]
    fn an_api_service_of_this_server_is_available_at_once() {
        let kind = by_kind("apiregistration.k8s.io", "v1", "APIService").unwrap();
        let conditions = |spec: Value| {
            let mut service =
                json!({"metadata": {"creationTimestamp": "2024-01-01T00:00:00Z"}, "spec": spec});
            create(kind, &mut service);
            service.at("status").count("conditions")
        };
        assert_eq!((conditions(json!({})), conditions(json!({"service": {"name": "s"}}))), (1, 0));
    }

    #[test]
    fn a_status_write_leaves_the_spec_unchanged() {
        let old =
            json!({"metadata": {"name": "d", "labels": {"a": "1"}}, "spec": {"replicas": 1}, "status": {}});
        let mut new = json!({"metadata": {"name": "d", "labels": {"b": "2"}}, "spec": {"replicas": 9}, "status": {"replicas": 1}});
        status_update(deployment(), &mut new, &old);
        assert_eq!(
            new,
            json!({"metadata": {"name": "d", "labels": {"a": "1"}}, "spec": {"replicas": 1}, "status": {"replicas": 1}})
        );
    }

    #[test]
    fn finalizers_of_a_namespace_change_only_through_finalize() {
        let kind = by_kind("", "v1", "Namespace").unwrap();
        let mut object = json!({"metadata": {"name": "n"}});
        create(kind, &mut object);
        assert_eq!(object.at("spec"), &json!({"finalizers": ["kubernetes"]}));
        let mut new = json!({"metadata": {"name": "n"}, "spec": {"finalizers": []}});
        update(kind, &mut new, &object);
        assert_eq!(new.at("spec"), object.at("spec"));
    }

    #[test]
    fn a_daemon_set_counts_its_templates() {
        let kind = by_kind("apps", "v1", "DaemonSet").unwrap();
        let count = |object: &Value| {
            object.pointer("/metadata/annotations/deprecated.daemonset.template.generation").cloned()
        };
        let mut old = json!({"metadata": {"name": "d"}, "spec": {"template": {"spec": {}}}});
        create(kind, &mut old);
        assert_eq!(count(&old), Some(json!("1")));
        let mut new = json!({"metadata": {"name": "d"}, "spec": {"template": {"spec": {"nodeName": "n"}}}});
        update(kind, &mut new, &old);
        assert_eq!(count(&new), Some(json!("2")));
        let mut same = new.clone();
        update(kind, &mut same, &new);
        assert_eq!(count(&same), Some(json!("2")));
    }

    #[test]
    fn a_job_selects_by_its_uid() {
        let mut job = json!({"metadata": {"name": "j", "uid": "u"}, "spec": {"template": {"spec": {}}}});
        let kind = by_kind("batch", "v1", "Job").unwrap();
        create(kind, &mut job);
        assert_eq!(
            job.at("spec").at("selector"),
            &json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}})
        );
        assert_eq!(job.path(&["spec", "template", "metadata", "labels"]).text("job-name"), "j");
        // kube-apiserver validates such a Job without labels, and then stores those of the template.
        assert!(!job.at("metadata").has("labels"));
        for prepare in [update, status_update] {
            let mut bare = job.clone();
            prepare(kind, &mut bare, &job);
            assert_eq!(bare.at("metadata").at("labels").text("batch.kubernetes.io/job-name"), "j");
        }
        let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {}});
        let mut labelled = json!({"metadata": {"name": "j", "uid": "u"}, "spec": {"template": template}});
        create(kind, &mut labelled);
        assert_eq!(labelled.at("metadata").at("labels").text("a"), "b");
        assert_eq!(labelled.at("metadata").at("labels").text("job-name"), "j");
    }
}
