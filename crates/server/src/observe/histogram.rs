//! [`LatencyHistogram`]: a Prometheus histogram of durations or sizes, written without a lock.
//!
//! Buckets are fixed at compile time, so an observation is a search in a short array and two atomic additions. Counts
//! are relaxed: a scrape may see a sum that is an observation ahead of a bucket, which Prometheus tolerates. Values
//! are integers in the smallest unit (microseconds, bytes); the text divides by `unit`. The same values are counted in
//! the buckets of a native histogram ([`super::native_histogram`]).

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::observe::native_histogram::{NativeBuckets, NativeHistogram};

/// A cumulative histogram. Writing is two additions; a reader sees each count as it is, the
/// whole perhaps an instant apart, which scrapers tolerate.
#[derive(Debug)]
pub(crate) struct LatencyHistogram<const N: usize> {
    /// Upper bounds of the buckets, inclusive, in rising order and in the smallest unit.
    bounds: &'static [u64; N],
    buckets: [AtomicU64; N],
    /// Values above the last bound, which the text has under `+Inf`.
    beyond: AtomicU64,
    sum: AtomicU64,
    /// Values are divided by it where others read them: 1e6 from microseconds to seconds.
    unit: f64,
    native: NativeBuckets,
}

impl<const N: usize> LatencyHistogram<N> {
    /// Returns an empty histogram. `bounds` are inclusive upper bounds in rising order, `unit` is what values are
    /// divided by where others read them.
    pub(crate) fn new(bounds: &'static [u64; N], unit: f64) -> Self {
        let buckets = std::array::from_fn(|_| AtomicU64::default());
        let [beyond, sum] = [(); 2].map(|()| AtomicU64::default());
        Self { bounds, buckets, beyond, sum, unit, native: NativeBuckets::new() }
    }

    /// Counts a value into its bucket and the sum.
    pub(crate) fn observe(&self, value: u64) {
        let at = self.bounds.partition_point(|bound| *bound < value);
        self.buckets.get(at).unwrap_or(&self.beyond).fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(value, Ordering::Relaxed);
        self.native.observe(value as f64 / self.unit);
    }

    /// The native form of the histogram.
    pub(crate) fn native(&self) -> NativeHistogram {
        self.native.read()
    }

    /// The number of observed values.
    pub(crate) fn count(&self) -> u64 {
        let counted = self.buckets.iter().chain([&self.beyond]);
        counted.map(|bucket| bucket.load(Ordering::Relaxed)).sum()
    }

    /// Writes the classic buckets in Prometheus text form.
    pub(crate) fn write(&self, out: &mut String, name: &str, labels: &str) {
        let (mut count, unit) = (0, self.unit);
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
        let histogram = LatencyHistogram::new(&[10, 100], 10.0);
        [1, 10, 11, 100, 101].into_iter().for_each(|value| histogram.observe(value));
        let mut text = String::new();
        histogram.write(&mut text, "x", "a=\"b\"");
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
        assert_eq!(
            histogram.native().buckets.first(),
            Some(&(-26, 1)),
            "0.1 is in the bucket up to 2^(-26/8)"
        );
    }
}
