//! Numbers from `/metrics` and `/debug/listwatch/watches`, and their rates between two readings.
//!
//! Time is passed in, so rates can be tested with made-up readings. A counter that went down means that the server
//! restarted and counts as a rate of zero. Latencies are those of requests without watches, which last for minutes by design.
//! The metrics have kube-apiserver's names, so that only the list of watches needs a listwatch server. Figures of
//! controllers are in [`controllers`](super::controllers).

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use anyhow::Context;
use serde::Deserialize;

use super::buckets::{BucketQuantile, Buckets};
use super::controllers::{ControllerReading, QueueLine, queue_lines};
use super::exposition::{self, ExposedSample};

/// Readings kept for the plots.
const KEPT: usize = 120;

/// One look at the server.
#[derive(Debug)]
pub(super) struct TopReading {
    at: Instant,
    /// Requests by verb.
    requests: BTreeMap<String, f64>,
    /// Requests that failed with a code of 500 or above.
    failed: f64,
    events: f64,
    /// Request durations, watches left out.
    durations: Buckets,
    pub(super) memory: f64,
    /// Open watches: more than are listed if the server does not list them.
    pub(super) open_watches: f64,
    /// The open watches one by one; `None` if the server does not list them.
    pub(super) watches: Option<Vec<WatchLine>>,
    /// The newest resourceVersion.
    pub(super) position: Option<u64>,
    pub(super) controllers: ControllerReading,
}

/// One open watch.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WatchLine {
    pub(super) user: String,
    #[serde(default)]
    pub(super) group: String,
    pub(super) resource: String,
    pub(super) namespace: Option<String>,
    /// Revisions between the position of the cache and that of the watch; zero if nothing waits for the watch,
    /// however old its position is.
    pub(super) lag_revisions: u64,
    pub(super) lag_seconds: f64,
    pub(super) events: u64,
    pub(super) bytes: u64,
}

#[derive(Deserialize)]
struct TopWatches {
    position: u64,
    watches: Vec<WatchLine>,
}

impl TopReading {
    /// Reads the metrics, and the list of watches if the server has one.
    pub(super) fn new(at: Instant, metrics: &str, watches: Option<&str>) -> anyhow::Result<Self> {
        let listed: Option<TopWatches> =
            watches.map(serde_json::from_str).transpose().context("cannot read the watches")?;
        let mut reading = Self {
            at,
            requests: BTreeMap::new(),
            failed: 0.0,
            events: 0.0,
            durations: Buckets::default(),
            memory: 0.0,
            open_watches: 0.0,
            position: listed.as_ref().map(|listed| listed.position),
            watches: listed.map(TopWatches::sorted),
            controllers: ControllerReading::default(),
        };
        exposition::samples(metrics).for_each(|sample| reading.add(&sample));
        Ok(reading)
    }

    /// Takes a sample into the figures; names that the screen does not show are ignored.
    fn add(&mut self, sample: &ExposedSample<'_>) {
        match sample.name {
            "apiserver_request_total" => {
                *self.requests.entry(sample.label("verb").into_owned()).or_default() += sample.value;
                if sample.label("code").starts_with('5') {
                    self.failed += sample.value;
                }
            }
            "apiserver_watch_events_total" => self.events += sample.value,
            "process_resident_memory_bytes" => self.memory = sample.value,
            "apiserver_longrunning_requests" if sample.label("verb") == "WATCH" => {
                self.open_watches += sample.value;
            }
            "apiserver_request_duration_seconds_bucket" if sample.label("verb") != "WATCH" => {
                self.durations.add(&sample.label("le"), sample.value);
            }
            _ => {}
        }
    }
}

impl TopWatches {
    /// The watches, those furthest behind first.
    fn sorted(mut self) -> Vec<WatchLine> {
        self.watches.sort_by(|a, b| b.lag_seconds.total_cmp(&a.lag_seconds).then(b.events.cmp(&a.events)));
        self.watches
    }
}

/// Rates between two readings.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Rates {
    pub(super) by_verb: Vec<(String, f64)>,
    pub(super) requests: f64,
    pub(super) failed: f64,
    pub(super) events: f64,
    /// Quantiles of request durations; `None` without requests.
    pub(super) p50: Option<BucketQuantile>,
    pub(super) p99: Option<BucketQuantile>,
    /// Keys that wait in the queues of controllers.
    pub(super) depth: f64,
    /// The longest 99th percentile of work on a key, of all queues.
    pub(super) worked: Option<BucketQuantile>,
}

