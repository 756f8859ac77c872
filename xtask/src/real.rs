//! The steps that test a running server from outside: the recorded conversations, kubectl, and the official clients of
//! other languages. Each starts its own server, so that no step depends on objects left by another.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Context, bail};

use crate::checks::run;
use crate::report::{Outcome, Step};
use crate::server::{self, ADMIN_TOKEN, Server, USER_TOKEN};
use crate::{parts, root, samples};

pub(crate) fn steps() -> Vec<Step> {
    vec![
        Step { name: "conformance", about: "conversations recorded with kube-apiserver", run: conformance },
        Step { name: "samples", about: "every sample in the documents", run: samples::check },
        Step { name: "mutations", about: "valid objects with one field changed", run: mutations },
        Step { name: "sequences", about: "random sequences of requests", run: sequences },
        Step { name: "kubectl", about: "what people type", run: kubectl },
        Step { name: "python", about: "a program on the official Python client", run: python },
        Step { name: "javascript", about: "a program on the official JavaScript client", run: javascript },
        Step { name: "console", about: "the web console in a real browser", run: console },
    ]
}

fn conformance() -> anyhow::Result<Outcome> {
    if let Some(missing) = parts::python()? {
        return Ok(Outcome::Skipped(missing));
    }
    let server = Server::start()?;
    let folder = root().join("conformance");
    let output = Command::new(folder.join("replay"))
        .args(["--server", &server.url, "--token", ADMIN_TOKEN, "--user-token", USER_TOKEN, "--insecure"])
        .arg(folder.join("public"))
        .output()
        .context("cannot start conformance/replay")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let gaps = std::fs::read_to_string(folder.join("gaps")).context("cannot read conformance/gaps")?;
    let verdict = judge(&said, &gaps);
    server.stop()?;
    verdict
}

/// Holds the server to what kube-apiserver answered when each field of valid objects was changed.
fn mutations() -> anyhow::Result<Outcome> {
    if let Some(missing) = parts::python()? {
        return Ok(Outcome::Skipped(missing));
    }
    let (is_equal, said) = recorded("mutate", &["--few"], "mutations")?;
    let summary = said.lines().last().unwrap_or_default().to_owned();
    if !is_equal {
        println!("{said}");
        bail!("{summary}");
    }
    Ok(Outcome::Passed(summary))
}

/// The number of runs in which a round of `sequences` must differ to count. The lifecycle controllers finish deletions in the
/// background, so that a request may find an object in one run that no longer exists in another.
const SEQUENCE_RUNS: usize = 3;

/// Holds the server to what kube-apiserver answered to random sequences on custom and built-in kinds.
fn sequences() -> anyhow::Result<Outcome> {
    if let Some(missing) = parts::python()? {
        return Ok(Outcome::Skipped(missing));
    }
    let mut differing: Option<BTreeSet<String>> = None;
    for _ in 0..SEQUENCE_RUNS {
        let (is_equal, said) = recorded("sequences", &[], "sequences")?;
        let rounds = rounds_that_differ(&said);
        if !is_equal && rounds.is_empty() {
            bail!("conformance/sequences failed: {said}");
        }
        let still = differing.map_or_else(|| rounds.clone(), |before| &before & &rounds);
        if still.is_empty() {
            return Ok(Outcome::Passed(said.lines().last().unwrap_or_default().to_owned()));
        }
        println!("{said}");
        differing = Some(still);
    }
    bail!("differ in every run: {}", differing.into_iter().flatten().collect::<Vec<_>>().join(", "))
}

/// The names in the lines `DIFF name …` and `MENDED name`.
fn rounds_that_differ(said: &str) -> BTreeSet<String> {
    let name = |line: &str| {
        let mut words = line.split(' ');
        matches!(words.next(), Some("DIFF" | "MENDED")).then(|| words.next().map(str::to_owned)).flatten()
    };
    said.lines().filter_map(name).collect()
}

/// Runs a program of `conformance/` that compares with recorded answers, known gaps excepted. Returns whether it succeeded, and
/// its output.
fn recorded(program: &str, options: &[&str], answers: &str) -> anyhow::Result<(bool, String)> {
    let server = Server::start()?;
    let folder = root().join("conformance");
    let output = Command::new(folder.join(program))
        .args(options)
        .args(["--server", &server.url, "--token", ADMIN_TOKEN, "--recorded"])
        .arg(folder.join(format!("{answers}.json.gz")))
        .arg("--gaps")
        .arg(folder.join(format!("{answers}.gaps")))
        .output()
        .with_context(|| format!("cannot start conformance/{program}"))?;
    server.stop()?;
    let said = [output.stderr.as_slice(), output.stdout.as_slice()].concat();
    Ok((output.status.success(), String::from_utf8_lossy(&said).into_owned()))
}

