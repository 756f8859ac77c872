//! Informers and work queues of controllers, from the metrics pages that `top --metrics` names.
//!
//! Queues are read under client-go's names, so that every controller in Go or Rust that exports them is shown; informers
//! under those of our library, since client-go exports none. A page that cannot be read is named and does not hide the others.
//! Rates and quantiles need two readings: [`queue_lines`] compares them.

use std::collections::BTreeMap;
use std::time::Duration;

use super::buckets::{BucketQuantile, Buckets};
use super::exposition::{self, ExposedSample};

/// One look at all pages.
#[derive(Debug, Default)]
pub(super) struct ControllerReading {
    pub(super) informers: BTreeMap<String, InformerFigures>,
    queues: BTreeMap<String, QueueFigures>,
    /// Pages that could not be read, with the reason.
    pub(super) problems: Vec<String>,
}

/// The figures of one informer, as exported.
#[derive(Debug, Default)]
pub(super) struct InformerFigures {
    pub(super) synced: bool,
    pub(super) objects: f64,
    pub(super) revision: f64,
    /// Objects received and not yet applied.
    queued: f64,
    /// Events that its slowest handler has yet to read.
    backlog: f64,
    pub(super) last_event_age: f64,
    /// Lists and streaming lists: more than one of either is a relist.
    pub(super) lists: f64,
    pub(super) watches: f64,
    pub(super) problems: f64,
}

impl InformerFigures {
    /// Events that were received and not yet delivered to every handler.
    pub(super) fn lag(&self) -> f64 {
        self.queued + self.backlog
    }
}

/// The figures of one queue, as exported.
#[derive(Debug, Default)]
struct QueueFigures {
    depth: f64,
    delayed: f64,
    adds: f64,
    retries: f64,
    longest: f64,
    waited: Buckets,
    worked: Buckets,
}

impl ControllerReading {
    /// Adds the samples of a page. Names of informers and queues get the prefix, which distinguishes programs.
    pub(super) fn add(&mut self, prefix: &str, page: &str) {
        for sample in exposition::samples(page) {
            if let Some(figure) = sample.name.strip_prefix("workqueue_") {
                let queue = self.queues.entry(format!("{prefix}{}", sample.label("name"))).or_default();
                queue.add(figure, &sample);
            } else if let Some(figure) = sample.name.strip_prefix("listwatch_informer_") {
                self.informer(prefix, &sample).add(figure, sample.value);
            } else if sample.name == "listwatch_handler_backlog" {
                let informer = self.informer(prefix, &sample);
                informer.backlog = informer.backlog.max(sample.value);
            }
        }
    }

    fn informer(&mut self, prefix: &str, sample: &ExposedSample<'_>) -> &mut InformerFigures {
        self.informers.entry(format!("{prefix}{}", sample.label("informer"))).or_default()
    }

    /// Keys that wait in all queues.
    pub(super) fn depth(&self) -> f64 {
        self.queues.values().map(|queue| queue.depth).sum()
    }
}

impl InformerFigures {
    fn add(&mut self, figure: &str, value: f64) {
        match figure {
            "synced" => self.synced = value > 0.0,
            "objects" => self.objects = value,
            "revision" => self.revision = value,
            "queued_objects" => self.queued = value,
            "last_event_age_seconds" => self.last_event_age = value,
            "lists_total" | "streaming_lists_total" => self.lists += value,
            "watches_total" => self.watches = value,
            "problems_total" => self.problems += value,
            _ => {}
        }
    }
}

impl QueueFigures {
    fn add(&mut self, figure: &str, sample: &ExposedSample<'_>) {
        // With priorities, controller-runtime exports the depth of each priority: they add up.
        match figure {
            "depth" => self.depth += sample.value,
            "delayed" => self.delayed = sample.value,
            "adds_total" => self.adds = sample.value,
            "retries_total" => self.retries = sample.value,
            "longest_running_processor_seconds" => self.longest = sample.value,
            "queue_duration_seconds_bucket" => self.waited.add(&sample.label("le"), sample.value),
            "work_duration_seconds_bucket" => self.worked.add(&sample.label("le"), sample.value),
            _ => {}
        }
    }
}

