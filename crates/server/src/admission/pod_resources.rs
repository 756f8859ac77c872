//! Requests and limits of a whole Pod, as ResourceQuota and LimitRanger count them.
//!
//! Containers run together and add up; init containers run one after the other and count by their maximum, except for
//! sidecars (`restartPolicy: Always`), which keep running and add up with both. Pod-level resources replace the sum.
//! Overhead is not included: [`super::resource_quota`] adds it.

use std::collections::BTreeMap;

use listwatch_kinds::quantity::Quantity;
use listwatch_kinds::tree::Tree;
use listwatch_wire::json::Value;

/// Quantities by resource name, such as `cpu` or `requests.storage`. Ordered, because error messages list them in
/// order.
pub(crate) type Amounts = BTreeMap<String, Quantity>;

/// Reads a resource list. A value that is not a quantity counts as zero: validation reports it.
pub(crate) fn amounts(list: &Value) -> Amounts {
    let fields = list.as_object().into_iter().flatten();
    fields.map(|(name, text)| (name.to_string(), quantity(text))).collect()
}

/// Reads a quantity; zero if there is none.
pub(crate) fn quantity(value: &Value) -> Quantity {
    value.as_str().and_then(|text| Quantity::parse(text).ok()).unwrap_or_default()
}

/// Adds the second list to the first.
///
/// Sums saturate in [`Quantity::plus`] and never wrap, so a huge request cannot become a small one.
pub(crate) fn add(list: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        let sum = list.get(name).map_or(*amount, |known| known.plus(*amount));
        list.insert(name.clone(), sum);
    }
}

/// Raises the amounts of the first list to those of the second.
fn raise(list: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        if list.get(name).is_none_or(|known| amount > known) {
            list.insert(name.clone(), *amount);
        }
    }
}

/// Returns the sum over containers or the largest init container, whichever is more, for `requests` or `limits`.
/// Init containers that keep running count with the containers. Amounts of the Pod itself take precedence.
///
/// kube-apiserver computes the same in `k8s.io/component-helpers/resource`. ResourceQuota and LimitRanger must agree
/// on it, or a Pod could pass one and fail the other for no visible reason.
pub(crate) fn of_pod(spec: &Value, which: &str) -> Amounts {
    let own = |container: &Value| amounts(container.at("resources").at(which));
    let mut total = Amounts::new();
    for container in spec.list("containers") {
        add(&mut total, &own(container));
    }
    let (mut sidecars, mut largest) = (Amounts::new(), Amounts::new());
    for container in spec.list("initContainers") {
        let mut needed = own(container);
        if container.text("restartPolicy") == "Always" {
            add(&mut total, &needed);
            add(&mut sidecars, &needed);
            needed = sidecars.clone();
        } else {
            add(&mut needed, &sidecars);
        }
        raise(&mut largest, &needed);
    }
    raise(&mut total, &largest);
    for (name, amount) in amounts(spec.at("resources").at(which)) {
        if matches!(name.as_str(), "cpu" | "memory") || name.starts_with("hugepages-") {
            total.insert(name, amount);
        }
    }
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