/// Compares the failures with the list of those known: a new one fails the step, and so does a known one that passes, so
/// that the list can only shrink.
fn judge(said: &str, gaps: &str) -> anyhow::Result<Outcome> {
    let known: BTreeSet<_> =
        gaps.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let passed: BTreeSet<_> =
        said.lines().filter_map(|line| line.strip_prefix("ok ")).map(str::trim).collect();
    let failures: Vec<_> = said.lines().filter_map(|line| line.strip_prefix("FAIL ")).collect();
    let new: Vec<_> = failures.iter().filter(|line| !known.contains(scenario(line))).collect();
    let mended: Vec<_> = known.intersection(&passed).copied().collect();
    for line in &new {
        println!("FAIL {line}");
    }
    if passed.is_empty() && failures.is_empty() {
        bail!("replay ran no scenario");
    }
    if !new.is_empty() {
        bail!(
            "{} scenarios differ ({} more are listed in conformance/gaps)",
            new.len(),
            failures.len() - new.len()
        );
    }
    if !mended.is_empty() {
        bail!("these pass now, take them out of conformance/gaps: {}", mended.join(" "));
    }
    Ok(Outcome::Passed(format!("{} scenarios as recorded, {} known gaps", passed.len(), failures.len())))
}

fn scenario(line: &str) -> &str {
    line.split(':').next().unwrap_or(line).trim()
}

fn kubectl() -> anyhow::Result<Outcome> {
    if !parts::present("kubectl") {
        return Ok(Outcome::Skipped("kubectl is missing; see https://kubernetes.io/docs/tasks/tools".into()));
    }
    let server = Server::start()?;
    let mut command = Command::new("bash");
    command
        .arg(root().join("tests/clients/kubectl.sh"))
        .env("KUBECONFIG", server.kubeconfig())
        // kubectl keeps discovery between runs; a server that is new each time must not meet an old response.
        .env("KUBECACHEDIR", server.folder().join("kubectl-cache"));
    run(command)?;
    server.stop()?;
    Ok(Outcome::Passed(String::new()))
}

fn python() -> anyhow::Result<Outcome> {
    if let Some(missing) = parts::python()? {
        return Ok(Outcome::Skipped(missing));
    }
    let library = parts::python_client()?;
    let server = Server::start()?;
    let mut command = Command::new("python3");
    command
        .arg(root().join("tests/clients/program.py"))
        .env("PYTHONPATH", library)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("KUBECONFIG", server.kubeconfig());
    run(command)?;
    server.stop()?;
    Ok(Outcome::Passed(String::new()))
}

fn javascript() -> anyhow::Result<Outcome> {
    if !parts::present("node") || !parts::present("npm") {
        return Ok(Outcome::Skipped("node or npm is missing; install nodejs and npm".into()));
    }
    let library = parts::javascript_client()?;
    let server = Server::start()?;
    let mut command = Command::new("node");
    command
        .arg(root().join("tests/clients/program.mjs"))
        // Modules are looked up from the file, not from the working directory: the path is passed to the program.
        .env("LISTWATCH_NODE_MODULES", library.join("node_modules"))
        .env("KUBECONFIG", server.kubeconfig());
    run(command)?;
    server.stop()?;
    Ok(Outcome::Passed(String::new()))
}

fn console() -> anyhow::Result<Outcome> {
    if !parts::present("node") || !parts::present("npm") {
        return Ok(Outcome::Skipped("node or npm is missing; install nodejs and npm".into()));
    }
    if let Some(missing) = parts::chromium()? {
        return Ok(Outcome::Skipped(missing));
    }
    let driver = parts::browser_driver()?;
    let mut command = Command::new("node");
    command
        .arg(root().join("tests/console/console.mjs"))
        .env("LISTWATCH_BINARY", server::binary()?)
        .env("LISTWATCH_NODE_MODULES", driver.join("node_modules"))
        .env("CHROMIUM", "/usr/bin/chromium");
    run(command)?;
    Ok(Outcome::Passed(String::new()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str =
        "ok list/a\nFAIL watch/b: step 2: /x expected 1 got 2\nskip auth/c (needs user-token)\n";

    #[test]
    fn rounds_are_read_from_the_lines_that_name_them() {
        let said = "MENDED Reads/58\nDIFF Odd/49 step 6: PATCH /x\n    status: expected 422 got 200\n2 rounds differ";
        assert_eq!(rounds_that_differ(said), ["Odd/49".to_owned(), "Reads/58".to_owned()].into());
    }

    #[test]
    fn a_failure_counts_unless_it_is_listed() {
        assert!(judge(SAID, "# none\n").is_err());
        assert!(
            matches!(judge(SAID, "watch/b\n"), Ok(Outcome::Passed(text)) if text == "1 scenarios as recorded, 1 known gaps")
        );
    }

    #[test]
    fn a_listed_scenario_that_passes_must_leave_the_list() {
        assert!(judge(SAID, "watch/b\nlist/a\n").unwrap_err().to_string().contains("list/a"));
    }

    #[test]
    fn a_run_of_nothing_proves_nothing() {
        assert!(judge("", "").is_err());
    }
}
