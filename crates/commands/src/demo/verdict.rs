//! [`DemoVerdict`]: the claims that the demo checked, or the promises that were broken.
//!
//! Everything recorded is compared with the store's log by the validators of `listwatch-testkit`, the same that the
//! tests use: acknowledged writes, the order and completeness of the watch, the cache against the server, the history
//! of each handler, the controller's result. It is not a benchmark: latencies are those of one process on one machine.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::Ordering;
use std::time::Duration;

use listwatch::{ObjectKey, Revision};
use listwatch_testkit::history::{Frame, Seen, Violation, Watch, handler};

use super::Demo;
use super::actors::{self, WrittenValues};
use super::counters::DemoHandler;
use super::screen::grouped;

/// The outcome of a demo.
#[derive(Debug, Default)]
pub(crate) struct DemoVerdict {
    /// The claims that were checked, each with what it rests on.
    facts: Vec<(&'static str, String)>,
    /// The promises that were broken; empty if all is well.
    broken: Vec<String>,
    /// Median and 99th percentile from sending a write to its handler.
    latency: (Duration, Duration),
}

/// Holds everything that was recorded against the store's own log.
///
/// `settled` is false if the controller did not finish in time, which is a broken promise as well.
///
/// # Errors
///
/// The store's log or the server cannot be read: then there is no verdict at all.
pub(crate) async fn reach(
    demo: &Demo,
    first: Revision,
    watch: Watch,
    values: &WrittenValues,
    settled: bool,
) -> anyhow::Result<DemoVerdict> {
    let truth = demo.collection.truth(demo.server.engine().as_ref(), first).await?;
    let mut server = demo.collection.state(&demo.raw).await?;
    server.retain(|_, seen| watch.filter.matches(&seen.key, &seen.content));
    let mut verdict = DemoVerdict {
        latency: (demo.counters.latency(0.5), demo.counters.latency(0.99)),
        ..DemoVerdict::default()
    };
    verdict.broken.extend(texts(truth.check_acknowledged(&values.acknowledged)));
    verdict.broken.extend(texts(watch.check(&truth)));
    verdict.broken.extend(differing(demo, &server));
    verdict.claim_log(values.acknowledged.len(), events(&watch), server.len());
    verdict.check_handlers(demo, &server);
    verdict.check_controller(demo, values, settled);
    Ok(verdict)
}

fn texts(violations: Vec<Violation>) -> Vec<String> {
    violations.iter().map(ToString::to_string).collect()
}

fn events(watch: &Watch) -> usize {
    watch.frames.iter().filter(|frame| matches!(frame, Frame::Event { .. })).count()
}

/// Compares key, version and content of every object. `None` if cache and server agree.
fn differing(demo: &Demo, server: &BTreeMap<ObjectKey, Seen>) -> Option<String> {
    let snapshot = demo.informer.snapshot();
    let cache: BTreeMap<_, _> =
        snapshot.iter().filter_map(actors::seen).map(|seen| (seen.key.clone(), seen)).collect();
    (cache != *server).then(|| {
        format!("the cache holds {} objects that are not the server's {}", cache.len(), server.len())
    })
}

/// The keys whose last desired value is not reconciled in the cache.
pub(crate) fn unreconciled(demo: &Demo, values: &WrittenValues) -> Vec<ObjectKey> {
    let store = demo.informer.store();
    let done = |key: &ObjectKey, value: &String| {
        store.get(key).and_then(|object| actors::data(&object, "done")).as_ref() == Some(value)
    };
    values.last.iter().filter(|(key, value)| !done(key, value)).map(|(key, _)| key.clone()).collect()
}

impl DemoVerdict {
    fn claim(&mut self, claim: &'static str, ground: String) {
        self.facts.push((claim, ground));
    }

    /// The claims about what was compared with the store's log and with the server.
    fn claim_log(&mut self, acknowledged: usize, events: usize, objects: usize) {
        let (acknowledged, events) = (grouped(acknowledged as u64), grouped(events as u64));
        self.claim(
            "nothing was lost",
            format!("{acknowledged} writes were acknowledged, and the store's log has every one"),
        );
        self.claim(
            "nothing was repeated or out of order",
            format!("one watch delivered {events} events, and each was compared with the store's log"),
        );
        self.claim("the cache equals the server", format!("{objects} objects, field by field"));
    }

