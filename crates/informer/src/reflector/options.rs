//! [`ReflectorOptions`]: every bound and delay of the reflector, with its default and reason.
//!
//! Where client-go has a constant, the default is that constant: watches of 5 to 10 minutes, pages of 500, streaming
//! lists on. The others (silence, probe, open and list timeouts) bound waits that client-go leaves to TCP. The rules
//! that use them are in [`Machine`](super::Machine).

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use super::backoff::BackoffOptions;

/// Options of a reflector. The defaults suit a cluster with some thousand nodes; tests shorten the delays.
///
/// They are part of the options of an informer:
///
/// ```
/// use std::time::Duration;
///
/// use listwatch::{InformerOptions, SharedInformer, lister_watcher::InMemory};
/// use serde_json::Value;
///
/// let mut options = InformerOptions::default();
/// options.reflector.page_size = Some(100); // objects of megabytes each
/// options.reflector.list_timeout = Duration::from_secs(20 * 60); // over a slow link
/// let informer = SharedInformer::<Value>::builder(InMemory::new(10)).options(options).build();
/// assert!(!informer.has_synced());
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReflectorOptions {
    /// Ask for the initial state as a stream of events before asking for a list. Default true: it costs the server
    /// the least, and the client no second copy of the list.
    pub streaming: bool,
    /// After this long without an event, an initial stream is given up for a list. Default 15 s: a server that
    /// streams sends something long before.
    pub streaming_stall: Duration,
    /// The time for which a server that refused or stalled a streaming list is spared another attempt. Default 30 min: longer
    /// than a rolling update of its replicas.
    pub streaming_refusal: Duration,
    /// Objects per page of a list. Default: 500, but all at once where the server can answer from its cache.
    pub page_size: Option<u32>,
    /// Watches end by themselves after a random time between this and twice this, so that clients spread over
    /// servers again. Default 5 min.
    pub watch_timeout: Duration,
    /// The time after its end at which a stream that has not ended is taken for dead. Default 30 s.
    pub watch_grace: Duration,
    /// A watch without an event for this long is reopened. Default 90 s: Kubernetes API servers send a bookmark every
    /// 60 to 75 s, so a longer silence means that the peer or the connection is dead.
    pub watch_idle: Duration,
    /// A watch that was resumed after an interruption and has been silent for this long is checked against the latest
    /// state of the server, by a list of one object: a server that was restored from a backup would stay silent until it
    /// has caught up with what was seen. Default 20 s, so that this is found out within a minute.
    pub probe_after: Duration,
    /// The time the server may take to accept a watch. Default 30 s.
    pub open_timeout: Duration,
    /// The time a whole list may take. Default 5 min.
    pub list_timeout: Duration,
    /// A stream that ends sooner than this is not reopened before this has passed since it was opened. Default 1 s.
    pub min_watch: Duration,
    /// A watch that stayed open for this long shows that all is well: the backoff starts over. Default 10 s.
    pub healthy_after: Duration,
    /// After this many failures of the watch in a row without an event in between, the collection is listed again:
    /// the resource version itself may be what the server stumbles over. Default 5.
    pub failures_before_relist: u32,
    /// The longest wait that a server may ask for with `Retry-After`. Default 5 min: more than that is a mistake of a
    /// proxy, and the cache would be stale for as long.
    pub retry_after_max: Duration,
    /// A limit on how many initial states are obtained at a time, shared by all reflectors with the same semaphore: a
    /// program with a hundred informers does not ask for a hundred lists at once. The place is given up when the
    /// first attempt has ended, however. Default: none for a single informer, 16 for the informers of a factory.
    pub initial_lists: Option<Arc<Semaphore>>,
    /// The delays between attempts.
    pub backoff: BackoffOptions,
    /// The seed of the jitter. Default: random.
    pub seed: Option<u64>,
}

impl Default for ReflectorOptions {
    fn default() -> Self {
        Self {
            streaming: true,
            streaming_stall: Duration::from_secs(15),
            streaming_refusal: Duration::from_secs(30 * 60),
            page_size: None,
            watch_timeout: Duration::from_secs(5 * 60),
            watch_grace: Duration::from_secs(30),
            watch_idle: Duration::from_secs(90),
            probe_after: Duration::from_secs(20),
            open_timeout: Duration::from_secs(30),
            list_timeout: Duration::from_secs(5 * 60),
            min_watch: Duration::from_secs(1),
            healthy_after: Duration::from_secs(10),
            failures_before_relist: 5,
            retry_after_max: Duration::from_secs(5 * 60),
            initial_lists: None,
            backoff: BackoffOptions::default(),
            seed: None,
        }
    }
}

impl ReflectorOptions {
    pub(crate) fn seed_or_random(&self) -> u64 {
        use std::hash::{BuildHasher, RandomState};
        // The standard library seeds its hasher from the system; that is all the randomness jitter needs.
        self.seed.unwrap_or_else(|| RandomState::new().hash_one(0_u64))
    }
}
