//! The steps that need nothing but Rust: format, lints, documentation, dependencies, tests.
//!
//! All of them say `--workspace` with the default features and the dev profile: cargo then resolves one set of
//! features and compiles each dependency once for checking and once for running, however many steps there are.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, bail};

use crate::report::{Outcome, Step};
use crate::{house, kinds, links, modules, outside, parts, root, rules, translations};

pub(crate) fn steps() -> Vec<Step> {
    let step = |name, about, run| Step { name, about, run };
    let rooms =
        "crates and modules of the server depend only on what ARCHITECTURE.md allows; its file names exist";
    let current = "the generated tables are up to date, where Kubernetes' sources are available";
    vec![
        step("fmt", "formatted as rustfmt.toml says", || cargo(&["fmt", "--all", "--check"])),
        step("clippy", "no warning in any target", clippy),
        step("rooms", rooms, modules::check),
        step("names", "type names are unique in the workspace", house::names::check),
        step("words", "a doc comment begins with a noun phrase or a verb", house::words::check),
        step("generated", current, generated),
        step("links", "links and file names in documents exist", links::check),
        step("translations", "translated documents have the figures of the original", translations::check),
        step("docs", "rustdoc without warnings or broken links", docs),
        step("tests", "unit and integration tests, with real parts", tests),
        step("schedules", "the informer's locks under shuttle's scheduler", schedules),
        step("outside", "the test kit in a crate outside of the workspace, without protoc", outside::check),
        step("doctests", "every example in the documentation runs", doctests),
    ]
}

fn clippy() -> anyhow::Result<Outcome> {
    cargo(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"])
}

/// Compares the generated tables of crates/kinds with what a checkout of Kubernetes makes of them.
fn generated() -> anyhow::Result<Outcome> {
    const SOURCES: &str = "LISTWATCH_KUBERNETES_SOURCES";
    const DOCUMENTS: &str = "LISTWATCH_KUBERNETES_DOCUMENTS";
    let Some(sources) = std::env::var_os(SOURCES).map(PathBuf::from) else {
        return Ok(Outcome::Skipped(format!(
            "{SOURCES} names no checkout of Kubernetes; see CONTRIBUTING.md"
        )));
    };
    if !kinds::is_current(&sources)? {
        bail!("the field table differs: cargo xtask kinds --sources {}", sources.display());
    }
    if !rules::is_current(&sources)? {
        bail!("the table of declared rules differs: cargo xtask rules --sources {}", sources.display());
    }
    let Some(documents) = std::env::var_os(DOCUMENTS).map(PathBuf::from) else {
        return Ok(Outcome::Passed(format!("two tables; the OpenAPI overlay needs {DOCUMENTS}")));
    };
    overlay(&documents, false)?;
    Ok(Outcome::Passed("two tables and the OpenAPI overlay are what the sources make".to_owned()))
}

/// Runs the test that makes the OpenAPI overlay of crates/kinds, which compares it with the committed one or writes it.
pub(crate) fn overlay(documents: &Path, write: bool) -> anyhow::Result<Outcome> {
    let mut command = cargo_command(&["test", "--package", "listwatch-kinds", "--lib", "--quiet"]);
    command.args(["openapi::overlay_tests", "--", "--ignored"]);
    command.env("LISTWATCH_KUBERNETES_DOCUMENTS", std::path::absolute(documents)?);
    if write {
        command.env("LISTWATCH_WRITE_OVERLAY", "1");
    }
    run(command)
}

fn docs() -> anyhow::Result<Outcome> {
    let mut command =
        cargo_command(&["doc", "--workspace", "--no-deps", "--document-private-items", "--quiet"]);
    command.env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private_intra_doc_links");
    run(command)
}

/// Prefers nextest, which runs test binaries side by side and ends a hung test; a machine with only Rust uses cargo's own.
fn tests() -> anyhow::Result<Outcome> {
    let missing = parts::etcd()?;
    let nextest = parts::succeeds(Command::new("cargo").args(["nextest", "--version"]));
    let arguments: &[&str] = if nextest {
        &["nextest", "run", "--workspace", "--no-fail-fast"]
    } else {
        &["test", "--workspace", "--lib", "--bins", "--tests", "--no-fail-fast", "--quiet"]
    };
    let mut command = cargo_command(arguments);
    match &missing {
        None => drop(command.env("LISTWATCH_REAL", "1")),
        Some(message) => println!("without real parts: {message}"),
    }
    run(command)?;
    Ok(match missing {
        None => Outcome::Passed("with real parts".into()),
        Some(message) => Outcome::Skipped(format!("passed, but without etcd: {message}")),
    })
}

/// Only these two: with the feature, every lock belongs to shuttle, and other tests have no scheduler to run them.
fn schedules() -> anyhow::Result<Outcome> {
    let with = |which: &[&str]| {
        let common = ["test", "--package", "listwatch", "--features", "shuttle", "--quiet"];
        cargo(&[&common, which].concat())
    };
    with(&["--test", "shuttle"])?;
    with(&["--lib", "processor::backlog"])
}

/// Runs the test of the reference pages with leave to write them.
pub(crate) fn write_reference() -> anyhow::Result<ExitCode> {
    let mut command =
        cargo_command(&["test", "--package", "listwatch-cli", "--test", "reference", "--quiet"]);
    command.env("LISTWATCH_WRITE_REFERENCE", "1");
    run(command).map(|_| ExitCode::SUCCESS)
}

fn doctests() -> anyhow::Result<Outcome> {
    cargo(&["test", "--workspace", "--doc", "--quiet"])
}

fn cargo(arguments: &[&str]) -> anyhow::Result<Outcome> {
    run(cargo_command(arguments))
}

fn cargo_command(arguments: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.args(arguments).current_dir(root());
    command
}

/// Runs a command that talks to the terminal itself.
pub(crate) fn run(mut command: Command) -> anyhow::Result<Outcome> {
    let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
    if !status.success() {
        bail!("{status}: {command:?}");
    }
    Ok(Outcome::Passed(String::new()))
}
