//! The embedded engine: a store on the disk of one machine, on SQLite.
//!
//! The steps of a write: [`EmbeddedEngine::write`] puts it in a queue; the [writer] takes all queued writes,
//! [decides](batch) them and commits them with one sync, publishes them to the [index] and the [tail](crate::tail), and
//! answers. [Upkeep](upkeep) runs between batches, [checkpoints](checkpoint) run on a separate thread. Reads that the
//! index and the tail cannot answer use [separate connections](reader). [Offline](offline) has the maintenance
//! operations: check, back up, restore, compact.
//!
//! Threads: one writer, one checkpointer, and the blocking pool of tokio for reads. The writer owns all decisions, so
//! there is no lock between two writes and no conflict to resolve; readers see [published state](shared) and
//! immutable transactions.
//!
//! Durability comes from SQLite's write-ahead log with `synchronous = FULL` and from the rule that nothing is published
//! or answered before the commit returned. etcd's WAL and bbolt have the same split: first a synced log, later the
//! database file.
//!
//! It is not for several processes: the directory is locked. Several servers share an etcd instead (`etcd/`).

mod announce;
mod attachments;
mod batch;
mod checkpoint;
mod checksum;
mod damage;
mod failure;
mod files;
mod index;
mod mark;
pub mod offline;
mod options;
mod pending;
mod probe;
mod reader;
mod recover;
mod reserve;
mod retention;
mod schema;
mod shared;
mod snapshot;
mod sweep;
mod upkeep;
mod wave;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::{self, JoinHandle};

use async_trait::async_trait;
use listwatch_wire::Revision;
use parking_lot::{Mutex, RwLock};
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

pub use options::EmbeddedOptions;

use crate::tail::{LogCursor, Tail, TailBounds};
use crate::usage::SyncCounter;
use crate::{
    Changes, Engine, Error, Health, KeyValue, KeyVersion, Page, Range, Transacted, Usage, VersionRange,
    Write, Written,
};
use announce::Announcer;
use files::Directory;
use mark::RevisionMark;
use pending::WriterRequest;
use reader::{DiskBacklog, Readers};
use recover::{Recovered, recover};
use schema::{ConnectionRole, connect};
use shared::PublishedState;
use writer::EngineWriter;

/// The message about a store that is at an older revision than it was.
const LOST_CHANGES: &str = "the store has lost changes: its write-ahead log (store.db-wal) was removed or cut off, or an \
    older store.db was put in its place";

/// SQLite takes no larger values than about this; what the server takes is far below.
const MAX_VALUE: usize = 512 << 20;

/// A durable store in a directory.
///
/// Dropping it finishes what was accepted and waits for that; [`Engine::close`] does the same without blocking a thread.
///
/// Clones are not needed: the server keeps it behind an `Arc<dyn Engine>`. No async method blocks its thread on the
/// disk; `usage` reads the sizes of two files.
#[derive(Debug)]
pub struct EmbeddedEngine {
    shared: Arc<PublishedState>,
    readers: Arc<Readers>,
    /// Taken away on close.
    ///
    /// Writes that hold a clone of the sender when that happens are still served.
    requests: Mutex<Option<mpsc::Sender<WriterRequest>>>,
    /// The writer and the checkpointer, joined by whichever comes first, close or drop.
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Holds the lock of the directory. Released last, when no thread can write any more.
    directory: Mutex<Option<Directory>>,
}

impl EmbeddedEngine {
    /// Opens the store in `directory`, making one if there is none.
    ///
    /// ```
    /// use listwatch_storage::{EmbeddedEngine, EmbeddedOptions, Engine, Expect, Write, Written};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let directory = tempfile::tempdir()?;
    /// let engine = EmbeddedEngine::open(directory.path(), EmbeddedOptions::default()).await?;
    /// let write = Write { key: "/a".into(), value: Some("1".into()), expect: Expect::Absent, origin: None };
    /// let Written::Done { revision } = engine.write(write).await? else { unreachable!() };
    /// engine.close().await?;
    ///
    /// // What was acknowledged is there after a restart, at the same revision.
    /// let engine = EmbeddedEngine::open(directory.path(), EmbeddedOptions::default()).await?;
    /// assert_eq!(engine.get("/a", None).await?.map(|found| found.revision), Some(revision));
    /// # engine.close().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the directory cannot be used or another process has it, [`Error::Corrupt`] if what is in
    /// it cannot be a store that a crash left behind.
    pub async fn open(directory: impl Into<PathBuf>, options: EmbeddedOptions) -> Result<Self, Error> {
        let directory = directory.into();
        let opened = tokio::task::spawn_blocking(move || Self::open_blocking(&directory, options)).await;
        opened.map_err(|error| Error::Unavailable(format!("opening the store was interrupted: {error}")))?
    }

