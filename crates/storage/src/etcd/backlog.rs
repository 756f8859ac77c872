//! [`EtcdBacklog`]: changes that the tail no longer has, read from etcd's own history.
//!
//! etcd reads all history after a position for each watch that begins there, however little of it is taken. So a cursor
//! keeps its watch open between two portions, each a part of etcd's responses ([`super::parts`]), for as long as it reads
//! on. Such a watch has a connection of its own: a reader that pauses would otherwise block the connection of
//! everybody. Their number is bounded, since each costs etcd memory; a cursor without a place in time has lost its
//! history, as if it was compacted.

use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use etcd_client::{Client, WatchStream};
use listwatch_wire::Revision;
use tokio::sync::{Mutex, OwnedSemaphorePermit};
use tokio::time::{sleep, timeout};

use super::call::{CallFailure, connect};
use super::feed::EtcdShared;
use super::keyspace::revision;
use super::parts::Parts;
use crate::tail::LogBacklog;
use crate::{Batch, Error};

/// The readers of history at one time.
pub(super) const READERS: usize = 4;
/// The time after which a reader that pauses gives up its watch.
const KEEP: Duration = Duration::from_secs(3);

/// The backlog of one cursor.
#[derive(Debug)]
pub(super) struct EtcdBacklog {
    shared: Arc<EtcdShared>,
    open: Arc<Mutex<Option<OpenHistory>>>,
}

/// A watch on history.
struct OpenHistory {
    /// The end of what was read.
    at: Revision,
    stream: WatchStream,
    parts: Parts,
    _connection: Client,
    _place: OwnedSemaphorePermit,
}

impl std::fmt::Debug for OpenHistory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenHistory").field("at", &self.at).finish_non_exhaustive()
    }
}

impl EtcdBacklog {
    pub(super) fn new(shared: Arc<EtcdShared>) -> Self {
        Self { shared, open: Arc::default() }
    }
}

#[async_trait]
impl LogBacklog for EtcdBacklog {
    async fn read(&self, after: Revision) -> Result<Batch, Error> {
        let mut open = self.open.lock().await;
        let mut history = match open.take().filter(|history| history.at == after) {
            Some(history) => history,
            None => OpenHistory::begin(&self.shared, after).await?,
        };
        let batch = history.next(&self.shared).await?;
        // The tail has the rest.
        if batch.upto < self.shared.tail.floor() {
            history.at = batch.upto;
            *open = Some(history);
            tokio::spawn(close_later(Arc::downgrade(&self.open), batch.upto));
        }
        Ok(batch)
    }
}

/// Closes a watch that was not read since.
async fn close_later(open: Weak<Mutex<Option<OpenHistory>>>, at: Revision) {
    sleep(KEEP).await;
    if let Some(open) = open.upgrade() {
        let mut open = open.lock().await;
        *open = open.take().filter(|history| history.at != at);
    }
}

/// Returns the begin of history: what etcd reports to a watch that begins before it.
///
/// # Errors
/// [`Error::Unavailable`] if etcd reports nothing.
pub(super) async fn oldest(shared: &EtcdShared) -> Result<Revision, Error> {
    match OpenHistory::begin(shared, Revision::ZERO).await?.next(shared).await {
        Err(Error::Compacted { oldest, .. }) => Ok(oldest),
        Err(error) => Err(error),
        Ok(_) => Err(Error::Unavailable("etcd contradicts itself about its history".to_owned())),
    }
}

impl OpenHistory {
    /// Opens a watch on what came after `after`, once there is a place.
    ///
    /// # Errors
    /// [`Error::Compacted`] if there is no place in time, and those of the connection.
    async fn begin(shared: &EtcdShared, after: Revision) -> Result<Self, Error> {
        let place = timeout(shared.options.deadline, Arc::clone(&shared.readers).acquire_owned()).await;
        let Ok(Ok(place)) = place else {
            return Err(Error::Compacted { asked: after, oldest: shared.tail.floor() });
        };
        let connection = connect(&shared.options.endpoints, &shared.options).await?;
        let stream = shared.watch(&connection, after).await.map_err(error)?;
        Ok(Self { at: after, stream, parts: Parts::default(), _connection: connection, _place: place })
    }

    /// Reads one portion.
    ///
    /// # Errors
    /// [`Error::Compacted`] with etcd's compaction revision if `at` is before it.
    async fn next(&mut self, shared: &EtcdShared) -> Result<Batch, Error> {
        let mut marked = false;
        loop {
            let response = match timeout(shared.options.progress * 5, self.stream.message()).await {
                // Silence: either etcd is slow, or there is nothing between here and the tail. Writing the marker
                // decides it.
                Err(_) if !marked => {
                    shared.mark().await.map_err(CallFailure::into_error)?;
                    marked = true;
                    continue;
                }
                Err(_) => continue,
                Ok(response) => response.map_err(error)?,
            };
            let ended = || Error::Unavailable("etcd ended the watch".to_owned());
            let mut response = response.ok_or_else(ended)?;
            if response.canceled() {
                let oldest = revision(response.compact_revision());
                return Err(match oldest > self.at {
                    true => Error::Compacted { asked: self.at, oldest },
                    false => ended(),
                });
            }
            if let Some(batch) = shared.keys.batch(self.parts.add(&mut response)) {
                return Ok(batch);
            }
        }
    }
}

fn error(error: etcd_client::Error) -> Error {
    CallFailure::from(error).into_error()
}
