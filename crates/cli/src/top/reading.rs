//! Numbers from `/metrics` and `/debug/listwatch/watches`, and their rates between two readings.
//!
//! Time is passed in, so rates can be tested with made-up readings. A counter that went down means that the server
//! restarted and gives a rate of zero. Quantiles are interpolated within histogram buckets, as `histogram_quantile` of
//! Prometheus does, without WATCH requests, which last for minutes by design. The parser of the text format knows what
//! our server writes; label values with commas are beyond it.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use anyhow::Context;
use serde::Deserialize;

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
    /// Cumulative counts of request durations by upper bound in seconds, watches left out.
    durations: Vec<(f64, f64)>,
    pub(super) memory: f64,
    pub(super) watches: Vec<WatchLine>,
    pub(super) position: u64,
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
    pub(super) fn new(at: Instant, metrics: &str, watches: &str) -> anyhow::Result<Self> {
        let TopWatches { position, mut watches } =
            serde_json::from_str(watches).context("cannot read the watches")?;
        watches.sort_by(|a, b| b.lag_seconds.total_cmp(&a.lag_seconds).then(b.events.cmp(&a.events)));
        let mut reading = Self {
            at,
            requests: BTreeMap::new(),
            failed: 0.0,
            events: 0.0,
            durations: Vec::new(),
            memory: 0.0,
            watches,
            position,
        };
        let mut durations = BTreeMap::new();
        for sample in metrics.lines().filter_map(MetricLine::parse) {
            reading.add(&sample, &mut durations);
        }
        reading.durations = durations.into_values().collect();
        reading.durations.sort_by(|a, b| a.0.total_cmp(&b.0));
        Ok(reading)
    }

    /// Adds one sample. Watches are left out of durations, since they last as long as the client wants.
    fn add(&mut self, sample: &MetricLine<'_>, durations: &mut BTreeMap<String, (f64, f64)>) {
        match sample.name {
            "apiserver_request_total" => {
                *self.requests.entry(sample.label("verb").to_owned()).or_default() += sample.value;
                if sample.label("code").starts_with('5') {
                    self.failed += sample.value;
                }
            }
            "apiserver_watch_events_total" => self.events += sample.value,
            "process_resident_memory_bytes" => self.memory = sample.value,
            "apiserver_request_duration_seconds_bucket" if sample.label("verb") != "WATCH" => {
                let bound = sample.label("le");
                let seconds = bound.parse().unwrap_or(f64::INFINITY);
                durations.entry(bound.to_owned()).or_insert((seconds, 0.0)).1 += sample.value;
            }
            _ => {}
        }
    }
}

/// One line of the Prometheus text format.
struct MetricLine<'a> {
    name: &'a str,
    labels: &'a str,
    value: f64,
}

impl<'a> MetricLine<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        if line.starts_with('#') {
            return None;
        }
        let (series, value) = line.rsplit_once(' ')?;
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        Some(Self { name, labels: labels.trim_end_matches('}'), value: value.parse().ok()? })
    }

    /// Empty if the label is missing. Escapes in values are not resolved.
    fn label(&self, name: &str) -> &'a str {
        let pairs = self.labels.split(',').filter_map(|pair| pair.split_once('='));
        let mut found = pairs.filter(|(key, _)| *key == name).map(|(_, value)| value.trim_matches('"'));
        found.next().unwrap_or_default()
    }
}

/// Rates between two readings.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Rates {
    pub(super) by_verb: Vec<(String, f64)>,
    pub(super) requests: f64,
    pub(super) failed: f64,
    pub(super) events: f64,
    /// Quantiles of request durations in seconds; `None` without requests.
    pub(super) p50: Option<f64>,
    pub(super) p99: Option<f64>,
}

impl Rates {
    /// The rates between two readings.
    fn between(before: &TopReading, now: &TopReading) -> Self {
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
        let quantile = |q| quantile(&before.durations, &now.durations, q);
        Self {
            requests: by_verb.iter().map(|(_, rate)| rate).sum(),
            by_verb,
            failed: rate(before.failed, now.failed),
            events: rate(before.events, now.events),
            p50: quantile(0.5),
            p99: quantile(0.99),
        }
    }
}

/// Estimates a quantile of the requests between two readings, by linear interpolation within a bucket, as Prometheus
/// does.
fn quantile(before: &[(f64, f64)], now: &[(f64, f64)], q: f64) -> Option<f64> {
    let old = |bound: f64| before.iter().find(|(b, _)| *b == bound).map_or(0.0, |(_, count)| *count);
    let counts: Vec<_> = now.iter().map(|(bound, count)| (*bound, (count - old(*bound)).max(0.0))).collect();
    let total = counts.last().map(|(_, count)| *count).filter(|total| *total > 0.0)?;
    let mut lower = (0.0, 0.0);
    for (bound, count) in counts {
        if count >= q * total {
            let share = (q * total - lower.1) / (count - lower.1).max(1.0);
            return Some(if bound.is_finite() { lower.0 + share * (bound - lower.0) } else { lower.0 });
        }
        lower = (bound, count);
    }
    Some(lower.0)
}

/// The last reading, and the rates that led to it.
#[derive(Debug)]
pub(super) struct TopTrail {
    pub(super) last: TopReading,
    pub(super) rates: VecDeque<Rates>,
    /// The reason why the last figures are old, if they are.
    pub(super) problem: Option<String>,
}

impl TopTrail {
    pub(super) fn new(first: TopReading) -> Self {
        Self { last: first, rates: VecDeque::new(), problem: None }
    }

    pub(super) fn push(&mut self, reading: TopReading) {
        self.rates.push_back(Rates::between(&self.last, &reading));
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

    const WATCHES: &str = r#"{"position": 7, "count": 0, "watches": []}"#;

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
        assert_eq!(rates.p50, Some(0.05));
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