    /// Opens the store: takes the lock of the directory, prepares the tables, recovers the index and starts the
    /// threads. The lock comes first, since two writers would overwrite each other's log.
    fn open_blocking(directory: &Path, options: EmbeddedOptions) -> Result<Self, Error> {
        let directory = Directory::take(directory)?;
        let path = directory.database()?;
        let mut connection = connect(&path, ConnectionRole::Writer)?;
        schema::prepare(&mut connection)?;
        probe::clean(&connection).map_err(|error| failure::writing(&error))?;
        // A new database was first journalled in the old way: that journal must not come back after a power loss.
        directory.sync()?;
        if options.max_pages > 0 {
            let limit = connection.pragma_update(None, "max_page_count", options.max_pages);
            limit.map_err(|error| failure::writing(&error))?;
        }
        let mut recovered = recover(&connection)?;
        let bounds = TailBounds { changes: options.tail_changes, bytes: options.tail_bytes };
        let index = std::mem::take(&mut recovered.index);
        if let Some(before) = RevisionMark::beside(&path)?.lost(index.upto) {
            let now = index.upto;
            tracing::error!(revision = now.0, before = before.0, "{LOST_CHANGES}");
        }
        let tail = Arc::new(Tail::new(index.upto, bounds));
        let shared = Arc::new(PublishedState {
            index: RwLock::new(index),
            tail,
            condition: RwLock::default(),
            damage: Mutex::default(),
            syncs: SyncCounter::default(),
        });
        let readers = Arc::new(Readers::new(path.clone(), Arc::clone(&shared), options.readers));
        let (requests, threads) = start(path, connection, &shared, recovered, options)?;
        Ok(Self {
            shared,
            readers,
            requests: Mutex::new(Some(requests)),
            threads: Mutex::new(threads),
            directory: Mutex::new(Some(directory)),
        })
    }

    fn requests(&self) -> Result<mpsc::Sender<WriterRequest>, Error> {
        self.requests.lock().clone().ok_or(Error::Closed)
    }

    /// Waits for a place in the queue, which is bounded by `EmbeddedOptions::queue`: on a slow disk callers wait
    /// here, and memory stays bounded.
    async fn ask<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<Result<T, Error>>) -> WriterRequest,
    ) -> Result<T, Error> {
        let (answer, answered) = oneshot::channel();
        self.requests()?.send(request(answer)).await.map_err(|_| Error::Closed)?;
        // The writer answers every request it took; if it ended without a response, the outcome is unknown.
        answered.await.map_err(|_| Error::Unavailable("the storage writer stopped".to_owned()))?
    }

    /// Answers a read of one key from memory, if everything about it is recent.
    ///
    /// The usual case of an update: an object that was written lately is read without a thread or the disk. `None`
    /// means that the tables must be read.
    fn recent(&self, key: &str, at: Option<Revision>) -> Result<Option<Option<KeyValue>>, Error> {
        let index = self.shared.index.read();
        let revision = index.readable(at)?;
        Ok(match index.get(key) {
            Some((_, head)) if head.revision > revision => None,
            Some((_, head)) if !head.live => Some(None),
            Some((key, head)) => {
                let value = self.shared.tail.value_at(head.revision);
                value.map(|value| Some(KeyValue { key: Arc::clone(key), value, revision: head.revision }))
            }
            None => None,
        })
    }

    /// Blocks until both threads have ended, and then lets go of files and lock. Called a second time, it finds
    /// nothing to do.
    fn join(&self) {
        for thread in self.threads.lock().drain(..) {
            let _ = thread.join();
        }
        self.readers.close();
        self.directory.lock().take();
    }
}

