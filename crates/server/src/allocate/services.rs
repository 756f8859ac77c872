//! Addresses and node ports of Services.
//!
//! The ones in use are read from the Services and claims in the cache, and from [`Allocator`], which knows what writes that are
//! under way were given. What the cache does not show yet, or another server gives out at the same moment, is found out when the
//! Service is committed with its claims ([`super::claims`]); then something else is chosen.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use listwatch_kinds::prepare;
use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::{Value, json};
use listwatch_wire::status::FieldError;
use parking_lot::Mutex;

use crate::allocate::claims::{ClaimedValue, ServiceClaims};
use crate::allocate::ranges::AddedRanges;
use crate::cache::{Collection, Object, Snapshot};
use crate::registry::target::Target;

/// The first address of the service range, a /16 that begins like kube-apiserver's default range.
const RANGE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 0);
/// Addresses in the range; the first and last are not used, the one after the first is `default/kubernetes`.
const RANGE_SIZE: u32 = 1 << 16;
/// The service range as the bootstrap ServiceCIDR has it.
pub(crate) const RANGE_CIDR: &str = "10.0.0.0/16";
/// The cluster IP of `default/kubernetes`: the first usable address of the range, as in kube-apiserver. Serving
/// certificates name it.
pub(crate) const KUBERNETES_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
/// Addresses at the start of the range that are given out only when all others are taken, so that people can choose
/// among them: a sixteenth of the range, at most 256, as in kube-apiserver.
const STATIC_ADDRESSES: u32 = 256;
const NODE_PORTS: std::ops::RangeInclusive<i64> = 30_000..=32_767;
/// The node ports after those left for people to choose: a thirty-second of the range, at most 128, as in kube-apiserver.
const DYNAMIC_NODE_PORTS: std::ops::RangeInclusive<i64> = 30_086..=32_767;
/// Random tries before the range is searched in order.
/// With half of the range taken, one in 65,536 allocations gets to the search.
const TRIES: usize = 16;

/// The addresses and ports given to writes that are under way.
#[doc(alias = "ipallocator")]
#[doc(alias = "portallocator")]
#[derive(Debug)]
pub(crate) struct Allocator {
    pub(crate) claims: ServiceClaims,
    added: AddedRanges,
    /// Values reserved by writes under way on this server. Those of other servers show at the commit.
    given: Mutex<HashSet<ClaimedValue>>,
}

impl Allocator {
    /// An allocator without values under way. It holds no table of used values: those are in the cache.
    pub(crate) fn new(claims: ServiceClaims, added: AddedRanges) -> Self {
        Self { claims, added, given: Mutex::default() }
    }

    /// Reserves the first free candidate. Other writes do not get it until it is given back.
    ///
    /// The lock is held for the whole search, which makes the choice and the reservation one step. A full range is
    /// the worst case: every address of it is looked up once.
    ///
    /// The first candidate that is neither stored nor taken by a write that is under way.
    fn take(
        &self,
        taken: impl Fn(&ClaimedValue) -> bool,
        candidates: impl IntoIterator<Item = ClaimedValue>,
    ) -> Option<ClaimedValue> {
        let mut given = self.given.lock();
        let free = candidates.into_iter().find(|claimed| !given.contains(claimed) && !taken(claimed))?;
        given.insert(free);
        Some(free)
    }

    /// Makes a value available again, after the write that took it has failed or is in the cache.
    fn give_back(&self, claimed: ClaimedValue) {
        self.given.lock().remove(&claimed);
    }
}

/// The addresses and ports reserved for one write. Dropping it gives them back: by then they are claimed by the
/// committed Service, or free.
#[derive(Debug)]
pub(crate) struct Reservation<'a> {
    allocator: &'a Allocator,
    claimed: Mutex<Vec<ClaimedValue>>,
}

impl<'a> Reservation<'a> {
    /// An empty reservation for one write.
    pub(crate) fn new(allocator: &'a Allocator) -> Self {
        Self { allocator, claimed: Mutex::default() }
    }

    fn take(
        &self,
        taken: impl Fn(&ClaimedValue) -> bool,
        candidates: impl IntoIterator<Item = ClaimedValue>,
    ) -> Option<ClaimedValue> {
        let claimed = self.allocator.take(taken, candidates)?;
        self.claimed.lock().push(claimed);
        Some(claimed)
    }

