//! `listwatch watch`: the changes of a collection, through any break of the connection.

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use futures::TryStreamExt;
use listwatch::lister_watcher::{ListRequest, ListVersion, ListerWatcher, WatchEvent};
use listwatch::{RetryWatcher, Revision};

use super::{Form, Target, interrupted};

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: Target,
    /// Begin after this resourceVersion instead of now
    #[arg(long, value_name = "RESOURCE-VERSION")]
    since: Option<u64>,
}

pub(crate) async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let source = Arc::new(arguments.target.source().await?);
    let since = match arguments.since {
        Some(since) => Revision(since),
        None => source.list(&ListRequest::first(ListVersion::MostRecent, Some(1))).await?.revision,
    };
    eprintln!("watching from {since}");
    let mut events = RetryWatcher::new(source, since)?;
    let end = interrupted();
    tokio::pin!(end);
    loop {
        tokio::select! {
            event = events.try_next() => match event? {
                Some(event) => print(&event, arguments.target.output)?,
                None => return Ok(ExitCode::SUCCESS),
            },
            () = &mut end => return Ok(ExitCode::SUCCESS),
        }
    }
}

fn print(event: &WatchEvent, form: Form) -> std::io::Result<()> {
    let (kind, object) = match event {
        WatchEvent::Added(object) => ("ADDED", object),
        WatchEvent::Modified(object) => ("MODIFIED", object),
        WatchEvent::Deleted(object) => ("DELETED", object),
        _ => return Ok(()),
    };
    let mut out = std::io::stdout().lock();
    match form {
        Form::Name => writeln!(out, "{kind:8} {}", form.print(object))?,
        Form::Json => writeln!(out, r#"{{"type":"{kind}","object":{}}}"#, form.print(object))?,
    }
    out.flush()
}
