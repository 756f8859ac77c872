//! [`Watches`]: every open watch, where it is and what it has cost.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use bytes::Bytes;
use jiff::Timestamp;
use listwatch_wire::Revision;
use listwatch_wire::json::{Value, json};
use parking_lot::Mutex;

use crate::cache::{Change, Sight, View};
use crate::http::route::Target;

/// Who watches what.
#[derive(Debug)]
pub(crate) struct WatchInfo {
    user: Box<str>,
    resource: Arc<crate::registry::Resource>,
    namespace: Option<Box<str>>,
    labels: Box<str>,
    fields: Box<str>,
    bookmarks: bool,
    view: Arc<View>,
}

impl WatchInfo {
    pub(crate) fn new(target: &Target, view: &Arc<View>, bookmarks: bool) -> Self {
        let (labels, fields) = view.filter().describe();
        Self {
            user: target.user.name.as_str().into(),
            resource: Arc::clone(&target.resource),
            namespace: target.namespace().map(Into::into),
            labels: labels.into(),
            fields: fields.into(),
            bookmarks,
            view: Arc::clone(view),
        }
    }
}

/// One open watch.
#[derive(Debug)]
pub struct OpenWatch {
    info: WatchInfo,
    since: Timestamp,
    position: AtomicU64,
    events: AtomicU64,
    bytes: AtomicU64,
    /// When something was last sent, in milliseconds since `opened`.
    last: AtomicU64,
    opened: Instant,
}

impl OpenWatch {
    /// For people and tools; `now` is where the cache is.
    #[must_use]
    pub fn describe(&self, now: Revision) -> Value {
        let position = self.position.load(Ordering::Relaxed);
        let quiet =
            (self.opened.elapsed().as_millis() as u64).saturating_sub(self.last.load(Ordering::Relaxed));
        // A position stands still while nothing concerns the watcher; it lags only if something waits for it.
        let (waiting, since) = match self.info.view.pending(Revision(position)) {
            Ok((waiting, since)) => (Some(waiting), since),
            Err(_) => (None, None),
        };
        let lag = if waiting == Some(0) { 0 } else { now.0.saturating_sub(position) };
        let group = &*self.info.resource.group;
        json!({
            "user": &*self.info.user, "group": group, "version": &*self.info.resource.version,
            "resource": &*self.info.resource.plural, "namespace": self.info.namespace.as_deref(),
            "labelSelector": &*self.info.labels, "fieldSelector": &*self.info.fields,
            "bookmarks": self.info.bookmarks, "since": self.since.to_string(), "position": position,
            "waitingEvents": waiting, "readsHistory": waiting.is_none(), "lagRevisions": lag,
            "lagSeconds": since.map_or(0.0, |since| since.elapsed().as_secs_f64()), "quietSeconds": quiet as f64 / 1e3,
            "events": self.events.load(Ordering::Relaxed), "bytes": self.bytes.load(Ordering::Relaxed),
        })
    }

    pub(crate) fn resource(&self) -> &Arc<crate::registry::Resource> {
        &self.info.resource
    }
}

/// Every open watch, and the sums over those that were.
#[derive(Debug, Default)]
pub struct Watches {
    open: Arc<Mutex<HashMap<u64, Arc<OpenWatch>>>>,
    next: AtomicU64,
    totals: Arc<Totals>,
}

/// Sums over all watches.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) added: AtomicU64,
    pub(crate) modified: AtomicU64,
    pub(crate) deleted: AtomicU64,
    pub(crate) initial: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) opened: AtomicU64,
}

impl Watches {
    /// All open ones.
    #[must_use]
    pub fn list(&self) -> Vec<Arc<OpenWatch>> {
        self.open.lock().values().cloned().collect()
    }

    /// How many are open.
    #[must_use]
    pub fn count(&self) -> usize {
        self.open.lock().len()
    }

    pub(crate) fn totals(&self) -> &Totals {
        &self.totals
    }

    pub(crate) fn open(&self, info: WatchInfo, position: Revision) -> WatchTicket {
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
        self.totals.opened.fetch_add(1, Ordering::Relaxed);
        self.open.lock().insert(id, Arc::clone(&watch));
        WatchTicket { id, watch, open: Arc::clone(&self.open), totals: Arc::clone(&self.totals) }
    }
}

/// Held by a watch as long as it lasts.
#[derive(Debug)]
pub(crate) struct WatchTicket {
    id: u64,
    watch: Arc<OpenWatch>,
    open: Arc<Mutex<HashMap<u64, Arc<OpenWatch>>>>,
    totals: Arc<Totals>,
}

impl WatchTicket {
    pub(crate) fn sent(&self, frames: &[Bytes], position: Revision) {
        let bytes: usize = frames.iter().map(Bytes::len).sum();
        let watch = &self.watch;
        watch.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        watch.position.store(position.0, Ordering::Relaxed);
        watch.last.store(watch.opened.elapsed().as_millis() as u64, Ordering::Relaxed);
        self.totals.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn initial(&self, events: u64) {
        self.watch.events.fetch_add(events, Ordering::Relaxed);
        self.totals.initial.fetch_add(events, Ordering::Relaxed);
        self.totals.added.fetch_add(events, Ordering::Relaxed);
    }

    pub(crate) fn events(&self, sights: &[Sight]) {
        self.watch.events.fetch_add(sights.len() as u64, Ordering::Relaxed);
        for sight in sights {
            let total = match sight.change {
                Change::Added => &self.totals.added,
                Change::Modified => &self.totals.modified,
                Change::Deleted => &self.totals.deleted,
            };
            total.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for WatchTicket {
    fn drop(&mut self) {
        self.open.lock().remove(&self.id);
    }
}
