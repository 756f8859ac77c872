//! Requests inside the writer: waiting, then decided, then answered.
//!
//! Each step consumes the one before, and each holds the caller's reply. So a request is answered exactly once, and not before the
//! transaction that decided it is durable.

use listwatch_wire::Revision;
use tokio::sync::oneshot;

use super::batch::Transaction;
use crate::{Error, Transacted, Write, Written};

/// The waiting caller. If it was dropped, only the response is lost.
pub(super) type WriterReply<T> = oneshot::Sender<Result<T, Error>>;

/// A request to the writer.
///
/// All of them share one queue, so a compaction or a close takes its turn after the writes that came before it.
#[derive(Debug)]
pub(super) enum WriterRequest {
    Write(Write, WriterReply<Written>),
    Transact(Vec<Write>, WriterReply<Transacted>),
    Compact(Revision, WriterReply<()>),
    /// Some time has passed.
    Tick,
    /// Most of the write-ahead log is in its place.
    Checkpointed,
    Close(WriterReply<()>),
}

impl WriterRequest {
    /// Returns a write, to be decided with others, or the request itself if it is something else.
    pub(super) fn into_write(self) -> Result<PendingWrite, Self> {
        match self {
            Self::Write(write, answer) => Ok(PendingWrite::One(write, answer)),
            Self::Transact(writes, answer) => Ok(PendingWrite::All(writes, answer)),
            other => Err(other),
        }
    }
}

/// A request that waits to be decided in the next transaction.
pub(super) enum PendingWrite {
    One(Write, WriterReply<Written>),
    All(Vec<Write>, WriterReply<Transacted>),
}

impl PendingWrite {
    /// Decides it in a transaction. If that fails, the response made here is replaced by its error.
    pub(super) fn decide(self, transaction: &mut Transaction<'_, '_>) -> Decided {
        match self {
            Self::One(write, answer) => Decided::One(answer, transaction.write(write)),
            Self::All(writes, answer) => Decided::All(answer, transaction.transact(writes)),
        }
    }

    /// One write or several; the writer treats both alike.
    pub(super) fn writes(&self) -> &[Write] {
        match self {
            Self::One(write, _) => std::slice::from_ref(write),
            Self::All(writes, _) => writes,
        }
    }

    pub(super) fn fail(self, error: Error) {
        match self {
            Self::One(_, answer) => drop(answer.send(Err(error))),
            Self::All(_, answer) => drop(answer.send(Err(error))),
        }
    }
}

/// A decision that is reported once it is durable.
pub(super) enum Decided {
    One(WriterReply<Written>, Written),
    All(WriterReply<Transacted>, Transacted),
}

impl Decided {
    /// Answers after the commit, never before.
    pub(super) fn report(self) {
        match self {
            Self::One(answer, written) => drop(answer.send(Ok(written))),
            Self::All(answer, done) => drop(answer.send(Ok(done))),
        }
    }

    pub(super) fn fail(self, error: Error) {
        match self {
            Self::One(answer, _) => drop(answer.send(Err(error))),
            Self::All(answer, _) => drop(answer.send(Err(error))),
        }
    }
}
