//! `cargo xtask fuzz`: coverage-guided fuzzing of all parsers.
//!
//! libFuzzer only needs code that is instrumented for edges and comparisons, which the stable compiler can do: no nightly, no
//! cargo-fuzz. It starts from the inputs in `fuzz/seeds`, because random bytes hardly ever become a request line or an object.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, bail};

/// The compiler flags that count edges, and report both sides of comparisons, in the way libFuzzer reads them.
const COVERAGE: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 -Cdebug-assertions";

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

/// Inputs found are kept in `fuzz/corpus`, so that the next run continues from there; one that violates a property is
/// written to `fuzz/` and named in the output.
fn fuzz(home: &Path, program: &Path, target: &str, seconds: u32) -> anyhow::Result<()> {
    let corpus = home.join("corpus").join(target);
    std::fs::create_dir_all(&corpus).with_context(|| format!("cannot create {}", corpus.display()))?;
    sow(&seeds(home, target), &corpus)?;
    let mut fuzzer = Command::new(program);
    fuzzer.current_dir(home).arg(corpus).args([
        &format!("-max_total_time={seconds}"),
        "-timeout=10",
        "-rss_limit_mb=2048",
        "-malloc_limit_mb=512",
        "-print_final_stats=1",
    ]);
    if !fuzzer.status().with_context(|| format!("cannot start {target}"))?.success() {
        bail!("{target} broke a law: the input is in fuzz/");
    }
    Ok(())
}

/// The file with the first inputs of a target, one in a line. Expressions are those of a test.
fn seeds(home: &Path, target: &str) -> PathBuf {
    match target {
        "cel" => crate::root().join("crates/cel/tests/true.txt"),
        _ => home.join("seeds").join(target).with_extension("txt"),
    }
}

/// Writes each line of a file of seeds as a separate input.
fn sow(seeds: &Path, corpus: &Path) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(seeds).with_context(|| format!("cannot read {}", seeds.display()))?;
    for (number, line) in text.lines().enumerate() {
        std::fs::write(corpus.join(format!("seed-{number}")), unescape(line))?;
    }
    Ok(())
}

/// The bytes of a seed: `\\`, `\n`, `\r`, `\0` and `\xNN` stand for one byte each.
fn unescape(line: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::with_capacity(line.len()), line.bytes());
    while let Some(byte) = rest.next() {
        let escaped = if byte == b'\\' { rest.next() } else { None };
        bytes.push(match escaped {
            None => byte,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b'0') => 0,
            Some(b'x') => {
                let digits: Vec<u8> = rest.by_ref().take(2).collect();
                u8::from_str_radix(&String::from_utf8_lossy(&digits), 16).unwrap_or_default()
            }
            Some(other) => other,
        });
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::unescape;

    #[test]
    fn escapes_stand_for_bytes() {
        assert_eq!(unescape(r"a\\0\0\r\n\xff\x7"), b"a\\0\0\r\n\xff\x07");
        assert_eq!(unescape(r"\\"), b"\\");
    }
}
