//! [`AccessWebhookMetrics`]: calls of authorization webhooks and their match conditions, under kube-apiserver's names.
//!
//! A webhook counts its calls; conditions are counted when the decision that they belong to is made (`auth/authorization.rs`).

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::Evaluation;
use crate::observe::{LatencyHistogram, escape, family, line};

/// The upper bounds of call durations, in microseconds.
const CALL_BOUNDS: [u64; 11] =
    [5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000];
/// The upper bounds of evaluations of conditions, in microseconds.
const CONDITION_BOUNDS: [u64; 7] = [1_000, 5_000, 10_000, 25_000, 100_000, 200_000, 250_000];
/// From microseconds to seconds.
const SECOND: f64 = 1e6;

/// The outcome of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallResult {
    Success,
    Timeout,
    Error,
}

impl CallResult {
    const ALL: [Self; 3] = [Self::Success, Self::Timeout, Self::Error];

    fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Timeout => "timeout",
            Self::Error => "error",
        }
    }
}

/// The counters of one result.
#[derive(Debug)]
struct ResultCounts {
    result: CallResult,
    durations: LatencyHistogram<11>,
    fail_open: AtomicU64,
}

/// The counters of one webhook.
#[derive(Debug)]
pub(crate) struct AccessWebhookMetrics {
    name: String,
    results: [ResultCounts; 3],
    conditions: LatencyHistogram<7>,
    condition_errors: AtomicU64,
    exclusions: AtomicU64,
}

impl AccessWebhookMetrics {
    pub(super) fn new(name: &str) -> Self {
        let results = CallResult::ALL.map(|result| ResultCounts {
            result,
            durations: LatencyHistogram::new(&CALL_BOUNDS, SECOND),
            fail_open: AtomicU64::default(),
        });
        Self {
            name: escape(name).into_owned(),
            results,
            conditions: LatencyHistogram::new(&CONDITION_BOUNDS, SECOND),
            condition_errors: AtomicU64::default(),
            exclusions: AtomicU64::default(),
        }
    }

    fn of(&self, result: CallResult) -> impl Iterator<Item = &ResultCounts> {
        self.results.iter().filter(move |counts| counts.result == result)
    }

    /// Counts one attempt.
    pub(super) fn called(&self, result: CallResult, took: Duration) {
        self.of(result).for_each(|counts| counts.durations.observe(micros(took)));
    }

    /// Counts a failure that had no consequence, because the failure policy is no opinion.
    pub(super) fn failed_open(&self, result: CallResult) {
        for counts in self.of(result) {
            counts.fail_open.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts an evaluation of the conditions.
    pub(crate) fn evaluated(&self, evaluation: &Evaluation) {
        self.conditions.observe(micros(evaluation.took));
        let counter = match evaluation.matched {
            Some(true) => return,
            Some(false) => &self.exclusions,
            None => &self.condition_errors,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

fn micros(took: Duration) -> u64 {
    u64::try_from(took.as_micros()).unwrap_or(u64::MAX)
}

/// Writes the families of all webhooks. Results that never came have no samples, as in kube-apiserver.
pub(crate) fn write(all: &[&AccessWebhookMetrics], out: &mut String) {
    calls(all, out);
    conditions(all, out);
}

fn calls(all: &[&AccessWebhookMetrics], out: &mut String) {
    let seen =
        || all.iter().flat_map(|webhook| webhook.results.iter().map(move |counts| (&webhook.name, counts)));
    let labels =
        |name: &str, counts: &ResultCounts| format!("name=\"{name}\",result=\"{}\"", counts.result.name());
    let family_name = "apiserver_authorization_webhook_evaluations_total";
    family(out, family_name, "counter", "Round-trips to authorization webhooks.");
    for (name, counts) in seen().filter(|(_, counts)| counts.durations.count() > 0) {
        line(out, family_name, labels(name, counts), counts.durations.count());
    }
    let family_name = "apiserver_authorization_webhook_evaluations_fail_open_total";
    family(
        out,
        family_name,
        "counter",
        "Failures of authorization webhooks that left the decision to the next.",
    );
    for (name, counts) in seen() {
        let count = counts.fail_open.load(Ordering::Relaxed);
        if count > 0 {
            line(out, family_name, labels(name, counts), count);
        }
    }
    let family_name = "apiserver_authorization_webhook_duration_seconds";
    family(out, family_name, "histogram", "Durations of calls of authorization webhooks.");
    for (name, counts) in seen().filter(|(_, counts)| counts.durations.count() > 0) {
        counts.durations.write(out, family_name, &labels(name, counts));
    }
}

/// One of the counters of a webhook.
type WebhookCounter = fn(&AccessWebhookMetrics) -> &AtomicU64;

fn conditions(all: &[&AccessWebhookMetrics], out: &mut String) {
    let labels = |webhook: &AccessWebhookMetrics| format!("type=\"Webhook\",name=\"{}\"", webhook.name);
    let counters: [(&str, &str, WebhookCounter); 2] = [
        (
            "apiserver_authorization_match_condition_evaluation_errors_total",
            "Requests whose match conditions for an authorization webhook failed.",
            |webhook| &webhook.condition_errors,
        ),
        (
            "apiserver_authorization_match_condition_exclusions_total",
            "Requests that match conditions kept from an authorization webhook.",
            |webhook| &webhook.exclusions,
        ),
    ];
    for (name, help, count) in counters {
        family(out, name, "counter", help);
        for webhook in all {
            let count = count(webhook).load(Ordering::Relaxed);
            if count > 0 {
                line(out, name, labels(webhook), count);
            }
        }
    }
    let name = "apiserver_authorization_match_condition_evaluation_seconds";
    family(out, name, "histogram", "Durations of evaluations of match conditions of authorization webhooks.");
    for webhook in all.iter().filter(|webhook| webhook.conditions.count() > 0) {
        webhook.conditions.write(out, name, &labels(webhook));
    }
}
