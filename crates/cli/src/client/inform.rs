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
use listwatch::{Event, Raw, SharedInformer};

use super::{Selection, interrupted};
use crate::terminal::note;

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
    /// Print counts once a second instead of every event
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
    fn add(&mut self, event: &Event) {
        match event {
            Event::Added { .. } => self.added += 1,
            Event::Updated { .. } => self.updated += 1,
            Event::Deleted(_) => self.deleted += 1,
            Event::Synced => {}
        }
    }
}

/// Runs an informer and prints its events. Problems go to stderr, since they are retried and are not part of the
/// output.
pub(crate) async fn run(arguments: InformArguments) -> anyhow::Result<ExitCode> {
    let (source, _) = arguments.selection.source().await?;
    let hook = |problem: &listwatch::Problem, response| note(format_args!("{problem} ({response:?})"));
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
    note(format_args!(
        "{} objects at {}, {} lists, {} streaming lists, {} watches",
        status.objects, status.revision, status.lists, status.streaming_lists, status.watches
    ));
    informer.stop().await;
    Ok(ExitCode::SUCCESS)
}

/// Flushed per event: the output is for people who watch it, or for scripts that wait for a line.
fn print(event: &Event) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{event}")?;
    out.flush()
}

/// Prints the counts; on a terminal over the previous ones.
fn summary(informer: &SharedInformer<Raw>, counts: &InformCounts) -> std::io::Result<()> {
    let status = informer.status();
    let mut out = std::io::stdout().lock();
    let over = if out.is_terminal() { "\x1b[2K\r" } else { "" };
    let end = if out.is_terminal() { "" } else { "\n" };
    write!(
        out,
        "{over}{} objects at {}  added {}  updated {}  deleted {}{end}",
        status.objects, status.revision, counts.added, counts.updated, counts.deleted
    )?;
    out.flush()
}
