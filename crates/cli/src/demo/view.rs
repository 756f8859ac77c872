//! The live view: redrawn in place on a terminal, a line per second elsewhere.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use listwatch::workqueue::Queue;
use listwatch::{ObjectKey, Revision, SharedInformer};
use listwatch_storage::Engine;
use serde_json::Value;

use super::Arguments;
use super::counters::{Counters, Who};

/// Often enough to look alive, seldom enough to cost nothing.
const REDRAW: Duration = Duration::from_millis(80);
const LINE_EVERY: Duration = Duration::from_secs(1);
const BAR: usize = 24;

/// What is looked at.
pub(crate) struct Viewed {
    pub(crate) arguments: Arguments,
    pub(crate) counters: Arc<Counters>,
    pub(crate) informer: SharedInformer<Value>,
    pub(crate) queue: Queue<ObjectKey>,
    pub(crate) engine: Arc<dyn Engine>,
}

/// All figures of one moment.
struct Figures {
    planned: u64,
    written: u64,
    per_second: u64,
    revision: Revision,
    delivered: u64,
    cached: usize,
    cached_at: Revision,
    quick: usize,
    slow: usize,
    slow_ms: u64,
    waiting: usize,
    in_work: usize,
    fulfilled: u64,
    latency: (Duration, Duration),
}

/// Shows figures until the demo is finished. What cannot be shown (a closed terminal) does not matter.
pub(crate) async fn show(viewed: Viewed) {
    let terminal = std::io::stdout().is_terminal();
    let mut drawn = 0;
    loop {
        let finished = viewed.counters.is_finished();
        let figures = viewed.figures().await;
        let text = if terminal { figures.page() } else { figures.line() };
        draw(&text, if terminal { drawn } else { 0 });
        drawn = text.lines().count();
        if finished {
            return;
        }
        let pause = if terminal { REDRAW } else { LINE_EVERY };
        let deadline = tokio::time::Instant::now() + pause;
        while tokio::time::Instant::now() < deadline && !viewed.counters.is_finished() {
            tokio::time::sleep(REDRAW.min(pause)).await;
        }
    }
}

/// Writes the text over the last so many lines.
fn draw(text: &str, over: usize) {
    let up = if over > 0 { format!("\x1b[{over}A\x1b[J") } else { String::new() };
    let mut out = std::io::stdout().lock();
    out.write_all((up + text).as_bytes()).and_then(|()| out.flush()).ok();
}

impl Viewed {
    async fn figures(&self) -> Figures {
        let counters = &self.counters;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let written = count(&counters.written);
        let snapshot = self.informer.snapshot();
        Figures {
            planned: counters.planned.into(),
            written,
            per_second: (written as f64 / counters.elapsed().as_secs_f64().max(0.001)) as u64,
            revision: self.engine.current().await.unwrap_or_default(),
            delivered: count(&counters.delivered),
            cached: snapshot.len(),
            cached_at: snapshot.revision(),
            quick: counters.handled(Who::Quick),
            slow: counters.handled(Who::Slow),
            slow_ms: self.arguments.slow,
            waiting: self.queue.len(),
            in_work: self.queue.in_flight(),
            fulfilled: count(&counters.fulfilled),
            latency: (counters.latency(0.5), counters.latency(0.99)),
        }
    }
}

impl Figures {
    fn page(&self) -> String {
        let mut text = String::new();
        let (p50, p99) = self.latency;
        let bar = bar(self.written, self.planned);
        let _ = writeln!(text, "  written      {:>8}  {bar}  {}/s", self.written, self.per_second);
        let _ = writeln!(
            text,
            "  revision     {:>8}  the store's counter: wishes and their fulfilment",
            self.revision
        );
        let _ = writeln!(text, "  delivered    {:>8}  events by one watch", self.delivered);
        let _ = writeln!(text, "  cached       {:>8}  objects at revision {}", self.cached, self.cached_at);
        let _ = writeln!(
            text,
            "  quick handler{:>8}  events, p50 {p50:.1?}, p99 {p99:.1?} after the write was sent",
            self.quick
        );
        let _ = writeln!(
            text,
            "  slow handler {:>8}  events at {} ms each; nobody waits for it",
            self.slow, self.slow_ms
        );
        let _ = writeln!(
            text,
            "  work queue   {:>8}  waiting, {} in work, {} fulfilled",
            self.waiting, self.in_work, self.fulfilled
        );
        text
    }

    fn line(&self) -> String {
        let (p50, p99) = self.latency;
        format!(
            "written {} of {}, revision {}, delivered {}, cached {}, quick {}, slow {}, queue {}+{}, fulfilled {}, p50 {p50:.1?}, p99 {p99:.1?}\n",
            self.written,
            self.planned,
            self.revision,
            self.delivered,
            self.cached,
            self.quick,
            self.slow,
            self.waiting,
            self.in_work,
            self.fulfilled,
        )
    }
}

fn bar(done: u64, all: u64) -> String {
    let filled = usize::try_from(done * BAR as u64 / all.max(1)).unwrap_or(BAR).min(BAR);
    format!("{}{}", "█".repeat(filled), "░".repeat(BAR - filled))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_fills_from_empty_to_full() {
        assert_eq!(bar(0, 10), "░".repeat(BAR));
        assert_eq!(bar(10, 10), "█".repeat(BAR));
        assert_eq!(bar(20, 10), "█".repeat(BAR));
        assert_eq!(bar(1, 0).chars().count(), BAR);
    }
}
