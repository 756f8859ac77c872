//! `cargo xtask bench`: where each benchmark lives.

use std::process::{Command, ExitCode};

use clap::ValueEnum;

use crate::checks;
use crate::root;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Which benchmark; all of them if none is named
    which: Vec<Which>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Which {
    /// Durable puts, reads, log replay; memory, file size, and cost by number of keys
    Storage,
    /// Add, get and done; delayed keys; fairness
    Workqueue,
    /// Initial sync, updates and reads beside kube-rs
    Informer,
    /// The whole server: CPU per request and per delivered event
    Server,
}

impl Which {
    fn package(self) -> &'static str {
        match self {
            Self::Storage => "listwatch-storage",
            Self::Workqueue => "listwatch-workqueue",
            Self::Informer => "listwatch",
            Self::Server => "listwatch-server",
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let all = Which::value_variants();
    let chosen = if arguments.which.is_empty() { all } else { &arguments.which };
    for which in chosen {
        let mut command = Command::new("cargo");
        command.args(["bench", "--package", which.package()]).current_dir(root());
        checks::run(command)?;
    }
    Ok(ExitCode::SUCCESS)
}
