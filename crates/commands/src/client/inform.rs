//! `listwatch inform`: the events of an informer with old and new version, the size of its cache, and the problems it
//! met.
//!
//! It is the smallest program around [`SharedInformer`], useful to see relists, resumed watches and streaming lists
//! against a real cluster. Objects are never decoded ([`Raw`]). With `--summary` the cost of printing does not slow
//! down the handler. For the bare stream of a server use `listwatch watch`.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use futures::StreamExt;
use listwatch::{Event, InformerStatus, Raw, SharedInformer};

use super::{Selection, interrupted};
use crate::terminal::{counted, note, visible};

/// Time between two lines of `--summary`.
const SUMMARY_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  listwatch inform pods -A --summary\n  listwatch inform deployments --until-synced"
)]
pub(crate) struct InformArguments {
    /// End when all objects that were there at the start have been delivered
    #[arg(long)]
    until_synced: bool,
    /// Print the size of the cache, counts and lag once a second instead of every event
    #[arg(long)]
    summary: bool,
    #[command(flatten)]
    selection: Selection,
}

/// Counts of what the informer delivered.
#[derive(Debug, Default)]
struct InformCounts {
    added: u64,
    updated: u64,
    deleted: u64,
}

impl InformCounts {
    /// Counts an event.
    fn add(&mut self, event: &Event) {
        match event {
            Event::Added { .. } => self.added += 1,
            Event::Updated { .. } => self.updated += 1,
            Event::Deleted(_) => self.deleted += 1,
            Event::Synced => {}
        }
    }

    /// One line: the size of the cache, the changes so far, and the lag, which is what the informer has received and its
    /// handler has not.
    fn line(&self, status: &InformerStatus) -> String {
        let lag = status.queued + status.handlers.iter().map(|handler| handler.backlog).max().unwrap_or(0);
        let heard = status.last_event_age.map(|age| format!("   last event {:.1} s ago", age.as_secs_f64()));
        format!(
            "{} at {}   added {}   updated {}   deleted {}   lag {}{}",
            counted(status.objects, "object"),
            status.revision,
            self.added,
            self.updated,
            self.deleted,
            counted(lag, "event"),
            heard.unwrap_or_default()
        )
    }
}

/// Runs an informer and prints its events. Problems go to stderr, since they are retried and are not part of the
/// output.
pub(crate) async fn run(arguments: InformArguments) -> anyhow::Result<ExitCode> {
    let (source, _) = arguments.selection.source().await?;
    let hook = |problem: &listwatch::Problem, response| note(format_args!("{problem}; next: {response}"));
    let informer = SharedInformer::<Raw>::builder(source).on_problem(hook).build();
    let mut events = informer.events()?;
    informer.start()?;
    let mut counts = InformCounts::default();
    let mut tick = tokio::time::interval(SUMMARY_INTERVAL);
    let end = interrupted();
    tokio::pin!(end);
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            _ = tick.tick(), if arguments.summary => {
                summary(&informer, &counts)?;
                continue;
            }
            () = &mut end => None,
        };
        let Some(event) = event else { break };
        counts.add(&event);
        if !arguments.summary {
            print(&event)?;
        }
        if matches!(event, Event::Synced) && arguments.until_synced {
            break;
        }
    }
    let status = informer.status();
    end_summary(arguments.summary)?;
    note(format_args!(
        "{} at resourceVersion {}; requests made: list {}, streaming list {}, watch {}",
        counted(status.objects, "object"),
        status.revision,
        status.lists,
        status.streaming_lists,
        status.watches
    ));
    informer.stop().await;
    Ok(ExitCode::SUCCESS)
}

/// Flushed per event, for interactive use and for scripts that wait for a line.
fn print(event: &Event) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", visible(&event.to_string()))?;
    out.flush()
}

/// Prints the counts; on a terminal over the previous ones.
fn summary(informer: &SharedInformer<Raw>, counts: &InformCounts) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    let line = counts.line(&informer.status());
    match out.is_terminal() {
        true => write!(out, "\x1b[2K\r{line}")?,
        false => writeln!(out, "{line}")?,
    }
    out.flush()
}

/// Ends the line that summaries are written over, so that the last one stays.
fn end_summary(was_shown: bool) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    if was_shown && out.is_terminal() { writeln!(out) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program that falls behind shows as a lag: objects not yet applied, and events that the handler has yet to read.
    #[test]
    fn a_summary_shows_size_changes_and_lag() {
        let informer = SharedInformer::<Raw>::new(listwatch::lister_watcher::InMemory::new(10));
        let mut status = informer.status();
        status.objects = 1;
        status.queued = 3;
        status.last_event_age = Some(Duration::from_millis(2500));
        let counts = InformCounts { added: 5, updated: 2, deleted: 4 };
        assert_eq!(
            counts.line(&status),
            "1 object at 0   added 5   updated 2   deleted 4   lag 3 events   last event 2.5 s ago"
        );
    }
}
