//! [`Reservation`]: values that a write has chosen and not yet committed.
//!
//! Two Services that are created at the same moment must not be given one address. The values of writes in progress are
//! kept here, in the memory of this server; a conflict with another server shows at the commit, by its claim.

use std::collections::HashSet;

use parking_lot::Mutex;

use crate::allocate::claims::{ClaimedValue, ServiceClaims};
use crate::allocate::ranges::AddedRanges;

/// The addresses and ports given to writes that are under way.
#[doc(alias = "ipallocator")]
#[doc(alias = "portallocator")]
#[derive(Debug)]
pub(crate) struct Allocator {
    pub(crate) claims: ServiceClaims,
    pub(super) added: AddedRanges,
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

/// The addresses and ports reserved for one write. Dropping it releases them: by then they are claimed by the
/// committed Service, or free.
#[derive(Debug)]
pub(crate) struct Reservation<'a> {
    pub(super) allocator: &'a Allocator,
    claimed: Mutex<Vec<ClaimedValue>>,
}

impl<'a> Reservation<'a> {
    /// An empty reservation for one write.
    pub(crate) fn new(allocator: &'a Allocator) -> Self {
        Self { allocator, claimed: Mutex::default() }
    }

    /// Takes a free value and records it, so that it is released if the write fails.
    pub(super) fn take(
        &self,
        taken: impl Fn(&ClaimedValue) -> bool,
        candidates: impl IntoIterator<Item = ClaimedValue>,
    ) -> Option<ClaimedValue> {
        let claimed = self.allocator.take(taken, candidates)?;
        self.claimed.lock().push(claimed);
        Some(claimed)
    }

    /// Releases what an earlier attempt of the same write reserved.
    pub(super) fn start_over(&self) {
        let claimed = std::mem::take(&mut *self.claimed.lock());
        claimed.into_iter().for_each(|claimed| self.allocator.give_back(claimed));
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.start_over();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

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
        let candidates = || (0..3).map(ClaimedValue::Port);
        let taken = |claimed: &ClaimedValue| *claimed == ClaimedValue::Port(0);
        assert_eq!(allocator.take(taken, candidates()), Some(ClaimedValue::Port(1)));
        assert_eq!(allocator.take(taken, candidates()), Some(ClaimedValue::Port(2)));
        assert_eq!(allocator.take(taken, candidates()), None);
        allocator.give_back(ClaimedValue::Port(1));
        assert_eq!(allocator.take(taken, candidates()), Some(ClaimedValue::Port(1)));
    }
}