/// Starts the writer and the checkpointer.
///
/// The checkpointer gets a weak sender: it must not keep the writer alive when all other senders are dropped.
fn start(
    path: PathBuf,
    connection: Connection,
    shared: &Arc<PublishedState>,
    recovered: Recovered,
    options: EmbeddedOptions,
) -> Result<(mpsc::Sender<WriterRequest>, Vec<JoinHandle<()>>), Error> {
    let (requests, inbox) = mpsc::channel(options.queue.max(1));
    let (wanted, wants) = sync_channel(1);
    let weak = requests.downgrade();
    let shared = Arc::clone(shared);
    let announcer = Announcer::start(Arc::clone(&shared.tail));
    let write = move || match EngineWriter::new(
        &connection,
        Arc::clone(&shared),
        recovered,
        options,
        (announcer, wanted),
    ) {
        Ok(writer) => writer.run(inbox),
        Err(error) => *shared.condition.write() = Health::Unavailable(error.to_string()),
    };
    let writer = spawn("listwatch-store", write)?;
    let checkpointer = spawn("listwatch-move", move || checkpoint::run(&path, &wants, &weak))?;
    Ok((requests, vec![writer, checkpointer]))
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Error> {
    let spawned = thread::Builder::new().name(name.to_owned()).spawn(run);
    spawned.map_err(|error| Error::Unavailable(format!("cannot start a storage thread: {error}")))
}

#[async_trait]
impl Engine for EmbeddedEngine {
    async fn current(&self) -> Result<Revision, Error> {
        self.shared.open()?;
        Ok(self.shared.upto())
    }

    async fn get(&self, key: &str, at: Option<Revision>) -> Result<Option<KeyValue>, Error> {
        self.shared.open()?;
        if let Some(recent) = self.recent(key, at)? {
            return Ok(recent);
        }
        let key: Arc<str> = key.into();
        let select = {
            let key = Arc::clone(&key);
            move |index: &index::StoreIndex| index.get(&key).map(|(_, head)| head)
        };
        self.readers.read(at, select, move |snapshot, recent| snapshot.get(&key, recent)).await
    }

    async fn range(&self, range: Range) -> Result<Page, Error> {
        self.shared.open()?;
        let select = {
            let (start, end) = (Arc::clone(&range.start), Arc::clone(&range.end));
            move |index: &index::StoreIndex| index.between(&start, &end)
        };
        self.readers.read(range.at, select, move |snapshot, recent| snapshot.page(&range, recent)).await
    }

    async fn versions(&self, key: &str, range: VersionRange) -> Result<Vec<KeyVersion>, Error> {
        self.shared.open()?;
        let key: Arc<str> = key.into();
        let select = {
            let key = Arc::clone(&key);
            move |index: &index::StoreIndex| (index.get(&key).map(|(_, head)| head), index.compacted)
        };
        let read = move |snapshot: &snapshot::ReadTransaction<'_>, (recent, oldest)| {
            snapshot.versions(&key, recent, range, oldest)
        };
        self.readers.read(None, select, read).await
    }

    async fn write(&self, write: Write) -> Result<Written, Error> {
        write.check()?;
        if write.value.as_ref().is_some_and(|value| value.len() > MAX_VALUE) {
            return Err(Error::Invalid(format!("the value is larger than {MAX_VALUE} bytes")));
        }
        self.ask(|answer| WriterRequest::Write(write, answer)).await
    }

    async fn transact(&self, writes: Vec<Write>) -> Result<Transacted, Error> {
        Write::check_all(&writes)?;
        if writes.iter().any(|write| write.value.as_ref().is_some_and(|value| value.len() > MAX_VALUE)) {
            return Err(Error::Invalid(format!("a value is larger than {MAX_VALUE} bytes")));
        }
        self.ask(|answer| WriterRequest::Transact(writes, answer)).await
    }

    async fn changes(&self, after: Revision) -> Result<Box<dyn Changes>, Error> {
        self.shared.open()?;
        // The index is published before the tail: a reader of the index may use a position that the tail has not reached
        // yet.
        let upto = self.shared.index.read().readable(Some(after))?;
        self.shared.tail.wait_for(upto).await?;
        let backlog = Arc::new(DiskBacklog(Arc::clone(&self.readers)));
        Ok(Box::new(LogCursor::new(Arc::clone(&self.shared.tail), backlog, after)))
    }

    async fn compact(&self, upto: Revision) -> Result<(), Error> {
        self.ask(|answer| WriterRequest::Compact(upto, answer)).await
    }

    async fn compacted(&self) -> Result<Revision, Error> {
        self.shared.open()?;
        Ok(self.shared.index.read().compacted)
    }

    fn health(&self) -> Health {
        self.shared.health()
    }

    fn usage(&self) -> Usage {
        let bytes = self.directory.lock().as_ref().map(Directory::database_bytes);
        Usage { bytes, syncs: Some(self.shared.syncs.read()) }
    }

    async fn close(&self) -> Result<(), Error> {
        let Ok(requests) = self.requests() else { return Ok(()) };
        let (answer, answered) = oneshot::channel();
        let sent = requests.send(WriterRequest::Close(answer)).await;
        drop(requests);
        self.requests.lock().take();
        if sent.is_ok() {
            let _ = answered.await;
        }
        self.join();
        Ok(())
    }
}

impl Drop for EmbeddedEngine {
    fn drop(&mut self) {
        self.requests.lock().take();
        self.join();
    }
}
