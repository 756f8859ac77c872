//! The commands of the `listwatch` binary: every command is a thin use of the libraries.
//!
//! They are a crate of their own, because a command line runs once: it is compiled for size, and the binary, whose level of
//! optimisation is that of the whole program, has nothing but the allocator.
//!
//! Data goes to stdout, everything else to stderr. A command that fails prints the reason in one line and exits with 1;
//! wrong usage exits with 2; a reader that closes the pipe early is a success. Start reading at [`serve`].

mod authorization;
mod bench;
mod build;
mod client;
mod config_file;
mod db;
mod demo;
mod flag_values;
mod generate;
mod owner;
mod reference;
mod secure;
mod serve;
mod store;
mod terminal;
mod token_issuers;
mod top;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

#[derive(Parser)]
#[command(
    name = "listwatch",
    version = build::LONG,
    about = "The Kubernetes list-watch mechanism, both ends: an API server and the clients that follow it",
    after_help = "Examples:\n  listwatch serve                          # an API server on 127.0.0.1:6443\n  listwatch demo                           # everything at once, 15 seconds\n  listwatch watch pods -A                  # changes of any cluster, with the changed fields\n\nData goes to stdout, everything else to stderr. NO_COLOR switches colours off.\nExit codes: 0 success (also when a pipe is closed early), 1 failure (one line on stderr says why), 2 wrong usage.",
    args_override_self = true
)]
struct CliArguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run an API server
    Serve(Box<serve::ServeArguments>),
    /// Print a collection of any Kubernetes API server
    List(client::list::ListArguments),
    /// Print the changes of a collection, with the changed fields
    Watch(client::watch::WatchArguments),
    /// Print the changes of a collection after a resourceVersion; resumes when the connection breaks
    RetryWatch(client::watch::FromArguments),
    /// Run an informer on a collection and print its events
    Inform(client::inform::InformArguments),
    /// Print the versions of an object that a listwatch server still has
    History(client::history::Arguments),
    /// Print the difference of two versions of an object
    Diff(client::history::DiffArguments),
    /// Show request rates, latencies and watches of a server, and informers and queues of controllers, live
    Top(top::TopArguments),
    /// Load an API server for a bounded time and print latencies
    Bench(bench::BenchArguments),
    /// Check, back up, restore or compact a data directory
    Db(db::DbArguments),
    /// Run a server, an informer and a controller in one process and verify that no event is lost
    Demo(demo::DemoArguments),
    /// Print a completion script for a shell
    Completions(generate::CompletionArguments),
    /// Print a man page
    Man(generate::ManArguments),
    /// Print the reference page of all commands and flags, in Markdown
    #[command(hide = true)]
    Reference,
}

/// Runs the command. An error is one line on stderr and a failed exit; a reader that goes away, as `head` does, is
/// none.
#[must_use]
pub fn main() -> ExitCode {
    outcome().unwrap_or_else(|error| {
        if is_broken_pipe(&error) {
            return ExitCode::SUCCESS;
        }
        terminal::note(format_args!("listwatch: {}", one_line(&error)));
        ExitCode::FAILURE
    })
}

/// Parses the arguments and runs the command.
///
/// # Errors
///
/// The reason for exit code 1. Wrong usage does not come back: the parser of flags prints it and exits with 2.
fn outcome() -> anyhow::Result<ExitCode> {
    let arguments = parse(std::env::args_os().collect())?;
    match arguments.command {
        Command::Serve(arguments) => run(serve::run(*arguments)),
        Command::List(arguments) => run(client::list::run(arguments)),
        Command::Watch(arguments) => run(client::watch::run(arguments)),
        Command::RetryWatch(arguments) => run(client::watch::run_from(arguments)),
        Command::Inform(arguments) => run(client::inform::run(arguments)),
        Command::History(arguments) => run(client::history::run(arguments)),
        Command::Diff(arguments) => run(client::history::run_diff(arguments)),
        Command::Top(arguments) => run(top::run(arguments)),
        Command::Bench(arguments) => run(bench::run(arguments)),
        Command::Completions(arguments) => generate::completions::<CliArguments>(&arguments),
        Command::Reference => reference::print::<CliArguments>(),
        Command::Man(arguments) => generate::man::<CliArguments>(&arguments),
        Command::Db(arguments) => db::run(&arguments),
        Command::Demo(arguments) => run(demo::run(arguments)),
    }
}

