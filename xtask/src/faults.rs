//! `cargo xtask faults`: kills, full disks, bit flips, failed syncs, lost members, each on a separate server.
//!
//! The faults themselves are in `tests/faults`, a script, because they are made with the tools of the system.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use crate::checks;
use crate::root;

/// Which faults, and how many times.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only faults whose names contain this
    only: Option<String>,
    /// Kills of the server
    #[arg(long, default_value_t = 20)]
    rounds: u32,
    /// The binary to try; built without it
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
}

/// Prints a table of what was tried and seen; fails if anything was lost.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let binary = match &arguments.binary {
        Some(binary) => binary.clone(),
        None => built()?,
    };
    let mut faults = Command::new(root().join("tests/faults"));
    faults.arg(binary).args(["--rounds", &arguments.rounds.to_string()]);
    if let Some(only) = &arguments.only {
        faults.args(["--only", only]);
    }
    checks::run(faults)?;
    Ok(ExitCode::SUCCESS)
}

fn built() -> anyhow::Result<PathBuf> {
    let mut build = Command::new("cargo");
    build.args(["build", "--quiet", "--package", "listwatch-cli"]).current_dir(root());
    checks::run(build)?;
    let target = std::env::current_exe()?.ancestors().nth(2).map(PathBuf::from).unwrap_or_default();
    Ok(target.join("debug/listwatch"))
}
