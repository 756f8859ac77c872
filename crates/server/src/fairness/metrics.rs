//! Metrics of priority levels, under kube-apiserver's `apiserver_flowcontrol_*` names so that its dashboards work.
//!
//! Labels are names of schemas and levels only. Those are created by administrators, so the number of series is
//! bounded by their objects. The text is written on each scrape from the state of the levels; `endpoints/metrics.rs`
//! calls `write`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::gate::{Fairness, PriorityLevelState};
use crate::observe::{escape, family, line};

/// The dispatched and rejected requests of a level, by their schema.
#[derive(Debug, Default)]
pub(crate) struct LevelCounts {
    dispatched: Mutex<BTreeMap<Arc<str>, u64>>,
    rejected: Mutex<BTreeMap<(Arc<str>, &'static str), u64>>,
    /// Requests that waited for their user's share of the processors, and the microseconds of all of them together.
    paced: AtomicU64,
    paced_micros: AtomicU64,
}

impl LevelCounts {
    /// Counts a request that got its seats.
    pub(super) fn dispatch(&self, schema: &Arc<str>) {
        let mut counts = self.dispatched.lock();
        match counts.get_mut(schema) {
            Some(count) => *count += 1,
            None => drop(counts.insert(Arc::clone(schema), 1)),
        }
    }

    /// Counts a request that has waited for its user's share of the processors.
    pub(super) fn pace(&self, waited: Duration) {
        self.paced.fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(waited.as_micros()).unwrap_or(u64::MAX);
        self.paced_micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// Counts a request that was rejected, by kube-apiserver's reason.
    pub(super) fn reject(&self, schema: &Arc<str>, why: &'static str) {
        *self.rejected.lock().entry((Arc::clone(schema), why)).or_default() += 1;
    }
}

/// Writes the metrics of all levels.
pub(crate) fn write(fairness: &Fairness, out: &mut String) {
    let levels = fairness.all();
    write_seats(&levels, out);
    write_pacing(&levels, out);
    write_requests(&levels, out);
}

fn label(level: &PriorityLevelState) -> String {
    format!("priority_level=\"{}\"", escape(level.name()))
}

fn write_seats(levels: &[Arc<PriorityLevelState>], out: &mut String) {
    let mut gauge = |name: &str, help: &str, value: &dyn Fn(&PriorityLevelState) -> u64| {
        family(out, name, "gauge", help);
        levels.iter().for_each(|level| line(out, name, label(level), value(level)));
    };
    gauge("apiserver_flowcontrol_nominal_limit_seats", "Seats of a level by its shares.", &|level| {
        level.nominal().into()
    });
    gauge("apiserver_flowcontrol_current_limit_seats", "Seats of a level now.", &|level| {
        level.limit().into()
    });
    gauge("apiserver_flowcontrol_current_executing_seats", "Seats taken.", &|level| level.executing().into());
    gauge("apiserver_flowcontrol_current_inqueue_requests", "Requests that wait.", &|level| {
        level.waiting() as u64
    });
}

fn write_pacing(levels: &[Arc<PriorityLevelState>], out: &mut String) {
    let name = "listwatch_flowcontrol_paced_requests_total";
    family(out, name, "counter", "Requests that waited for their user's share of the processors.");
    levels.iter().for_each(|level| line(out, name, label(level), level.counts.paced.load(Ordering::Relaxed)));
    let name = "listwatch_flowcontrol_paced_seconds_total";
    family(out, name, "counter", "The time that those requests waited for it, all together.");
    for level in levels {
        line(out, name, label(level), level.counts.paced_micros.load(Ordering::Relaxed) as f64 / 1e6);
    }
}

fn write_requests(levels: &[Arc<PriorityLevelState>], out: &mut String) {
    let name = "apiserver_flowcontrol_dispatched_requests_total";
    family(out, name, "counter", "Requests that got their seats.");
    for level in levels {
        for (schema, count) in level.counts.dispatched.lock().iter() {
            line(out, name, format_args!("flow_schema=\"{}\",{}", escape(schema), label(level)), count);
        }
    }
    let name = "apiserver_flowcontrol_rejected_requests_total";
    family(out, name, "counter", "Requests that were turned away.");
    for level in levels {
        for ((schema, why), count) in level.counts.rejected.lock().iter() {
            let labels = format!("flow_schema=\"{}\",{},reason=\"{why}\"", escape(schema), label(level));
            line(out, name, labels, count);
        }
    }
}
