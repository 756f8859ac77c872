//! Requests and limits of a whole Pod, as ResourceQuota and LimitRanger count them.
//!
//! The sum over the containers is that of [`listwatch_kinds::amounts`]; pod-level resources replace it.
//! Overhead is not included: [`super::resource_quota`] adds it.

use listwatch_kinds::amounts::{is_of_pods, of_containers};
use listwatch_kinds::tree::Tree;
use listwatch_wire::json::Value;

pub(crate) use listwatch_kinds::amounts::{Amounts, add, amounts, quantity};

/// Returns what the containers need together, for `requests` or `limits`. Amounts of the Pod itself take precedence.
///
/// ResourceQuota and LimitRanger must agree on it, or a Pod could pass one and fail the other for no visible reason.
pub(crate) fn of_pod(spec: &Value, which: &str) -> Amounts {
    let mut total = of_containers(spec, which);
    let own = amounts(spec.at("resources").at(which));
    total.extend(own.into_iter().filter(|(name, _)| is_of_pods(name)));
    total
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    #[test]
    fn a_pod_needs_its_containers_or_its_largest_init_container() {
        let container = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu}}});
        let mut sidecar = container("1");
        sidecar.put("restartPolicy", "Always");
        for (init, expected) in [
            (json!([]), "300m"),
            (json!([container("2")]), "2"),
            (json!([sidecar.clone()]), "1300m"),
            (json!([sidecar, container("2")]), "3"),
        ] {
            let spec = json!({"containers": [container("100m"), container("200m")], "initContainers": init});
            assert_eq!(of_pod(&spec, "requests")["cpu"].to_string(), expected);
        }
    }
}
