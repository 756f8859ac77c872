//! Claims: one key of the store for each address and node port that a Service has.
//!
//! A claim is written in the transaction that writes its Service, under the condition that it does not exist, and deleted
//! in the transaction that deletes the Service. So no two Services have the same address or port, on any number of
//! servers, and nothing has to be cleaned up after a crash. The claim of an address is its IPAddress object, as in
//! kube-apiserver; that of a node port is a key outside of all resources, where kube-apiserver has one bitmap for all.
//!
//! Values are chosen in [`super::services`], from the cache; a claim only detects a conflict.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use listwatch_kinds::tree::Tree;
use listwatch_storage::{Engine, Error, Expect, Write};
use listwatch_wire::json;
use listwatch_wire::json::{Value, json, raw};

use super::taken::node_ports;
use crate::cache::{Cache, Collection};
use crate::registry::Resource;
use crate::registry::target::Target;

/// A value that at most one Service may have: a cluster IP or a node port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum ClaimedValue {
    Address(IpAddr),
    Port(i64),
}

/// The claims that the cache shows.
/// Read for a decision, never written: the cache follows what transactions have committed.
#[derive(Debug)]
pub(crate) struct ServiceClaims {
    addresses: Arc<Collection>,
    ports: Arc<Collection>,
}

impl ServiceClaims {
    /// Follows the collections that claims are in: IPAddresses, and the keys of node ports that no resource shows.
    pub(crate) fn new(cache: &Cache) -> Self {
        let collection = |name| cache.collection(name, &[]);
        Self { addresses: collection("ipaddresses.networking.k8s.io"), ports: collection("ranges") }
    }

    /// Returns true if another Service has a claim on it.
    ///
    /// A lookup in the snapshot. The cache may be behind; the commit finds that out.
    pub(super) fn has(&self, claimed: &ClaimedValue, target: &Target<'_>) -> bool {
        let (key, collection) = (self.key(claimed), self.collection(claimed));
        collection.snapshot().get(&key).is_some_and(|claim| !is_of(claim.stored(), target))
    }

    /// Addresses and ports are claimed in collections of their own.
    fn collection(&self, claimed: &ClaimedValue) -> &Collection {
        match claimed {
            ClaimedValue::Address(_) => &self.addresses,
            ClaimedValue::Port(_) => &self.ports,
        }
    }

    /// The storage key whose existence is the claim.
    fn key(&self, claimed: &ClaimedValue) -> Arc<str> {
        match claimed {
            ClaimedValue::Address(address) => self.addresses.key(None, &address.to_string()),
            ClaimedValue::Port(port) => self.ports.key(Some("servicenodeports"), &port.to_string()),
        }
    }

    /// Returns the writes that must be committed with the change of an object. Only Services have any.
    ///
    /// Proportional to the addresses and ports that change, so an update of anything else adds nothing to its
    /// transaction.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub(crate) async fn writes(
        &self,
        engine: &dyn Engine,
        target: &Target<'_>,
        before: Option<&Value>,
        after: Option<&Value>,
    ) -> Result<Vec<Write>, Error> {
        if !is_service(target.resource) {
            return Ok(Vec::new());
        }
        let (had, has) = (held(before), held(after));
        let mut writes = Vec::new();
        for claimed in has.difference(&had) {
            writes.push(self.take(claimed, target));
        }
        for claimed in had.difference(&has) {
            let key = self.key(claimed);
            // The store is read, because the cache may not have the claim yet, and it would not be found later.
            let found = engine.get(&key, None).await?.filter(|found| is_of(&found.value, target));
            writes.extend(found.map(|found| Write {
                key,
                value: None,
                expect: Expect::At(found.revision),
                origin: None,
            }));
        }
        Ok(writes)
    }

    /// A claim that the Service of that name left behind is taken over.
    fn take(&self, claimed: &ClaimedValue, target: &Target<'_>) -> Write {
        let key = self.key(claimed);
        let snapshot = self.collection(claimed).snapshot();
        let own = snapshot.get(&key).filter(|claim| is_of(claim.stored(), target));
        let expect = own.map_or(Expect::Absent, |claim| Expect::At(claim.revision()));
        Write { key, value: Some(claim(claimed, target)), expect, origin: None }
    }
}

/// Claims are committed with Services only.
fn is_service(resource: &Resource) -> bool {
    (&*resource.group, &*resource.kind) == ("", "Service")
}

/// The addresses and node ports of a Service, in order.
/// A headless Service, whose `clusterIP` is `None`, has no address: the text does not parse.
fn held(service: Option<&Value>) -> BTreeSet<ClaimedValue> {
    let Some(service) = service else { return BTreeSet::new() };
    let spec = service.at("spec");
    let listed = spec.list("clusterIPs").iter().filter_map(Value::as_str);
    let addresses = listed.chain([spec.text("clusterIP")]).filter_map(|text| text.parse().ok());
    addresses.map(ClaimedValue::Address).chain(node_ports(service).map(ClaimedValue::Port)).collect()
}

/// Returns true if a claim names this Service.
fn is_of(claim: &[u8], target: &Target<'_>) -> bool {
    let field = |name| raw::lookup(claim, &["spec", "parentRef", name]).and_then(raw::scalar);
    field("resource") == Some("services")
        && field("namespace") == target.namespace
        && field("name") == Some(target.name)
}

/// The stored claim: an IPAddress as kube-apiserver writes it, or the record of a node port, which only this server
/// reads.
fn claim(claimed: &ClaimedValue, target: &Target<'_>) -> Bytes {
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let parent = json!({"resource": "services", "namespace": target.namespace.unwrap_or_default(), "name": target.name});
    let uid = uuid::Uuid::new_v4().to_string();
    let object = match claimed {
        ClaimedValue::Address(address) => json!({
            "kind": "IPAddress", "apiVersion": "networking.k8s.io/v1",
            "metadata": {
                "name": address.to_string(), "uid": uid, "creationTimestamp": now.as_str(),
                "labels": {
                    "ipaddress.kubernetes.io/ip-family": if address.is_ipv4() { "IPv4" } else { "IPv6" },
                    "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
                },
                "managedFields": [{
                    "manager": "kube-apiserver", "operation": "Update", "apiVersion": "networking.k8s.io/v1",
                    "time": now.as_str(), "fieldsType": "FieldsV1", "fieldsV1": {
                        "f:metadata": {"f:labels": {
                            ".": {}, "f:ipaddress.kubernetes.io/ip-family": {}, "f:ipaddress.kubernetes.io/managed-by": {},
                        }},
                        "f:spec": {"f:parentRef": {".": {}, "f:name": {}, "f:namespace": {}, "f:resource": {}}},
                    },
                }],
            },
            "spec": {"parentRef": parent},
        }),
        ClaimedValue::Port(port) => json!({
            "kind": "RangeAllocation", "apiVersion": "v1",
            "metadata": {"name": port.to_string(), "uid": uid, "creationTimestamp": now.as_str()},
            "spec": {"parentRef": parent},
        }),
    };
    json::encode_stored(&object).into()
}
