//! `listwatch db`: check, back up, restore and compact a data directory.
//!
//! It is thin over [`listwatch_storage::embedded::offline`], which has the rules. `check`, `restore` and `compact` need
//! the directory for themselves, and the error names the process that has it (`owner`); `backup` works beside a running
//! server. A backup contains the CA and signing keys by default, so it is as secret as the directory.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use listwatch_storage::embedded::offline::{self, Keys, Report};
use listwatch_storage::{Error, Revision};

use crate::owner;
use crate::terminal::{Elapsing, note, print};

#[derive(Args)]
pub(crate) struct DbArguments {
    /// The data directory of the store
    #[arg(long, value_name = "DIR", default_value = "./listwatch-data", global = true)]
    data_dir: PathBuf,

    #[command(subcommand)]
    command: DbCommand,
}

#[derive(Subcommand)]
enum DbCommand {
    /// Look at everything in the store and say whether it is sound; no server may be using it
    Check,
    /// Copy the store to a new file, also while a server is using it
    Backup {
        /// The new file; as secret as the data directory, unless --without-keys
        file: PathBuf,
        /// Leave out the CA, signing keys and tokens: kubeconfigs and tokens of today fail after a restore
        #[arg(long)]
        without_keys: bool,
    },
    /// Make a new store from a backup
    Restore {
        /// The backup
        file: PathBuf,
        /// The state as of this resourceVersion, which must be within the history of the backup; its newest state otherwise
        #[arg(long, value_name = "VERSION")]
        revision: Option<u64>,
    },
    /// Drop all history and give the space back; no server may be using the store
    Compact,
}

impl DbCommand {
    /// The work, for the progress of a large store.
    fn doing(&self) -> &'static str {
        match self {
            Self::Check => "checking",
            Self::Backup { .. } => "backing up",
            Self::Restore { .. } => "restoring",
            Self::Compact => "compacting",
        }
    }
}

/// Runs a command on a store that no server has open, and prints its report.
pub(crate) fn run(arguments: &DbArguments) -> anyhow::Result<ExitCode> {
    let directory = &arguments.data_dir;
    let elapsing = Elapsing::begin(arguments.command.doing());
    let report = match &arguments.command {
        DbCommand::Check => offline::check(directory),
        DbCommand::Backup { file, without_keys } => {
            if *without_keys {
                note(
                    "warning: no CA, keys or tokens in this backup: after a restore, kubeconfigs of today fail",
                );
            }
            let keys = if *without_keys { Keys::LeftOut } else { Keys::Included };
            offline::backup(directory, file, keys)
        }
        DbCommand::Restore { file, revision } => offline::restore(file, directory, revision.map(Revision)),
        DbCommand::Compact => offline::compact(directory),
    };
    drop(elapsing);
    let report = report.map_err(|error| arguments.explain(error))?;
    print(text(&report))?;
    Ok(ExitCode::SUCCESS)
}

impl DbArguments {
    /// Turns a failure into a message. Only `check` and `compact` can fail because another process uses the directory, and
    /// the message names it.
    fn explain(&self, error: Error) -> anyhow::Error {
        let error = match error {
            Error::Unavailable(why) | Error::Invalid(why) => anyhow::anyhow!(why),
            error => error.into(),
        };
        match &self.command {
            DbCommand::Check | DbCommand::Compact => owner::explain(error, &self.data_dir),
            DbCommand::Backup { .. } => error.context("cannot back up"),
            DbCommand::Restore { file, .. } => error.context(format!("cannot restore {}", file.display())),
        }
    }
}

/// For people; scripts should use the exit code.
fn text(report: &Report) -> String {
    format!(
        "revision {}\nhistory  from revision {}, {} changes\nkeys     {}\nsize     {:.1} MiB\n",
        report.revision,
        report.compacted,
        report.changes,
        report.keys,
        report.bytes as f64 / f64::from(1 << 20)
    )
}
