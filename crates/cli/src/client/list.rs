//! `listwatch list`: a collection once, page by page, in constant memory however large it is.

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use futures::TryStreamExt;
use listwatch::lister_watcher::{ListRequest, ListVersion};
use listwatch::pager::{Pager, PagerOptions};

use super::Target;

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: Target,
    /// Objects per page
    #[arg(long, value_name = "N", default_value_t = 500)]
    page: u32,
}

pub(crate) async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let source = Arc::new(arguments.target.source().await?);
    let first = ListRequest::first(ListVersion::MostRecent, Some(arguments.page));
    let mut pages = Pager::new(source, first, PagerOptions::default());
    let mut count = 0;
    let mut revision = None;
    while let Some(page) = pages.try_next().await? {
        let mut out = std::io::stdout().lock();
        for object in &page.objects {
            writeln!(out, "{}", arguments.target.output.print(object))?;
        }
        count += page.objects.len();
        revision = Some(page.revision);
        page.unusable.iter().for_each(|why| eprintln!("left out: {why}"));
    }
    if let Some(revision) = revision {
        eprintln!("{count} objects at {revision}");
    }
    Ok(ExitCode::SUCCESS)
}
