//! The one thread that writes.
//!
//! It takes whatever waits, decides all of it in one transaction, syncs once, publishes, and only then answers. While the
//! disk works, the next batch gathers. Between batches it does one small step of [upkeep](super::upkeep).

use std::mem;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use listwatch_wire::Revision;
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::batch::{Staged, Statements};
use super::failure::writing;
use super::recover::Recovered;
use super::shared::Shared;
use super::upkeep::Upkeep;
use super::{EmbeddedOptions, checkpoint};
use crate::{Batch, Error, Health, Write, Written};

/// How often the writer steps aside for those who are expected: some microseconds in all.
const YIELDS: usize = 8;

type Answer<T> = oneshot::Sender<Result<T, Error>>;

/// What the writer is asked to do.
#[derive(Debug)]
pub(super) enum Request {
    Write(Write, Answer<Written>),
    Compact(Revision, Answer<()>),
    /// Some time has passed.
    Tick,
    /// Most of the write-ahead log is in its place.
    Checkpointed,
    Close(Answer<()>),
}

/// The writer's own state; lives on its thread.
pub(super) struct Writer<'c> {
    pub(super) connection: &'c Connection,
    pub(super) shared: Arc<Shared>,
    pub(super) upkeep: Upkeep,
    options: EmbeddedOptions,
    statements: Statements<'c>,
    checkpointer: SyncSender<()>,
    /// Roughly how much the write-ahead log has that is not in its place.
    pub(super) unmoved_bytes: u64,
    /// How many writes the last batch had.
    last_batch: usize,
    /// Why writes are refused, if they are.
    broken: Option<String>,
}

/// What has come meanwhile. Whoever was answered by the last batch usually comes back at once: as long as fewer are here
/// than were then, it pays to let them, for a sync costs more than a moment's wait. A writer that is alone never waits.
fn next_of_wave(inbox: &mut mpsc::Receiver<Request>, more_expected: bool) -> Option<Request> {
    let mut patience = if more_expected { YIELDS } else { 0 };
    loop {
        match inbox.try_recv() {
            Ok(request) => return Some(request),
            Err(_) if patience == 0 => return None,
            Err(_) => patience -= 1,
        }
        std::thread::yield_now();
    }
}

struct Pending {
    write: Write,
    answer: Answer<Written>,
}

impl<'c> Writer<'c> {
    pub(super) fn new(
        connection: &'c Connection,
        shared: Arc<Shared>,
        recovered: Recovered,
        options: EmbeddedOptions,
        checkpointer: SyncSender<()>,
    ) -> Result<Self, Error> {
        let statements = Statements::prepare(connection).map_err(|error| writing(&error))?;
        let upkeep = Upkeep::new(recovered, &options);
        Ok(Self {
            connection,
            shared,
            upkeep,
            options,
            statements,
            checkpointer,
            unmoved_bytes: 0,
            last_batch: 0,
            broken: None,
        })
    }

    /// Works until asked to close, or until nobody can ask any more.
    pub(super) fn run(mut self, mut inbox: mpsc::Receiver<Request>) {
        let mut requests = Vec::with_capacity(self.options.batch);
        let mut closing = Vec::new();
        while self.receive(&mut inbox, &mut requests) {
            let mut writes = Vec::with_capacity(requests.len());
            for request in requests.drain(..) {
                match request {
                    Request::Write(write, answer) => writes.push(Pending { write, answer }),
                    Request::Compact(upto, answer) => drop(answer.send(self.compact(upto))),
                    Request::Tick => self.tick(),
                    Request::Checkpointed => self.finish_checkpoint(),
                    Request::Close(answer) => {
                        // What is already in the queue is still done, then the queue reports its end.
                        inbox.close();
                        closing.push(answer);
                    }
                }
            }
            let batch = self.commit(writes, &mut inbox, &mut requests);
            self.after_batch(batch);
        }
        self.close();
        closing.into_iter().for_each(|answer| drop(answer.send(Ok(()))));
    }

    /// Waits for requests, unless there are some left or there is upkeep to do meanwhile. False at the end.
    fn receive(&self, inbox: &mut mpsc::Receiver<Request>, requests: &mut Vec<Request>) -> bool {
        if !requests.is_empty() {
            return true;
        }
        if self.broken.is_some() || !self.upkeep_due() {
            return inbox.blocking_recv_many(requests, self.options.batch) > 0;
        }
        while requests.len() < self.options.batch {
            match inbox.try_recv() {
                Ok(request) => requests.push(request),
                Err(mpsc::error::TryRecvError::Empty) => break,
                Err(mpsc::error::TryRecvError::Disconnected) => return !requests.is_empty(),
            }
        }
        true
    }

    /// Commits `writes` and those that come while they are decided; what else comes is left in `requests`. Returns how
    /// many it committed.
    fn commit(
        &mut self,
        writes: Vec<Pending>,
        inbox: &mut mpsc::Receiver<Request>,
        requests: &mut Vec<Request>,
    ) -> usize {
        if writes.is_empty() {
            return 0;
        }
        if let Some(reason) = &self.broken {
            let error = Error::ReadOnly(reason.clone());
            writes.into_iter().for_each(|pending| drop(pending.answer.send(Err(error.clone()))));
            return 0;
        }
        let mut answers = Vec::with_capacity(writes.len().max(self.last_batch));
        match self.transact(writes, &mut answers, inbox, requests) {
            Ok(staged) => {
                self.last_batch = answers.len();
                self.publish(staged);
                answers.into_iter().for_each(|(answer, written)| drop(answer.send(Ok(written))));
            }
            Err(error) => {
                let error = self.fail(&error);
                answers.into_iter().for_each(|(answer, _)| drop(answer.send(Err(error.clone()))));
            }
        }
        self.last_batch
    }

