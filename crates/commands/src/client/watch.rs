//! `listwatch watch` and `retry-watch`: the changes of a collection; the watch is resumed when the connection breaks.
//!
//! By default each line names the changed fields, so the last version of every object is kept in memory, encoded. With
//! `-o name` or `-o json` nothing is kept. Lines are written out when no event waits: a busy collection costs one system call
//! for many events.

use std::collections::HashMap;
use std::io::{BufWriter, Stdout, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use futures::{FutureExt, TryStreamExt};
use listwatch::lister_watcher::{ListRequest, ListVersion, ListerWatcher, WatchEvent};
use listwatch::pager::{Pager, PagerOptions};
use listwatch::{Object, ObjectKey, RetryWatcher, Revision};

use super::{Selection, TypeMeta, changes, interrupted};
use crate::terminal::{end_progress, note, progress, visible};

/// The time after which the progress of a list is shown.
const QUIET: Duration = Duration::from_secs(2);
/// Objects per page of the list that comes first.
const PAGE: u32 = 500;

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  listwatch watch pods -A\n  listwatch watch configmaps -l app=web -o json"
)]
pub(crate) struct WatchArguments {
    /// Form of the output
    #[arg(long, short, value_enum, default_value_t = WatchOutput::Changes)]
    output: WatchOutput,
    #[command(flatten)]
    selection: Selection,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  listwatch retry-watch pods --from 4711")]
pub(crate) struct FromArguments {
    /// Begin after this resourceVersion; 410 Gone ends the command with exit code 1
    #[arg(long, value_name = "RESOURCE-VERSION", value_parser = clap::value_parser!(u64).range(1..))]
    from: u64,
    /// Form of the output
    #[arg(long, short, value_enum, default_value_t = WatchOutput::Name)]
    output: WatchOutput,
    #[command(flatten)]
    selection: Selection,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum WatchOutput {
    /// One line per event, with the changed fields
    Changes,
    /// One line per event: type, namespace, name and resourceVersion
    Name,
    /// Type and object, one line each
    Json,
}

/// Prints the changes from now on. To print what changed in an object, the state before is needed, so that is listed
/// first.
pub(crate) async fn run(arguments: WatchArguments) -> anyhow::Result<ExitCode> {
    let (source, kind) = arguments.selection.source().await?;
    let source = Arc::new(source);
    let mut printer = Printer::new(arguments.output, kind);
    let since = match arguments.output {
        WatchOutput::Changes => printer.learn(source.clone()).await?,
        _ => source.list(&ListRequest::first(ListVersion::MostRecent, Some(1))).await?.revision,
    };
    follow(source, since, printer).await
}

/// Watches from a resourceVersion, for scripts that keep the last one they have processed.
pub(crate) async fn run_from(arguments: FromArguments) -> anyhow::Result<ExitCode> {
    let (source, kind) = arguments.selection.source().await?;
    follow(Arc::new(source), Revision(arguments.from), Printer::new(arguments.output, kind)).await
}

/// Prints events until an interrupt or a final error. Output is buffered while events are ready and written out before
/// each wait.
///
/// # Errors
///
/// 410 from the server: the version to continue from has expired, and starting over would hide changes.
async fn follow(
    source: Arc<dyn ListerWatcher>,
    since: Revision,
    mut printer: Printer,
) -> anyhow::Result<ExitCode> {
    note(format_args!("watching from resourceVersion {since}"));
    let mut events = RetryWatcher::new(source, since)?;
    let end = interrupted();
    tokio::pin!(end);
    loop {
        // Ready events are taken without waiting, until the runtime lets others run: then what was printed is written out.
        let event = match events.try_next().now_or_never() {
            Some(event) => event?,
            None => {
                printer.out.flush()?;
                tokio::select! {
                    event = events.try_next() => event?,
                    () = &mut end => None,
                }
            }
        };
        match event {
            Some(event) => printer.print(&event)?,
            None => break,
        }
    }
    printer.out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Prints events; with [`WatchOutput::Changes`] it keeps the last version of each object.
struct Printer {
    output: WatchOutput,
    kind: TypeMeta,
    /// Empty unless changes are printed; then it is as large as the collection, encoded.
    last: HashMap<ObjectKey, Object>,
    /// Flushed by [`follow`] whenever no event is ready.
    out: BufWriter<Stdout>,
}

impl Printer {
    fn new(output: WatchOutput, kind: TypeMeta) -> Self {
        Self { output, kind, last: HashMap::new(), out: BufWriter::new(std::io::stdout()) }
    }

    /// Lists the collection, so that the first change of an object has something to be compared with.
    async fn learn(&mut self, source: Arc<dyn ListerWatcher>) -> anyhow::Result<Revision> {
        let first = ListRequest::first(ListVersion::MostRecent, Some(PAGE));
        let mut pages = Pager::new(source, first, PagerOptions::default());
        let mut revision = Revision::ZERO;
        let began = Instant::now();
        while let Some(page) = pages.try_next().await? {
            for object in &page.objects {
                self.last.insert(object.key().clone(), object.clone());
            }
            revision = page.revision;
            if began.elapsed() > QUIET {
                progress(format_args!("{} objects listed", self.last.len()));
            }
        }
        end_progress();
        Ok(revision)
    }

    /// Prints one event. Bookmarks are not printed.
    fn print(&mut self, event: &WatchEvent) -> anyhow::Result<()> {
        let (event, object) = match event {
            WatchEvent::Added(object) => ("ADDED", object),
            WatchEvent::Modified(object) => ("MODIFIED", object),
            WatchEvent::Deleted(object) => ("DELETED", object),
            _ => return Ok(()),
        };
        match self.output {
            WatchOutput::Json => {
                write!(self.out, r#"{{"type":"{event}","object":"#)?;
                self.kind.write_json(&mut self.out, object.json())?;
                self.out.write_all(b"}\n")?;
            }
            WatchOutput::Name => {
                let key = object.key().to_string();
                writeln!(self.out, "{event:8} {} {}", visible(&key), object.revision())?;
            }
            WatchOutput::Changes => {
                let changed = self.changed(event, object)?;
                let space = if changed.is_empty() { "" } else { " " };
                let line = format!("{event:8} {} {}{space}{changed}", object.key(), object.revision());
                writeln!(self.out, "{}", visible(&line))?;
            }
        }
        Ok(())
    }

    /// The changed fields of an object, from its last printed version.
    ///
    /// Decodes both versions. An object that was not seen before has no changes.
    fn changed(&mut self, event: &str, object: &Object) -> anyhow::Result<String> {
        if event == "DELETED" {
            self.last.remove(object.key());
            return Ok(String::new());
        }
        let Some(before) = self.last.insert(object.key().clone(), object.clone()) else {
            return Ok(String::new());
        };
        Ok(changes::describe(
            &serde_json::from_slice(before.json())?,
            &serde_json::from_slice(object.json())?,
        ))
    }
}
