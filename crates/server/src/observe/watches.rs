//! [`Watches`]: every open watch: its user, selectors, position and lag, and the counters of watch events.
//!
//! A watch holds a [`WatchTicket`] as long as it lasts and counts into it without a lock; only opening and closing
//! touch the shared table. Lag is computed on demand, from the watch's position and the backlog of its view
//! ([`WatchBacklog`], implemented by the cache's view): nothing is stored per event. A request is counted in
//! `apiserver_request_total` when its watch ends, as in kube-apiserver. The owner is `verbs/watch`.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use bytes::Bytes;
use http::StatusCode;
use jiff::Timestamp;
use listwatch_wire::Revision;
use listwatch_wire::json::{Value, json};
use parking_lot::Mutex;

use crate::observe::histogram::LatencyHistogram;
use crate::observe::labels;
use crate::observe::requests::{LastingRequest, RequestSeries};

/// The bounds of kube-apiserver: 1 KiB, doubled up to 128 KiB.
static EVENT_SIZES: [u64; 8] = [1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10];

/// The events that wait for a watcher. Implemented by the views of the watch cache.
pub(crate) trait WatchBacklog: std::fmt::Debug + Send + Sync {
    /// The number of events after a position and the time of the first; `None` if the watcher reads older history.
    fn pending(&self, position: Revision) -> Option<(usize, Option<Instant>)>;
}

/// The identity of a watch: its user, its selection, and the source of its lag.
#[derive(Debug)]
pub(crate) struct WatchInfo {
    pub(crate) user: Box<str>,
    /// Group, version and plural.
    pub(crate) resource: [Arc<str>; 3],
    pub(crate) namespace: Option<Box<str>>,
    pub(crate) labels: Box<str>,
    pub(crate) fields: Box<str>,
    pub(crate) bookmarks: bool,
    pub(crate) backlog: Arc<dyn WatchBacklog>,
}

/// One open watch, as metrics and debug pages see it. Updated by its ticket.
#[derive(Debug)]
pub struct OpenWatch {
    info: WatchInfo,
    since: Timestamp,
    /// The revision that its client has reached.
    position: AtomicU64,
    /// Events sent, without bookmarks.
    events: AtomicU64,
    /// Bytes sent, before compression.
    bytes: AtomicU64,
    /// The time of the last bytes sent, in milliseconds since `opened`.
    last: AtomicU64,
    opened: Instant,
}

/// The distance of a watch from the newest event that concerns it.
#[derive(Debug)]
pub(crate) struct WatchLag {
    /// Events that wait for it; `None` if it reads older history.
    pub(crate) waiting: Option<usize>,
    /// The age of the first of them.
    pub(crate) seconds: f64,
}

impl OpenWatch {
    /// Returns the watch as JSON for the debug page. `now` is the position of the cache, to compute the lag in
    /// revisions.
    #[must_use]
    pub fn describe(&self, now: Revision) -> Value {
        let position = self.position.load(Ordering::Relaxed);
        let quiet =
            (self.opened.elapsed().as_millis() as u64).saturating_sub(self.last.load(Ordering::Relaxed));
        // A position does not move while no event matches; the watch lags only if an event waits for it.
        let WatchLag { waiting, seconds } = self.lag();
        let lag = if waiting == Some(0) { 0 } else { now.0.saturating_sub(position) };
        let [group, version, resource] = self.resource();
        json!({
            "user": &*self.info.user, "group": group, "version": version,
            "resource": resource, "namespace": self.info.namespace.as_deref(),
            "labelSelector": &*self.info.labels, "fieldSelector": &*self.info.fields,
            "bookmarks": self.info.bookmarks, "since": self.since.to_string(), "position": position,
            "waitingEvents": waiting, "readsHistory": waiting.is_none(), "lagRevisions": lag,
            "lagSeconds": seconds, "quietSeconds": quiet as f64 / 1e3,
            "events": self.events.load(Ordering::Relaxed), "bytes": self.bytes.load(Ordering::Relaxed),
        })
    }

    /// Returns how far the watch is behind, computed from its position and the backlog of its view.
    pub(crate) fn lag(&self) -> WatchLag {
        let position = Revision(self.position.load(Ordering::Relaxed));
        match self.info.backlog.pending(position) {
            Some((waiting, since)) => {
                let seconds = since.map_or(0.0, |since| since.elapsed().as_secs_f64());
                WatchLag { waiting: Some(waiting), seconds }
            }
            None => WatchLag { waiting: None, seconds: 0.0 },
        }
    }

    /// Group, version and plural.
    pub(crate) fn resource(&self) -> [&str; 3] {
        self.info.resource.each_ref().map(|text| &**text)
    }

    pub(crate) fn is_namespaced(&self) -> bool {
        self.info.namespace.is_some()
    }
}

/// Every open watch, and the sums over those that were.
#[derive(Debug, Default)]
pub struct Watches {
    table: Arc<WatchTable>,
    next: AtomicU64,
    /// Series by labels. Looked up when a watch opens, which then keeps its series.
    series: Mutex<BTreeMap<String, Arc<WatchSeries>>>,
}

