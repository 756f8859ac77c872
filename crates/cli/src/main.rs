//! The `listwatch` binary: every command is a thin use of the libraries.
//!
//! Data goes to stdout, everything said about it to stderr. A command that fails says why in one line and exits with 1;
//! wrong usage exits with 2. Start reading at [`serve`].

#![expect(clippy::print_stderr, clippy::print_stdout, reason = "a command line talks to its terminal")]

mod client;
mod db;
mod demo;
mod serve;
mod store;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The server allocates and frees small pieces on many threads, which is what mimalloc is made for.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(name = "listwatch", version, about = "The Kubernetes list-watch mechanism, both ends")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run an API server
    Serve(Box<serve::Arguments>),
    /// Print a collection of any API server
    List(client::list::Arguments),
    /// Print the changes of a collection, through any break
    Watch(client::watch::Arguments),
    /// Print what an informer makes of a collection
    Inform(client::inform::Arguments),
    /// Check, back up, restore or compact a data directory
    Db(db::Arguments),
    /// Watch one event's way through all of it; checks itself
    Demo(demo::Arguments),
}

/// Declines huge pages, which a server of a few megabytes would hardly fill: it would be twice the size. The allocator, which
/// takes its first memory before `main`, is built not to ask for them (`no_thp`); this is for kernels that give them unasked.
/// A kernel that does not know the wish goes on as it did.
fn stay_small() {
    #[cfg(target_os = "linux")]
    let _ = nix::sys::prctl::set_thp_disable(true);
}

fn main() -> ExitCode {
    stay_small();
    let arguments = Arguments::parse();
    let outcome = match arguments.command {
        Command::Serve(arguments) => run(serve::run(*arguments)),
        Command::List(arguments) => run(client::list::run(arguments)),
        Command::Watch(arguments) => run(client::watch::run(arguments)),
        Command::Inform(arguments) => run(client::inform::run(arguments)),
        Command::Db(arguments) => db::run(&arguments),
        Command::Demo(arguments) => run(demo::run(arguments)),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("listwatch: {}", one_line(&error));
        ExitCode::FAILURE
    })
}

fn run(command: impl Future<Output = anyhow::Result<ExitCode>>) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(command)
}

/// The error with its causes, without the repetition that nested messages bring along, and without line breaks.
fn one_line(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(|cause| cause.to_string().replace('\n', " ")) {
        if text.contains(&cause) {
            continue;
        }
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&cause);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_well_formed() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_cause_that_was_already_said_is_not_said_again() {
        let error =
            anyhow::anyhow!("no such\nfile").context("cannot read x: no such file").context("starting");
        assert_eq!(one_line(&error), "starting: cannot read x: no such file");
    }
}
