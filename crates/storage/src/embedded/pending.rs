//! Requests inside the writer: waiting, then decided, then answered.
//!
//! Each step consumes the one before, and each holds the caller's reply. So a request is answered exactly once, and not before the
//! transaction that decided it is durable.

use listwatch_wire::Revision;
use tokio::sync::oneshot;

use crate::{Error, Transacted, Write, Written};

/// The waiting caller. If it was dropped, only the answer is lost.
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

/// A request that waits to be decided in the next transaction.
pub(super) enum PendingWrite {
    One(Write, WriterReply<Written>),
    All(Vec<Write>, WriterReply<Transacted>),
}

impl PendingWrite {
    /// Decides, or fails together with the batch.
    ///
    /// Once a statement of the batch has failed, later writes are not tried: the whole transaction is rolled back,
    /// and the answer made here is replaced by the error.
    pub(super) fn decide(
        self,
        stage: &mut dyn FnMut(Write) -> rusqlite::Result<Written>,
        stage_all: &mut dyn FnMut(Vec<Write>) -> rusqlite::Result<Transacted>,
    ) -> (Decided, rusqlite::Result<()>) {
        match self {
            Self::One(write, answer) => match stage(write) {
                Ok(written) => (Decided::One(answer, written), Ok(())),
                Err(error) => (Decided::One(answer, Written::Refused { current: None }), Err(error)),
            },
            Self::All(writes, answer) => match stage_all(writes) {
                Ok(done) => (Decided::All(answer, done), Ok(())),
                Err(error) => (Decided::All(answer, Transacted::Refused { current: Vec::new() }), Err(error)),
            },
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
