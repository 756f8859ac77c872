//! `cargo xtask order`: the order of functions in the release binary.
//!
//! The kernel maps the code of a program in pieces of 64 KB around what runs, so that the four megabytes of a start
//! kept fifteen in memory while they were spread over the whole program. The linker puts the functions that are listed
//! in `crates/cli/order.txt` next to each other, those of a start first (`crates/cli/build.rs`). `.cargo/config.toml`
//! asks for names that say the types of a generic function, so that a list holds for later versions of compiler and
//! program, but for what is new.
//!
//! The list is made from two profiles of one binary, which needs its symbols. They are kept at the last link only: with another
//! profile the crates are compiled again, into other functions. A list that is old costs memory, and nothing else:
//!
//! ```console
//! $ cargo rustc --release --package listwatch-cli --bin listwatch -- -C strip=none
//! $ valgrind --tool=callgrind --demangle=no --callgrind-out-file=profile target/release/listwatch serve --data-dir DIR
//! $ callgrind_control -d     # when it is ready: writes profile.1; then send requests, and stop the server: writes profile
//! $ cargo xtask order --program target/release/listwatch --start profile.1 --requests profile
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::Context;

use crate::root;

const HEAD: &str = "# Functions that a start runs, then those that only ordinary requests run, written by `cargo xtask order`: names of sections.";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The binary that was profiled, with its symbols
    #[arg(long)]
    program: PathBuf,
    /// Profile by callgrind of the start
    #[arg(long)]
    start: PathBuf,
    /// Profile of the requests after it
    #[arg(long)]
    requests: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let addresses = addresses(&arguments.program)?;
    let start = executed(&read(&arguments.start)?, &addresses);
    let requests = executed(&read(&arguments.requests)?, &addresses);
    let text = list(&start, &requests);
    let path = root().join("crates/cli/order.txt");
    fs::write(&path, &text).with_context(|| path.display().to_string())?;
    println!("{}: {} lines", path.display(), text.lines().count());
    Ok(ExitCode::SUCCESS)
}

fn read(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| path.display().to_string())
}

/// Returns the addresses of the functions of a program, by their names.
fn addresses(program: &Path) -> anyhow::Result<BTreeMap<String, u64>> {
    let output = Command::new("nm").arg("--defined-only").arg(program).output().context("nm")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let symbol = |line: &str| {
        let [address, "t" | "T" | "w" | "W", name] = line.split(' ').collect::<Vec<_>>()[..] else {
            return None;
        };
        Some((name.to_owned(), u64::from_str_radix(address, 16).ok()?))
    };
    Ok(text.lines().filter_map(symbol).collect())
}

/// Returns the functions of a profile: lines such as `fn=(12) NAME` and `cfn=(12) NAME'2`. The linker folds functions that are
/// equal and are in the same list, and a profile has one of their names: all are returned.
fn executed<'a>(profile: &str, addresses: &'a BTreeMap<String, u64>) -> BTreeSet<&'a str> {
    let address = |line: &str| {
        let (_, name) = line.strip_prefix("cfn=").or_else(|| line.strip_prefix("fn="))?.split_once(' ')?;
        addresses.get(name.split('\'').next()?)
    };
    let executed: BTreeSet<_> = profile.lines().filter_map(address).collect();
    addresses
        .iter()
        .filter(|(_, address)| executed.contains(address))
        .map(|(name, _)| name.as_str())
        .collect()
}

/// Returns the text of the list: the sections of the start, an empty line, then those that only requests run.
fn list(start: &BTreeSet<&str>, requests: &BTreeSet<&str>) -> String {
    let sections = |names: &BTreeSet<&str>| names.iter().map(|name| section(name)).collect::<BTreeSet<_>>();
    let (start, requests) = (sections(start), sections(requests));
    let lines = |names: Vec<&String>| names.iter().map(|name| format!("{name}\n")).collect::<String>();
    format!("{HEAD}\n{}\n{}", lines(start.iter().collect()), lines(requests.difference(&start).collect()))
}

/// Returns the name with a star for what differs between compilers and versions: the disambiguators of crates (`Cs0abc_`).
fn section(name: &str) -> String {
    if !name.starts_with("_R") {
        return name.to_owned();
    }
    let mut parts = name.split("Cs");
    let mut section = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        section.push_str("Cs");
        match part.split_once('_') {
            Some((hash, rest)) if hash.chars().all(|c| c.is_ascii_alphanumeric()) => {
                section.push_str("*_");
                section.push_str(rest);
            }
            _ => section.push_str(part),
        }
    }
    section
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_has_no_hashes() {
        assert_eq!(section("_RNvNtCs4Ab_4core3fmt5write"), "_RNvNtCs*_4core3fmt5write");
        assert_eq!(section("sqlite3_open"), "sqlite3_open");
    }

    #[test]
    fn a_start_comes_first_with_every_name_of_a_folded_function() {
        let names = [("get", 1), ("start", 2), ("start_again", 2), ("cold", 3)];
        let addresses = names.into_iter().map(|(name, address)| (name.to_owned(), address)).collect();
        let start = executed("fn=(1) start\nfn=(2)\n", &addresses);
        let requests = executed("fn=(1) start_again\ncfn=(2) get'2\n", &addresses);
        assert_eq!(list(&start, &requests), format!("{HEAD}\nstart\nstart_again\n\nget\n"));
    }
}