    /// Checks the history of both handlers.
    fn check_handlers(&mut self, demo: &Demo, server: &BTreeMap<ObjectKey, Seen>) {
        for (who, name, claim) in [
            (DemoHandler::Quick, "quick", "handlers hear a consistent story"),
            (DemoHandler::Slow, "slow", "a slow handler delays itself only"),
        ] {
            let history = demo.counters.take_history(who);
            let violations = handler::check(&history, server);
            self.broken.extend(violations.iter().map(|rule| format!("{name} handler: {rule}")));
            self.claim(claim, format!("the {name} one was called {} times", grouped(history.len() as u64)));
        }
    }

    /// Checks that the controller reconciled the last value of each object.
    fn check_controller(&mut self, demo: &Demo, values: &WrittenValues, settled: bool) {
        let late = unreconciled(demo, values);
        self.broken.extend(late.into_iter().map(|key| format!("{key} was not reconciled")));
        if !settled {
            self.broken.push("the controller did not come to rest in time".into());
        }
        let reconciled = grouped(demo.counters.reconciled.load(Ordering::Relaxed));
        let retried = grouped(demo.counters.retried.load(Ordering::Relaxed));
        self.claim("the work got done", format!(
            "the controller reconciled the last value of each object, with {reconciled} writes and {retried} conflicts with newer values"
        ));
    }

    /// True if no promise was broken; the exit code follows.
    pub(crate) fn is_clean(&self) -> bool {
        self.broken.is_empty()
    }

    /// The verdict with its grounds, for people.
    pub(crate) fn text(&self, took: Duration, coloured: bool) -> String {
        let paint = |text: &str, code: u8| match coloured {
            true => format!("\x1b[{code}m{text}\x1b[0m"),
            false => text.to_owned(),
        };
        let (p50, p99) = self.latency;
        let mut text = String::new();
        if !self.is_clean() {
            let _ = writeln!(text, "{} {} promises:", paint("BROKEN:", RED), self.broken.len());
            for what in self.broken.iter().take(MAX_BROKEN) {
                let _ = writeln!(text, "  ✗ {what}");
            }
            return text;
        }
        let _ = writeln!(text, "What {:.1} seconds proved:", took.as_secs_f64());
        for (claim, ground) in &self.facts {
            let _ = writeln!(text, "  {} {claim}: {ground}", paint("✓", GREEN));
        }
        let _ = writeln!(
            text,
            "From sending a write to its handler: half within {p50:.1?}, 99% within {p99:.1?}."
        );
        let _ = writeln!(
            text,
            "All of it ran on the real server, over TLS, with the library that your programs would use."
        );
        let _ = writeln!(
            text,
            "Next: `listwatch serve` starts a server that stays; `listwatch watch --help` follows any cluster."
        );
        text
    }
}

/// The violations that are listed; more would not help.
const MAX_BROKEN: usize = 20;
const RED: u8 = 31;
const GREEN: u8 = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(broken: Vec<String>) -> DemoVerdict {
        DemoVerdict {
            facts: vec![("nothing was lost", "7 writes".into())],
            broken,
            latency: Default::default(),
        }
    }

    #[test]
    fn a_clean_verdict_lists_what_was_checked() {
        let clean = verdict(vec![]);
        let text = clean.text(Duration::from_secs(1), false);
        assert!(clean.is_clean() && text.contains("✓ nothing was lost: 7 writes"), "{text}");
        assert!(!text.contains('\x1b') && clean.text(Duration::ZERO, true).contains("\x1b[32m"));
    }

    #[test]
    fn a_broken_guarantee_is_named_and_the_verdict_fails() {
        let broken = verdict(vec!["broke ordered: x".into()]);
        let text = broken.text(Duration::ZERO, false);
        assert!(!broken.is_clean() && text.contains("broke ordered: x") && !text.contains('✓'), "{text}");
    }
}
