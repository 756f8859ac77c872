//! Addresses and node ports of Services.
//!
//! The values in use are read from the Services and claims in the cache ([`super::taken`]), and from the writes in
//! progress ([`super::reservation`]). Values that the cache does not show yet, or that another server allocates at the
//! same time, conflict when the Service is committed with its claims ([`super::claims`]); then another value is chosen.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr};

use listwatch_kinds::prepare;
use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::{Value, json};
use listwatch_wire::status::FieldError;

use crate::allocate::claims::ClaimedValue;
use crate::allocate::reservation::Reservation;
use crate::allocate::taken::{TakenByServices, node_ports};
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
/// The default of `--service-node-port-range` in kube-apiserver.
const NODE_PORTS: std::ops::RangeInclusive<i64> = 30_000..=32_767;
/// The node ports after those left for people to choose: a thirty-second of the range, at most 128, as in kube-apiserver.
const DYNAMIC_NODE_PORTS: std::ops::RangeInclusive<i64> = 30_086..=32_767;
/// Random tries before the range is searched in order.
/// With half of the range taken, one in 65,536 allocations gets to the search.
const TRIES: usize = 16;

/// Offset zero is the network itself and is never given.
fn nth_address(offset: u32) -> ClaimedValue {
    ClaimedValue::Address(IpAddr::V4(Ipv4Addr::from(u32::from(RANGE).wrapping_add(offset))))
}

/// True if the server allocates such addresses, and so must claim them.
fn in_range(address: IpAddr) -> bool {
    let IpAddr::V4(address) = address else { return false };
    u32::from(address)
        .checked_sub(u32::from(RANGE))
        .is_some_and(|offset| 0 < offset && offset < RANGE_SIZE - 1)
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
    let own_address = old.at("spec").text("clusterIP");
    if let Some(wanted) = needs.wanted.as_ref().filter(|wanted| own_address != *wanted) {
        check_wanted_address(reservation, &taken, target, wanted)?;
    }
    let own: HashSet<i64> = node_ports(old).collect();
    let ports = if old.is_null() {
        first_ports(reservation, &taken, service.at("spec"), &needs.ports)?
    } else {
        further_ports(reservation, &taken, service.at("spec"), &needs.ports, &own)?
    };
    let health = health_port(reservation, &taken, target, needs.health, &own)?;
    if let Some(spec) = service.get_mut("spec") {
        prepare::assign_service(spec, address.as_deref(), &ports);
        if let Some(port) = health {
            spec.put("healthCheckNodePort", port);
        }
    }
    Ok(())
}

/// Returns the health check node port to write. Zero requests any port; a port that the client chose is only checked.
fn health_port(
    reservation: &Reservation<'_>,
    taken: &TakenByServices<'_>,
    target: &Target<'_>,
    wanted: Option<i64>,
    own: &HashSet<i64>,
) -> Result<Option<i64>, Status> {
    match wanted {
        Some(0) => free_port(reservation, taken, target).map(Some),
        Some(wanted) if !own.contains(&wanted) => {
            check_wanted_port(reservation, taken, target, "spec.healthCheckNodePort", wanted)?;
            Ok(None)
        }
        _ => Ok(None),
    }
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
        let check = |wanted| check_wanted_port(reservation, taken, taken.target, &path, wanted);
        let own = match shared.get(&number).copied() {
            Some(shared) if given(port).is_none_or(|given| given == shared) => shared,
            Some(_) => {
                check(given(port).unwrap_or_default())?;
                continue;
            }
            None => {
                let mut same = spec.list("ports").iter().filter(|other| other.int("port") == Some(number));
                match same.find_map(given) {
                    Some(wanted) => check(wanted).map(|()| wanted)?,
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
    /// The fields by which addresses and ports are allocated. An update that changes none of them allocates nothing.
    const DECIDING: [&str; 5] =
        ["type", "clusterIPs", "ports", "externalTrafficPolicy", "allocateLoadBalancerNodePorts"];
    reservation.start_over();
    let (now, before) = (new.at("spec"), old.at("spec"));
    if DECIDING.iter().all(|key| now.at(key) == before.at(key)) {
        return Ok(());
    }
    // Validation refuses a clusterIP that differs from the stored one.
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
    // Validation refuses text that is not an address, and addresses of a family without a range.
    let Ok(address @ IpAddr::V4(_)) = wanted.parse::<IpAddr>() else { return Ok(()) };
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
