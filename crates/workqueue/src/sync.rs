//! The synchronisation primitives, in one place.
//!
//! The crate's own unit tests run on shuttle's, which explore thread interleavings; everything else (including
//! the integration tests) on the standard ones.

#[cfg(not(test))]
pub(crate) use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    sync::{Mutex, MutexGuard},
    thread,
};

#[cfg(test)]
pub(crate) use shuttle::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    sync::{Mutex, MutexGuard},
    thread,
};

use std::sync::PoisonError;

/// Locks, whether or not an earlier holder panicked: user code under these locks (`Eq`, `Reason::merge`) runs before or after a
/// step of the state machine, not in the middle of one. The exception is a key's `clone`: a key for which that panics is stuck.
#[inline]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
