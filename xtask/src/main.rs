//! `cargo xtask`: checks, tests, benchmarks and generators of this repository.
//!
//! It runs the checks and tests ([`checks`], [`real`]), installs what they need ([`parts`]), and starts benchmarks
//! ([`mod@bench`]). It is not part of the product: nothing depends on it, and it depends on nothing of the product, so
//! that it compiles in seconds and works while the rest does not.
//!
//! Start reading at [`report`]: a run is a list of steps, each with an outcome, and a summary at the end.

#![expect(clippy::print_stdout, reason = "a tool for people talks to its terminal")]

mod bench;
mod checks;
mod compare;
mod faults;
mod fuzz;
mod house;
mod kinds;
mod links;
mod modules;
mod order;
mod outside;
mod parts;
mod profile;
mod real;
mod report;
mod rules;
mod samples;
mod server;
mod translations;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::OnceLock;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Checks, tests with real parts, benchmarks")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Install what is missing, then run every check and test; name steps to run only those
    Test(TestArguments),
    /// Run one benchmark, or all of them
    Bench(bench::Arguments),
    /// Inject faults into the disk, the process and etcd of a server, and print its reactions
    Faults(faults::Arguments),
    /// Fuzz the parsers, one target or all
    Fuzz(fuzz::Arguments),
    /// Send the same requests to this server and to another one, and print every difference
    Compare(compare::Arguments),
    /// Make the schema table of the built-in kinds again
    Kinds(kinds::Arguments),
    /// Make the order of functions in the release binary again, from profiles of its start and of requests
    Order(order::Arguments),
    /// Make the profile that a release is compiled with again, from a server under load
    Profile(profile::Arguments),
    /// Make the reference pages of flags and metrics again
    Reference,
    /// Print figures about the source: lines, documentation, repeated names, hand-written validation
    House,
    /// Make the table of the rules that Kubernetes declares beside its types again
    Rules(rules::Arguments),
}

#[derive(clap::Args)]
struct TestArguments {
    /// Only these steps, in their usual order (see --list)
    steps: Vec<String>,
    /// Print the steps and what each one is for
    #[arg(long)]
    list: bool,
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().task {
        Task::Test(arguments) => test(&arguments),
        Task::Bench(arguments) => bench::run(&arguments),
        Task::Faults(arguments) => faults::run(&arguments),
        Task::Fuzz(arguments) => fuzz::run(&arguments),
        Task::Compare(arguments) => compare::run(&arguments),
        Task::Kinds(arguments) => kinds::run(&arguments),
        Task::Order(arguments) => order::run(&arguments),
        Task::Profile(arguments) => profile::run(&arguments),
        Task::Reference => checks::write_reference(),
        Task::House => house::run(),
        Task::Rules(arguments) => rules::run(&arguments),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            println!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn test(arguments: &TestArguments) -> anyhow::Result<ExitCode> {
    let mut steps = checks::steps();
    steps.extend(real::steps());
    if arguments.list {
        for step in &steps {
            println!("{:12} {}", step.name, step.about);
        }
        return Ok(ExitCode::SUCCESS);
    }
    Ok(report::run(report::select(steps, &arguments.steps)?))
}

/// The workspace's root: xtask is always one folder below it. Cargo names the folder when it starts xtask; the folder of the
/// build may be another checkout's, where several share a target directory.
fn root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        let manifest =
            std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
        Path::new(&manifest).parent().unwrap_or(Path::new(".")).to_owned()
    })
}

/// The folder of downloads between runs: outside the checkout, so that a fresh clone starts with what an older one fetched.
fn cache() -> PathBuf {
    let base = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache")))
        .unwrap_or_else(std::env::temp_dir);
    base.join("listwatch")
}
