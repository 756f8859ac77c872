//! `listwatch top`: request rates, latencies and watches of a listwatch server, full screen.
//!
//! It reads `/metrics` and `/debug/listwatch/watches` once a second, with the rights of the kubeconfig's user.
//! [`reading`] turns both into numbers, [`screen`] draws them; this file has the loop and the terminal.

mod reading;
mod screen;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use http::Request;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};

use crate::client::Cluster;
use crate::terminal::print;
use reading::{TopReading, TopTrail};

#[derive(Args, Debug)]
#[command(
    after_help = "Keys: q or Ctrl-C quits.\n\nExamples:\n  listwatch top --kubeconfig listwatch-data/admin.kubeconfig\n  listwatch top --once"
)]
pub(crate) struct TopArguments {
    /// Seconds between two readings
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=60))]
    interval: u64,
    /// Print one reading as text and end
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    cluster: Cluster,
}

/// Reads the server's metrics and watches at an interval. A rate needs two readings, so that `--once` also waits for
/// the second.
pub(crate) async fn run(arguments: TopArguments) -> anyhow::Result<ExitCode> {
    let (client, _) = arguments.cluster.connect().await?;
    let interval = Duration::from_secs(arguments.interval);
    let first = read(&client).await?;
    if arguments.once {
        tokio::time::sleep(interval).await;
        let mut trail = TopTrail::new(first);
        trail.push(read(&client).await?);
        print(screen::text(&trail))?;
        return Ok(ExitCode::SUCCESS);
    }
    if !std::io::stdout().is_terminal() {
        bail!("top needs a terminal; use --once for text");
    }
    let mut terminal = ratatui::try_init().context("cannot use the terminal")?;
    let outcome = follow(&mut terminal, &client, TopTrail::new(first), interval).await;
    ratatui::restore();
    outcome.map(|()| ExitCode::SUCCESS)
}

/// Draws, waits for a key, reads. A slow server makes the screen slow, and does not pile up requests.
async fn follow(
    terminal: &mut DefaultTerminal,
    client: &kube::Client,
    mut trail: TopTrail,
    interval: Duration,
) -> anyhow::Result<()> {
    loop {
        terminal.draw(|frame| screen::draw(frame, &trail))?;
        if quit_within(interval).await? {
            return Ok(());
        }
        // A server that restarts is waited for: the last figures stay with a note.
        match read(client).await {
            Ok(reading) => trail.push(reading),
            Err(error) => trail.fail(format!("{error:#}")),
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

/// Two requests, one after the other: figures and watches are not of exactly the same moment.
async fn read(client: &kube::Client) -> anyhow::Result<TopReading> {
    let metrics = get(client, "/metrics").await?;
    let watches = get(client, "/debug/listwatch/watches").await.context("is this a listwatch server?")?;
    TopReading::new(Instant::now(), &metrics, &watches)
}

async fn get(client: &kube::Client, path: &str) -> anyhow::Result<String> {
    let request = Request::get(path).body(Vec::new())?;
    client.request_text(request).await.with_context(|| format!("cannot read {path}"))
}
