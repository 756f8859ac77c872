//! The effect of a flood by one tenant on the others. Simulated time, so these figures are exact and repeatable.

use std::time::Duration;

use crate::Report;
use crate::simulation::{RUN_MEAN, Scenario, Waits, least_wait};

const SEEDS: u32 = 10;
const SECONDS: u64 = 10;

pub(crate) fn rows(report: &Report) {
    for load in [0.25, 0.5, 0.75, 0.8, 0.9, 0.95] {
        let scenario = Scenario::fair(load, SECONDS * 1_000_000_000);
        compare(report, &format!("fair, load {load}"), &scenario, if load < 0.8 { "-" } else { "2" });
    }
    let capped = Scenario { in_flight_max: 2, ..Scenario::fair(0.8, SECONDS * 1_000_000_000) };
    compare(report, "fair, load 0.8, two in flight per tenant", &capped, "2");
    let unfair = Scenario { fair: false, ..Scenario::fair(0.8, SECONDS * 1_000_000_000) };
    compare(report, "first in first out, load 0.8", &unfair, "-");
}

fn compare(report: &Report, name: &str, scenario: &Scenario, goal: &str) {
    let mut runs = Vec::new();
    let ratio = |flooded: Duration, quiet: Duration| flooded.as_secs_f64() / quiet.as_secs_f64();
    report.value(
        &format!("99 tenants while one floods, {name}: mean wait, times the quiet one"),
        goal,
        "-",
        || {
            runs.extend((1..=SEEDS).map(|seed| scenario.compare(u64::from(seed))));
            ratio(mean(&runs, |run| run.1.mean), mean(&runs, |run| run.0.mean))
        },
    );
    if runs.is_empty() {
        return;
    }
    let run = Duration::from_nanos(RUN_MEAN as u64);
    let (quiet, flooded) = (mean(&runs, |run| run.0.mean), mean(&runs, |run| run.1.mean));
    let line = |what: &str, goal: &str, value| report.value(&format!("{name}: {what}"), goal, "-", || value);
    line("99th percentile", goal, ratio(mean(&runs, |run| run.1.p99), mean(&runs, |run| run.0.p99)));
    line("the worst of ten seeds", "-", runs.iter().map(|(q, f)| ratio(f.mean, q.mean)).fold(0.0, f64::max));
    if scenario.fair {
        line("from add to done", "2", ratio(flooded + run, quiet + run));
        // A cap leaves workers idle, and so may do better than this.
        line("the least possible if no worker idles", "-", ratio(least_wait(scenario.load), quiet));
    }
}

fn mean(runs: &[(Waits, Waits)], of: impl Fn(&(Waits, Waits)) -> Duration) -> Duration {
    runs.iter().map(of).sum::<Duration>() / SEEDS
}
