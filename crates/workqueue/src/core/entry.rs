//! [`KeyRecord`]: the state of one key, in half a cache line.
//!
//! At a million keys hardly anything is in the cache, and each line that a key touches on its way costs as much as all
//! the work on it. So an entry with an eight-byte or `Arc<str>` key takes 32 bytes and never lies across two lines:
//! small things share one word. The rules about the fields are in [`super`]. Times for metrics are kept by
//! [`super::meter`], tenants by [`super::tenants`].

use crate::priority::Priority;

/// Needs processing.
pub(crate) const DIRTY: u64 = 1;
/// Handed out and not yet done.
pub(crate) const PROCESSING: u64 = 2;
/// Has an occurrence in a timer wheel.
pub(crate) const DELAYED: u64 = 4;
/// Was unused at the last check, and is in the list of keys to be removed.
pub(crate) const LEAVING: u64 = 8;

/// The bit positions of the fields in the word; the flags are below them.
const PRIORITY_SHIFT: u32 = 4;
const DELAYED_PRIORITY_SHIFT: u32 = 6;
const PRIORITY_BITS: u64 = 3;
const DUE_SHIFT: u32 = 8;

/// Everything about one key, in one aligned piece, so that handling a key touches one line of the cache.
#[derive(Debug)]
#[repr(align(32))]
pub(crate) struct KeyRecord<K, R> {
    /// `None` only while the slot is free.
    pub(crate) key: Option<K>,
    /// The flags; the priority it is or was last queued with; of the delayed occurrence the priority and the time, in
    /// ticks of the wheel. (Ticks are milliseconds of a clock that counts nanoseconds in 64 bits: 45 bits.)
    state: u64,
    /// Kept so that removing a key does not hash it again.
    pub(crate) hash: u32,
    /// The place in its ring while ready; the next free slot while free.
    pub(crate) place: u32,
    pub(crate) reason: R,
    pub(crate) delayed_reason: R,
}

/// Two bits, of which the fourth value is not used.
#[inline]
fn priority_of(bits: u64) -> Priority {
    match bits & PRIORITY_BITS {
        0 => Priority::Urgent,
        1 => Priority::Normal,
        _ => Priority::Background,
    }
}

impl<K, R> KeyRecord<K, R> {
    /// True if a flag is set: dirty, processing, delayed, leaving.
    #[inline]
    pub(crate) fn is(&self, flag: u64) -> bool {
        self.state & flag != 0
    }

    #[inline]
    pub(crate) fn set(&mut self, flag: u64) {
        self.state |= flag;
    }

    #[inline]
    pub(crate) fn clear(&mut self, flag: u64) {
        self.state &= !flag;
    }

    /// True if anything refers to the key.
    #[inline]
    pub(crate) fn in_use(&self) -> bool {
        self.is(DIRTY | PROCESSING | DELAYED)
    }

    /// The priority it is queued with, or was last.
    #[inline]
    pub(crate) fn priority(&self) -> Priority {
        priority_of(self.state >> PRIORITY_SHIFT)
    }

    #[inline]
    pub(crate) fn set_priority(&mut self, priority: Priority) {
        self.state = self.state & !(PRIORITY_BITS << PRIORITY_SHIFT) | (priority as u64) << PRIORITY_SHIFT;
    }

    /// The time at which the delayed occurrence falls due, and its urgency then. Meaningful while `DELAYED`.
    #[inline]
    pub(crate) fn delay(&self) -> (u64, Priority) {
        (self.state >> DUE_SHIFT, priority_of(self.state >> DELAYED_PRIORITY_SHIFT))
    }

    /// Both parts of the delayed occurrence. A key has at most one, the earliest.
    #[inline]
    pub(crate) fn set_delay(&mut self, due: u64, priority: Priority) {
        let others = self.state & ((1 << DELAYED_PRIORITY_SHIFT) - 1);
        self.state = others | (priority as u64) << DELAYED_PRIORITY_SHIFT | due << DUE_SHIFT;
    }
}

impl<K, R: Default> KeyRecord<K, R> {
    /// Of a free slot, the last one in the chain of free ones.
    pub(super) fn free(end: u32) -> Self {
        let (reason, delayed_reason) = Default::default();
        Self { key: None, state: 0, hash: 0, place: end, reason, delayed_reason }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::core::wheel::tick_at_or_after;

    #[test]
    fn a_key_record_takes_half_a_cache_line() {
        assert_eq!((size_of::<KeyRecord<u64, ()>>(), size_of::<KeyRecord<Arc<str>, ()>>()), (32, 32));
    }

    #[test]
    fn fields_that_share_a_word_do_not_mix() {
        let last = tick_at_or_after(u64::MAX);
        let mut entry: KeyRecord<u64, ()> = KeyRecord::free(0);
        entry.set(DIRTY | DELAYED);
        entry.set_priority(Priority::Background);
        entry.set_delay(last, Priority::Urgent);
        assert_eq!((entry.priority(), entry.delay()), (Priority::Background, (last, Priority::Urgent)));
        entry.set_delay(0, Priority::Background);
        entry.set_priority(Priority::Normal);
        entry.clear(DIRTY);
        assert_eq!((entry.priority(), entry.delay()), (Priority::Normal, (0, Priority::Background)));
        assert!(entry.is(DELAYED) && !entry.is(DIRTY | PROCESSING | LEAVING));
    }
}
