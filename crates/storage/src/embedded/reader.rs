//! Reads from disk: a small pool of connections, used outside of the async threads.
//!
//! A read takes what it needs of the [index](super::index) first and begins its transaction second, so the tables are
//! never older than the index; if they are newer, it starts over.
//!
//! Connections are opened when needed, as many as `EmbeddedOptions::readers` at most, and kept. Reads run on tokio's
//! blocking pool. In WAL mode a reader never waits for the writer, nor the writer for a reader; a long read only
//! keeps the write-ahead log from being reused.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use listwatch_wire::Revision;
use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::Semaphore;

use super::index::StoreIndex;
use super::schema::{ConnectionRole, connect};
use super::shared::PublishedState;
use super::snapshot::ReadTransaction;
use crate::tail::LogBacklog;
use crate::{Batch, Error};

/// The longest wait for the writer to publish a batch that it has committed, which is its next step.
const PAUSE: Duration = Duration::from_micros(50);
/// Many seconds: a reader times out only if the writer has ended in between.
const MAX_ATTEMPTS: usize = 100_000;

/// The connections for reading.
#[derive(Debug)]
pub(super) struct Readers {
    path: PathBuf,
    pub(super) shared: Arc<PublishedState>,
    /// A stack: the connection used last has the warmest page cache.
    idle: Mutex<Vec<Connection>>,
    permits: Arc<Semaphore>,
}

impl Readers {
    /// At most `limit` connections read at a time, at least one.
    pub(super) fn new(path: PathBuf, shared: Arc<PublishedState>, limit: usize) -> Self {
        Self { path, shared, idle: Mutex::default(), permits: Arc::new(Semaphore::new(limit.max(1))) }
    }

    /// Reads at `at`: `select` takes what it needs of the index, `read` does the rest within one transaction.
    ///
    /// Waits for a permit without holding a thread. `select` runs under the index's read lock and should copy and go.
    ///
    /// # Errors
    ///
    /// As the read, [`Error::Closed`] after the store was closed. Damage that is found is noted in the health of the
    /// store.
    pub(super) async fn read<S: Send + 'static, T: Send + 'static>(
        self: &Arc<Self>,
        at: Option<Revision>,
        select: impl Fn(&StoreIndex) -> S + Send + 'static,
        read: impl FnOnce(&ReadTransaction<'_>, S) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(|_| Error::Closed)?;
        let readers = Arc::clone(self);
        let task = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            readers.shared.open()?;
            let connection = readers.connection()?;
            let answer = readers.within(&connection, at, select, read);
            readers.put_back(connection);
            answer
        });
        task.await.map_err(|error| Error::Unavailable(format!("the read was lost: {error}")))?
    }

    /// Reads in a transaction that belongs to the same state as the index. It compares the epoch: if the tables are
    /// newer, the writer is about to publish the index for them, and the read is retried.
    ///
    /// `read` is called once at most, which lets it take values by move.
    fn within<S, T>(
        &self,
        connection: &Connection,
        at: Option<Revision>,
        select: impl Fn(&StoreIndex) -> S,
        read: impl FnOnce(&ReadTransaction<'_>, S) -> Result<T, Error>,
    ) -> Result<T, Error> {
        for _ in 0..MAX_ATTEMPTS {
            let (revision, upto, epoch, selected) = {
                let index = self.shared.index.read();
                (index.readable(at)?, index.upto, index.epoch, select(&index))
            };
            let transaction = connection.unchecked_transaction().map_err(|error| self.failed(&error))?;
            if epoch_of(&transaction).map_err(|error| self.failed(&error))? == epoch {
                let snapshot =
                    ReadTransaction { connection: &transaction, shared: &self.shared, revision, upto };
                return read(&snapshot, selected);
            }
            // The writer is about to publish the index that belongs to these tables.
            drop(transaction);
            std::thread::sleep(PAUSE);
        }
        Err(Error::Unavailable("the storage writer stopped half-way".to_owned()))
    }

    fn failed(&self, error: &rusqlite::Error) -> Error {
        self.shared.failed_read(error, |_| None)
    }

    /// An idle connection, or a new one.
    fn connection(&self) -> Result<Connection, Error> {
        let idle = self.idle.lock().pop();
        idle.map_or_else(|| connect(&self.path, ConnectionRole::Reader), Ok)
    }

    /// Drops the connection if the store was closed, so that its files are really closed.
    fn put_back(&self, connection: Connection) {
        if self.shared.open().is_ok() {
            self.idle.lock().push(connection);
        }
    }

    /// Closes the idle connections.
    pub(super) fn close(&self) {
        self.idle.lock().clear();
    }
}

/// The epoch of the tables. A reader whose transaction shows another one than the index reads again.
fn epoch_of(connection: &Connection) -> rusqlite::Result<i64> {
    connection.prepare_cached("SELECT epoch FROM state")?.query_row([], |row| row.get(0))
}

/// A [`LogBacklog`] of all history on disk.
#[derive(Debug)]
pub(super) struct DiskBacklog(pub(super) Arc<Readers>);

#[async_trait]
impl LogBacklog for DiskBacklog {
    async fn read(&self, after: Revision) -> Result<Batch, Error> {
        self.0.read(Some(after), |_| (), |snapshot, ()| snapshot.changes()).await
    }
}