impl Rates {
    /// The rates between two readings.
    fn between(before: &TopReading, now: &TopReading, queues: &[QueueLine]) -> Self {
        let seconds = now.at.duration_since(before.at).as_secs_f64().max(0.001);
        // A server that restarted counts from zero again: that is no negative rate.
        let rate = |old: f64, new: f64| ((new - old) / seconds).max(0.0);
        let by_verb: Vec<_> = now
            .requests
            .iter()
            .map(|(verb, count)| {
                (verb.clone(), rate(before.requests.get(verb).copied().unwrap_or(0.0), *count))
            })
            .collect();
        let longest = queues.iter().filter_map(|queue| queue.worked);
        let quantile = |q| now.durations.quantile_since(&before.durations, q);
        Self {
            requests: by_verb.iter().map(|(_, rate)| rate).sum(),
            by_verb,
            failed: rate(before.failed, now.failed),
            events: rate(before.events, now.events),
            p50: quantile(0.5),
            p99: quantile(0.99),
            depth: now.controllers.depth(),
            worked: longest.max_by(|a, b| a.seconds.total_cmp(&b.seconds)),
        }
    }
}

/// The last reading, and the rates that led to it.
#[derive(Debug)]
pub(super) struct TopTrail {
    pub(super) last: TopReading,
    pub(super) rates: VecDeque<Rates>,
    /// The queues of controllers between the last two readings.
    pub(super) queues: Vec<QueueLine>,
    /// The reason why the last figures are old, if they are.
    pub(super) problem: Option<String>,
}

impl TopTrail {
    pub(super) fn new(first: TopReading) -> Self {
        Self { last: first, rates: VecDeque::new(), queues: Vec::new(), problem: None }
    }

    /// Rates are differences of two readings; a counter that was reset has none.
    pub(super) fn push(&mut self, reading: TopReading) {
        let time = reading.at.duration_since(self.last.at);
        self.queues = queue_lines(&self.last.controllers, &reading.controllers, time);
        self.rates.push_back(Rates::between(&self.last, &reading, &self.queues));
        if self.rates.len() > KEPT {
            self.rates.pop_front();
        }
        self.last = reading;
        self.problem = None;
    }

    /// Figures and rates stay; a reading that succeeds clears the reason.
    pub(super) fn fail(&mut self, problem: String) {
        self.problem = Some(problem);
    }

    pub(super) fn now(&self) -> Rates {
        self.rates.back().cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const WATCHES: Option<&str> = Some(r#"{"position": 7, "count": 0, "watches": []}"#);

    fn metrics(gets: u32, fast: u32, all: u32) -> String {
        format!(
            "# TYPE x counter\napiserver_request_total{{code=\"200\",verb=\"GET\"}} {gets}\n\
             apiserver_request_duration_seconds_bucket{{verb=\"GET\",le=\"0.1\"}} {fast}\n\
             apiserver_request_duration_seconds_bucket{{verb=\"GET\",le=\"+Inf\"}} {all}\n"
        )
    }

    #[test]
    fn rates_are_differences_over_time() {
        let start = Instant::now();
        let mut trail = TopTrail::new(TopReading::new(start, &metrics(10, 10, 10), WATCHES).unwrap());
        trail.push(TopReading::new(start + Duration::from_secs(2), &metrics(30, 30, 30), WATCHES).unwrap());
        let rates = trail.now();
        assert_eq!(rates.by_verb, [("GET".to_owned(), 10.0)]);
        assert_eq!(BucketQuantile::text(rates.p50), "<100.0 ms");
    }

    /// Counters of a server that restarted begin again at zero.
    #[test]
    fn a_restart_is_no_negative_rate() {
        let start = Instant::now();
        let mut trail = TopTrail::new(TopReading::new(start, &metrics(100, 100, 100), WATCHES).unwrap());
        trail.push(TopReading::new(start + Duration::from_secs(1), &metrics(3, 3, 3), WATCHES).unwrap());
        assert_eq!(trail.now().requests, 0.0);
        assert_eq!(trail.now().p99, None);
    }

    /// kube-apiserver counts its open watches and does not list them.
    #[test]
    fn a_server_without_a_list_of_watches_is_read_too() {
        let page = "apiserver_longrunning_requests{verb=\"WATCH\",resource=\"pods\"} 3\n";
        let reading = TopReading::new(Instant::now(), page, None).unwrap();
        assert!(reading.watches.is_none() && reading.open_watches == 3.0 && reading.position.is_none());
    }

    #[test]
    fn the_trail_is_bounded() {
        let start = Instant::now();
        let mut trail = TopTrail::new(TopReading::new(start, "", WATCHES).unwrap());
        for second in 1..=300 {
            trail.push(TopReading::new(start + Duration::from_secs(second), "", WATCHES).unwrap());
        }
        assert_eq!(trail.rates.len(), KEPT);
    }
}
