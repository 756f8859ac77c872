//! The debug page: what every informer of a program is doing, as plain text that a controller can mount anywhere.

use std::fmt::Write as _;
use std::time::SystemTime;

use crate::informer::InformerStatus;

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

fn informer(text: &mut String, status: &InformerStatus) -> std::fmt::Result {
    let synced = if status.synced { "synced" } else { "not synced" };
    let phase = if status.phase.is_empty() { "idle" } else { status.phase };
    let InformerStatus { name, objects, revision, received, queued, .. } = status;
    writeln!(text, "{name}: {phase}, {synced}, {objects} objects at revision {revision}")?;
    writeln!(text, "  received up to {received}, {queued} objects queued")?;
    let InformerStatus { lists, listed_objects, streaming_lists, watches, .. } = status;
    writeln!(
        text,
        "  {lists} lists ({listed_objects} objects), {streaming_lists} streaming lists, {watches} watches"
    )?;
    for (reason, count) in &status.problems {
        writeln!(text, "  problem {reason}: {count}")?;
    }
    if let Some(last) = &status.last_problem {
        let ago = SystemTime::now().duration_since(last.at).unwrap_or_default().as_secs();
        writeln!(text, "  last problem, {ago} s ago: {}; {}", last.problem, last.response)?;
    }
    for handler in &status.handlers {
        let synced = if handler.synced { "synced" } else { "not synced" };
        writeln!(
            text,
            "  handler {}: {synced}, {} told, {} unread, at revision {}, {} panics, folded {} times, busy {:.1?}",
            handler.name,
            handler.delivered,
            handler.backlog,
            handler.revision,
            handler.panics,
            handler.folds,
            handler.busy,
        )?;
    }
    Ok(())
}
