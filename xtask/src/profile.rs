//! `cargo xtask profile`: the profile that a release is compiled with.
//!
//! A release is compiled with counts of what ran in a server under load (`crates/cli/release.profdata`), so that the compiler inlines,
//! orders and optimises for speed what requests run. `tools/rustc` passes the file on; without it, or with another version of
//! rustc, a release is compiled as if there were none. The counts of a function that has changed since are left out. A profile
//! that is old costs speed, and nothing else.
//!
//! It is made with a build that counts, under loads that are given, each a command line with `{}` in the place of the program,
//! which it has to end with SIGTERM:
//!
//! ```console
//! $ cargo xtask profile --load 'DRIVER {}' --load '../shared/reference/density KUBERNETES --server listwatch={}'
//! ```
//!
//! It needs the `llvm-profdata` of rustc's own version of LLVM (`rustc -vV`), such as that of Debian's `llvm-22`. The order of
//! functions (`order.rs`) is made after it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, bail};

use crate::{checks, root};

/// Functions that never ran are kept in the profile from this many counters on, so that the compiler optimises them for size. The
/// small ones are most of a profile, and gain nothing.
const COLD_COUNTERS: usize = 16;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A command that puts the program `{}` under load and ends it
    #[arg(long = "load", required = true, value_name = "COMMAND")]
    loads: Vec<String>,
    /// The program of LLVM that merges profiles
    #[arg(long, default_value = "llvm-profdata-22", value_name = "PROGRAM")]
    profdata: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let folder = root().join("target/profile");
    let counts = folder.join("counts");
    let program = counting(&folder, &counts)?;
    fs::remove_dir_all(&counts).ok();
    for load in &arguments.loads {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(load.replace("{}", &program.display().to_string()));
        checks::run(shell)?;
    }
    let profile = root().join("crates/cli/release.profdata");
    merge(&arguments.profdata, &counts, &profile)?;
    println!("{}: {} bytes", profile.display(), fs::metadata(&profile)?.len());
    Ok(ExitCode::SUCCESS)
}

/// Builds a release that counts what it runs, and returns its path.
fn counting(folder: &Path, counts: &Path) -> anyhow::Result<PathBuf> {
    let mut build = Command::new("cargo");
    build.args(["build", "--release", "--package", "listwatch-cli", "--target-dir"]).arg(folder);
    build.env("LISTWATCH_PROFILE_INTO", counts).current_dir(root());
    checks::run(build)?;
    Ok(folder.join("release/listwatch"))
}

/// Merges the counts of all processes, without the smaller functions that never ran.
fn merge(profdata: &Path, counts: &Path, profile: &Path) -> anyhow::Result<()> {
    let files: Vec<_> = fs::read_dir(counts)
        .context("the loads left no counts")?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    let text = counts.with_extension("txt");
    let mut all = Command::new(profdata);
    all.args(["merge", "--text", "-o"]).arg(&text).args(files);
    checks::run(all)?;
    fs::write(&text, worthwhile(&fs::read_to_string(&text)?)?)?;
    let mut indexed = Command::new(profdata);
    indexed.args(["merge", "-o"]).arg(profile).arg(&text);
    checks::run(indexed).map(drop)
}

/// Returns a profile as text without the functions that never ran and have few counters.
fn worthwhile(text: &str) -> anyhow::Result<String> {
    let is_head = |line: &&str| line.starts_with(['#', ':']);
    let mut kept: String = text.split_inclusive('\n').take_while(is_head).collect();
    for function in text.get(kept.len()..).unwrap_or_default().split_inclusive("\n\n") {
        let counters = counters(function)?;
        if counters.len() >= COLD_COUNTERS || counters.iter().any(|&count| count > 0) {
            kept.push_str(function);
        }
    }
    Ok(kept)
}

/// Returns the counters of one function: its lines are a name, a hash, the number of counters and the counters, with comments in
/// between; values that were profiled may follow.
fn counters(function: &str) -> anyhow::Result<Vec<u64>> {
    let is_plain = |line: &&str| !line.starts_with(['#', ':']) && !line.is_empty();
    let mut lines = function.lines().filter(is_plain).skip(2);
    let Some(number) = lines.next() else { bail!("no counters in {function:?}") };
    lines.take(number.parse()?).map(|line| line.parse().context("a counter")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str, counters: &[u64]) -> String {
        let lines: String = counters.iter().map(|count| format!("{count}\n")).collect();
        format!("{name}\n# Func Hash:\n77\n# Num Counters:\n{}\n# Counter Values:\n{lines}\n", counters.len())
    }

    #[test]
    fn small_functions_that_never_ran_are_left_out() {
        let head = "# IR level Instrumentation Flag\n:ir\n";
        let (small, ran) = (function("small", &[0, 0]), function("ran", &[0, 3]));
        let large = function("large", &[0; COLD_COUNTERS]);
        assert_eq!(worthwhile(&format!("{head}{small}{ran}{large}")).unwrap(), format!("{head}{ran}{large}"));
    }

    #[test]
    fn a_profile_without_counters_is_an_error() {
        assert!(worthwhile("name\n12\n").is_err());
        assert!(worthwhile("name\n12\nmany\n").is_err());
    }
}
