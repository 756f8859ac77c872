//! `listwatch completions` and `listwatch man`, made from the same flag definitions as `--help`.
//!
//! Both are generated into memory first and then written at once: clap's generators panic if writing fails, and a
//! closed pipe is not a failure of this program. The page of all flags in the documentation is `reference`.

use std::io::Write;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  listwatch completions bash > /etc/bash_completion.d/listwatch\n  listwatch completions zsh > \"${fpath[1]}/_listwatch\""
)]
pub(crate) struct CompletionArguments {
    /// Shell to write completions for
    shell: Shell,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  listwatch man | man -l -\n  listwatch man serve | man -l -")]
pub(crate) struct ManArguments {
    /// Command to describe; all of listwatch if none is given
    command: Option<String>,
}

/// Static completions of commands and flags; they do not ask a server for names.
pub(crate) fn completions<C: CommandFactory>(arguments: &CompletionArguments) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut C::command(), "listwatch", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}

/// The page of the program lists its commands; each has a separate page.
pub(crate) fn man<C: CommandFactory>(arguments: &ManArguments) -> anyhow::Result<ExitCode> {
    let mut page = Vec::new();
    clap_mangen::Man::new(described::<C>(arguments.command.as_deref())).render(&mut page)?;
    std::io::stdout().write_all(&page)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the definition of a command under its full name. An unknown name is a usage error.
fn described<C: CommandFactory>(name: Option<&str>) -> Command {
    let mut all = C::command();
    all.build();
    let Some(name) = name else { return all };
    match all.find_subcommand(name) {
        Some(found) => found.clone(),
        None => all.error(ErrorKind::InvalidSubcommand, format!("there is no command {name:?}")).exit(),
    }
}