/// The state that all watches share, behind one pointer in each of them.
#[derive(Debug, Default)]
struct WatchTable {
    /// Open watches by number. Locked to open, close and list, never to count an event.
    open: Mutex<HashMap<u64, Arc<OpenWatch>>>,
    totals: Totals,
}

/// The events and bytes sent to all watches of one resource.
#[derive(Debug)]
pub(crate) struct WatchSeries {
    pub(crate) labels: String,
    /// Sizes of all events, bookmarks and errors included.
    pub(crate) sizes: LatencyHistogram<8>,
    /// The number of events that were the initial state of an object.
    pub(crate) initial: AtomicU64,
    /// The number of changes that were sent with the whole object, and as a patch.
    pub(crate) whole: AtomicU64,
    pub(crate) deltas: AtomicU64,
}

/// Sums over all watches since the start, open or ended.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) bytes: AtomicU64,
    pub(crate) opened: AtomicU64,
}

impl Watches {
    /// Returns all open watches, in no particular order.
    #[must_use]
    pub fn list(&self) -> Vec<Arc<OpenWatch>> {
        self.table.open.lock().values().cloned().collect()
    }

    /// The number of open watches.
    #[must_use]
    pub fn count(&self) -> usize {
        self.table.open.lock().len()
    }

    pub(crate) fn totals(&self) -> &Totals {
        &self.table.totals
    }

    /// The events and bytes sent, by resource.
    pub(crate) fn series(&self) -> Vec<Arc<WatchSeries>> {
        self.series.lock().values().cloned().collect()
    }

    /// The number of series is that of served resources, since only those can be watched.
    fn series_of(&self, [group, version, resource]: &[Arc<str>; 3]) -> Arc<WatchSeries> {
        let labels = labels::ResourceLabels(group, version, resource).to_string();
        let mut all = self.series.lock();
        let series = all.entry(labels).or_insert_with_key(|labels| {
            let sizes = LatencyHistogram::new(&EVENT_SIZES, 1.0);
            let (initial, whole, deltas) = Default::default();
            Arc::new(WatchSeries { labels: labels.clone(), sizes, initial, whole, deltas })
        });
        Arc::clone(series)
    }

    /// Registers a watch. The ticket keeps it in the list until it is dropped.
    pub(crate) fn open(&self, info: WatchInfo, position: Revision) -> WatchTicket {
        let series = self.series_of(&info.resource);
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let watch = Arc::new(OpenWatch {
            info,
            since: Timestamp::now(),
            position: AtomicU64::new(position.0),
            events: AtomicU64::default(),
            bytes: AtomicU64::default(),
            last: AtomicU64::default(),
            opened: Instant::now(),
        });
        let table = Arc::clone(&self.table);
        table.totals.opened.fetch_add(1, Ordering::Relaxed);
        table.open.lock().insert(id, Arc::clone(&watch));
        WatchTicket { id, watch, table, series, request: None }
    }
}

/// The entry of one watch among the open ones. Dropping it removes the entry and counts the request.
/// Relaxed counters throughout: they are read for display only.
#[derive(Debug)]
pub(crate) struct WatchTicket {
    id: u64,
    watch: Arc<OpenWatch>,
    table: Arc<WatchTable>,
    series: Arc<WatchSeries>,
    /// The request it began as, unless it is a part of one.
    request: Option<LastingRequest>,
}

impl WatchTicket {
    /// Counts the request when the watch ends.
    pub(crate) fn count_request(&mut self, request: Arc<RequestSeries>, code: StatusCode) {
        self.request = Some(LastingRequest::new(request, code));
    }

    /// Counts frames that were passed to the connection, and records the position after them.
    pub(crate) fn sent(&self, frames: &[Bytes], position: Revision) {
        let bytes: usize = frames.iter().map(Bytes::len).sum();
        let watch = &self.watch;
        watch.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        watch.position.store(position.0, Ordering::Relaxed);
        watch.last.store(watch.opened.elapsed().as_millis() as u64, Ordering::Relaxed);
        self.table.totals.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Counts an event of the initial state, of this many bytes.
    pub(crate) fn initial(&self, bytes: usize) {
        self.watch.events.fetch_add(1, Ordering::Relaxed);
        self.series.initial.fetch_add(1, Ordering::Relaxed);
        self.series.sizes.observe(bytes as u64);
    }

    /// Counts changes, one per frame, `deltas` of them as patches.
    pub(crate) fn events(&self, frames: &[Bytes], deltas: u64) {
        let events = frames.len() as u64;
        self.watch.events.fetch_add(events, Ordering::Relaxed);
        self.series.whole.fetch_add(events.saturating_sub(deltas), Ordering::Relaxed);
        self.series.deltas.fetch_add(deltas, Ordering::Relaxed);
        frames.iter().for_each(|frame| self.mark(frame));
    }

    /// A bookmark or an error: sent like an event, but not one of the watch's own.
    pub(crate) fn mark(&self, frame: &Bytes) {
        self.series.sizes.observe(frame.len() as u64);
    }
}

impl Drop for WatchTicket {
    fn drop(&mut self) {
        self.table.open.lock().remove(&self.id);
    }
}
