//! `cargo xtask order`: the order of functions in the release binary.
//!
//! The kernel maps the code of a program in pieces of 64 KB around what runs, so that the four megabytes of a start kept fifteen in
//! memory while they were spread over the whole program. The linker puts the functions that are listed in
//! `crates/cli/order.txt` next to each other, in the order of that list (`crates/cli/build.rs`).
//!
//! The list is made from two profiles of one binary, which needs its symbols. A list that is old costs memory, and nothing else:
//!
//! ```console
//! $ cargo build --release --config 'profile.release.package.listwatch-cli.strip="none"'
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

const HEAD: &str = "# Functions that a start and ordinary requests run, written by `cargo xtask order`: sections of the linker, in their order.\n";
/// A family (the instances of a generic function) is listed by its name if at least this part of its code runs. Of other
/// families, the instances that run are listed with their hashes, and the rest of the family comes last: it is near when the
/// hashes have changed.
const DENSE: f64 = 0.3;

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
    let sizes = sizes(&arguments.program)?;
    let start = executed(&read(&arguments.start)?, &sizes);
    let requests: BTreeSet<_> =
        executed(&read(&arguments.requests)?, &sizes).difference(&start).copied().collect();
    let lines = lines(&sizes, &start, &requests);
    let path = root().join("crates/cli/order.txt");
    fs::write(&path, format!("{HEAD}{}\n", lines.join("\n"))).with_context(|| path.display().to_string())?;
    println!("{}: {} lines", path.display(), lines.len());
    Ok(ExitCode::SUCCESS)
}

fn read(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| path.display().to_string())
}

/// Returns the size of each function, by its name in the symbol table.
fn sizes(program: &Path) -> anyhow::Result<BTreeMap<String, u64>> {
    let output = Command::new("nm").args(["-S", "--defined-only"]).arg(program).output().context("nm")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let symbol = |line: &str| {
        let [_, size, "t" | "T" | "w" | "W", name] = line.split(' ').collect::<Vec<_>>()[..] else {
            return None;
        };
        Some((name.to_owned(), u64::from_str_radix(size, 16).ok()?))
    };
    Ok(text.lines().filter_map(symbol).collect())
}

/// Returns the functions of a profile: lines such as `fn=(12) NAME` and `cfn=(12) NAME'2`.
fn executed<'a>(profile: &str, sizes: &'a BTreeMap<String, u64>) -> BTreeSet<&'a str> {
    let name = |line: &str| {
        let (_, name) = line.strip_prefix("cfn=").or_else(|| line.strip_prefix("fn="))?.split_once(' ')?;
        let name = name.split('\'').next()?;
        sizes.get_key_value(name).map(|(name, _)| name.as_str())
    };
    // The names are those of the table, so that they can outlive the profile.
    profile.lines().filter_map(name).collect()
}

/// Returns the sections in their order: the start, then the requests, then the rest of families that are listed in part.
fn lines(sizes: &BTreeMap<String, u64>, start: &BTreeSet<&str>, requests: &BTreeSet<&str>) -> Vec<String> {
    let (mut whole, mut run) = (BTreeMap::new(), BTreeMap::new());
    for (name, size) in sizes {
        *whole.entry(family(name)).or_insert(0) += size;
        if start.contains(name.as_str()) || requests.contains(name.as_str()) {
            *run.entry(family(name)).or_insert(0) += size;
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "sizes of functions")]
    let share = |name: &str| {
        let family = family(name);
        let size = |sizes: &BTreeMap<String, u64>| sizes.get(&family).copied().unwrap_or_default() as f64;
        size(&run) / size(&whole)
    };
    let is_dense = |name: &str| share(name) >= DENSE;
    let (dense_start, sparse_start): (Vec<_>, Vec<_>) =
        start.iter().copied().partition(|name| is_dense(name));
    let (dense, sparse): (Vec<_>, Vec<_>) = requests.iter().copied().partition(|name| is_dense(name));
    let parts = [
        dense_start.into_iter().map(family).collect::<BTreeSet<_>>(),
        sparse_start.iter().map(|name| without_module(name)).collect(),
        sparse.iter().map(|name| without_module(name)).collect(),
        dense.into_iter().map(family).collect(),
        sparse_start.iter().chain(&sparse).map(|name| family(name)).collect(),
    ];
    let mut seen = BTreeSet::new();
    parts.into_iter().flatten().filter(|line| seen.insert(line.clone())).collect()
}

/// Returns the name with a star for what differs between compilers: the hash at the end (`…17h0123456789abcdefE`), and the
/// crate's disambiguators in names of the standard library (`Cs0abc_`).
fn family(name: &str) -> String {
    let name = without_module(name);
    if let Some((path, _)) = name.strip_prefix("_ZN").and_then(|_| name.rsplit_once("17h")) {
        return format!("{path}17h*");
    }
    if !name.starts_with("_R") {
        return name;
    }
    let mut parts = name.split("Cs");
    let mut family = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        family.push_str("Cs");
        match part.split_once('_') {
            Some((hash, rest)) if hash.chars().all(|c| c.is_ascii_alphanumeric()) => {
                family.push_str("*_");
                family.push_str(rest);
            }
            _ => family.push_str(part),
        }
    }
    family
}

/// Returns the name without the number of the module that link-time optimisation adds.
fn without_module(name: &str) -> String {
    match name.split_once(".llvm.") {
        Some((name, _)) => format!("{name}*"),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_has_no_hashes() {
        assert_eq!(family("_ZN4wire3key17h0123456789abcdefE"), "_ZN4wire3key17h*");
        assert_eq!(family("_ZN4wire3key17h0123456789abcdefE.llvm.12"), "_ZN4wire3key17h*");
        assert_eq!(family("_RNvNtCs4Ab_4core3fmt5write"), "_RNvNtCs*_4core3fmt5write");
        assert_eq!(family("sqlite3_open"), "sqlite3_open");
    }

    #[test]
    fn a_start_comes_first_and_the_rest_of_sparse_families_last() {
        let hash = |n: u64| format!("_ZN3vec4push17h{n:016x}E");
        let names = [
            (hash(1), 10),
            (hash(2), 90),
            ("start".to_owned(), 5),
            ("get".to_owned(), 5),
            ("cold".to_owned(), 9),
        ];
        let sizes: BTreeMap<String, u64> = names.into_iter().collect();
        let profile = format!("fn=(1) start\ncfn=(2) {}\nfn=(3)\n", hash(1));
        let start = executed(&profile, &sizes);
        let requests = executed("fn=(1) get'2\n", &sizes);
        assert_eq!(
            lines(&sizes, &start, &requests),
            ["start".to_owned(), hash(1), "get".to_owned(), "_ZN3vec4push17h*".to_owned()]
        );
    }
}