/// A queue between two readings.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct QueueLine {
    pub(super) name: String,
    pub(super) depth: f64,
    pub(super) delayed: f64,
    pub(super) adds: f64,
    pub(super) retries: f64,
    /// Seconds that 99% of keys waited at most; `None` if none was taken.
    pub(super) waited: Option<BucketQuantile>,
    /// Seconds that 99% of keys were worked on at most.
    pub(super) worked: Option<BucketQuantile>,
    /// Age of the oldest key in work.
    pub(super) longest: f64,
}

/// Compares two readings; the deepest queue comes first.
pub(super) fn queue_lines(
    before: &ControllerReading,
    now: &ControllerReading,
    time: Duration,
) -> Vec<QueueLine> {
    let none = QueueFigures::default();
    let seconds = time.as_secs_f64().max(0.001);
    let mut lines: Vec<_> = now
        .queues
        .iter()
        .map(|(name, queue)| {
            let old = before.queues.get(name).unwrap_or(&none);
            QueueLine {
                name: name.clone(),
                depth: queue.depth,
                delayed: queue.delayed,
                // A program that restarted counts from zero again: that is no negative rate.
                adds: ((queue.adds - old.adds) / seconds).max(0.0),
                retries: ((queue.retries - old.retries) / seconds).max(0.0),
                waited: queue.waited.quantile_since(&old.waited, 0.99),
                worked: queue.worked.quantile_since(&old.worked, 0.99),
                longest: queue.longest,
            }
        })
        .collect();
    lines.sort_by(|a, b| b.depth.total_cmp(&a.depth).then(b.adds.total_cmp(&a.adds)));
    lines
}

#[cfg(test)]
mod tests {
    use listwatch::lister_watcher::InMemory;
    use listwatch::metrics::{Prometheus, collect};
    use listwatch::workqueue::{self, Queue};
    use listwatch::{Raw, SharedInformer};

    use super::*;

    /// The names that are read are those that the library exports.
    #[tokio::test]
    async fn informers_and_queues_of_the_library_are_read() {
        let informer = SharedInformer::<Raw>::builder(InMemory::new(10)).name("pods").build();
        let _events = informer.events().unwrap();
        informer.start().unwrap();
        informer.wait_synced().await;
        let mut informers = Prometheus::default();
        collect(&[informer.status()], &mut informers);
        let queues = workqueue::Prometheus::default();
        let queue: Queue<&str> = Queue::new(workqueue::Options::new().name("pods"));
        queues.register(queue.clone());
        let before = {
            let mut reading = ControllerReading::default();
            reading.add("", &queues.render());
            reading
        };
        queue.add("a").unwrap();
        queue.add("b").unwrap();
        queue.get().await.unwrap().finish();
        let mut now = ControllerReading::default();
        now.add("", &(queues.render() + informers.text()));
        let figures = &now.informers["pods"];
        assert!(figures.synced && figures.lists >= 1.0 && figures.lag() == 0.0, "{figures:?}");
        let line = &queue_lines(&before, &now, Duration::from_secs(2))[0];
        assert_eq!((&*line.name, line.depth, line.adds), ("pods", 1.0, 1.0));
        assert!(line.waited.is_some() && line.worked.is_some(), "{line:?}");
    }

    #[test]
    fn queues_of_several_programs_stay_apart_and_the_deepest_comes_first() {
        let page = |depth| format!("workqueue_depth{{name=\"pods\",priority=\"0\"}} {depth}\n");
        let mut reading = ControllerReading::default();
        reading.add("a:1 ", &page(1));
        reading.add("b:1 ", &(page(2) + "workqueue_depth{name=\"pods\",priority=\"9\"} 3\n"));
        let lines = queue_lines(&ControllerReading::default(), &reading, Duration::from_secs(1));
        assert_eq!(lines.iter().map(|line| &*line.name).collect::<Vec<_>>(), ["b:1 pods", "a:1 pods"]);
        assert_eq!(reading.depth(), 6.0);
    }
}
