//! Validation of a Pod's status, as kubelets and the scheduler write it.
//!
//! The new status is compared with the stored one: a terminated container may not run again unless its restart policy
//! or one of its restart rules says so, and there is at most one address per IP family. Addresses that were stored
//! before are accepted again, so that an old object stays writable. The spec is the stored one and was validated when
//! it was written.

use std::collections::HashSet;
use std::net::IpAddr;

use listwatch_wire::json::Value;

use super::each;
use crate::field::{Errors, Path};
use crate::names::IP_ADDRESS;
use crate::rules::{At, Check};
use crate::tree::Tree;

/// The lists of a status, with those of the spec that they are about.
const STATUSES: [(&str, &str); 3] = [
    ("containerStatuses", "containers"),
    ("initContainerStatuses", "initContainers"),
    ("ephemeralContainerStatuses", "ephemeralContainers"),
];
const ONE_EACH: &str = "may specify no more than one IP for each IP family";

pub(super) const CHECKS: &[(&str, Check)] = checks![status_moves_on, users_and_devices_are_known];

/// Containers that have ended stay so, and addresses are of two families.
fn status_moves_on(at: &At<'_>, errors: &mut Errors) {
    let Some(old) = at.old else { return };
    let path = Path::root("status");
    let (now, was, spec) = (at.value, old, at.top.at("spec"));
    // Ephemeral containers are never started again.
    for (list, containers) in STATUSES.into_iter().take(2) {
        ended_stay_ended(now, was, spec, [list, containers], &path, errors);
    }
    addresses(now, was, "podIPs", &path.child("podIPs"), errors);
    host_addresses(now, was, &path.child("hostIPs"), errors);
}

/// The user that a container runs as must fit its operating system, and reported devices must be requested in its spec.
fn users_and_devices_are_known(at: &At<'_>, errors: &mut Errors) {
    let (spec, path) = (at.top.at("spec"), Path::root("status"));
    for (list, containers) in STATUSES {
        each(at.value, list, &path, |status, path| {
            user(status, spec, &path.child("user"), errors);
            devices(status, named(spec.list(containers), status.text("name")), path, errors);
        });
    }
}

/// A kubelet may report any uid, and group ids in the range that a spec allows.
fn user(status: &Value, spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (linux, path) = (status.at("user").at("linux"), path.child("linux"));
    if linux.is_null() {
        return;
    }
    if spec.at("os").text("name") == "windows" {
        errors.forbidden(&path, "cannot be set for a windows pod");
        return;
    }
    let mut one = |id: i64, most: i64, path: &Path<'_>| {
        if !(0..=most).contains(&id) {
            errors.invalid(path, id, format!("must be between 0 and {most}, inclusive"));
        }
    };
    one(linux.int("uid").unwrap_or(0), i64::from(u32::MAX), &path.child("uid"));
    one(linux.int("gid").unwrap_or(0), i64::from(i32::MAX), &path.child("gid"));
    let groups = path.child("supplementalGroups");
    for (index, group) in linux.list("supplementalGroups").iter().filter_map(Value::as_i64).enumerate() {
        one(group, i64::from(i32::MAX), &groups.index(index));
    }
}

/// Health of the devices of a container. One that the Pod does not have is passed over.
fn devices(status: &Value, container: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    each(status, "allocatedResourcesStatus", path, |device, path| {
        if let Some(container) = container {
            asked_for(device.text("name"), container.at("resources"), &path.child("name"), errors);
        }
        let mut seen = HashSet::new();
        each(device, "resources", path, |one, path| {
            errors.one_of(&path.child("health"), one.text("health"), &["Healthy", "Unhealthy", "Unknown"]);
            if !seen.insert(one.text("resourceID")) {
                errors.duplicate(&path.child("resourceID"), one.text("resourceID"));
            }
        });
    });
}

/// Requires that the status names only resources or claims that the container asks for.
fn asked_for(name: &str, resources: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (known, detail) = match name.strip_prefix("claim:") {
        None => (resources.at("requests").has(name), "must match one of the container's resource requests"),
        Some(claimed) => (
            resources.list("claims").iter().any(|claim| match claim.text("request") {
                "" => claimed == claim.text("name"),
                request => claimed == format!("{}/{request}", claim.text("name")),
            }),
            "must match one of the container's resource claims as 'claim:<claimName>/<requestName>' when container.resources.claims[*].request is set or 'claim:<claimName>' when it is empty",
        ),
    };
    if !known {
        errors.invalid(path, name, detail);
    }
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
    each(was, list, path, |before, path| {
        let (ended, name) = (before.below("state.terminated"), before.text("name"));
        let runs = named(now.list(list), name).is_some_and(|after| !after.at("state").has("terminated"));
        let container = named(spec.list(containers), name);
        if !ended.is_null() && runs && !container.is_some_and(|found| starts_again(found, spec, ended)) {
            errors.forbidden(&path.child("state"), "may not be transitioned to non-terminated state");
        }
    });
}

/// The element of that name.
fn named<'a>(list: &'a [Value], name: &str) -> Option<&'a Value> {
    list.iter().find(|item| item.text("name") == name)
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

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;
    use crate::{by_kind, validate};

    fn fields(status: Value) -> Vec<String> {
        let kind = by_kind("", "v1", "Pod").unwrap();
        let requests = json!({"requests": {"a.b/gpu": "1"}, "claims": [{"name": "r"}]});
        let pod = |status: Value| {
            json!({
                "metadata": {"name": "p", "namespace": "n", "resourceVersion": "1"},
                "spec": {"resourceClaims": [{"name": "r"}], "containers": [{"name": "c", "resources": requests}]},
                "status": status,
            })
        };
        let errors = validate::status_update(kind, &pod(status), &pod(json!({})));
        errors.into_iter().map(|error| error.field).collect()
    }

    #[test]
    fn resource_statuses_name_requested_devices() {
        let status = |name: &str, health: &str| {
            fields(json!({"containerStatuses": [{"name": "c", "allocatedResourcesStatus": [
                {"name": name, "resources": [{"resourceID": "x", "health": health}]}]}]}))
        };
        let at = |rest: &str| vec![format!("status.containerStatuses[0].allocatedResourcesStatus[0].{rest}")];
        assert_eq!(status("a.b/gpu", "Healthy"), [""; 0]);
        assert_eq!(status("claim:r", "Unknown"), [""; 0]);
        assert_eq!(status("a.b/tpu", "Healthy"), at("name"));
        assert_eq!(status("claim:r", "Fine"), at("resources[0].health"));
    }

    #[test]
    fn users_have_an_id_of_their_system_and_claims_a_name() {
        let user = json!({"containerStatuses": [{"name": "c", "user": {"linux": {"uid": -1, "gid": 4_294_967_295_i64}}}]});
        let at = "status.containerStatuses[0].user.linux";
        assert_eq!(fields(user), [format!("{at}.uid"), format!("{at}.gid")]);
        let claims = json!({"resourceClaimStatuses": [{"name": "s", "resourceClaimName": "x"}]});
        assert_eq!(fields(claims), ["status.resourceClaimStatuses[0].name"]);
    }
}