    /// Every answer is there even if this fails; then all of them are that failure.
    fn transact(
        &mut self,
        writes: Vec<Pending>,
        answers: &mut Vec<(Answer<Written>, Written)>,
        inbox: &mut mpsc::Receiver<Request>,
        requests: &mut Vec<Request>,
    ) -> rusqlite::Result<Staged> {
        let mut staged = Staged::default();
        let mut outcome = self.statements.begin.execute([]).map(drop);
        // Nobody else changes the index, so the lock can be held while the transaction is put together.
        let index = self.shared.index.read();
        let mut stage = |Pending { write, answer }: Pending, answers: &mut Vec<_>| {
            let written = match &outcome {
                Ok(()) => staged.stage(write, &index, &self.shared, &mut self.statements),
                Err(_) => Ok(Written::Refused { current: None }),
            };
            answers.push((
                answer,
                written.unwrap_or_else(|error| {
                    outcome = Err(error);
                    Written::Refused { current: None }
                }),
            ));
        };
        writes.into_iter().for_each(|pending| stage(pending, answers));
        while answers.len() < self.options.batch && requests.is_empty() {
            match next_of_wave(inbox, answers.len() < self.last_batch) {
                Some(Request::Write(write, answer)) => stage(Pending { write, answer }, answers),
                Some(other) => requests.push(other),
                None => break,
            }
        }
        drop(index);
        outcome?;
        self.statements.commit.execute([])?;
        Ok(staged)
    }

    /// Shows durable changes to readers, then to those who follow the log.
    fn publish(&mut self, staged: Staged) {
        let Some(upto) = staged.changes.last().map(|change| change.revision) else { return };
        {
            let mut index = self.shared.index.write();
            staged.heads.into_iter().for_each(|(key, head)| index.insert(key, head));
            index.upto = upto;
        }
        self.upkeep.written(staged.bytes);
        self.unmoved_bytes += staged.bytes + checkpoint::BATCH_OVERHEAD;
        self.shared.tail.publish(Batch { changes: staged.changes.into(), upto });
    }

    fn after_batch(&mut self, writes: usize) {
        if self.broken.is_none() && self.upkeep_due() {
            self.upkeep_step(writes);
        }
        if self.unmoved_bytes > self.options.checkpoint_bytes {
            // If the checkpointer is at work already, it will hear of this the next time.
            let _ = self.checkpointer.try_send(());
        }
    }

    /// Leaves the transaction and refuses writes from now on. Reads go on: nothing that they see has changed.
    pub(super) fn fail(&mut self, error: &rusqlite::Error) -> Error {
        if !self.connection.is_autocommit() {
            let _ = self.connection.execute_batch("ROLLBACK");
        }
        let error = writing(error);
        let reason = match &error {
            Error::ReadOnly(reason) | Error::Unavailable(reason) | Error::Corrupt(reason) => reason.clone(),
            other => other.to_string(),
        };
        tracing::error!(%error, "storage goes read-only until the disk takes writes again");
        *self.shared.health.write() = Health::ReadOnly(reason.clone());
        self.broken = Some(reason);
        error
    }

    fn tick(&mut self) {
        if self.broken.is_some() && self.probe().is_ok() {
            tracing::info!("the disk takes writes again");
            *self.shared.health.write() = Health::Ready;
            self.broken = None;
        }
        if self.broken.is_none()
            && let Err(error) = self.retain()
        {
            self.fail(&error);
        }
    }

    /// Writes as much as a good batch would, and takes it back. A commit that failed half-way left its frames after the
    /// end of the write-ahead log; this overwrites them, so that no later crash can bring them to life.
    fn probe(&self) -> rusqlite::Result<()> {
        let _ = self.connection.execute_batch("ROLLBACK");
        let write = "BEGIN IMMEDIATE; CREATE TABLE probe (content BLOB); INSERT INTO probe VALUES (zeroblob(524288)); COMMIT;";
        let undo = "DROP TABLE IF EXISTS probe;";
        self.connection.execute_batch(undo)?;
        let written = self.connection.execute_batch(write);
        if written.is_err() && !self.connection.is_autocommit() {
            let _ = self.connection.execute_batch("ROLLBACK");
        }
        written.and_then(|()| self.connection.execute_batch(undo))
    }

    fn close(mut self) {
        while self.broken.is_none() && self.index_step(usize::MAX) {}
        if let Err(error) = checkpoint::finish(self.connection) {
            tracing::warn!(%error, "could not put everything in its place at the end; the next start will");
        }
        let tail = Arc::clone(&self.shared.tail);
        drop(mem::replace(
            &mut *self.shared.health.write(),
            Health::Unavailable("storage is closed".to_owned()),
        ));
        tail.close();
    }
}
