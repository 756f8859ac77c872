//! [`AuditLog`]: writes audit events to a file, in a thread of its own.
//!
//! Requests never wait for the disk: the queue is bounded in events and bytes, and what does not fit is dropped and
//! counted (`listwatch_audit_dropped_total`), as in kube-apiserver's `batch` mode. Events are flushed whenever the queue
//! is empty; they are not synced, so a crash of the machine may lose the last ones. [`super::file`] is the file and
//! its rotation.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use http::HeaderValue;

use crate::Error;
use crate::audit::draft::AuditDraft;
use crate::audit::event::AuditEvent;
use crate::audit::file::AuditFile;
use crate::audit::policy::AuditPolicy;
use crate::options::AuditOptions;

/// Events that wait to be written, as in kube-apiserver's buffer.
const QUEUE: usize = 10_000;
/// Bytes they may hold: events contain bodies if the policy says so, and a stalled disk must not exhaust memory.
const QUEUE_BYTES: usize = 64 << 20;

/// The audit policy, and the queue of the thread that writes the file. The thread ends when the log is dropped and
/// the queue is empty.
#[derive(Debug)]
pub(crate) struct AuditLog {
    policy: AuditPolicy,
    /// Events on their way to the writer. Sending never blocks.
    queue: SyncSender<AuditEvent>,
    counters: Arc<AuditCounters>,
}

/// Figures of the queue between requests and the file.
#[derive(Debug, Default)]
struct AuditCounters {
    /// Weight of the events in the queue. Senders add before they know if there is room, so it may exceed the bound
    /// for a moment.
    waiting_bytes: AtomicUsize,
    written: AtomicU64,
    dropped: AtomicU64,
}

impl AuditLog {
    /// Appends to the file, which only its owner may read.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub(crate) fn open(policy: AuditPolicy, options: &AuditOptions) -> Result<Arc<Self>, Error> {
        let path = &options.log_file;
        let failed = |source| Error::File { path: path.clone(), source };
        let file = AuditFile::open(path, options.rotation).map_err(failed)?;
        let (queue, events) = sync_channel(QUEUE);
        let counters = Arc::new(AuditCounters::default());
        let writer = Arc::clone(&counters);
        let thread = std::thread::Builder::new().name("audit".to_owned());
        thread.spawn(move || run(&events, file, &writer)).map_err(failed)?;
        Ok(Arc::new(Self { policy, queue, counters }))
    }

    /// Begins the draft of a request.
    pub(crate) fn begin(
        self: &Arc<Self>,
        id: HeaderValue,
        uri: String,
        user_agent: String,
        peer: Option<SocketAddr>,
    ) -> AuditDraft {
        AuditDraft::new(Arc::clone(self), id, uri, user_agent, peer)
    }

    pub(super) fn policy(&self) -> &AuditPolicy {
        &self.policy
    }

    /// Events written, and events dropped because the file was slower than the requests.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.counters.written.load(Ordering::Relaxed), self.counters.dropped.load(Ordering::Relaxed))
    }

    /// Queues the event for the writer without waiting.
    pub(super) fn write(&self, event: AuditEvent) {
        let weight = event.weight();
        let waiting = self.counters.waiting_bytes.fetch_add(weight, Ordering::Relaxed);
        if waiting + weight > QUEUE_BYTES || self.queue.try_send(event).is_err() {
            self.counters.waiting_bytes.fetch_sub(weight, Ordering::Relaxed);
            self.counters.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Writes events until all senders are dropped. The file is flushed whenever the queue is empty.
///
/// An error of the file loses the event and not the thread: the disk may have room again.
fn run(events: &Receiver<AuditEvent>, mut file: AuditFile, counters: &AuditCounters) {
    while let Ok(first) = events.recv() {
        file.follow();
        for event in std::iter::once(first).chain(events.try_iter()) {
            counters.waiting_bytes.fetch_sub(event.weight(), Ordering::Relaxed);
            match file.write_line(&event.line()) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::policy::AuditLevel;

    fn event() -> AuditEvent {
        AuditEvent {
            level: AuditLevel::Metadata,
            id: "id".to_owned(),
            stage: "ResponseComplete",
            uri: "/api".to_owned(),
            verb: "get".to_owned(),
            user: Arc::default(),
            impersonated: None,
            peer: None,
            user_agent: String::new(),
            object: None,
            code: None,
            request: None,
            response: None,
            omit_managed_fields: false,
            annotations: Vec::new(),
            received: jiff::Timestamp::now(),
            now: jiff::Timestamp::now(),
        }
    }

    /// A disk that stalls must neither hold up requests nor eat the memory; what is lost is counted.
    #[test]
    fn events_that_cannot_be_written_in_time_are_dropped_and_counted() {
        let (queue, events) = sync_channel(QUEUE);
        let log = AuditLog { policy: AuditPolicy::default(), queue, counters: Arc::default() };
        for _ in 0..QUEUE + 7 {
            log.write(event());
        }
        assert_eq!(log.counts(), (0, 7));
        assert_eq!(events.try_iter().count(), QUEUE);
        log.counters.waiting_bytes.store(0, Ordering::Relaxed);
        let large = || AuditEvent { request: Some(vec![0; QUEUE_BYTES / 2].into()), ..event() };
        for _ in 0..4 {
            log.write(large());
        }
        assert_eq!(log.counts().1, 7 + 3, "one fits with all that is around its body");
        assert!(log.counters.waiting_bytes.load(Ordering::Relaxed) <= QUEUE_BYTES);
    }
}
