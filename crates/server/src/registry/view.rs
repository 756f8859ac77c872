//! [`ObjectView`]: the part of an object that a path lets a client change: the object without its status, or one of the
//! subresources of the same kind.
//!
//! A write through a view is the stored object with only that part taken from the request, so that a kubelet with
//! permission for `pods/status` cannot change a spec. Subresources with kinds of their own (`scale`, `binding`,
//! `eviction`, `token`) are not views: see `subresources/`. Resetting fields of the whole object and its status is the
//! strategy's ([`super::strategy`]).

use listwatch_kinds::prepare::{bump_generation, pod_amounts, stamp_conditions};
use listwatch_kinds::tree::Tree;
use listwatch_wire::json::{Map, Value};

/// The object itself, or a subresource that shows the same object but writes only a part of it. Permissions are given
/// per view, so what a view does not write must come from the stored object, never from the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectView {
    /// Everything but the status.
    Whole,
    /// The status.
    Status,
    /// The `finalize` subresource of a namespace.
    Finalize,
    /// Containers added to a running Pod for a look around.
    EphemeralContainers,
    /// The `resize` subresource of a Pod.
    Resize,
    /// The `approval` subresource of a CertificateSigningRequest.
    Approval,
}

impl ObjectView {
    /// Returns the view that a subresource is; `None` for subresources with kinds of their own.
    pub(crate) fn of(subresource: Option<&str>) -> Option<Self> {
        Some(match subresource {
            None => Self::Whole,
            Some("status") => Self::Status,
            Some("finalize") => Self::Finalize,
            Some("ephemeralcontainers") => Self::EphemeralContainers,
            Some("resize") => Self::Resize,
            Some("approval") => Self::Approval,
            Some(_) => return None,
        })
    }

    /// Makes `new` the stored object with only this view's part changed.
    ///
    /// Costs a copy of the stored object. `managedFields` of the request are taken in every view; tracking decides
    /// about them afterwards.
    pub(crate) fn prepare(self, new: &mut Value, old: &Value) {
        let sent = std::mem::replace(new, old.clone());
        if let Some(meta) = new.inner("metadata") {
            adopt(meta, sent.at("metadata"), "managedFields");
        }
        match self {
            Self::Whole | Self::Status => *new = sent,
            // With the metadata of the request, as in kube-apiserver.
            Self::Finalize => take_with_metadata(new, sent, &["status"]),
            Self::EphemeralContainers => {
                if let Some(spec) = new.inner_or_new("spec") {
                    adopt(spec, sent.at("spec"), "ephemeralContainers");
                }
                bump_generation(new, old, false);
            }
            Self::Resize => {
                resize(new, &sent);
                bump_generation(new, old, false);
            }
            Self::Approval => {
                let conditions = sent.at("status").clone();
                take_with_metadata(new, sent, &["spec", "status"]);
                if let Some(status) = new.inner_or_new("status") {
                    adopt(status, &conditions, "conditions");
                }
                stamp_conditions(new, old);
            }
        }
    }
}

/// Takes everything that was sent but the fields that stay as stored.
/// Used where kube-apiserver replaces the whole object and keeps single fields, instead of the reverse.
fn take_with_metadata(new: &mut Value, mut sent: Value, stay: &[&str]) {
    if let Some(sent) = sent.as_object_mut() {
        for key in stay {
            adopt(sent, new, key);
        }
    }
    *new = sent;
}

/// Copies a field, or removes it if it is absent.
fn adopt(into: &mut Map, from: &Value, key: &str) {
    if from.has(key) {
        into.put(key, from.at(key).clone());
    } else {
        into.remove(key);
    }
}

/// Takes the resources and resize policies of containers from the request, and the resources of the Pod, which are completed
/// like those of a new Pod. Lists with other containers are taken as they are, for validation to refuse.
fn resize(new: &mut Value, sent: &Value) {
    let (Some(spec), sent) = (new.inner("spec"), sent.at("spec")) else { return };
    if sent.has("resources") {
        adopt(spec, sent, "resources");
    }
    for key in ["containers", "initContainers"] {
        let names =
            |list: &[Value]| -> Vec<String> { list.iter().map(|one| one.text("name").to_owned()).collect() };
        if names(spec.list(key)) != names(sent.list(key)) {
            adopt(spec, sent, key);
            continue;
        }
        for (container, wanted) in spec.each(key).zip(sent.list(key)) {
            adopt(container, wanted, "resources");
            adopt(container, wanted, "resizePolicy");
        }
    }
    pod_amounts(spec);
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    #[test]
    fn a_view_changes_its_part_only() {
        let old = json!({"metadata": {"generation": 1}, "spec": {"finalizers": ["kubernetes"], "containers": [{"name": "a", "image": "i"}]}, "status": {}});
        let sent = json!({
            "metadata": {"labels": {"x": "y"}},
            "spec": {"ephemeralContainers": [{"name": "e"}], "containers": [{"name": "a", "image": "j", "resources": {"limits": {"cpu": "1"}}}]},
            "status": {"conditions": [{"type": "Approved", "lastUpdateTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}
        });
        for (view, expected) in [
            (
                ObjectView::Finalize,
                json!({"metadata": {"labels": {"x": "y"}}, "spec": sent.at("spec").clone(), "status": {}}),
            ),
            (
                ObjectView::Approval,
                json!({"metadata": {"labels": {"x": "y"}}, "spec": {"finalizers": ["kubernetes"], "containers": [{"name": "a", "image": "i"}]}, "status": sent.at("status").clone()}),
            ),
            (
                ObjectView::EphemeralContainers,
                json!({"metadata": {"generation": 2}, "spec": {"finalizers": ["kubernetes"], "ephemeralContainers": [{"name": "e"}], "containers": [{"name": "a", "image": "i"}]}, "status": {}}),
            ),
            (
                ObjectView::Resize,
                json!({"metadata": {"generation": 2}, "spec": {"finalizers": ["kubernetes"], "containers": [{"name": "a", "image": "i", "resources": {"limits": {"cpu": "1"}}}]}, "status": {}}),
            ),
        ] {
            let mut new = sent.clone();
            view.prepare(&mut new, &old);
            assert_eq!(new, expected, "{view:?}");
        }
    }
}