    /// Gives back what an earlier attempt of the same write reserved.
    fn start_over(&self) {
        let claimed = std::mem::take(&mut *self.claimed.lock());
        claimed.into_iter().for_each(|claimed| self.allocator.give_back(claimed));
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.start_over();
    }
}

/// The addresses and ports of the stored Services, apart from one of them.
struct TakenByServices<'a> {
    claims: &'a ServiceClaims,
    target: &'a Target<'a>,
    collection: &'a Collection,
    /// One state of the cache for the whole allocation.
    snapshot: Arc<Snapshot>,
    /// Filled only for a Service that needs ports.
    ports: HashSet<i64>,
}

impl<'a> TakenByServices<'a> {
    fn new(claims: &'a ServiceClaims, target: &'a Target<'a>) -> Self {
        let collection = &*target.resource.collection;
        let snapshot = collection.snapshot();
        Self { claims, target, collection, snapshot, ports: HashSet::new() }
    }

    /// Reads the ports of the types that have some: Services with node ports are as few as node ports.
    fn with_ports(mut self) -> Self {
        for kind in ["NodePort", "LoadBalancer"] {
            let read = self.others("spec.type", kind).filter_map(|other| Value::read(other.stored()).ok());
            let ports: Vec<i64> = read.flat_map(|service| node_ports(&service).collect::<Vec<_>>()).collect();
            self.ports.extend(ports);
        }
        self
    }

