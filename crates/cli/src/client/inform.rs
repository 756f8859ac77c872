//! `listwatch inform`: what an informer makes of a collection: its events with old and new, and how it does.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;
use futures::StreamExt;
use listwatch::{Event, Raw, SharedInformer};

use super::{Form, Target, interrupted};

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: Target,
    /// End when everything that was there at the start has been told
    #[arg(long)]
    until_synced: bool,
}

pub(crate) async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let source = arguments.target.source().await?;
    let hook = |problem: &listwatch::Problem, response| eprintln!("{problem} ({response:?})");
    let informer = SharedInformer::<Raw>::builder(source).on_problem(hook).build();
    let mut events = informer.events()?;
    informer.start()?;
    let end = interrupted();
    tokio::pin!(end);
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            () = &mut end => None,
        };
        let Some(event) = event else { break };
        let synced = matches!(event, Event::Synced);
        print(&event, arguments.target.output)?;
        if synced && arguments.until_synced {
            break;
        }
    }
    let status = informer.status();
    eprintln!(
        "{} objects at {}, {} lists, {} streaming lists, {} watches",
        status.objects, status.revision, status.lists, status.streaming_lists, status.watches
    );
    informer.stop().await;
    Ok(ExitCode::SUCCESS)
}

fn print(event: &Event, form: Form) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    match (form, event.object()) {
        (Form::Json, Some(object)) => writeln!(out, "{}", form.print(object))?,
        _ => writeln!(out, "{event}")?,
    }
    out.flush()
}