/// Parses the command line, with the flags of the file that `--config` names. Flags of a file are parsed like typed ones,
/// so that an error names its cause.
fn parse(typed: Vec<OsString>) -> anyhow::Result<CliArguments> {
    let file = config_file::named(&typed);
    let mut command = CliArguments::command();
    let parsed =
        command.try_get_matches_from_mut(config_file::expand(&command, typed)?).and_then(|matches| {
            let mut arguments = CliArguments::from_arg_matches(&matches)?;
            if let Command::Serve(serve) = &mut arguments.command {
                serve.flags = flag_values::of(&command, &matches);
            }
            Ok(arguments)
        });
    parsed.or_else(|error| {
        if let Some(file) = file.filter(|_| error.use_stderr()) {
            terminal::note(format_args!("with the flags of --config {}:", file.display()));
        }
        error.exit()
    })
}

/// Returns true if the reader of our output went away, as `| head` does.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.chain().filter_map(|cause| cause.downcast_ref::<std::io::Error>());
    io.map(std::io::Error::kind).any(|kind| kind == std::io::ErrorKind::BrokenPipe)
}

/// A runtime per process, made after flags are parsed, so that `--help` starts no threads.
fn run(command: impl Future<Output = anyhow::Result<ExitCode>>) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(command)
}

/// The error with its causes, without the repetition that nested messages bring along, and without line breaks.
fn one_line(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        // A response of the API server is its message; below it is the same Status again.
        let answer = match cause.downcast_ref::<kube::Error>() {
            Some(kube::Error::Api(status)) => Some(status.message.clone()),
            _ => None,
        };
        let is_answer = answer.is_some();
        append(&mut text, &answer.unwrap_or_else(|| cause.to_string()));
        if is_answer {
            break;
        }
    }
    text
}

/// Adds a cause in one line, unless it was named before. Errors of the YAML parser end before their excerpt of the file,
/// which may have secrets.
fn append(text: &mut String, cause: &str) {
    let cause = cause.split("\n -->").next().unwrap_or_default().trim_end().replace('\n', " ");
    if text.contains(&cause) {
        return;
    }
    if !text.is_empty() {
        text.push_str(": ");
    }
    text.push_str(&cause);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `list -l 'a=('` used to print the Status of the response as a Rust value, after its message.
    #[test]
    fn an_error_of_the_api_is_its_message_alone() {
        let status = kube::core::Status::failure("field label not supported: x", "BadRequest").with_code(400);
        let error = anyhow::Error::from(kube::Error::Api(status.boxed())).context("cannot list");
        assert_eq!(one_line(&error), "cannot list: field label not supported: x");
    }

    #[test]
    fn an_error_about_yaml_shows_no_excerpt_of_the_file() {
        let error = anyhow::anyhow!("line 4: expected ':'\n --> <input>:4:1\n  |\n4 | token: secret")
            .context("x.yaml");
        assert_eq!(one_line(&error), "x.yaml: line 4: expected ':'");
    }

    #[test]
    fn the_arguments_are_well_formed() {
        CliArguments::command().debug_assert();
    }

    #[test]
    fn a_cause_that_was_already_said_is_not_said_again() {
        let error =
            anyhow::anyhow!("no such\nfile").context("cannot read x: no such file").context("starting");
        assert_eq!(one_line(&error), "starting: cannot read x: no such file");
    }
}