    /// True if another Service has the value, by the index of the watch cache or by its node ports.
    fn has(&self, claimed: &ClaimedValue) -> bool {
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

/// Offset zero is the network itself and is never given.
fn nth_address(offset: u32) -> ClaimedValue {
    ClaimedValue::Address(IpAddr::V4(Ipv4Addr::from(u32::from(RANGE).wrapping_add(offset))))
}

/// True if the server allocates such addresses, and so must claim them.
fn in_range(address: IpAddr) -> bool {
    let IpAddr::V4(address) = address else { return false };
    u32::from(address).checked_sub(u32::from(RANGE)).is_some_and(|offset| offset < RANGE_SIZE)
}

/// Chooses the cluster IP and node ports of a new Service. What an earlier attempt of the same write reserved is
/// given back first.
///
/// # Errors
/// 422 for a wanted value that is taken or out of range, 500 if a range is full.
pub(crate) fn allocate(
    reservation: &Reservation<'_>,
    target: &Target<'_>,
    service: &mut Value,
) -> Result<(), Status> {
    reservation.start_over();
    assign(reservation, target, service, &Value::Null)
}

/// Chooses addresses and ports for a Service. Values that it had before, in `old`, are kept even if the cache has not
/// seen them yet.
///
/// # Errors
///
/// As for [`allocate`].
fn assign(
    reservation: &Reservation<'_>,
    target: &Target<'_>,
    service: &mut Value,
    old: &Value,
) -> Result<(), Status> {
    let needs = prepare::service_needs(service.at("spec"));
    let fixed = needs.wanted.is_some() || !needs.wanted_ports.is_empty();
    if !needs.address && needs.ports.is_empty() && !fixed && needs.health.is_none() {
        if let Some(spec) = service.get_mut("spec") {
            prepare::assign_service(spec, None, &[]);
        }
        return Ok(());
    }
    let mut taken = TakenByServices::new(&reservation.allocator.claims, target);
    if !needs.ports.is_empty() || !needs.wanted_ports.is_empty() || needs.health.is_some() {
        taken = taken.with_ports();
    }
    let address = if needs.address { Some(free_address(reservation, &taken, target)?) } else { None };
    if let Some(wanted) = &needs.wanted {
        let own = old.at("spec").text("clusterIP") == wanted;
        if !own {
            check_wanted_address(reservation, &taken, target, wanted)?;
        }
    }
    let own: HashSet<i64> = node_ports(old).collect();
    let ports = if old.is_null() {
        first_ports(reservation, &taken, service.at("spec"), &needs.ports)?
    } else {
        further_ports(reservation, &taken, service.at("spec"), &needs.ports, &own)?
    };
    let health = match needs.health {
        Some(0) => Some(free_port(reservation, &taken, target)?),
        Some(wanted) if !own.contains(&wanted) => {
            check_wanted_port(reservation, &taken, target, "spec.healthCheckNodePort", wanted)?;
            None
        }
        _ => None,
    };
    if let Some(spec) = service.get_mut("spec") {
        prepare::assign_service(spec, address.as_deref(), &ports);
        if let Some(port) = health {
            spec.put("healthCheckNodePort", port);
        }
    }
    Ok(())
}

/// The node ports of a new Service, by their place among its ports.
///
/// Ports with the same number share one, as those of a name server do over TCP and UDP.
fn first_ports(
    reservation: &Reservation<'_>,
    taken: &TakenByServices<'_>,
    spec: &Value,
    open: &[usize],
) -> Result<Vec<(usize, i64)>, Status> {
    let given = |port: &Value| port.int("nodePort").filter(|port| *port != 0);
    let (mut chosen, mut shared) = (Vec::new(), HashMap::new());
    for (index, port) in spec.list("ports").iter().enumerate() {
        if given(port).is_none() && !open.contains(&index) {
            continue;
        }
        let path = format!("spec.ports[{index}].nodePort");
        let number = port.int("port").unwrap_or_default();
        let own = match shared.get(&number).copied() {
            Some(shared) if given(port).is_none_or(|given| given == shared) => shared,
            Some(_) => {
                let wanted = given(port).unwrap_or_default();
                check_wanted_port(reservation, taken, taken.target, &path, wanted)?;
                continue;
            }
            None => {
                let mut same = spec.list("ports").iter().filter(|other| other.int("port") == Some(number));
                match same.find_map(given) {
                    Some(wanted) => {
                        check_wanted_port(reservation, taken, taken.target, &path, wanted)?;
                        wanted
                    }
                    None => free_port(reservation, taken, taken.target)?,
                }
            }
        };
        shared.insert(number, own);
        if given(port).is_none() {
            chosen.push((index, own));
        }
    }
    Ok(chosen)
}

/// The node ports that a changed Service needs besides its own.
fn further_ports(
    reservation: &Reservation<'_>,
    taken: &TakenByServices<'_>,
    spec: &Value,
    open: &[usize],
    own: &HashSet<i64>,
) -> Result<Vec<(usize, i64)>, Status> {
    let mut reserved = HashSet::new();
    for (index, port) in spec.list("ports").iter().enumerate() {
        let wanted = port.int("nodePort").filter(|port| *port != 0 && !own.contains(port));
        if let Some(wanted) = wanted.filter(|wanted| reserved.insert(*wanted)) {
            let path = format!("spec.ports[{index}].nodePort");
            check_wanted_port(reservation, taken, taken.target, &path, wanted)?;
        }
    }
    open.iter().map(|index| Ok((*index, free_port(reservation, taken, taken.target)?))).collect()
}

/// Chooses what an updated Service additionally needs; it keeps what it has. A change that does not touch addresses
/// or ports costs a comparison.
///
/// # Errors
/// As for [`allocate`].
pub(crate) fn reallocate(
    reservation: &Reservation<'_>,
    target: &Target<'_>,
    new: &mut Value,
    old: &Value,
) -> Result<(), Status> {
    const DECIDING: [&str; 5] =
        ["type", "clusterIPs", "ports", "externalTrafficPolicy", "allocateLoadBalancerNodePorts"];
    reservation.start_over();
    let (now, before) = (new.at("spec"), old.at("spec"));
    if DECIDING.iter().all(|key| now.at(key) == before.at(key)) {
        return Ok(());
    }
    // An address that differs from the stored one is for validation to refuse.
    let moved = before.has("clusterIP") && now.at("clusterIP") != before.at("clusterIP");
    if now.text("type") != "ExternalName" && !moved {
        assign(reservation, target, new, old)?;
    }
    Ok(())
}

/// Reserves a random free address, so that one is not reused soon after its Service was deleted; if several tries
/// fail, the first free one in order. [`STATIC_ADDRESSES`] come last.
///
/// # Errors
/// 500 if the range is full.
fn free_address(
    reservation: &Reservation<'_>,
    taken: &TakenByServices<'_>,
    target: &Target<'_>,
) -> Result<String, Status> {
    let random = (0..TRIES).map(|_| nth_address(rand::random_range(STATIC_ADDRESSES..RANGE_SIZE - 1)));
    let in_order = (STATIC_ADDRESSES..RANGE_SIZE - 1).chain(2..STATIC_ADDRESSES).map(nth_address);
    let elsewhere = reservation.allocator.added.addresses().map(ClaimedValue::Address);
    match reservation.take(|claimed| taken.has(claimed), random.chain(in_order).chain(elsewhere)) {
        Some(ClaimedValue::Address(address)) => Ok(address.to_string()),
        _ => Err(Status::internal(format!(
            "failed to allocate a serviceIP for {}: range is full",
            target.name
        ))),
    }
}

/// Reserves a random free node port of [`DYNAMIC_NODE_PORTS`]; when those are taken, any other.
///
/// # Errors
/// 500 if the range is full.
fn free_port(
    reservation: &Reservation<'_>,
    taken: &TakenByServices<'_>,
    target: &Target<'_>,
) -> Result<i64, Status> {
    let random = (0..TRIES).map(|_| rand::random_range(DYNAMIC_NODE_PORTS));
    let candidates = random.chain(DYNAMIC_NODE_PORTS).chain(NODE_PORTS).map(ClaimedValue::Port);
    match reservation.take(|claimed| taken.has(claimed), candidates) {
        Some(ClaimedValue::Port(port)) => Ok(port),
        _ => {
            Err(Status::internal(format!("failed to allocate a nodePort for {}: range is full", target.name)))
        }
    }
}

/// Reserves the address that the user asks for.
///
/// # Errors
/// 422 if it is outside of the range or taken.
fn check_wanted_address(
    reservation: &Reservation<'_>,
    taken: &TakenByServices<'_>,
    target: &Target<'_>,
    wanted: &str,
) -> Result<(), Status> {
    // What is no address at all is left to validation.
    let Ok(address) = wanted.parse::<IpAddr>() else { return Ok(()) };
    let added = &reservation.allocator.added;
    if !in_range(address) && !added.has(address) {
        let detail = format!(
            "failed to allocate IP {wanted}: the provided IP ({wanted}) is not in the valid range. The range of valid IPs is {}",
            added.texts().join(",")
        );
        return Err(target.invalid(&[FieldError::invalid("spec.clusterIPs", json!([wanted]), detail)]));
    }
    if reservation.take(|claimed| taken.has(claimed), [ClaimedValue::Address(address)]).is_some() {
        return Ok(());
    }
    let detail = format!("failed to allocate IP {wanted}: provided IP is already allocated");
    Err(target.invalid(&[FieldError::invalid("spec.clusterIPs", json!([wanted]), detail)]))
}

/// Reserves the node port that the user asks for. `path` is its field, for the error.
///
/// # Errors
/// 422 if it is outside of the range or taken.
fn check_wanted_port(
    reservation: &Reservation<'_>,
    taken: &TakenByServices<'_>,
    target: &Target<'_>,
    path: &str,
    port: i64,
) -> Result<(), Status> {
    if !NODE_PORTS.contains(&port) {
        let detail = format!(
            "provided port is not in the valid range. The range of valid ports is {}-{}",
            NODE_PORTS.start(),
            NODE_PORTS.end()
        );
        return Err(target.invalid(&[FieldError::invalid(path, port, detail)]));
    }
    if reservation.take(|claimed| taken.has(claimed), [ClaimedValue::Port(port)]).is_some() {
        return Ok(());
    }
    Err(target.invalid(&[FieldError::invalid(path, port, "provided port is already allocated")]))
}

#[cfg(test)]
mod tests {
    use listwatch_storage::MemoryEngine;

    use super::*;
    use crate::cache::Cache;

    fn allocator() -> Allocator {
        let cache = Cache::new(Arc::new(MemoryEngine::default()), crate::CacheLimits::default());
        Allocator::new(ServiceClaims::new(&cache), AddedRanges::new(&cache))
    }

    #[test]
    fn nothing_is_handed_out_twice() {
        let allocator = allocator();
        let candidates = || (0..3).map(nth_address);
        let taken = |claimed: &ClaimedValue| *claimed == nth_address(0);
        assert_eq!(allocator.take(taken, candidates()), Some(nth_address(1)));
        assert_eq!(allocator.take(taken, candidates()), Some(nth_address(2)));
        assert_eq!(allocator.take(taken, candidates()), None);
        allocator.give_back(nth_address(1));
        assert_eq!(allocator.take(taken, candidates()), Some(nth_address(1)));
    }
}
