//! The writer thread: the only thread that writes to the database.
//!
//! It takes all waiting requests, decides them in one transaction, syncs once, publishes, and only then answers, through
//! [the task that announces](super::announce). During
//! the sync, the next batch collects. Between batches it does one small step of [upkeep](super::upkeep).
//!
//! States: writes are taken; or `broken`, when a commit failed and all writes fail with `ReadOnly`; or broken and
//! `full`, when deletions and a few essential writes are taken on the space of the [reserve](super::reserve). Once per
//! second it checks if writes can be accepted again.
//!
//! [`batch`](super::batch) decides the conditions of writes, [`wave`](super::wave) how long to wait for more of them.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Instant;

use listwatch_wire::Revision;
use rusqlite::Connection;
use tokio::sync::mpsc;

use super::announce::{Announcement, Announcer};
use super::batch::{Staged, Statements, Transaction};
use super::failure::writing;
use super::mark::RevisionMark;
use super::pending::{Decided, PendingWrite, WriterRequest};
use super::probe::probe;
use super::recover::Recovered;
use super::reserve::Reserve;
use super::shared::PublishedState;
use super::upkeep::Upkeep;
use super::wave::Wave;
use super::{EmbeddedOptions, checkpoint};
use crate::{Batch, Error, Health, Write};

/// The state of the writer. Owned by its thread, so it needs no lock.
///
/// Not shared and without locks of its own. Fields that are `pub(super)` are used by `upkeep` and `checkpoint`, which
/// add methods of this type in their own files.
pub(super) struct EngineWriter<'c> {
    pub(super) connection: &'c Connection,
    pub(super) shared: Arc<PublishedState>,
    pub(super) upkeep: Upkeep,
    options: EmbeddedOptions,
    statements: Statements<'c>,
    checkpointer: SyncSender<()>,
    /// Roughly the bytes of the write-ahead log that are not in the main file yet.
    ///
    /// An estimate by [`checkpoint::BATCH_OVERHEAD`] and content. It only decides when a checkpoint is due, so an
    /// error in it costs a little disk space or one needless pass.
    pub(super) unmoved_bytes: u64,
    wave: Wave,
    announcer: Announcer,
    /// The reason that writes are refused, if they are.
    broken: Option<String>,
    /// The disk is full: deletions are taken, on the space of the reserve, and history is dropped.
    full: bool,
    /// The bytes of essential writes that were taken since then.
    ///
    /// Bounded by a quarter of the reserve, so that the rest stays for deletions and for emptying the write-ahead
    /// log.
    essential_bytes: u64,
    /// The reserve was released on the full disk: all writes are accepted again once it is held again, or as much space is
    /// free.
    gave_reserve: bool,
    reserve: Reserve,
    mark: RevisionMark,
}

impl<'c> EngineWriter<'c> {
    /// Prepares the statements and the reserve. The index was read by recovery before.
    pub(super) fn new(
        connection: &'c Connection,
        shared: Arc<PublishedState>,
        recovered: Recovered,
        options: EmbeddedOptions,
        (announcer, checkpointer): (Announcer, SyncSender<()>),
    ) -> Result<Self, Error> {
        let statements = Statements::prepare(connection).map_err(|error| writing(&error))?;
        let database = connection.path().map(std::path::Path::new).unwrap_or(std::path::Path::new(""));
        let reserve = Reserve::beside(database, options.reserve_bytes);
        let mark = RevisionMark::beside(database)?;
        let upkeep = Upkeep::new(recovered, &options);
        Ok(Self {
            connection,
            shared,
            upkeep,
            options,
            statements,
            checkpointer,
            unmoved_bytes: 0,
            wave: Wave::default(),
            announcer,
            broken: None,
            full: false,
            essential_bytes: 0,
            gave_reserve: false,
            reserve,
            mark,
        })
    }

