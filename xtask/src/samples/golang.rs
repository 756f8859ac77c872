//! Go samples: a test is run, a fragment is parsed.
//!
//! Go comes from PyPI where it is not installed. A test that imports nothing but the standard library always runs; one on
//! controller-runtime runs where the Go module proxy can be reached, and is parsed elsewhere. [`super::script`] runs them.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::bail;

use super::script;
use crate::{cache, parts};

/// Pinned, so that runs are reproducible.
const CONTROLLER_RUNTIME: &str = "sigs.k8s.io/controller-runtime@v0.24.1";
/// The first build compiles the standard library or half of Kubernetes, on any machine.
const BUILD_WITHIN: Duration = Duration::from_secs(900);

/// Tries a block in the folder of its document; returns the reason if it was only parsed.
pub(super) fn run(
    text: &str,
    folder: &Path,
    shell: impl Fn() -> Command,
) -> anyhow::Result<Option<&'static str>> {
    let tools = parts::go()?;
    let shell = || with_tools(shell(), &tools);
    std::fs::write(folder.join("sample_test.go"), text)?;
    script::run(shell(), "gofmt -e sample_test.go > /dev/null")?;
    if !text.starts_with("package ") {
        return Ok(Some("a fragment"));
    }
    std::fs::write(folder.join("go.mod"), "module sample\n")?;
    if text.contains("\"sigs.k8s.io/controller-runtime")
        && let Err(error) = script::run_within(BUILD_WITHIN, shell(), &format!("go get {CONTROLLER_RUNTIME}"))
    {
        if error.to_string().contains("dial tcp") {
            return Ok(Some("the Go module proxy cannot be reached"));
        }
        bail!(error);
    }
    script::run_within(BUILD_WITHIN, shell(), "go test -c -o sample.test .")?;
    script::run(shell(), "./sample.test")?;
    Ok(None)
}

fn with_tools(mut shell: Command, tools: &Path) -> Command {
    let path = shell.get_envs().find(|(name, _)| *name == "PATH").and_then(|(_, value)| value);
    let path = path.unwrap_or_default().to_string_lossy().into_owned();
    let home = cache().join("go");
    shell
        .env("PATH", format!("{}:{path}", tools.display()))
        .env("GOCACHE", home.join("build"))
        .env("GOMODCACHE", home.join("modules"))
        // What an import needs is added to `go.mod` on the way.
        .env("GOFLAGS", "-mod=mod")
        .env("GOTOOLCHAIN", "local")
        .env("CGO_ENABLED", "0");
    shell
}
