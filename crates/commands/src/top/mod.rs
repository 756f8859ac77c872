//! `listwatch top`: request rates, latencies and watches of an API server, informers and queues of controllers, full screen.
//!
//! It reads `/metrics` and, of a listwatch server, `/debug/listwatch/watches` once a second, with the rights of the kubeconfig's
//! user, and the metrics pages of controllers without any. [`reading`] and [`controllers`] turn them into numbers, [`tables`]
//! into rows, [`screen`] draws them; [`pages`] fetches, and this file has the loop and the terminal.

mod buckets;
mod controllers;
mod exposition;
mod pages;
mod reading;
mod screen;
mod tables;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};

use crate::client::Cluster;
use crate::terminal::{is_coloured, print};
use pages::Pages;
use reading::TopTrail;

#[derive(Args, Debug)]
#[command(
    after_help = "Keys: q or Ctrl-C quits.\n\nExamples:\n  listwatch top --kubeconfig listwatch-data/admin.kubeconfig\n  listwatch top --metrics http://127.0.0.1:8080/metrics\n  listwatch top --once\n\nQueues are those that a controller exports under client-go's names (workqueue_depth and others), informers those that the\nlistwatch library exports. Watches are listed one by one by a listwatch server; kube-apiserver only counts them."
)]
pub(crate) struct TopArguments {
    /// Seconds between two readings
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=60))]
    interval: u64,
    /// Print one reading as text and end
    #[arg(long)]
    once: bool,
    /// Metrics page of a controller, for its informers and queues; may be repeated
    #[arg(long, value_name = "URL")]
    metrics: Vec<http::Uri>,
    #[command(flatten)]
    cluster: Cluster,
}

/// Reads all pages at an interval. A rate needs two readings, so that `--once` also waits for the second.
pub(crate) async fn run(arguments: TopArguments) -> anyhow::Result<ExitCode> {
    let (client, _) = arguments.cluster.connect().await?;
    let pages = Pages::new(client, &arguments.metrics)?;
    let interval = Duration::from_secs(arguments.interval);
    let first = pages.read().await?;
    if let Some(problem) = first.controllers.problems.first() {
        bail!("{problem}");
    }
    if arguments.once {
        tokio::time::sleep(interval).await;
        let mut trail = TopTrail::new(first);
        trail.push(pages.read().await?);
        print(screen::text(&trail))?;
        return Ok(ExitCode::SUCCESS);
    }
    if !std::io::stdout().is_terminal() {
        bail!("top needs a terminal; use --once for text");
    }
    let mut terminal = ratatui::try_init().context("cannot use the terminal")?;
    let outcome = follow(&mut terminal, &pages, TopTrail::new(first), interval).await;
    ratatui::restore();
    outcome.map(|()| ExitCode::SUCCESS)
}

/// Draws, waits for a key, reads. A slow server makes the screen slow, and does not pile up requests.
async fn follow(
    terminal: &mut DefaultTerminal,
    pages: &Pages,
    mut trail: TopTrail,
    interval: Duration,
) -> anyhow::Result<()> {
    let coloured = is_coloured(&std::io::stdout());
    loop {
        terminal.draw(|frame| screen::draw(frame, &trail, coloured))?;
        if quit_within(interval).await? {
            return Ok(());
        }
        // A server that restarts is waited for: the last figures stay with a note.
        match pages.read().await {
            Ok(reading) => trail.push(reading),
            Err(error) => trail.fail(crate::one_line(&error)),
        }
    }
}

/// Waits for a key that quits, at most this long. The terminal is read by a blocking thread.
async fn quit_within(time: Duration) -> anyhow::Result<bool> {
    tokio::task::spawn_blocking(move || {
        let deadline = Instant::now() + time;
        while event::poll(deadline.saturating_duration_since(Instant::now()))? {
            let Event::Key(key) = event::read()? else { continue };
            let interrupted = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
            if interrupted || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) {
                return Ok(true);
            }
        }
        Ok(false)
    })
    .await?
}
