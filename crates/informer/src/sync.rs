//! The locks of this crate, in one place so that shuttle can replace them.
//!
//! With the feature `shuttle` every [`Mutex`] is shuttle's, and its scheduler explores the interleavings of the
//! concurrent parts (see `tests/shuttle.rs`). Without it they are parking_lot's: one byte, no poisoning.

#[cfg(not(feature = "shuttle"))]
pub(crate) use parking_lot::Mutex;

#[cfg(feature = "shuttle")]
mod instrumented {
    use std::sync::PoisonError;

    /// shuttle's mutex under parking_lot's signature.
    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(shuttle::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> shuttle::sync::MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }
}

#[cfg(feature = "shuttle")]
pub(crate) use instrumented::Mutex;
