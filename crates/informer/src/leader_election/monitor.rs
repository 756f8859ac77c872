//! [`ElectionMonitor`]: the state of a candidate, for metrics and health checks.
//!
//! It is a cloneable handle, so that other parts of a program can read the state while
//! [`LeaderElection::run`](super::LeaderElection::run) is in progress. `leading` is reset when the term is dropped, so
//! an election whose future is dropped does not report itself as the leader for ever.
//!
//! It reports and decides nothing; a program that must stop work at the end of a term uses the token of
//! [`Leadership`](super::Leadership).

use std::sync::Arc;

use super::ElectionEvent;
use crate::sync::Mutex;

/// The status of a candidate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ElectionStatus {
    /// True if it leads.
    pub leading: bool,
    /// The leader that this candidate read last.
    pub leader: Option<String>,
    /// The number of its last term; zero before the first.
    pub fencing_token: u32,
    /// The terms it has led.
    pub terms: u64,
    /// The number of times the lease could not be read or written.
    pub problems: u64,
}

/// A handle to the status of a [`LeaderElection`](super::LeaderElection). Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct ElectionMonitor(Arc<Mutex<ElectionStatus>>);

impl ElectionMonitor {
    /// Returns the present state of the candidate.
    #[must_use]
    pub fn status(&self) -> ElectionStatus {
        self.0.lock().clone()
    }

    /// A term begins; it ends when what is returned is dropped, and so also when the election itself is.
    pub(super) fn lead(&self, fencing_token: u32) -> Leading {
        let mut status = self.0.lock();
        (status.leading, status.fencing_token) = (true, fencing_token);
        status.terms += 1;
        Leading(self.clone())
    }

    /// Takes an event into the status.
    pub(super) fn record(&self, event: &ElectionEvent<'_>) {
        let mut status = self.0.lock();
        match event {
            ElectionEvent::Started { .. } | ElectionEvent::Stopped { .. } => {}
            ElectionEvent::Leader(leader) => status.leader = Some((*leader).to_owned()),
            ElectionEvent::Problem(_) => status.problems += 1,
        }
    }
}

/// Marks the candidate as leading until it is dropped, also by a panic of the work.
pub(super) struct Leading(ElectionMonitor);

impl Drop for Leading {
    fn drop(&mut self) {
        self.0.0.lock().leading = false;
    }
}
