//! [`TakenByServices`]: the addresses and ports that stored Services have, read from the watch cache.
//!
//! Addresses are looked up by an index, one by one. Node ports have none: the few Services that have some are read when a port
//! is needed.

use std::collections::HashSet;
use std::sync::Arc;

use listwatch_kinds::tree::Tree;
use listwatch_wire::json::Value;

use crate::allocate::claims::{ClaimedValue, ServiceClaims};
use crate::cache::{Collection, Object, Snapshot};
use crate::registry::target::Target;

/// The addresses and ports of the stored Services, apart from one of them.
pub(super) struct TakenByServices<'a> {
    claims: &'a ServiceClaims,
    pub(super) target: &'a Target<'a>,
    collection: &'a Collection,
    /// One state of the cache for the whole allocation.
    snapshot: Arc<Snapshot>,
    /// Filled only for a Service that needs ports.
    ports: HashSet<i64>,
}

impl<'a> TakenByServices<'a> {
    /// Sees one snapshot for a whole allocation, so that it cannot give out an address twice.
    pub(super) fn new(claims: &'a ServiceClaims, target: &'a Target<'a>) -> Self {
        let collection = &*target.resource.collection;
        let snapshot = collection.snapshot();
        Self { claims, target, collection, snapshot, ports: HashSet::new() }
    }

    /// Reads the ports of the types that have some: Services with node ports are as few as node ports.
    pub(super) fn with_ports(mut self) -> Self {
        for kind in ["NodePort", "LoadBalancer"] {
            let read = self.others("spec.type", kind).filter_map(|other| Value::read(other.stored()).ok());
            let ports: Vec<i64> = read.flat_map(|service| node_ports(&service).collect::<Vec<_>>()).collect();
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
    fn others(&self, field: &str, value: &str) -> impl Iterator<Item = &Arc<Object>> {
        let walk = self.collection.walk_indexed(field, value);
        self.snapshot.range(&walk).filter(|object| *object.key() != self.target.key)
    }
}

/// All ports of nodes that a Service has, the one for its health included.
pub(super) fn node_ports(service: &Value) -> impl Iterator<Item = i64> {
    let spec = service.at("spec");
    let ports = spec.list("ports").iter().filter_map(|port| port.int("nodePort"));
    ports.chain(spec.int("healthCheckNodePort")).filter(|port| *port != 0)
}
