//! The inputs and outputs of the [`Machine`](super::Machine): [`Input`], [`Output`], [`Action`].
//!
//! They are plain values so that a whole conversation with a server can be written down as a test, and replayed without
//! IO. The order within an output matters: actions are taken up one by one, each ending the request before it, and then
//! the deltas are delivered. The driver that performs them is [`Reflector`](super::Reflector).

use listwatch_wire::Revision;

use super::problem::{Problem, ProblemResponse};
use crate::delta::Delta;
use crate::lister_watcher::{ListRequest, SourceError, WatchEvent, WatchRequest};
use crate::object::{Object, Raw};

/// An input of the machine: a result of an action, or the passing of time. The driver adds no inputs, so a test that
/// sends inputs covers every rule.
#[derive(Debug)]
pub enum Input<K = Raw> {
    /// Begin.
    Start,
    /// The requested list is complete.
    Listed(Listing<K>),
    /// It failed.
    ListFailed(SourceError),
    /// The requested watch is open.
    Opened,
    /// It could not be opened.
    OpenFailed(SourceError),
    /// Events of the open watch.
    Events(Vec<WatchEvent<K>>),
    /// The server closed the watch.
    Closed,
    /// The watch broke.
    Broken(SourceError),
    /// The deadline has passed.
    Tick,
    /// The revision of the latest state, which a probe has read; or why it could not be read.
    Probed(Result<Revision, SourceError>),
    /// The driver panicked, with this message: no request is in progress any more.
    Panicked(String),
}

/// A complete list: all pages in one, at the resourceVersion of the first.
#[derive(Debug)]
pub struct Listing<K = Raw> {
    /// All objects of all pages.
    pub objects: Vec<Object<K>>,
    /// The state it shows.
    pub revision: Revision,
    /// Over how many pages.
    pub pages: usize,
}

/// Requests to the driver. Each action but [`Action::Probe`] ends the list, watch or probe that is in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// List everything, from this first page on.
    List(ListRequest),
    /// Open this watch.
    Watch(WatchRequest),
    /// Read the revision of the latest state, while the watch continues.
    Probe,
    /// End the list or watch in progress.
    HangUp,
}

/// The reaction of the machine to one input. All parts may be empty.
#[derive(Debug)]
pub struct Output<K = Raw> {
    /// For the queue, in order.
    pub deltas: Vec<Delta<K>>,
    /// For the driver, in order.
    pub actions: Vec<Action>,
    /// For the user.
    pub problems: Vec<(Problem, ProblemResponse)>,
}

impl<K> Default for Output<K> {
    fn default() -> Self {
        Self { deltas: Vec::new(), actions: Vec::new(), problems: Vec::new() }
    }
}

impl<K> Output<K> {
    pub(super) fn report(&mut self, problem: Problem, response: ProblemResponse) {
        self.problems.push((problem, response));
    }
}
