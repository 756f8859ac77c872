//! [`AuditLog`]: writes events to a file, in a thread of its own.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use http::HeaderValue;

use crate::Error;
use crate::audit::draft::Draft;
use crate::audit::event::Event;
use crate::audit::policy::Policy;

/// Events that wait to be written, as in kube-apiserver's buffer.
const QUEUE: usize = 10_000;
/// Bytes they may hold: events carry bodies if the policy says so, and a disk that stalls must not eat the memory.
const QUEUE_BYTES: usize = 64 << 20;

/// Writes events to a file.
#[derive(Debug)]
pub(crate) struct AuditLog {
    policy: Policy,
    queue: SyncSender<Event>,
    counters: Arc<Counters>,
}

#[derive(Debug, Default)]
struct Counters {
    waiting_bytes: AtomicUsize,
    written: AtomicU64,
    dropped: AtomicU64,
}

impl AuditLog {
    /// Appends to the file, which only its owner may read.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub(crate) fn open(policy: Policy, path: &Path) -> Result<Arc<Self>, Error> {
        let failed = |source| Error::File { path: path.to_owned(), source };
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path).map_err(failed)?;
        let (queue, events) = sync_channel(QUEUE);
        let counters = Arc::new(Counters::default());
        let writer = Arc::clone(&counters);
        let thread = std::thread::Builder::new().name("audit".to_owned());
        thread.spawn(move || run(&events, file, &writer)).map_err(failed)?;
        Ok(Arc::new(Self { policy, queue, counters }))
    }

    /// The beginning of what will be told about a request.
    pub(crate) fn begin(
        self: &Arc<Self>,
        id: HeaderValue,
        uri: String,
        user_agent: String,
        peer: Option<SocketAddr>,
    ) -> Draft {
        Draft::new(Arc::clone(self), id, uri, user_agent, peer)
    }

    pub(super) fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Events written, and events dropped because the file was slower than the requests.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.counters.written.load(Ordering::Relaxed), self.counters.dropped.load(Ordering::Relaxed))
    }

    /// Leaves the event to the writer. Nobody waits for it.
    pub(super) fn write(&self, event: Event) {
        let weight = event.weight();
        let waiting = self.counters.waiting_bytes.fetch_add(weight, Ordering::Relaxed);
        if waiting + weight > QUEUE_BYTES || self.queue.try_send(event).is_err() {
            self.counters.waiting_bytes.fetch_sub(weight, Ordering::Relaxed);
            self.counters.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Writes until nobody can send any more. What was sent is flushed whenever nothing waits.
fn run(events: &Receiver<Event>, file: File, counters: &Counters) {
    let mut file = BufWriter::new(file);
    while let Ok(first) = events.recv() {
        for event in std::iter::once(first).chain(events.try_iter()) {
            counters.waiting_bytes.fetch_sub(event.weight(), Ordering::Relaxed);
            match file.write_all(&event.line()) {
                Ok(()) => counters.written.fetch_add(1, Ordering::Relaxed),
                Err(error) => {
                    tracing::warn!(%error, "the audit log cannot be written");
                    counters.dropped.fetch_add(1, Ordering::Relaxed)
                }
            };
        }
        if let Err(error) = file.flush() {
            tracing::warn!(%error, "the audit log cannot be written");
        }
    }
}
