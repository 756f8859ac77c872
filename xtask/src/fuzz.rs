//! `cargo xtask fuzz`: hostile input for everything that parses, guided by coverage.
//!
//! libFuzzer only needs code that counts its edges, which a stable compiler can write: no nightly, no cargo-fuzz.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, bail};

/// What makes the compiler count edges in the way libFuzzer reads them.
const COVERAGE: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Ccodegen-units=1 -Cdebug-assertions";

const TARGETS: [&str; 14] = [
    "json",
    "query",
    "events",
    "patches",
    "ownership",
    "protobuf",
    "objects",
    "definitions",
    "cel",
    "http1",
    "websocket",
    "yaml",
    "tokens",
    "model",
];

/// What to fuzz, and for how long.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// One target; all in turn without it
    target: Option<String>,
    /// Seconds for each target
    #[arg(long, default_value_t = 60)]
    seconds: u32,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let chosen: Vec<&str> = match &arguments.target {
        Some(name) if TARGETS.contains(&name.as_str()) => vec![name],
        Some(name) => bail!("no target {name:?}; there are {}", TARGETS.join(", ")),
        None => TARGETS.to_vec(),
    };
    let home = crate::root().join("fuzz");
    let programs = build(&home)?;
    for target in chosen {
        fuzz(&home, &programs.join(target), target, arguments.seconds)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Builds all targets and returns where they are. Naming the machine keeps the flags from build scripts and macros,
/// which could not link with them.
fn build(home: &Path) -> anyhow::Result<PathBuf> {
    let host =
        Command::new("rustc").args(["--print", "host-tuple"]).output().context("cannot start rustc")?;
    let host = String::from_utf8(host.stdout)?.trim().to_owned();
    let output = home.join("target");
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "--target", &host]).current_dir(home);
    cargo.env("RUSTFLAGS", COVERAGE).env("CARGO_TARGET_DIR", &output);
    if !cargo.status().context("cannot start cargo")?.success() {
        bail!("the fuzz targets do not build");
    }
    Ok(output.join(host).join("release"))
}

/// Inputs found are kept in `fuzz/corpus`, so that the next run goes on from there; one that breaks a law is written to
/// `fuzz/` and named in the output.
fn fuzz(home: &Path, program: &Path, target: &str, seconds: u32) -> anyhow::Result<()> {
    let corpus = home.join("corpus").join(target);
    std::fs::create_dir_all(&corpus).with_context(|| format!("cannot create {}", corpus.display()))?;
    let mut fuzzer = Command::new(program);
    fuzzer.current_dir(home).arg(corpus).args([
        &format!("-max_total_time={seconds}"),
        "-timeout=10",
        "-rss_limit_mb=2048",
        "-print_final_stats=1",
    ]);
    if !fuzzer.status().with_context(|| format!("cannot start {target}"))?.success() {
        bail!("{target} broke a law: the input is in fuzz/");
    }
    Ok(())
}
