//! Lists of resources: the requests and limits of containers, read and added up.
//!
//! Containers run together and add up; init containers run one after the other and count by their maximum, except for
//! sidecars (`restartPolicy: Always`), which keep running and add up with both. Pod-level resources are compared with
//! the sum in [`crate::validate`] and defaulted from it in [`crate::prepare`]; quotas and limits are the server's.

use std::collections::BTreeMap;

use listwatch_wire::json::Value;

use crate::quantity::Quantity;
use crate::tree::Tree;

/// Quantities by resource name, such as `cpu` or `requests.storage`. Ordered, because error messages list them in
/// order.
pub type Amounts = BTreeMap<String, Quantity>;

/// Reads a resource list. A value that is not a quantity counts as zero: validation reports it.
#[must_use]
pub fn amounts(list: &Value) -> Amounts {
    let fields = list.as_object().into_iter().flatten();
    fields.map(|(name, text)| (name.to_string(), quantity(text))).collect()
}

/// Reads a quantity; zero if there is none.
#[must_use]
pub fn quantity(value: &Value) -> Quantity {
    value.as_str().and_then(|text| Quantity::parse(text).ok()).unwrap_or_default()
}

/// Adds the second list to the first.
///
/// Sums saturate in [`Quantity::plus`] and never wrap, so a huge request cannot become a small one.
pub fn add(list: &mut Amounts, other: &Amounts) {
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
/// Init containers that keep running count with the containers.
///
/// kube-apiserver computes the same in `k8s.io/component-helpers/resource`.
#[must_use]
#[doc(alias = "AggregateContainerRequests")]
pub fn of_containers<T: Tree + ?Sized>(spec: &T, which: &str) -> Amounts {
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
            needed
                .iter_mut()
                .for_each(|(name, amount)| *amount = sidecars.get(name).copied().unwrap_or(*amount));
        } else {
            for (name, amount) in &mut needed {
                *amount = sidecars.get(name).map_or(*amount, |more| amount.plus(*more));
            }
        }
        // The other amounts of the sidecars were compared when they were added.
        raise(&mut largest, &needed);
    }
    raise(&mut total, &largest);
    total
}

/// True for resources that a Pod as a whole can ask for.
#[must_use]
pub fn is_of_pods(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    fn sidecar(resources: impl Iterator<Item = usize>) -> Value {
        let requests: Value = resources
            .map(|n| (format!("a.b/r{n}"), "1".into()))
            .collect::<listwatch_wire::json::Map>()
            .into();
        json!({"restartPolicy": "Always", "resources": {"requests": requests}})
    }

    /// 20,000 sidecars took minutes: each was compared with all that those before it need.
    #[test]
    fn each_sidecar_is_compared_by_what_it_needs_itself() {
        let sidecars: Value = (0..20_000).map(|n| sidecar([n, 0].into_iter())).collect();
        let begin = std::time::Instant::now();
        let total = of_containers(&json!({"initContainers": sidecars}), "requests");
        assert!(begin.elapsed() < std::time::Duration::from_secs(5), "{:?}", begin.elapsed());
        assert_eq!((total.len(), total["a.b/r0"].to_string().as_str()), (20_000, "20k"));
    }
}
