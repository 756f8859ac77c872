//! A run is a list of [`Step`]s; every step is tried even after one failed, and the summary has the result of each.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::bail;

/// One step that can fail independently.
pub(crate) struct Step {
    /// What the command line and the summary call it.
    pub(crate) name: &'static str,
    /// One line for `--list`.
    pub(crate) about: &'static str,
    /// Does the work.
    pub(crate) run: fn() -> anyhow::Result<Outcome>,
}

/// How a step ended when it did not fail.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It passed. The text is what was checked, as a count where there is one.
    Passed(String),
    /// A part that this machine cannot have is missing; the text names it and how to get it.
    Skipped(String),
}

/// Keeps the named steps, or all if none was named.
pub(crate) fn select(steps: Vec<Step>, names: &[String]) -> anyhow::Result<Vec<Step>> {
    if let Some(unknown) = names.iter().find(|name| steps.iter().all(|step| step.name != **name)) {
        bail!("no step is called {unknown}; `cargo xtask test --list` shows them");
    }
    Ok(steps
        .into_iter()
        .filter(|step| names.is_empty() || names.iter().any(|name| name == step.name))
        .collect())
}

/// Runs the steps in order and prints the summary.
pub(crate) fn run(steps: Vec<Step>) -> ExitCode {
    let lines: Vec<_> = steps
        .into_iter()
        .map(|step| {
            println!("\n=== {} — {}", step.name, step.about);
            let start = Instant::now();
            let outcome = (step.run)();
            (step.name, start.elapsed(), outcome)
        })
        .collect();
    println!("\n=== summary");
    for (name, took, outcome) in &lines {
        println!("{}", line(name, *took, outcome));
    }
    let failed: Vec<_> =
        lines.iter().filter(|(_, _, outcome)| outcome.is_err()).map(|(name, ..)| *name).collect();
    if failed.is_empty() {
        println!("all good");
        return ExitCode::SUCCESS;
    }
    println!("failed: {}; one alone: cargo xtask test {}", failed.join(", "), failed.join(" "));
    ExitCode::FAILURE
}

fn line(name: &str, took: Duration, outcome: &anyhow::Result<Outcome>) -> String {
    let (word, text) = match outcome {
        Ok(Outcome::Passed(text)) => ("ok", text.clone()),
        Ok(Outcome::Skipped(text)) => ("skipped", text.clone()),
        Err(error) => ("FAILED", format!("{error:#}")),
    };
    format!("{word:8} {name:12} {:6.1} s  {text}", took.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(name: &'static str) -> Step {
        Step { name, about: "", run: || Ok(Outcome::Passed(String::new())) }
    }

    #[test]
    fn naming_steps_keeps_their_order_and_refuses_unknown_ones() {
        let kept =
            select(vec![step("fmt"), step("clippy"), step("docs")], &["docs".into(), "fmt".into()]).unwrap();
        assert_eq!(kept.iter().map(|step| step.name).collect::<Vec<_>>(), ["fmt", "docs"]);
        assert!(select(vec![step("fmt")], &["typo".into()]).is_err());
        assert_eq!(select(vec![step("fmt"), step("docs")], &[]).unwrap().len(), 2);
    }

    #[test]
    fn a_failing_step_fails_the_run_and_the_others_still_run() {
        let steps = vec![Step { name: "bad", about: "", run: || bail!("broken") }, step("good")];
        assert_eq!(run(steps), ExitCode::FAILURE);
        assert_eq!(run(vec![step("good")]), ExitCode::SUCCESS);
    }
}
