//! Repair of IPAddress objects: one for each cluster IP of a Service.
//!
//! IPAddresses are written and deleted with their Services, in one transaction (`allocate/claims.rs`). This task
//! handles the rest: Services from before claims existed, deleted claims, and leftover claims. It compares both sides
//! in the cache after waiting for it, so that a repeated task is harmless. In kube-apiserver this is the Service IP
//! repair controller.

use std::net::IpAddr;
use std::sync::Arc;

use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::{Value, json};
use listwatch_wire::options::DeleteOptions;

use crate::api::Api;
use crate::pipeline::internal::{ensure, remove};

/// The address in a stored Service, if it has one.
pub(super) fn address_of(service: &[u8]) -> Option<Arc<str>> {
    let service = Value::read(service).ok()?;
    let address = service.at("spec").text("clusterIP");
    address.parse::<IpAddr>().is_ok().then(|| address.into())
}

/// The IPAddress of an address and the Service that has it.
pub(super) fn ip_address(address: &str, namespace: &str, service: &str) -> Value {
    let family = if address.contains(':') { "IPv6" } else { "IPv4" };
    json!({
        "metadata": {
            "name": address,
            "labels": {
                "ipaddress.kubernetes.io/ip-family": family,
                "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
            },
        },
        "spec": {"parentRef": {"resource": "services", "namespace": namespace, "name": service}},
    })
}

/// Creates or removes the IPAddress of an address, by what the Service has now.
///
/// # Errors
///
/// Those of the store; the task is then tried again.
#[doc(alias = "RepairIPAddress")]
pub(super) async fn reconcile(api: &Api, address: &str, path: &str) -> Result<(), Status> {
    let Some((namespace, name)) = path.split_once('/') else { return Ok(()) };
    let find = |group, plural| api.registry.find(group, "v1", plural);
    let (Some(services), Some(addresses)) = (find("", "services"), find("networking.k8s.io", "ipaddresses"))
    else {
        return Ok(());
    };
    api.wait_for(None).await?;
    let snapshot = services.collection.snapshot();
    let service = snapshot.get(&services.key(Some(namespace), name));
    let held = service.and_then(|service| address_of(service.stored())).as_deref() == Some(address);
    let snapshot = addresses.collection.snapshot();
    let there =
        snapshot.get(&addresses.key(None, address)).and_then(|object| Value::read(object.stored()).ok());
    let wanted = ip_address(address, namespace, name);
    let own = there.as_ref().is_some_and(|there| parent(there) == parent(&wanted));
    if own && !held {
        remove(api, &addresses, None, address, &DeleteOptions::default()).await?;
    }
    if held && !own { ensure(api, addresses, &wanted).await } else { Ok(()) }
}

fn parent(address: &Value) -> [&str; 3] {
    let parent = address.at("spec").at("parentRef");
    ["resource", "namespace", "name"].map(|key| parent.text(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_services_with_addresses_have_one() {
        for (spec, expected) in [
            (json!({"clusterIP": "10.0.0.9"}), Some("10.0.0.9")),
            (json!({"clusterIP": "None"}), None),
            (json!({"type": "ExternalName"}), None),
        ] {
            let service = json!({"spec": spec}).to_string();
            assert_eq!(address_of(service.as_bytes()).as_deref(), expected);
        }
    }
}
