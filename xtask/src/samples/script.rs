//! Running scripts, and comparing their output with that in a document.
//!
//! In the expected text `…` stands for anything on its line, and a line that is only `…` for any number of lines.

use std::fs::OpenOptions;
use std::io::{Read, Seek};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

/// A sample is a few commands; one that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(120);

/// The time for processes that a sample left running to end gracefully.
const STOPS_WITHIN: Duration = Duration::from_secs(10);

/// One command of a console session and the output below it.
#[derive(Debug, PartialEq, Eq)]
struct Step {
    command: String,
    expected: String,
}

/// Runs every command of a console session in one shell and compares the outputs.
pub(super) fn run_console(text: &str, shell: impl Fn() -> Command) -> anyhow::Result<()> {
    let steps = steps(text);
    if steps.is_empty() {
        bail!("no line begins with `$ `");
    }
    // One shell for all of them, so that variables and folders last; a mark separates the outputs.
    let mark = "--8<--";
    let script: String = steps.iter().map(|step| format!("{}\necho '{mark}'\n", step.command)).collect();
    let said = run(shell(), &format!("set -euo pipefail\n{script}"))?;
    let end = format!("{mark}\n");
    for (step, output) in steps.iter().zip(said.split(&end)) {
        if !step.expected.is_empty() && !matches(&step.expected, output) {
            bail!("`{}` printed\n{output}instead of\n{}", step.command, step.expected);
        }
    }
    Ok(())
}

fn steps(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix("$ "), steps.last_mut()) {
            (Some(command), _) => steps.push(Step { command: command.to_owned(), expected: String::new() }),
            // The lines of a command that goes on, as after a backslash or in a here-document.
            (None, Some(step)) if line.starts_with("> ") => {
                step.command.push('\n');
                step.command.push_str(line.get(2..).unwrap_or_default());
            }
            (None, Some(step)) => {
                step.expected.push_str(line);
                step.expected.push('\n');
            }
            (None, None) => {}
        }
    }
    steps
}

/// Runs a script as [`run_within`] does, in the time that a sample may take.
pub(super) fn run(shell: Command, script: &str) -> anyhow::Result<String> {
    run_within(LIMIT, shell, script)
}

/// Runs a script; returns its output on both streams. Processes that it left running are ended.
pub(super) fn run_within(limit: Duration, mut shell: Command, script: &str) -> anyhow::Result<String> {
    // A file, not a pipe: a program in the background would keep a pipe open.
    let file = shell.get_current_dir().context("no folder")?.join("output.txt");
    let mut output = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(file)?;
    shell.arg("-c").arg(script).stdin(Stdio::null()).process_group(0);
    shell.stdout(output.try_clone()?).stderr(output.try_clone()?);
    let mut process = shell.spawn().context("cannot start bash")?;
    let deadline = Instant::now() + limit;
    let status = loop {
        match process.try_wait()? {
            Some(status) => break Some(status),
            None if Instant::now() > deadline => break None,
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    end_group(process.id());
    process.wait().ok();
    let mut said = String::new();
    output.rewind()?;
    output.read_to_string(&mut said)?;
    match status {
        Some(status) if status.success() => Ok(said),
        Some(status) => bail!("{status}: {said}"),
        None => bail!("not over after {limit:?}: {said}"),
    }
}

/// Ends a process group, and waits until it is gone: the next script may need the port or the files of a server.
fn end_group(leader: u32) {
    let send = |signal: &str| {
        let mut kill = Command::new("kill");
        kill.args([signal, "--", &format!("-{leader}")]).stdout(Stdio::null()).stderr(Stdio::null());
        kill.status().is_ok_and(|status| status.success())
    };
    let deadline = Instant::now() + STOPS_WITHIN;
    send("-TERM");
    while send("-0") && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    send("-KILL");
}

/// Compares line by line.
fn matches(expected: &str, output: &str) -> bool {
    let expected: Vec<&str> = expected.lines().map(str::trim_end).collect();
    let output: Vec<&str> = output.lines().map(str::trim_end).collect();
    lines_match(&expected, &output)
}

fn lines_match(expected: &[&str], output: &[&str]) -> bool {
    match (expected.split_first(), output.split_first()) {
        (None, None) => true,
        (Some((&"…", rest)), _) => {
            (0..=output.len()).any(|skip| lines_match(rest, output.get(skip..).unwrap_or(&[])))
        }
        (Some((line, rest)), Some((found, more))) => line_matches(line, found) && lines_match(rest, more),
        _ => false,
    }
}

fn line_matches(expected: &str, found: &str) -> bool {
    // Columns may be wider or narrower where a value has another length.
    let normal = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (expected, found) = (normal(expected), normal(found));
    let mut parts = expected.split('…');
    let Some(mut rest) = parts.next().and_then(|first| found.strip_prefix(first)) else { return false };
    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some(at) = rest.find(part) else { return false };
        rest = rest.get(at + part.len()..).unwrap_or_default();
    }
    rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_commands_with_their_output() {
        let found = steps("$ echo a\na\n$ cat <<X\n> b\n> X\nb\n");
        assert_eq!(found[0], Step { command: "echo a".into(), expected: "a\n".into() });
        assert_eq!(found[1], Step { command: "cat <<X\nb\nX".into(), expected: "b\n".into() });
    }

    #[test]
    fn an_ellipsis_stands_for_anything() {
        assert!(matches("a\n…\nz\n", "a\nb\nc\nz\n"));
        assert!(matches("ready … in … ms", "ready https://x in 34 ms"));
        assert!(matches("NAME  AGE\nweb   …", "NAME     AGE\nweb      3s"));
        assert!(!matches("a\nz\n", "a\nb\nz\n") && !matches("a…", "b") && !matches("… ms", "34 s"));
    }
}
