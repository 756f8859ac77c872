//! [`LogCursor`]: a position in the log, and the backlog it reads when the tail has moved past it.
//!
//! A cursor reads the tail while it can and the engine's [`LogBacklog`] otherwise; it holds no changes itself. What the tail keeps and
//! drops is decided by the writer, in [`super`].

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use listwatch_wire::Revision;
use tokio::sync::watch;

use super::{Reached, Tail, TailRead};
use crate::{Batch, Changes, Error};

/// The source from which a cursor that fell behind the tail reads on.
///
/// Called once per batch by each cursor that is behind, so an implementation should return a good portion, and bound
/// it: the caller holds it in memory.
#[async_trait]
pub(crate) trait LogBacklog: Send + Sync + Debug {
    /// Some changes after `after`, at least one or a later `upto`.
    ///
    /// # Errors
    ///
    /// [`Error::Compacted`] if history begins after `after`.
    async fn read(&self, after: Revision) -> Result<Batch, Error>;
}

/// An empty backlog, for engines whose history is the tail alone.
#[derive(Debug)]
pub(crate) struct NoBacklog(pub(crate) Arc<Tail>);

#[async_trait]
impl LogBacklog for NoBacklog {
    async fn read(&self, after: Revision) -> Result<Batch, Error> {
        Err(Error::Compacted { asked: after, oldest: self.0.floor() })
    }
}

/// A position in the log.
///
/// The engine's form of a watcher. Holds no changes between two calls, so ten thousand of them cost some hundred
/// bytes each.
#[derive(Debug)]
pub(crate) struct LogCursor {
    tail: Arc<Tail>,
    backlog: Arc<dyn LogBacklog>,
    reached: watch::Receiver<Reached>,
    position: Revision,
}

impl LogCursor {
    /// A cursor whose first batch begins after `after`.
    pub(crate) fn new(tail: Arc<Tail>, backlog: Arc<dyn LogBacklog>, after: Revision) -> Self {
        let reached = tail.reached.subscribe();
        Self { tail, backlog, reached, position: after }
    }

    /// Registers with the channel only here, after a look at the tail found nothing.
    async fn wait(&mut self) -> Result<(), Error> {
        let position = self.position;
        let moved = self.reached.wait_for(|reached| reached.closed || reached.upto > position).await;
        moved.map(drop).map_err(|_| Error::Closed)
    }

    /// The changes to deliver now. An await here loses nothing: the position moves only with the result.
    async fn poll(&self) -> Result<Option<Batch>, Error> {
        if self.tail.is_closed() {
            return Err(Error::Closed);
        }
        match self.tail.find(self.position) {
            TailRead::Batch(batch) => Ok(Some(batch)),
            TailRead::Nothing => Ok(None),
            TailRead::Behind => self.backlog.read(self.position).await.map(Some),
        }
    }
}

#[async_trait]
impl Changes for LogCursor {
    async fn next(&mut self) -> Result<Batch, Error> {
        loop {
            if let Some(batch) = self.poll().await? {
                self.position = batch.upto;
                return Ok(batch);
            }
            self.wait().await?;
        }
    }
}
