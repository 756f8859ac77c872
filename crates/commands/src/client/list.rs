//! `listwatch list`: a collection once, page by page, in constant memory however large it is.
//!
//! Objects are printed as each page arrives, with [`Pager`] of the library; tables are rendered by the server
//! (`table`). All pages show the state of the first one's resourceVersion, which is printed to stderr at the end; if
//! the server has compacted it meanwhile, the command fails with its 410 rather than mix two states. JSON output is one
//! object per line, for tools that read line by line.

use std::io::{BufWriter, Write};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use futures::TryStreamExt;
use listwatch::lister_watcher::{ListRequest, ListVersion};
use listwatch::pager::{Pager, PagerOptions};

use super::{PrintForm, Selection, table};
use crate::terminal::{counted, note};

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  listwatch list pods -A\n  listwatch list deploy -l app=web -o yaml\n  listwatch list nodes -o json | jq .metadata.name"
)]
pub(crate) struct ListArguments {
    /// Form of the output
    #[arg(long, short, value_enum, default_value_t = ListOutput::Table)]
    output: ListOutput,
    /// Objects per page
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    page: u32,
    #[command(flatten)]
    selection: Selection,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ListOutput {
    /// The server's columns
    Table,
    /// The server's columns, those of low priority too
    Wide,
    /// Namespace, name and resourceVersion
    Name,
    /// The whole object, one line each
    Json,
    /// The whole object as a YAML document
    Yaml,
}

/// Prints a list page by page, so that memory is bounded by a page.
pub(crate) async fn run(arguments: ListArguments) -> anyhow::Result<ExitCode> {
    let form = match arguments.output {
        ListOutput::Table | ListOutput::Wide => return as_table(&arguments).await,
        ListOutput::Name => PrintForm::Name,
        ListOutput::Json => PrintForm::Json,
        ListOutput::Yaml => PrintForm::Yaml,
    };
    let (source, kind) = arguments.selection.source().await?;
    let source = Arc::new(source);
    let first = ListRequest::first(ListVersion::MostRecent, Some(arguments.page));
    let mut pages = Pager::new(source, first, PagerOptions::default());
    let mut count = 0;
    let mut revision = None;
    while let Some(page) = pages.try_next().await? {
        let mut out = BufWriter::new(std::io::stdout().lock());
        for object in &page.objects {
            form.write(&mut out, object, &kind)?;
        }
        out.flush()?;
        count += page.objects.len();
        revision = Some(page.revision);
        page.unusable.iter().for_each(|why| note(format_args!("left out: {why}")));
    }
    if let Some(revision) = revision {
        note(format_args!("{} at resourceVersion {revision}", counted(count, "object")));
    }
    Ok(ExitCode::SUCCESS)
}

/// Tables are rendered by the server and not by this program, so columns of custom resources need no code here.
async fn as_table(arguments: &ListArguments) -> anyhow::Result<ExitCode> {
    let collection = arguments.selection.open().await?;
    let wide = matches!(arguments.output, ListOutput::Wide);
    let print = |line: &str| writeln!(std::io::stdout(), "{line}");
    let listed = table::print(&collection, &arguments.selection, wide, arguments.page, print).await?;
    note(format_args!("{} at resourceVersion {}", counted(listed.rows, "object"), listed.revision));
    Ok(ExitCode::SUCCESS)
}
