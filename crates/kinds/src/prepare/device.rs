//! Preparation of ResourceClaims: the status of devices follows their allocation.
//!
//! The rules of claims are in `rules/written.txt` and `validate/device.rs`.

use listwatch_wire::json::Value;

use crate::tree::Tree;

/// The identity of an allocated device.
type DeviceId<'a> = [&'a str; 4];

fn device_id(device: &Value) -> DeviceId<'_> {
    ["driver", "pool", "device", "shareID"].map(|key| device.text(key))
}

fn allocated(claim: &Value) -> Vec<DeviceId<'_>> {
    claim.path(&["status", "allocation", "devices"]).list("results").iter().map(device_id).collect()
}

/// Drops the status of devices that this write takes from the claim.
#[doc(alias = "dropDeallocatedStatusDevices")]
pub(crate) fn drop_deallocated_devices(new: &mut Value, old: &Value) {
    let (mut gone, kept) = (allocated(old), allocated(new));
    gone.retain(|id| !kept.contains(id));
    let devices = new.at("status").list("devices");
    let left: Vec<Value> =
        devices.iter().filter(|device| !gone.contains(&device_id(device))).cloned().collect();
    if left.len() == devices.len() {
        return;
    }
    let Some(status) = new.inner("status") else { return };
    if left.is_empty() {
        status.remove("devices");
    } else {
        status.put("devices", left);
    }
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    #[test]
    fn the_status_of_a_device_goes_with_its_allocation() {
        let device = |name: &str| json!({"driver": "x.y", "pool": "p", "device": name});
        let claim = |results: Vec<Value>, devices: Vec<Value>| json!({"status": {"allocation": {"devices": {"results": results}}, "devices": devices}});
        let old = claim(vec![device("a"), device("b")], vec![device("a"), device("b")]);
        let mut new = claim(vec![device("b")], vec![device("a"), device("b"), device("other")]);
        drop_deallocated_devices(&mut new, &old);
        assert_eq!(new.at("status").list("devices"), [device("b"), device("other")]);
        let mut freed = json!({"status": {"devices": [device("a")]}});
        drop_deallocated_devices(&mut freed, &old);
        assert_eq!(freed, json!({"status": {}}));
    }
}
