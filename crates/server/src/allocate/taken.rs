//! [`TakenByServices`]: the addresses and ports that stored Services have, read from the watch cache.
//!
//! Addresses are looked up by an index, one by one. Node ports have none: the Services that may have some are searched
//! for them when a port is needed, without parsing, since each may have a megabyte of other things.

use std::collections::HashSet;
use std::sync::Arc;

use listwatch_kinds::tree::Tree;
use listwatch_wire::json::Value;
use memchr::memmem;

use crate::allocate::claims::{ClaimedValue, ServiceClaims};
use crate::cache::{CachedObject, Collection, CollectionSnapshot};
use crate::registry::target::Target;

/// The addresses and ports of the stored Services, apart from one of them.
pub(super) struct TakenByServices<'a> {
    claims: &'a ServiceClaims,
    pub(super) target: &'a Target<'a>,
    collection: &'a Collection,
    /// One state of the cache for the whole allocation.
    snapshot: Arc<CollectionSnapshot>,
    /// Filled only for a Service that needs ports.
    ports: HashSet<i64>,
}

impl<'a> TakenByServices<'a> {
    /// Uses one snapshot for a whole allocation, so that it cannot allocate an address twice.
    pub(super) fn new(claims: &'a ServiceClaims, target: &'a Target<'a>) -> Self {
        let collection = &*target.resource.collection;
        let snapshot = collection.snapshot();
        Self { claims, target, collection, snapshot, ports: HashSet::new() }
    }

    /// Reads the ports of the types that have some: Services with node ports are as few as node ports.
    pub(super) fn with_ports(mut self) -> Self {
        for kind in ["NodePort", "LoadBalancer"] {
            let ports: Vec<i64> =
                self.others("spec.type", kind).flat_map(|other| stored_ports(other.stored())).collect();
            self.ports.extend(ports);
        }
        self
    }

    /// True if another Service has the value, by the index of the watch cache or by its node ports.
    pub(super) fn has(&self, claimed: &ClaimedValue) -> bool {
        let named = match claimed {
            ClaimedValue::Address(address) => {
                self.others("spec.clusterIP", &address.to_string()).next().is_some()
            }
            ClaimedValue::Port(port) => self.ports.contains(port),
        };
        named || self.claims.has(claimed, self.target)
    }

    /// Other Services with a value, by an index of the watch cache.
    fn others(&self, field: &str, value: &str) -> impl Iterator<Item = &Arc<CachedObject>> {
        let walk = self.collection.walk_indexed(field, value);
        self.snapshot.range(&walk).filter(|object| *object.key() != self.target.key)
    }
}

/// [`node_ports`] from stored bytes. A key is found by its text: within strings, quotes are escaped.
fn stored_ports(service: &[u8]) -> Vec<i64> {
    // The metadata comes first, with annotations of any name.
    let spec = memmem::find(service, br#","spec":{"#).unwrap_or_default();
    let spec = service.get(spec..).unwrap_or_default();
    let mut ports = Vec::new();
    // `nodePort` and `healthCheckNodePort`.
    for key in memmem::find_iter(spec, br#"odePort":"#) {
        let value = spec.get(key + br#"odePort":"#.len()..).unwrap_or_default();
        let digits = value.iter().take_while(|byte| byte.is_ascii_digit()).count().min(PORT_DIGITS);
        let text = std::str::from_utf8(value.get(..digits).unwrap_or_default()).unwrap_or_default();
        ports.extend(text.parse::<i64>().ok().filter(|port| *port != 0));
    }
    ports
}

/// No port has more digits.
const PORT_DIGITS: usize = 5;

/// All ports of nodes that a Service has, the one for its health included.
pub(super) fn node_ports(service: &Value) -> impl Iterator<Item = i64> {
    let spec = service.at("spec");
    let ports = spec.list("ports").iter().filter_map(|port| port.int("nodePort"));
    ports.chain(spec.int("healthCheckNodePort")).filter(|port| *port != 0)
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::{encode_stored, json};

    use super::*;

    /// Every Service of a type with node ports was parsed for each port that was needed: 240 with a quarter of a megabyte of
    /// annotations, which any editor can create, took 2.6 s of a worker.
    #[test]
    fn ports_are_found_without_parsing() {
        let service = json!({"kind": "Service", "apiVersion": "v1",
            "metadata": {"name": "a", "annotations": {"nodePort": "x", "b": "\"nodePort\":1,\"spec\":{"},
                "labels": {"healthCheckNodePort": "1"}},
            "spec": {"allocateLoadBalancerNodePorts": false, "healthCheckNodePort": 30009, "type": "LoadBalancer",
                "ports": [{"port": 80, "nodePort": 30001, "name": "\"nodePort\":7"}, {"port": 81}, {"nodePort": 0}]}});
        let mut found = stored_ports(&encode_stored(&service));
        let mut expected: Vec<i64> = node_ports(&service).collect();
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected);
        assert_eq!(found, [30001, 30009]);
        assert!(stored_ports(b"").is_empty() && stored_ports(br#","spec":{"nodePort":"#).is_empty());
    }
}
