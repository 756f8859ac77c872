//! Counts of accesses to trees, for tests of the cost of an operation.
//!
//! Times vary on a busy machine; the number of fields looked up and values compared is the same in every run. Only
//! builds with debug assertions count.

#[cfg(debug_assertions)]
thread_local! {
    static TAKEN: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// The steps this thread has taken so far; zero in builds that do not count.
///
/// Per thread, so tests that run beside each other do not disturb one another. Take the difference of two calls.
#[must_use]
pub fn taken() -> u64 {
    #[cfg(debug_assertions)]
    return TAKEN.get();
    #[cfg(not(debug_assertions))]
    0
}

/// One field looked up, or one value compared.
#[inline]
pub(super) fn take() {
    #[cfg(debug_assertions)]
    TAKEN.set(TAKEN.get() + 1);
}
