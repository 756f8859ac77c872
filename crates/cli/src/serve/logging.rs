//! Logs: text for people, JSON lines for machines, both on stderr.

use std::io::IsTerminal;

use anyhow::Context;
use clap::{Args, ValueEnum};
use tracing_subscriber::EnvFilter;

/// Libraries below the server say little at `info` that its users can act on.
const LIBRARIES: &str = "hyper=warn,h2=warn,rustls=warn,tokio=warn,tower=warn,tonic=warn";

#[derive(Args, Debug)]
#[command(next_help_heading = "Logs")]
pub(crate) struct Logging {
    /// Level, or a filter as in RUST_LOG: error, warn, info, debug, trace
    #[arg(long, value_name = "FILTER", env = "RUST_LOG", default_value = "info")]
    log: String,

    /// Form of a log line
    #[arg(long, value_enum, default_value_t = Format::Text)]
    log_format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people; coloured on a terminal unless NO_COLOR is set
    Text,
    /// One JSON object per line
    Json,
}

impl Logging {
    pub(crate) fn init(&self) -> anyhow::Result<()> {
        let filter = EnvFilter::try_new(format!("{LIBRARIES},{}", self.log)).context("--log")?;
        let colour =
            std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
        let logs =
            tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colour);
        match self.log_format {
            Format::Text => logs.init(),
            Format::Json => logs.json().flatten_event(true).init(),
        }
        Ok(())
    }
}