    /// Runs until it is closed, or until all senders are dropped.
    ///
    /// An iteration is: receive, commit, publish, answer, one step of upkeep. Only writes that arrive during the few
    /// milliseconds of upkeep wait for it.
    pub(super) fn run(mut self, mut inbox: mpsc::Receiver<WriterRequest>) {
        let mut requests = Vec::with_capacity(self.options.batch);
        let mut closing = Vec::new();
        while self.receive(&mut inbox, &mut requests) {
            let mut writes = Vec::with_capacity(requests.len());
            for request in requests.drain(..) {
                match request {
                    WriterRequest::Write(write, answer) => writes.push(PendingWrite::One(write, answer)),
                    WriterRequest::Transact(all, answer) => writes.push(PendingWrite::All(all, answer)),
                    WriterRequest::Compact(upto, answer) => drop(answer.send(self.compact(upto))),
                    WriterRequest::Tick => self.tick(),
                    WriterRequest::Checkpointed => self.finish_checkpoint(),
                    WriterRequest::Close(answer) => {
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

    /// Waits for requests, unless some are left or upkeep is due. False at the end.
    ///
    /// While upkeep is due it only polls, so that an idle store works through its upkeep at full speed.
    fn receive(&self, inbox: &mut mpsc::Receiver<WriterRequest>, requests: &mut Vec<WriterRequest>) -> bool {
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
    ///
    /// The order of publishing and answering matters: a caller that got its response may list at once, and must find
    /// its write.
    fn commit(
        &mut self,
        writes: Vec<PendingWrite>,
        inbox: &mut mpsc::Receiver<WriterRequest>,
        requests: &mut Vec<WriterRequest>,
    ) -> usize {
        let writes = self.accepted(writes);
        if writes.is_empty() {
            return 0;
        }
        let mut answers = Vec::with_capacity(writes.len());
        let outcome = self.transact(writes, &mut answers, inbox, requests);
        let count = answers.len();
        match outcome {
            Ok(staged) => {
                self.wave.committed(count, inbox.len());
                let upto = self.publish(staged);
                self.announcer.announce(Announcement { upto, answers });
            }
            Err(error) => {
                let error = self.fail(&error);
                answers.into_iter().for_each(|decided: Decided| decided.fail(error.clone()));
            }
        }
        count
    }

    /// The writes that can be taken at present. Others are answered with the reason.
    fn accepted(&mut self, writes: Vec<PendingWrite>) -> Vec<PendingWrite> {
        let Some(reason) = self.broken.clone() else { return writes };
        let error = Error::ReadOnly(reason);
        let (accepted, refused): (Vec<_>, Vec<_>) =
            writes.into_iter().partition(|pending| self.full && self.takes_when_full(pending.writes()));
        refused.into_iter().for_each(|pending| pending.fail(error.clone()));
        accepted
    }

    /// Returns true for writes that are taken on a full disk: deletions are its way out, others must be essential and few.
    ///
    /// A transaction counts as a whole: one put in it that is not essential refuses all of it.
    fn takes_when_full(&mut self, writes: &[Write]) -> bool {
        let puts = writes.iter().filter_map(|write| write.value.as_ref().map(|value| (&write.key, value)));
        let mut bytes = 0;
        for (key, value) in puts {
            if !(self.options.essential)(key, value) {
                return false;
            }
            bytes += value.len() as u64;
        }
        let fits = bytes == 0 || self.essential_bytes + bytes <= self.options.reserve_bytes / 4;
        if fits {
            self.essential_bytes += bytes;
        }
        fits
    }

    /// Every response is there even if this fails; then all of them are that failure.
    ///
    /// Writes that arrive while the transaction is put together join it, up to `EmbeddedOptions::batch`. That is
    /// group commit: the number of syncs per second is bounded by the disk, the number of writes per sync grows with
    /// the load.
    fn transact(
        &mut self,
        writes: Vec<PendingWrite>,
        answers: &mut Vec<Decided>,
        inbox: &mut mpsc::Receiver<WriterRequest>,
        requests: &mut Vec<WriterRequest>,
    ) -> rusqlite::Result<Staged> {
        // Only this thread changes the index, so the lock can be held while the transaction is put together.
        let index = self.shared.index.read();
        let mut transaction = Transaction::begin(&index, &self.shared, &mut self.statements);
        answers.extend(writes.into_iter().map(|pending| pending.decide(&mut transaction)));
        while answers.len() < self.options.batch && requests.is_empty() && self.broken.is_none() {
            match inbox.try_recv().map(WriterRequest::into_write) {
                Ok(Ok(pending)) => answers.push(pending.decide(&mut transaction)),
                Ok(Err(other)) => requests.push(other),
                Err(_) if self.wave.wait(answers.len()) => {}
                Err(_) => break,
            }
        }
        let staged = transaction.finish();
        drop(index);
        self.sync(staged?)
    }

    /// Commits, which syncs, and measures the sync.
    fn sync(&mut self, staged: Staged) -> rusqlite::Result<Staged> {
        let began = Instant::now();
        self.statements.commit.execute([])?;
        if !staged.changes.is_empty() {
            self.shared.syncs.observe(began.elapsed());
        }
        Ok(staged)
    }

    /// Publishes durable changes to readers, then to followers of the log. Returns the last of them.
    ///
    /// The index comes first: a cursor that is woken by the tail may read at the revision it was given.
    fn publish(&mut self, staged: Staged) -> Option<Revision> {
        let upto = staged.changes.last()?.revision;
        {
            let mut index = self.shared.index.write();
            staged.heads.into_iter().for_each(|(key, head)| index.insert(key, head));
            index.upto = upto;
        }
        self.shared.mended(staged.changes.iter());
        self.upkeep.written(staged.bytes);
        self.unmoved_bytes += staged.bytes + checkpoint::BATCH_OVERHEAD;
        self.shared.tail.append(Batch { changes: staged.changes.into(), upto });
        Some(upto)
    }

    /// Does what is due after a commit, outside of any caller's wait: upkeep in steps, and a hint to the checkpointer.
    fn after_batch(&mut self, writes: usize) {
        if self.broken.is_some() {
            if self.full {
                self.move_log();
            }
            return;
        }
        if self.upkeep_due() {
            self.upkeep_step(writes);
        }
        if self.unmoved_bytes > self.options.checkpoint_bytes {
            // If the checkpointer is busy, it is notified with a later batch.
            let _ = self.checkpointer.try_send(());
        }
    }

    /// Empties the write-ahead log on a full disk. Its content fits into the database file only while the reserve has
    /// room for both: later, the log could neither be checkpointed nor grow, and no space could be freed again.
    ///
    /// Returns false if the disk did not let it.
    pub(super) fn move_log(&mut self) -> bool {
        match checkpoint::finish(self.connection) {
            Ok(()) => self.unmoved_bytes = 0,
            Err(error) => {
                tracing::warn!(%error, "the write-ahead log could not be emptied on the full disk");
                return false;
            }
        }
        true
    }

    /// Leaves the transaction and refuses writes from now on. Reads continue: their data has not changed.
    ///
    /// Damage of one value is the exception: the batch fails, and the store stays open for writes.
    pub(super) fn fail(&mut self, cause: &rusqlite::Error) -> Error {
        if !self.connection.is_autocommit() {
            let _ = self.connection.execute_batch("ROLLBACK");
        }
        let error = writing(cause);
        if matches!(error, Error::Corrupt(_)) {
            // The disk takes writes; only this value cannot be read.
            return self.shared.failed_read(cause, |_| None);
        }
        let reason = match &error {
            Error::ReadOnly(reason) | Error::Unavailable(reason) => reason.clone(),
            other => other.to_string(),
        };
        if matches!(error, Error::ReadOnly(_)) {
            self.full = true;
            self.gave_reserve |= self.reserve.is_held();
            self.reserve.release();
        }
        tracing::error!(%error, "storage goes read-only until the disk takes writes again");
        *self.shared.condition.write() = Health::ReadOnly(reason.clone());
        self.broken = Some(reason);
        error
    }

    /// Runs at intervals: checks for recovery of a failed disk, compacts old history, and takes
    /// the reserve back.
    fn tick(&mut self) {
        if self.broken.is_some() && self.takes_writes() {
            tracing::info!("the disk takes writes again");
            *self.shared.condition.write() = Health::Ready;
            self.broken = None;
            (self.full, self.gave_reserve, self.essential_bytes) = (false, false, 0);
        }
        if self.broken.is_none()
            && let Err(error) = self.retain()
        {
            self.fail(&error);
        }
        if self.broken.is_none() && !self.reserve.is_held() {
            self.reserve.hold();
        }
        self.note_revision();
    }

    /// Notes the newest revision for the next start.
    fn note_revision(&mut self) {
        let newest = self.shared.upto();
        if let Err(error) = self.mark.note(newest) {
            tracing::debug!(%error, "could not note the newest revision");
        }
    }

    /// Checks whether a disk that failed works again. A full one must have room for the reserve, or the file must have as
    /// much room inside.
    ///
    /// The reserve must be back before writes are accepted, or a disk with a few free kilobytes would change its
    /// state every second. The probe comes last, and what it wrote is moved out of the write-ahead log, so that the next
    /// write finds the space that the probe found.
    fn takes_writes(&mut self) -> bool {
        if self.full {
            self.drop_history();
        }
        let has_room =
            !self.gave_reserve || self.reserve.hold() || self.free_bytes() >= self.options.reserve_bytes;
        has_room && probe(self.connection).is_ok() && self.move_log()
    }

    /// Stores all heads, so that the next start has nothing to replay, and empties the write-ahead log. If the disk
    /// does not let it, the next start does that work.
    fn close(mut self) {
        while self.broken.is_none() && self.index_step(usize::MAX) {}
        if let Err(error) = checkpoint::finish(self.connection) {
            tracing::warn!(%error, "could not finish the checkpoint at the end; the next start will");
        }
        self.reserve.release();
        self.note_revision();
        *self.shared.condition.write() = Health::Unavailable("storage is closed".to_owned());
        self.shared.tail.close();
    }
}
