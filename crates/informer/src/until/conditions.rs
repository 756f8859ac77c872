//! Ready-made conditions for [`wait_for`](super::wait_for).
//!
//! ```no_run
//! use k8s_openapi::api::core::v1::Pod;
//! use listwatch::until::{conditions, wait_for};
//!
//! # async fn example(pods: listwatch::SharedInformer<Pod>) -> Result<(), Box<dyn std::error::Error>> {
//! wait_for(&pods, &"default/web".parse()?, conditions::pod_running).await?;
//! wait_for(&pods, &"default/web".parse()?, conditions::is_true("Ready")).await?;
//! # Ok(())
//! # }
//! ```

use serde::Deserialize;

use crate::object::Object;

/// Met if the object is there.
#[must_use]
pub fn exists<K>(object: Option<&Object<K>>) -> bool {
    object.is_some()
}

/// Met if no object of that name is there. For a name that may be used again, see [`deleted_uid`].
#[must_use]
pub fn deleted<K>(object: Option<&Object<K>>) -> bool {
    object.is_none()
}

/// Met if the object with this uid does not exist, even if there is another of its name.
pub fn deleted_uid<K>(uid: impl Into<String>) -> impl FnMut(Option<&Object<K>>) -> bool {
    let uid = uid.into();
    move |object| object.is_none_or(|object| object.uid() != uid)
}

/// Met if the Pod's phase is `Running`. A running Pod need not be ready; see [`is_true`].
#[must_use]
pub fn pod_running<K>(pod: Option<&Object<K>>) -> bool {
    phase(pod).as_deref() == Some("Running")
}

/// Met if the Pod's phase is `Succeeded` or `Failed`.
#[must_use]
pub fn pod_ended<K>(pod: Option<&Object<K>>) -> bool {
    matches!(phase(pod).as_deref(), Some("Succeeded" | "Failed"))
}

fn phase<K>(pod: Option<&Object<K>>) -> Option<std::borrow::Cow<'_, str>> {
    pod?.text(&["status", "phase"])
}

/// Met if a condition of the object's status is `True`: `Ready` of a Pod or Node, `Available` of a Deployment,
/// `Complete` of a Job, `Established` of a CustomResourceDefinition.
pub fn is_true<K>(condition: &str) -> impl FnMut(Option<&Object<K>>) -> bool {
    let condition = condition.to_owned();
    move |object| status_of(object, &condition).as_deref() == Some("True")
}

#[derive(Deserialize)]
struct StatusCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

fn status_of<K>(object: Option<&Object<K>>, condition: &str) -> Option<String> {
    let conditions: Vec<StatusCondition> =
        serde_json::from_slice(object?.field(&["status", "conditions"])?).ok()?;
    conditions.into_iter().find(|found| found.kind == condition).map(|found| found.status)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::object::Raw;

    #[test]
    fn conditions_read_the_status() {
        let object = |status: serde_json::Value| {
            Object::<Raw>::from_value(&json!({"metadata": {"name": "a", "uid": "u"}, "status": status}))
                .unwrap()
        };
        let pod = object(json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}));
        assert!(exists(Some(&pod)) && !deleted(Some(&pod)) && deleted::<Raw>(None));
        assert!(pod_running(Some(&pod)) && !pod_ended(Some(&pod)) && !pod_running::<Raw>(None));
        assert!(is_true("Ready")(Some(&pod)) && !is_true("Available")(Some(&pod)));
        assert!(!is_true("Ready")(Some(&object(
            json!({"conditions": [{"type": "Ready", "status": "False"}]})
        ))));
        assert!(!is_true("Ready")(Some(&object(json!({"conditions": null})))));
        assert!(deleted_uid("other")(Some(&pod)) && !deleted_uid("u")(Some(&pod)));
    }
}
