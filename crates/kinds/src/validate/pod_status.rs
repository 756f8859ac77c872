//! Validation of a Pod's status, as kubelets and the scheduler write it.
//!
//! The new status is compared with the stored one: a terminated container may not run again unless its restart policy
//! or one of its restart rules says so, and there is at most one address per IP family. Addresses that were stored
//! before are accepted again, so that an old object stays writable. The spec is the stored one and was validated when
//! it was written.

use std::net::IpAddr;

use listwatch_wire::json::Value;

use crate::field::{Errors, Path};
use crate::names::IP_ADDRESS;
use crate::rules::{At, Check};
use crate::tree::Tree;

const ONE_EACH: &str = "may specify no more than one IP for each IP family";

pub(super) const CHECKS: &[(&str, Check)] = checks![status_moves_on];

/// Containers that have ended stay so, and addresses are of two families.
fn status_moves_on(at: &At<'_>, errors: &mut Errors) {
    let Some(old) = at.old else { return };
    let path = Path::root("status");
    let (now, was, spec) = (at.value, old, at.top.at("spec"));
    for (list, containers) in
        [("containerStatuses", "containers"), ("initContainerStatuses", "initContainers")]
    {
        ended_stay_ended(now, was, spec, [list, containers], &path.child(list), errors);
    }
    addresses(now, was, "podIPs", &path.child("podIPs"), errors);
    host_addresses(now, was, &path.child("hostIPs"), errors);
}

/// A container that has ended and is not started again does not run any more.
fn ended_stay_ended(
    now: &Value,
    was: &Value,
    spec: &Value,
    [list, containers]: [&str; 2],
    path: &Path<'_>,
    errors: &mut Errors,
) {
    for (index, before) in was.list(list).iter().enumerate() {
        let ended = before.at("state").at("terminated");
        let name = before.text("name");
        let after = now.list(list).iter().find(|status| status.text("name") == name);
        let runs_again = after.is_some_and(|after| !after.at("state").has("terminated"));
        if ended.is_null() || !runs_again {
            continue;
        }
        let container = spec.list(containers).iter().find(|container| container.text("name") == name);
        if !container.is_some_and(|container| starts_again(container, spec, ended)) {
            let detail = "may not be transitioned to non-terminated state";
            errors.forbidden(&path.index(index).child("state"), detail);
        }
    }
}

/// A rule for the exit code comes before the container's own policy, and that before the Pod's.
fn starts_again(container: &Value, spec: &Value, ended: &Value) -> bool {
    let own = container.text("restartPolicy");
    let code = ended.int("exitCode").unwrap_or(0);
    let by_rule = container.list("restartPolicyRules").iter().any(|rule| {
        let (operator, values) = (rule.at("exitCodes").text("operator"), rule.at("exitCodes").list("values"));
        let listed = values.iter().any(|value| value.as_i64() == Some(code));
        (operator == "In" && listed) || (operator == "NotIn" && !listed)
    });
    by_rule
        || match if own.is_empty() { spec.text("restartPolicy") } else { own } {
            "Never" => false,
            "OnFailure" => code != 0,
            _ => true,
        }
}

/// At most two, one per family. An address that cannot be parsed passes if it was stored before.
fn addresses(now: &Value, was: &Value, key: &str, path: &Path<'_>, errors: &mut Errors) {
    let known = was.list(key);
    let mut parsed = Vec::new();
    for (index, entry) in now.list(key).iter().enumerate() {
        let address = entry.text("ip");
        match address.parse::<IpAddr>() {
            Ok(address) => parsed.push(address),
            Err(_) if known.iter().any(|entry| entry.text("ip") == address) => {}
            Err(_) => errors.invalid(&path.index(index), address, IP_ADDRESS),
        }
    }
    let count = now.count(key);
    let both = matches!(parsed.as_slice(), [first, second] if first.is_ipv4() != second.is_ipv4());
    if count > 1 && parsed.len() < count {
        errors.internal(path, "failed to check for dual stack");
    }
    if count > 1 && !(both && count == 2) {
        errors.invalid(path, now.at(key).clone(), ONE_EACH);
    }
}

/// The older field must equal the first of the list, since clients read either.
fn host_addresses(now: &Value, was: &Value, path: &Path<'_>, errors: &mut Errors) {
    let Some(first) = now.list("hostIPs").first() else { return };
    if now.text("hostIP") != first.text("ip") {
        let given = first.text("ip").to_owned();
        errors.invalid(&path.index(0).child("ip"), given, "must be equal to `hostIP`");
    }
    addresses(now, was, "hostIPs", path, errors);
}
