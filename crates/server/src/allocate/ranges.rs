//! Additional ranges of Service addresses, from ServiceCIDR objects.
//!
//! They are read from the cache each time, because they are few and rarely needed. [`super::services`] has the first range.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use listwatch_kinds::tree::Tree;
use listwatch_wire::json::Value;

use crate::allocate::services::RANGE_CIDR;
use crate::cache::{Cache, Collection, Filter};

/// Addresses of one range that are tried in order when all others are taken.
const SEARCHED: u32 = 1 << 16;

/// The ServiceCIDRs that have been added.
#[derive(Debug)]
#[doc(alias = "ServiceCIDR")]
pub(crate) struct AddedRanges {
    collection: Arc<Collection>,
}

impl AddedRanges {
    /// Follows ServiceCIDRs through the cache; a range counts as soon as the cache has it.
    pub(crate) fn new(cache: &Cache) -> Self {
        Self { collection: cache.collection("servicecidrs.networking.k8s.io", &[]) }
    }

    /// Returns true if one of them has the address.
    pub(super) fn has(&self, address: IpAddr) -> bool {
        self.all().iter().any(|range| range.has(address))
    }

    /// Addresses to allocate, range by range.
    pub(super) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.all().into_iter().flat_map(AddedRange::addresses)
    }

    /// The texts of all ranges, the first one's included, for messages.
    pub(super) fn texts(&self) -> Vec<String> {
        let added = self.all().into_iter().map(|range| format!("{}/{}", range.first, range.bits));
        std::iter::once(RANGE_CIDR.to_owned()).chain(added).collect()
    }

    /// Ranges that are being deleted or not ready allocate no more addresses; those that their Services have stay
    /// valid.
    fn all(&self) -> Vec<AddedRange> {
        let walk = self.collection.walk(&Filter::default(), None);
        let snapshot = self.collection.snapshot();
        let stored = snapshot.range(&walk).filter_map(|object| Value::read(object.stored()).ok());
        let kept = stored.filter(|range| !range.at("metadata").has("deletionTimestamp") && is_ready(range));
        let texts = kept.flat_map(|range| range.at("spec").list("cidrs").to_vec());
        texts
            .filter_map(|text| text.as_str().filter(|text| *text != RANGE_CIDR).and_then(AddedRange::read))
            .collect()
    }
}

/// A range without the condition is ready: it is set by a controller that may not run.
fn is_ready(range: &Value) -> bool {
    let conditions = range.at("status").list("conditions");
    let ready = conditions.iter().find(|condition| condition.text("type") == "Ready");
    ready.is_none_or(|condition| condition.text("status") == "True")
}

/// One range of IPv4 addresses.
#[derive(Clone, Copy, Debug)]
struct AddedRange {
    first: Ipv4Addr,
    bits: u32,
}

impl AddedRange {
    /// IPv6 ranges are passed over: Services of this server have IPv4 addresses only.
    fn read(text: &str) -> Option<Self> {
        let (first, bits) = text.split_once('/')?;
        let bits = bits.parse().ok().filter(|bits| (1..=32).contains(bits))?;
        Some(Self { first: first.parse().ok()?, bits })
    }

    /// The number of addresses; the first and the last are not given out.
    fn size(self) -> u32 {
        1_u32.checked_shl(32 - self.bits).unwrap_or(u32::MAX)
    }

    /// Includes the first and the last address: people may choose them, though they are not given out.
    fn has(self, address: IpAddr) -> bool {
        let IpAddr::V4(address) = address else { return false };
        u32::from(address).checked_sub(u32::from(self.first)).is_some_and(|offset| offset < self.size())
    }

    /// Without the first and the last address, and only as many as are searched.
    fn addresses(self) -> impl Iterator<Item = IpAddr> {
        let last = self.size().saturating_sub(1).min(SEARCHED);
        (1..last).map(move |offset| Ipv4Addr::from(u32::from(self.first).wrapping_add(offset)).into())
    }
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    #[test]
    fn a_service_cidr_is_ready_unless_its_condition_is_false() {
        let range = |conditions| json!({"status": {"conditions": conditions}});
        assert!(is_ready(&json!({})));
        assert!(is_ready(&range(json!([{"type": "Ready", "status": "True"}]))));
        assert!(!is_ready(&range(json!([{"type": "Ready", "status": "False"}]))));
    }

    #[test]
    fn a_range_has_its_addresses_and_gives_out_all_but_the_ends() {
        let range = AddedRange::read("203.0.113.0/29").unwrap();
        assert!(range.has("203.0.113.7".parse().unwrap()));
        assert!(!range.has("203.0.113.8".parse().unwrap()));
        assert_eq!(range.addresses().count(), 6);
        assert!(AddedRange::read("fd00::/64").is_none());
    }
}
