//! The debug page: the state of every informer of a program, as plain text that a program can serve on any path.
//!
//! It answers the questions that come up first when a cache looks stale: does the watch run, at which resourceVersion,
//! what was the last problem and what was done about it, and which handler is behind. Namespaces are listed one by one
//! only if there are several, because the sums hide one that is stuck.
//!
//! The text is for people and may change; programs read [`InformerStatus`] or the metrics in
//! [`metrics`](crate::metrics).

use std::fmt::Write as _;
use std::time::SystemTime;

use crate::informer::InformerStatus;
use crate::monitor::{LastProblem, SourceStatus};
use crate::processor::HandlerStatus;
use crate::warm::Freshness;

/// One block per informer: its state, its place, its last problem, its handlers with their lag.
///
/// ```
/// use listwatch::debug::page;
/// use listwatch::{SharedInformer, lister_watcher::InMemory};
/// use serde_json::Value;
///
/// let informer = SharedInformer::<Value>::builder(InMemory::new(10)).name("pods").build();
/// assert!(page(&[informer.status()]).starts_with("pods: idle, not synced, 0 objects at revision 0"));
/// ```
#[must_use]
pub fn page(informers: &[InformerStatus]) -> String {
    let mut text = String::new();
    for status in informers {
        // Writing to a string cannot fail.
        let _ = informer(&mut text, status);
    }
    text
}

/// Writes the block of one informer.
fn informer(text: &mut String, status: &InformerStatus) -> std::fmt::Result {
    state(text, status)?;
    for (reason, count) in &status.problems {
        writeln!(text, "  problem {reason}: {count}")?;
    }
    last_problem(text, "  ", status.last_problem.as_ref())?;
    if status.sources.len() > 1 {
        status.sources.iter().try_for_each(|one| source(text, one))?;
    }
    status.handlers.iter().try_for_each(|one| handler(text, one))
}

/// The phase, the position and the requests of an informer, as sums over its sources.
fn state(text: &mut String, status: &InformerStatus) -> std::fmt::Result {
    let synced = match status.freshness {
        Freshness::Empty => "not synced",
        Freshness::Stale => "stale, from a saved cache",
        Freshness::Current => "synced",
    };
    let phase = if status.phase.is_empty() { "idle" } else { status.phase };
    let InformerStatus { name, objects, revision, received, queued, .. } = status;
    writeln!(text, "{name}: {phase}, {synced}, {objects} objects at revision {revision}")?;
    let age = status.last_event_age.map_or_else(|| "never".to_owned(), |age| format!("{age:.0?} ago"));
    writeln!(text, "  received up to {received}, {queued} objects queued, last event {age}")?;
    let InformerStatus { lists, listed_objects, streaming_lists, watches, .. } = status;
    writeln!(
        text,
        "  {lists} lists ({listed_objects} objects), {streaming_lists} streaming lists, {watches} watches"
    )
}

/// The position, the backlog and the cost of one handler.
fn handler(text: &mut String, handler: &HandlerStatus) -> std::fmt::Result {
    let synced = if handler.synced { "synced" } else { "not synced" };
    let HandlerStatus { name, delivered, backlog, revision, panics, folds, busy, .. } = handler;
    writeln!(
        text,
        "  handler {name}: {synced}, {delivered} delivered, {backlog} unread, at revision {revision}, {panics} panics, \
         folded {folds} times, busy {busy:.1?}",
    )
}

fn last_problem(text: &mut String, indent: &str, last: Option<&LastProblem>) -> std::fmt::Result {
    let Some(last) = last else { return Ok(()) };
    let ago = SystemTime::now().duration_since(last.at).unwrap_or_default().as_secs();
    writeln!(text, "{indent}last problem, {ago} s ago: {}; {}", last.problem, last.response)
}

/// One of several: a namespace that is stuck while the others are well shows here.
fn source(text: &mut String, source: &SourceStatus) -> std::fmt::Result {
    let SourceStatus { namespace, phase, received, lists, streaming_lists, watches, .. } = source;
    let namespace = namespace.as_deref().unwrap_or("all");
    writeln!(
        text,
        "  namespace {namespace}: {phase}, received up to {received}, {lists} lists, \
         {streaming_lists} streaming lists, {watches} watches"
    )?;
    last_problem(text, "    ", source.last_problem.as_ref())
}
