//! [`Options`]: the settings of a queue, each with its default and reason.
//!
//! The defaults are client-go's, so that a controller that is ported behaves the same. Priorities need no option: they
//! are given with each key. Bounds are off by default on purpose: a queue holds at most one entry per object, and a key
//! that is refused is a change that is never reconciled.

use std::fmt;
use std::hash::{BuildHasher, Hash};

use foldhash::fast::RandomState;

use crate::Key;
use crate::core::TenantOf;
use crate::limiter::{self, RateLimiter};

/// The settings of a [`Queue`](crate::Queue). The default is what client-go's default is: unnamed (so unmeasured), first in
/// first out, unbounded, retries limited by [`limiter::default_controller`].
///
/// ```
/// use listwatch_workqueue::{Options, Queue, limiter};
///
/// let queue: Queue<String> = Queue::new(
///     Options::new()
///         .name("deployments")
///         .limiter(limiter::default_item_based())
///         .fair(|key: &String| key.split('/').next().map(str::to_owned))
///         .capacity(100_000),
/// );
/// ```
#[must_use]
pub struct Options<K> {
    pub(crate) name: String,
    pub(crate) capacity: usize,
    pub(crate) tenant_of: Option<TenantOf<K>>,
    pub(crate) tenant_in_flight_max: u32,
    pub(crate) background_every: u32,
    pub(crate) limiter: Box<dyn RateLimiter<K>>,
}

impl<K: Key> Options<K> {
    /// The default settings.
    pub fn new() -> Self {
        Self {
            name: String::new(),
            capacity: usize::MAX,
            tenant_of: None,
            tenant_in_flight_max: u32::MAX,
            background_every: 0,
            limiter: Box::new(limiter::default_controller()),
        }
    }

    /// Names the queue, which turns on its metrics; they cost a fifth of a key's way through the queue. Default: none.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// The most keys that the queue may hold at once, in any state. Beyond that, new keys are refused
    /// ([`Queue::add`](crate::Queue::add)) or wait ([`Queue::add_wait`](crate::Queue::add_wait)); keys that it holds
    /// are always accepted, so a retry is never refused. Default: no limit, because losing a key is worse than holding
    /// one per object, and there is never more than one.
    pub fn capacity(mut self, keys: usize) -> Self {
        self.capacity = keys.max(1);
        self
    }

    /// Lets tenants take turns: keys for which `tenant` gives the same value (say, the namespace) queue behind each other,
    /// and a tenant within its share goes before one that floods. Default: none, one queue for all keys.
    pub fn fair<T: Hash>(mut self, tenant: impl Fn(&K) -> T + Send + 'static) -> Self {
        let hasher = RandomState::default();
        self.tenant_of = Some(Box::new(move |key| hasher.hash_one(tenant(key))));
        self
    }

    /// The most keys of one tenant that may be in flight at once, in a [fair](Self::fair) queue. Set below the number of
    /// workers, it keeps some free for the other tenants even while one floods with slow work. Default: no limit,
    /// because it leaves workers idle.
    pub fn tenant_in_flight_max(mut self, keys: u32) -> Self {
        self.tenant_in_flight_max = keys;
        self
    }

    /// Serves the least urgent key that waits on every `n`-th hand-out, so that no priority starves. Default: never (0), so that
    /// background work never delays live changes.
    pub fn background_every(mut self, n: u32) -> Self {
        self.background_every = n;
        self
    }

    /// The time a failed key waits before it is tried again.
    pub fn limiter(mut self, limiter: impl RateLimiter<K> + 'static) -> Self {
        self.limiter = Box::new(limiter);
        self
    }
}

impl<K: Key> Default for Options<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K> fmt::Debug for Options<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("name", &self.name)
            .field("capacity", &self.capacity)
            .field("fair", &self.tenant_of.is_some())
            .field("tenant_in_flight_max", &self.tenant_in_flight_max)
            .field("background_every", &self.background_every)
            .finish_non_exhaustive()
    }
}
