//! `listwatch watch` and `retry-watch`: the changes of a collection, through any break of the connection.
//!
//! By default each line names the changed fields, so the last version of every object is kept in memory. With `-o name` or
//! `-o json` nothing is kept.

use std::collections::HashMap;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use futures::TryStreamExt;
use listwatch::lister_watcher::{ListRequest, ListVersion, ListerWatcher, WatchEvent};
use listwatch::pager::{Pager, PagerOptions};
use listwatch::{Object, ObjectKey, RetryWatcher, Revision};
use serde_json::Value;

use super::{Form, Selection, changes, interrupted};

/// Objects per page of the list that comes first.
const PAGE: u32 = 500;

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  listwatch watch pods -A\n  listwatch watch configmaps -l app=web -o json"
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    selection: Selection,
    /// Form of the output
    #[arg(long, short, value_enum, default_value_t = Output::Changes)]
    output: Output,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  listwatch retry-watch pods --from 4711")]
pub(crate) struct FromArguments {
    #[command(flatten)]
    selection: Selection,
    /// Begin after this resourceVersion; 410 Gone ends the command with exit code 1
    #[arg(long, value_name = "RESOURCE-VERSION", value_parser = clap::value_parser!(u64).range(1..))]
    from: u64,
    /// Form of the output
    #[arg(long, short, value_enum, default_value_t = Output::Name)]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// One line per event, with the changed fields
    Changes,
    /// One line per event: type, namespace, name and resourceVersion
    Name,
    /// Type and object, one line each
    Json,
}

pub(crate) async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let source = Arc::new(arguments.selection.source().await?);
    let mut printer = Printer::new(arguments.output);
    let since = match arguments.output {
        Output::Changes => printer.learn(source.clone()).await?,
        _ => source.list(&ListRequest::first(ListVersion::MostRecent, Some(1))).await?.revision,
    };
    follow(source, since, printer).await
}

pub(crate) async fn run_from(arguments: FromArguments) -> anyhow::Result<ExitCode> {
    let source = Arc::new(arguments.selection.source().await?);
    follow(source, Revision(arguments.from), Printer::new(arguments.output)).await
}

async fn follow(
    source: Arc<dyn ListerWatcher>,
    since: Revision,
    mut printer: Printer,
) -> anyhow::Result<ExitCode> {
    eprintln!("watching from {since}");
    let mut events = RetryWatcher::new(source, since)?;
    let end = interrupted();
    tokio::pin!(end);
    loop {
        tokio::select! {
            event = events.try_next() => match event? {
                Some(event) => printer.print(&event)?,
                None => return Ok(ExitCode::SUCCESS),
            },
            () = &mut end => return Ok(ExitCode::SUCCESS),
        }
    }
}

/// Prints events; with [`Output::Changes`] it remembers the last version of each object.
struct Printer {
    output: Output,
    last: HashMap<ObjectKey, Value>,
}

impl Printer {
    fn new(output: Output) -> Self {
        Self { output, last: HashMap::new() }
    }

    /// Lists the collection, so that the first change of an object has something to be compared with.
    async fn learn(&mut self, source: Arc<dyn ListerWatcher>) -> anyhow::Result<Revision> {
        let first = ListRequest::first(ListVersion::MostRecent, Some(PAGE));
        let mut pages = Pager::new(source, first, PagerOptions::default());
        let mut revision = Revision::ZERO;
        while let Some(page) = pages.try_next().await? {
            for object in &page.objects {
                self.last.insert(object.key().clone(), serde_json::from_slice(object.json())?);
            }
            revision = page.revision;
        }
        Ok(revision)
    }

    fn print(&mut self, event: &WatchEvent) -> anyhow::Result<()> {
        let (kind, object) = match event {
            WatchEvent::Added(object) => ("ADDED", object),
            WatchEvent::Modified(object) => ("MODIFIED", object),
            WatchEvent::Deleted(object) => ("DELETED", object),
            _ => return Ok(()),
        };
        let line = match self.output {
            Output::Json => format!(r#"{{"type":"{kind}","object":{}}}"#, Form::Json.print(object)?),
            Output::Name => format!("{kind:8} {}", Form::Name.print(object)?),
            Output::Changes => {
                let changed = self.changed(kind, object)?;
                format!("{kind:8} {} {changed}", Form::Name.print(object)?).trim_end().to_owned()
            }
        };
        let mut out = std::io::stdout().lock();
        writeln!(out, "{line}")?;
        Ok(out.flush()?)
    }

    fn changed(&mut self, kind: &str, object: &Object) -> anyhow::Result<String> {
        if kind == "DELETED" {
            self.last.remove(object.key());
            return Ok(String::new());
        }
        let value: Value = serde_json::from_slice(object.json())?;
        let changed = self.last.get(object.key()).map(|before| changes::describe(before, &value));
        self.last.insert(object.key().clone(), value);
        Ok(changed.unwrap_or_default())
    }
}
