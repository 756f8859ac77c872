//! [`Damage`]: the keys whose stored values cannot be read.
//!
//! An unreadable object must not look as if it did not exist: an informer would report a deletion and controllers
//! would act on it. So a read of it, and a list that should contain it, fails with a 500 that names the key, until it
//! is deleted or written again. The count is zero on healthy servers and checked without a lock. The feeder records
//! keys; `/readyz` and a metric report them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use listwatch_wire::Status;
use parking_lot::RwLock;

/// The keys whose stored values cannot be read. A key is removed when it is written or deleted.
#[derive(Debug, Default)]
pub(crate) struct Damage {
    /// The number of keys. Nearly always zero, so that readers rarely take the lock.
    count: AtomicUsize,
    /// The keys in order, so that a list can look for any in its range.
    keys: RwLock<BTreeSet<Arc<str>>>,
}

impl Damage {
    /// Records a key whose value cannot be read, with an error in the log.
    pub(super) fn note(&self, key: &Arc<str>) {
        tracing::error!(%key, "the stored value cannot be read");
        self.change(|keys| keys.insert(Arc::clone(key)));
    }

    /// The key was deleted or has a new value.
    pub(super) fn mended(&self, key: &str) {
        if self.count() > 0 {
            self.change(|keys| keys.remove(key));
        }
    }

    /// The count is stored separately, so that reading it takes no lock.
    fn change(&self, change: impl FnOnce(&mut BTreeSet<Arc<str>>) -> bool) {
        let mut keys = self.keys.write();
        let _changed = change(&mut keys);
        self.count.store(keys.len(), Ordering::Release);
    }

    /// The number of unreadable keys. Readiness and metrics report it.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Fails if one of the keys that begin so cannot be read.
    ///
    /// # Errors
    /// 500 with the key.
    pub(crate) fn check(&self, prefix: &str) -> Result<(), Status> {
        if self.count() == 0 {
            return Ok(());
        }
        let keys = self.keys.read();
        let first =
            keys.range::<str, _>((std::ops::Bound::Included(prefix), std::ops::Bound::Unbounded)).next();
        first.filter(|key| key.starts_with(prefix)).map_or(Ok(()), |key| Err(unreadable(key)))
    }

    /// Fails if this key cannot be read.
    ///
    /// # Errors
    /// 500 with the key.
    pub(crate) fn check_one(&self, key: &str) -> Result<(), Status> {
        if self.count() > 0 && self.keys.read().contains(key) { Err(unreadable(key)) } else { Ok(()) }
    }
}

/// The response about an object whose stored value cannot be read.
pub(crate) fn unreadable(key: &str) -> Status {
    Status::internal(format!("the stored value of {key} is damaged: restore it from a backup, or delete it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_found_by_key_and_prefix_until_it_is_mended() {
        let damage = Damage::default();
        damage.note(&"/registry/pods/a/x".into());
        let message = damage.check("/registry/pods/").unwrap_err().message;
        assert!(message.contains("/registry/pods/a/x"), "{message}");
        assert!(damage.check("/registry/pods/b/").is_ok() && damage.check("/registry/nodes/").is_ok());
        assert!(
            damage.check_one("/registry/pods/a/x").is_err() && damage.check_one("/registry/pods/a").is_ok()
        );
        damage.mended("/registry/pods/a/x");
        assert_eq!((damage.count(), damage.check("/registry/").is_ok()), (0, true));
    }
}
