//! [`AuditLog`]: writes audit events to a file, in a thread of its own.
//!
//! Requests never wait for the disk: the queue is bounded in events and bytes, and what does not fit is dropped and
//! counted (`listwatch_audit_dropped_total`), as in kube-apiserver's `batch` mode. The file is opened again when it
//! was renamed, so that logrotate works without a signal. Events are flushed whenever the queue is empty; they are
//! not synced, so a crash of the machine may lose the last ones.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use http::HeaderValue;

use crate::Error;
use crate::audit::draft::AuditDraft;
use crate::audit::event::AuditEvent;
use crate::audit::policy::AuditPolicy;

/// Events that wait to be written, as in kube-apiserver's buffer.
const QUEUE: usize = 10_000;
/// Bytes they may hold: events carry bodies if the policy says so, and a disk that stalls must not eat the memory.
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

#[derive(Debug, Default)]
struct AuditCounters {
    waiting_bytes: AtomicUsize,
    written: AtomicU64,
    dropped: AtomicU64,
}

impl AuditLog {
    /// Appends to the file, which only its owner may read.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub(crate) fn open(policy: AuditPolicy, path: &Path) -> Result<Arc<Self>, Error> {
        let failed = |source| Error::File { path: path.to_owned(), source };
        let file = LogFile::open(path).map_err(failed)?;
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

    /// Leaves the event to the writer. Nobody waits for it.
    pub(super) fn write(&self, event: AuditEvent) {
        let weight = event.weight();
        let waiting = self.counters.waiting_bytes.fetch_add(weight, Ordering::Relaxed);
        if waiting + weight > QUEUE_BYTES || self.queue.try_send(event).is_err() {
            self.counters.waiting_bytes.fetch_sub(weight, Ordering::Relaxed);
            self.counters.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Writes events until all senders are gone. The file is flushed whenever the queue is empty.
fn run(events: &Receiver<AuditEvent>, mut file: LogFile, counters: &AuditCounters) {
    while let Ok(first) = events.recv() {
        file.follow();
        for event in std::iter::once(first).chain(events.try_iter()) {
            counters.waiting_bytes.fetch_sub(event.weight(), Ordering::Relaxed);
            match file.writer.write_all(&event.line()) {
                Ok(()) => counters.written.fetch_add(1, Ordering::Relaxed),
                Err(error) => {
                    tracing::warn!(%error, "the audit log cannot be written");
                    counters.dropped.fetch_add(1, Ordering::Relaxed)
                }
            };
        }
        if let Err(error) = file.writer.flush() {
            tracing::warn!(%error, "the audit log cannot be written");
        }
    }
}

/// The file, wherever its name goes.
struct LogFile {
    path: PathBuf,
    writer: BufWriter<File>,
    /// The file system and the file in it.
    identity: (u64, u64),
}

impl LogFile {
    fn open(path: &Path) -> std::io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        let metadata = file.metadata()?;
        let identity = (metadata.dev(), metadata.ino());
        Ok(Self { path: path.to_owned(), writer: BufWriter::new(file), identity })
    }

    /// Begins a new file if the old one was moved away, as programs do that rotate logs.
    fn follow(&mut self) {
        let now = std::fs::metadata(&self.path).map(|metadata| (metadata.dev(), metadata.ino()));
        if now.ok() == Some(self.identity) {
            return;
        }
        match Self::open(&self.path) {
            Ok(file) => *self = file,
            Err(error) => {
                tracing::warn!(%error, "the audit log cannot be opened again, the old file is used")
            }
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
    fn what_cannot_be_written_in_time_is_dropped_and_counted() {
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

    #[test]
    fn a_file_that_is_moved_away_or_truncated_is_begun_anew() {
        let directory = tempfile::tempdir().unwrap();
        let (path, moved) = (directory.path().join("audit.log"), directory.path().join("audit.log.1"));
        let mut file = LogFile::open(&path).unwrap();
        let mut write = |text: &str| {
            file.follow();
            file.writer.write_all(text.as_bytes()).unwrap();
            file.writer.flush().unwrap();
        };
        write("one\n");
        std::fs::rename(&path, &moved).unwrap();
        write("two\n");
        let text = |path: &Path| std::fs::read_to_string(path).unwrap();
        assert_eq!((text(&moved).as_str(), text(&path).as_str()), ("one\n", "two\n"));
        File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
        write("three\n");
        assert_eq!(text(&path), "three\n");
        let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
    }
}
