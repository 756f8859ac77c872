//! Logs of the server: text for people, JSON lines for machines, both on stderr.
//!
//! A bare level applies to our own crates and leaves libraries at `warn`: hyper and rustls at `debug` drown everything
//! else. A filter in the syntax of `RUST_LOG` can name libraries; filters by span are not understood, since they need a
//! compiler of regular expressions that would slow down every start. Errors of the logger itself are not logged, since
//! stderr may be the reason. The audit log is a file of its own, not a log level.

use anyhow::Context;
use clap::{Args, ValueEnum};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::terminal::is_coloured;

/// Libraries below the server, HTTP and TLS among them, log little below a warning that users of the server can act on.
const LIBRARIES: &str = "warn";

#[derive(Args, Debug)]
#[command(next_help_heading = "Logs")]
pub(crate) struct Logging {
    /// Level of the server's own messages (error, warn, info, debug, trace), or a filter as in RUST_LOG, which may name
    /// libraries too: `info,hyper=debug`
    #[arg(long, value_name = "FILTER", env = "RUST_LOG", default_value = "info")]
    log: String,

    /// Form of a log line
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    /// For people; coloured on a terminal unless NO_COLOR is set
    Text,
    /// One JSON object per line
    Json,
}

impl Logging {
    /// Once per process: a second call would panic.
    ///
    /// # Errors
    ///
    /// A filter that cannot be parsed.
    pub(crate) fn init(&self) -> anyhow::Result<()> {
        let filter: Targets = directives(&self.log).parse().context("--log")?;
        let lines = tracing_subscriber::fmt::layer()
            .with_writer(std::io::stderr)
            // It would be written to stderr, too, and panic if that is closed.
            .log_internal_errors(false)
            .with_ansi(is_coloured(&std::io::stderr()));
        let logs = tracing_subscriber::registry().with(filter);
        match self.log_format {
            LogFormat::Text => logs.with(lines).init(),
            LogFormat::Json => logs.with(lines.json().flatten_event(true)).init(),
        }
        Ok(())
    }
}

/// A bare level applies to this project's crates, whose names have a common prefix; other directives are used as they
/// are.
fn directives(asked: &str) -> String {
    let own = |directive: &str| match directive.parse::<tracing_subscriber::filter::LevelFilter>() {
        Ok(_) => format!("listwatch={directive}"),
        Err(_) => directive.to_owned(),
    };
    let directives = asked.split(',').map(str::trim).filter(|directive| !directive.is_empty()).map(own);
    std::iter::once(LIBRARIES.to_owned()).chain(directives).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_that_of_our_own_crates() {
        assert_eq!(directives("debug"), "warn,listwatch=debug");
        assert_eq!(directives("info, hyper=trace"), "warn,listwatch=info,hyper=trace");
        let filter: Targets = directives("debug,h2=info").parse().unwrap();
        assert!(filter.would_enable("listwatch_server::http", &tracing::Level::DEBUG));
        assert!(!filter.would_enable("hyper", &tracing::Level::INFO));
    }
}
