//! [`Phase`]: the states of the reflector, and the deadlines that belong to each.
//!
//! A phase holds everything that is true only while it lasts, so leaving it cannot leave a stale deadline behind. The
//! transitions are in [`machine`](super::machine), [`stream`](super::stream) and [`failure`](super::failure).

use std::time::Duration;

use listwatch_wire::Revision;

use super::collected::CollectedObjects;
use crate::lister_watcher::ListVersion;

/// Time since a moment that the driver chooses.
pub(super) type ReflectorTime = Duration;

/// The state of the reflector. Each names what is waited for and until when.
#[derive(Debug)]
pub(super) enum Phase<K> {
    Idle,
    Listing { version: ListVersion, until: ReflectorTime },
    Opening { initial_events: bool, timeout: Duration, until: ReflectorTime },
    Streaming(InitialEvents<K>),
    Watching(Live),
    Waiting { until: ReflectorTime, next: NextStep },
}

/// The step that follows a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextStep {
    /// Obtain the state again, streaming if possible.
    Cycle,
    /// Resume the watch.
    Watch,
}

/// An open stream.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) opened: ReflectorTime,
    pub(super) dies: ReflectorTime,
    /// When it is given up, unless something comes before.
    pub(super) silent: ReflectorTime,
    /// When it should have ended by itself.
    pub(super) ends: ReflectorTime,
    /// When to probe the server, unless something comes before.
    pub(super) probe: Option<ReflectorTime>,
    pub(super) events: u64,
}

impl Live {
    /// The next time at which something must be done although nothing arrives.
    pub(super) fn wakes(&self) -> ReflectorTime {
        let wakes = self.dies.min(self.silent);
        self.probe.map_or(wakes, |probe| probe.min(wakes))
    }
}

/// The initial state as far as it has been streamed.
#[derive(Debug)]
pub(super) struct InitialEvents<K> {
    pub(super) objects: CollectedObjects<K>,
    pub(super) live: Live,
    pub(super) stalls: ReflectorTime,
}

/// The progress of a restored cache towards the present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CatchUp {
    /// It is there, or there was nothing to restore.
    Done,
    /// The latest resource version has yet to be read.
    Probing,
    /// The present was here.
    Until(Revision),
}
