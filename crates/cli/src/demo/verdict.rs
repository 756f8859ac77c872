//! What was promised and what happened.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::Ordering;
use std::time::Duration;

use listwatch::{ObjectKey, Revision};
use listwatch_testkit::history::{Frame, Seen, Violation, Watch, handler};

use super::Demo;
use super::actors::{self, Wishes};
use super::counters::Who;

/// The outcome of a demo.
#[derive(Debug)]
pub(crate) struct Verdict {
    /// What was checked, one line each.
    facts: Vec<String>,
    /// What was broken; empty if all is well.
    broken: Vec<String>,
}

/// Holds everything that was recorded against the store's own log.
pub(crate) async fn reach(
    demo: &Demo,
    first: Revision,
    watch: Watch,
    wishes: &Wishes,
    settled: bool,
) -> anyhow::Result<Verdict> {
    let truth = demo.collection.truth(demo.server.engine().as_ref(), first).await?;
    let mut server = demo.collection.state(&demo.raw).await?;
    server.retain(|_, seen| watch.filter.matches(&seen.key, &seen.content));
    let mut broken = texts(truth.check_acknowledged(&wishes.acknowledged));
    broken.extend(texts(watch.check(&truth)));
    broken.extend(differing(demo, &server));
    let mut facts = vec![
        format!("{} writes acknowledged, all of them in the log", wishes.acknowledged.len()),
        format!(
            "{} events delivered by one watch, each held against the log of {} changes",
            events(&watch),
            truth.len()
        ),
        format!("cache equals the server: {} objects", server.len()),
    ];
    for (who, name) in [(Who::Quick, "quick"), (Who::Slow, "slow")] {
        let history = demo.counters.take_history(who);
        broken.extend(handler::check(&history, &server).iter().map(|rule| format!("{name} handler: {rule}")));
        facts.push(format!("{name} handler: a consistent story in {} events", history.len()));
    }
    broken.extend(
        unfulfilled(demo, wishes).into_iter().map(|key| format!("the wish of {key} was not fulfilled")),
    );
    if !settled {
        broken.push("the controller did not come to rest in time".into());
    }
    let fulfilled = demo.counters.fulfilled.load(Ordering::Relaxed);
    let retried = demo.counters.retried.load(Ordering::Relaxed);
    facts.push(format!(
        "controller: {fulfilled} wishes fulfilled, {retried} overtaken by newer ones and fulfilled later"
    ));
    let (p50, p99) = (demo.counters.latency(0.5), demo.counters.latency(0.99));
    facts.push(format!("from sending a write to its handler: p50 {p50:.1?}, p99 {p99:.1?}"));
    Ok(Verdict { facts, broken })
}

fn texts(violations: Vec<Violation>) -> Vec<String> {
    violations.iter().map(ToString::to_string).collect()
}

fn events(watch: &Watch) -> usize {
    watch.frames.iter().filter(|frame| matches!(frame, Frame::Event { .. })).count()
}

fn differing(demo: &Demo, server: &BTreeMap<ObjectKey, Seen>) -> Option<String> {
    let snapshot = demo.informer.snapshot();
    let cache: BTreeMap<_, _> =
        snapshot.iter().filter_map(actors::seen).map(|seen| (seen.key.clone(), seen)).collect();
    (cache != *server).then(|| {
        format!("the cache holds {} objects that are not the server's {}", cache.len(), server.len())
    })
}

/// The keys whose last wish the cache does not show as fulfilled.
pub(crate) fn unfulfilled(demo: &Demo, wishes: &Wishes) -> Vec<ObjectKey> {
    let store = demo.informer.store();
    let done = |key: &ObjectKey, wish: &String| {
        store.get(key).and_then(|object| actors::data(&object, "done")).as_ref() == Some(wish)
    };
    wishes.last.iter().filter(|(key, wish)| !done(key, wish)).map(|(key, _)| key.clone()).collect()
}

impl Verdict {
    pub(crate) fn is_clean(&self) -> bool {
        self.broken.is_empty()
    }

    pub(crate) fn text(&self, took: Duration) -> String {
        let mut text = String::new();
        for fact in &self.facts {
            let _ = writeln!(text, "  {fact}");
        }
        if self.is_clean() {
            let _ = writeln!(text, "lost: nothing, repeated: nothing, out of order: nothing ({took:.1?})");
        } else {
            let _ = writeln!(text, "BROKEN: {} promises", self.broken.len());
            for what in self.broken.iter().take(20) {
                let _ = writeln!(text, "  {what}");
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_promise_is_named_and_counts() {
        let clean = Verdict { facts: vec!["a fact".into()], broken: vec![] };
        assert!(
            clean.is_clean()
                && clean.text(Duration::from_secs(1)).ends_with("out of order: nothing (1.0s)\n")
        );
        let broken = Verdict { facts: vec![], broken: vec!["broke ordered: x".into()] };
        assert!(!broken.is_clean() && broken.text(Duration::ZERO).contains("broke ordered: x"));
    }
}
