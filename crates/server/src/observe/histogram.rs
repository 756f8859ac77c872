//! [`LatencyHistogram`]: a Prometheus histogram of durations or sizes, written without a lock.
//!
//! Buckets are fixed at compile time, so an observation is a search in a short array and two atomic additions. Counts
//! are relaxed: a scrape may see a sum that is an observation ahead of a bucket, which Prometheus tolerates. Values
//! are integers in the smallest unit (microseconds, bytes); the text divides by `unit`.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

/// A cumulative histogram. Writing is two additions; a reader sees each count as it is, the
/// whole perhaps an instant apart, as scrapers have to live with anyway.
#[derive(Debug)]
pub(crate) struct LatencyHistogram<const N: usize> {
    /// Upper bounds of the buckets, inclusive, in rising order and in the smallest unit.
    bounds: &'static [u64; N],
    buckets: [AtomicU64; N],
    /// Values above the last bound, which the text has under `+Inf`.
    beyond: AtomicU64,
    sum: AtomicU64,
}

impl<const N: usize> LatencyHistogram<N> {
    /// Returns an empty histogram. `bounds` are inclusive upper bounds in rising order.
    pub(crate) fn new(bounds: &'static [u64; N]) -> Self {
        let buckets = std::array::from_fn(|_| AtomicU64::default());
        Self { bounds, buckets, beyond: AtomicU64::default(), sum: AtomicU64::default() }
    }

    /// Counts a value into its bucket and the sum.
    pub(crate) fn observe(&self, value: u64) {
        let at = self.bounds.partition_point(|bound| *bound < value);
        self.buckets.get(at).unwrap_or(&self.beyond).fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    /// The number of observed values.
    pub(crate) fn count(&self) -> u64 {
        let counted = self.buckets.iter().chain([&self.beyond]);
        counted.map(|bucket| bucket.load(Ordering::Relaxed)).sum()
    }

    /// Writes the histogram in Prometheus text form; values are divided by `unit`, such as 1e6 from microseconds to
    /// seconds.
    pub(crate) fn write(&self, out: &mut String, name: &str, labels: &str, unit: f64) {
        let mut count = 0;
        for (bound, bucket) in self.bounds.iter().zip(&self.buckets) {
            count += bucket.load(Ordering::Relaxed);
            let _ = writeln!(out, "{name}_bucket{{{labels},le=\"{}\"}} {count}", *bound as f64 / unit);
        }
        count += self.beyond.load(Ordering::Relaxed);
        let sum = self.sum.load(Ordering::Relaxed) as f64 / unit;
        let _ = writeln!(out, "{name}_bucket{{{labels},le=\"+Inf\"}} {count}");
        let _ = writeln!(out, "{name}_sum{{{labels}}} {sum}\n{name}_count{{{labels}}} {count}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_on_a_bound_is_not_larger_than_it() {
        let histogram = LatencyHistogram::new(&[10, 100]);
        [1, 10, 11, 100, 101].into_iter().for_each(|value| histogram.observe(value));
        let mut text = String::new();
        histogram.write(&mut text, "x", "a=\"b\"", 10.0);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "x_bucket{a=\"b\",le=\"1\"} 2",
                "x_bucket{a=\"b\",le=\"10\"} 4",
                "x_bucket{a=\"b\",le=\"+Inf\"} 5",
                "x_sum{a=\"b\"} 22.3",
                "x_count{a=\"b\"} 5",
            ]
        );
        assert_eq!(histogram.count(), 5);
    }
}
