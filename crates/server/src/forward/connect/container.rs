//! The choice of the container for logs, exec and attach: the named one, or the only one.
//!
//! kubectl reads the annotation `kubectl.kubernetes.io/default-container` itself and sends a name; the server does not.
//! The kubelet of the Pod's node, which runs the container, is found by `kubelet.rs`.

use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::Value;

/// The lists of containers in the order in which kube-apiserver visits them.
const LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// Returns the container of a Pod that was asked for. It may be left out only if the Pod has one.
///
/// # Errors
/// 400 if there is no such container, or no way to choose one.
#[doc(alias = "validateContainer")]
pub(super) fn choose(wanted: &str, pod: &Value) -> Result<String, Status> {
    let pod_name = pod.at("metadata").text("name");
    let spec = pod.at("spec");
    let names = || LISTS.iter().flat_map(|list| spec.list(list)).map(|container| container.text("name"));
    if !wanted.is_empty() {
        return match names().any(|name| name == wanted) {
            true => Ok(wanted.to_owned()),
            false => Err(Status::bad_request(format!("container {wanted} is not valid for pod {pod_name}"))),
        };
    }
    match spec.list("containers") {
        [only] => Ok(only.text("name").to_owned()),
        [] => Err(Status::bad_request(format!("a container name must be specified for pod {pod_name}"))),
        _ => {
            let names: Vec<&str> = names().collect();
            let names = names.join(" ");
            Err(Status::bad_request(format!(
                "a container name must be specified for pod {pod_name}, choose one of: [{names}]"
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    #[test]
    fn a_container_is_named_unless_it_is_alone() {
        let pod = |containers: Value| {
            json!({"metadata": {"name": "p"}, "spec": {
            "containers": containers, "initContainers": [{"name": "i"}], "ephemeralContainers": [{"name": "e"}]}})
        };
        let (one, two) = (pod(json!([{"name": "a"}])), pod(json!([{"name": "a"}, {"name": "b"}])));
        for (pod, wanted, expected) in [
            (&one, "", Ok("a")),
            (&two, "b", Ok("b")),
            (&two, "i", Ok("i")),
            (&two, "e", Ok("e")),
            (&one, "z", Err("container z is not valid for pod p")),
            (&two, "", Err("a container name must be specified for pod p, choose one of: [i a b e]")),
        ] {
            let chosen = choose(wanted, pod).map_err(|status| status.message);
            assert_eq!(chosen.as_deref().map_err(String::as_str), expected, "{wanted}");
        }
    }
}
