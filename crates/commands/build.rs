//! The commit that the program is built from, and its date.
//!
//! The commit and its date come from git, so that two builds of one commit are equal. Without git both are `unknown`, unless
//! `LISTWATCH_COMMIT` and `LISTWATCH_BUILD_DATE` say otherwise, as packagers of source archives do. The script runs again
//! when HEAD moves, and at no other change.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    rerun_when_head_moves();
    fact("LISTWATCH_COMMIT", &["rev-parse", "HEAD"]);
    fact("LISTWATCH_BUILD_DATE", &["log", "-1", "--format=%cd", "--date=format-local:%Y-%m-%dT%H:%M:%SZ"]);
}

/// Sets an environment variable of the compilation: from the environment, else from git, else `unknown`.
fn fact(name: &str, arguments: &[&str]) {
    println!("cargo:rerun-if-env-changed={name}");
    let given = std::env::var(name).ok().filter(|text| !text.is_empty());
    let value = given.or_else(|| git(arguments)).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo:rustc-env={name}={value}");
}

/// Names the files that change with HEAD. A file that is not there would make cargo run the script every time.
fn rerun_when_head_moves() {
    let branch = git(&["symbolic-ref", "--quiet", "HEAD"]);
    for name in ["HEAD", "packed-refs"].into_iter().chain(branch.as_deref()) {
        if let Some(path) = git(&["rev-parse", "--git-path", name]).filter(|path| Path::new(path).is_file()) {
            println!("cargo:rerun-if-changed={path}");
        }
    }
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).env("TZ", "UTC").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}
