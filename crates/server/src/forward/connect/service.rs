//! The endpoint of a proxied Service: a ready Pod, chosen at random.
//!
//! The address must be that of a Pod in the namespace of the Service. More users may write EndpointSlices than statuses of
//! Pods, and a slice must not direct this server to other addresses.

use std::net::IpAddr;

use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::Value;

use super::NodeRequest;
use super::address::ProxyName;
use crate::cache::Filter;

/// The address of a ready endpoint of a Service.
///
/// # Errors
/// 404 if a port is given as a number and there is no such Service, 503 if there is no such port or no endpoint.
#[doc(alias = "RandomEndpoint")]
pub(super) async fn endpoint(
    asked: NodeRequest<'_>,
    wanted: &ProxyName<'_>,
) -> Result<(IpAddr, u16), Status> {
    let mut port = wanted.port.to_owned();
    if let Ok(number) = port.parse::<i64>() {
        let service = asked.object("services", wanted.name).await?;
        let ports = service.at("spec").list("ports");
        let own = ports.iter().find(|own| own.int("port") == Some(number));
        let none = || format!("no service port {number} found for service {:?}", wanted.name);
        port = own.ok_or_else(|| Status::service_unavailable(none()))?.text("name").to_owned();
    }
    for candidate in candidates(&slices(asked, wanted.name), &port) {
        if is_of_pod(asked, &candidate).await {
            return Ok((candidate.address, candidate.port));
        }
    }
    let none = format!("no endpoints available for service {:?}", wanted.name);
    Err(Status::service_unavailable(none))
}

/// A ready endpoint, and the Pod that its `targetRef` names.
#[derive(Debug, PartialEq, Eq)]
struct EndpointCandidate {
    address: IpAddr,
    port: u16,
    namespace: String,
    pod: String,
}

/// The EndpointSlices of a Service.
fn slices(asked: NodeRequest<'_>, service: &str) -> Vec<Value> {
    let Some(slices) = asked.api.registry.find("discovery.k8s.io", "v1", "endpointslices") else {
        return Vec::new();
    };
    let mut filter = Filter::default();
    filter.namespace = asked.target.namespace().map(Into::into);
    let snapshot = slices.collection.snapshot();
    let all = snapshot.range(&slices.collection.walk(&filter, None));
    let own = all.into_iter().filter(|slice| slice.label("kubernetes.io/service-name") == Some(service));
    own.filter_map(|slice| Value::read(slice.stored()).ok()).collect()
}

/// The ready endpoints of a port in a random order, IPv4 first.
fn candidates(slices: &[Value], port: &str) -> Vec<EndpointCandidate> {
    let mut found: Vec<(bool, u64, EndpointCandidate)> = Vec::new();
    for slice in slices {
        let other_family = slice.text("addressType") != "IPv4";
        let own = slice.list("ports").iter().filter(|own| own.text("name") == port);
        let numbers = own.filter_map(|own| own.int("port").and_then(|number| u16::try_from(number).ok()));
        for number in numbers {
            let ready = |endpoint: &&Value| endpoint.at("conditions").at("ready").as_bool() != Some(false);
            let ready = slice.list("endpoints").iter().filter(ready);
            let of_pods = ready.filter_map(|endpoint| candidate(endpoint, number));
            found.extend(of_pods.map(|candidate| (other_family, rand::random(), candidate)));
        }
    }
    found.sort_by_key(|(other_family, order, _)| (*other_family, *order));
    found.into_iter().map(|(_, _, candidate)| candidate).collect()
}

fn candidate(endpoint: &Value, port: u16) -> Option<EndpointCandidate> {
    let address = endpoint.list("addresses").first()?.as_str()?.parse().ok()?;
    let target = endpoint.get("targetRef")?;
    let (namespace, pod) = (target.text("namespace").to_owned(), target.text("name").to_owned());
    Some(EndpointCandidate { address, port, namespace, pod })
}

/// Returns true if the Pod of an endpoint has its address.
#[doc(alias = "isValidAddress")]
async fn is_of_pod(asked: NodeRequest<'_>, candidate: &EndpointCandidate) -> bool {
    if Some(candidate.namespace.as_str()) != asked.target.namespace() {
        return false;
    }
    let Ok(pod) = asked.object("pods", &candidate.pod).await else { return false };
    let addresses = pod.at("status").list("podIPs");
    addresses.iter().any(|own| own.text("ip").parse() == Ok(candidate.address))
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    #[test]
    fn ready_endpoints_of_the_port_are_candidates() {
        let endpoint = |address: &str, ready: Value| {
            json!({"addresses": [address], "conditions": {"ready": ready},
                "targetRef": {"kind": "Pod", "namespace": "n", "name": address}})
        };
        let slices = [
            json!({"addressType": "IPv6", "ports": [{"name": "web", "port": 81}],
                "endpoints": [endpoint("2001:db8::1", json!(true))]}),
            json!({"addressType": "IPv4", "ports": [{"name": "web", "port": 80}, {"name": "other", "port": 9}],
                "endpoints": [endpoint("10.0.0.1", json!(false)), endpoint("10.0.0.2", Value::Null),
                    {"addresses": ["10.0.0.3"]}]}),
        ];
        let found: Vec<(String, u16)> =
            candidates(&slices, "web").into_iter().map(|candidate| (candidate.pod, candidate.port)).collect();
        assert_eq!(found, [("10.0.0.2".to_owned(), 80), ("2001:db8::1".to_owned(), 81)]);
        assert!(candidates(&slices, "").is_empty());
    }

    #[test]
    fn endpoints_take_turns() {
        let endpoints: Vec<Value> = (1..=3)
            .map(|n| json!({"addresses": [format!("10.0.0.{n}")], "targetRef": {"name": "p", "namespace": "n"}}))
            .collect();
        let slice =
            json!({"addressType": "IPv4", "ports": [{"name": "", "port": 80}], "endpoints": endpoints});
        let first = || candidates(std::slice::from_ref(&slice), "").remove(0).address;
        let seen: std::collections::BTreeSet<IpAddr> = (0..200).map(|_| first()).collect();
        assert_eq!(seen.len(), 3);
    }
}
