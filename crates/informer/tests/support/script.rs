//! Script files: commands, `----`, what they print, a blank line; and again.
//!
//! Lines that begin with `#` are prose. With `REWRITE=1` in the environment the expected output is written again from
//! what the commands printed; read the difference before you commit it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Runs one file. `run` takes a command and returns the lines that it prints.
pub(crate) fn run(directory: &str, name: &str, mut run: impl FnMut(&str) -> String) {
    let path = path(directory).join(format!("{name}.txt"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut actual = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        writeln!(actual, "{line}").unwrap();
        let is_command = !line.is_empty() && !line.starts_with('#');
        // What was printed replaces what was expected.
        let expected = lines.next_if_eq(&"----").is_some();
        if expected {
            while lines.next().is_some_and(|line| !line.is_empty()) {}
        }
        let printed = if is_command { run(line) } else { String::new() };
        if !printed.is_empty() {
            writeln!(actual, "----\n{printed}").unwrap();
        }
    }
    if env::var("REWRITE").is_ok() {
        fs::write(&path, actual).unwrap();
    } else {
        assert_eq!(actual, text, "{} prints something else; run with REWRITE=1 to see what", path.display());
    }
}

/// Every script of the directory must be run by a test.
pub(crate) fn assert_all_run(directory: &str, names: &[&str]) {
    for entry in fs::read_dir(path(directory)).unwrap() {
        let file = entry.unwrap().path();
        let stem = file.file_stem().unwrap().to_string_lossy().into_owned();
        assert!(names.contains(&stem.as_str()), "no test runs {}", file.display());
    }
}

/// Relative to the folder of the package, where cargo runs its tests.
fn path(directory: &str) -> PathBuf {
    Path::new("tests/scripts").join(directory)
}
