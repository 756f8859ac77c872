//! [`NativeBuckets`]: the exponential buckets of a native Prometheus histogram, beside the classic ones of
//! [`super::histogram`].
//!
//! kube-apiserver 1.37 keeps both for every histogram and sends the native part to scrapers that ask for protobuf
//! (`endpoints/metrics_protobuf.rs`). Eight buckets double a value (schema 3, the finest whose buckets grow by at most
//! 10 %). Buckets are allocated an octave at a time, when the first value falls into it, so that a series costs
//! memory for the few octaves its values span and an observation takes no lock. Resolution is halved when the
//! histogram is read, not when it is written, if there are more buckets than kube-apiserver sends.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The resolution: 2^3 buckets per doubling.
const SCHEMA: i32 = 3;
/// Buckets of one octave, from a value to its double.
const PER_OCTAVE: usize = 1 << SCHEMA;
/// The coarsest resolution that the format has.
const MIN_SCHEMA: i32 = -4;
/// Buckets up to which the resolution stays as it is, as in kube-apiserver.
const MAX_BUCKETS: usize = 160;
/// Values below it count as zero; what Prometheus' client libraries use.
const ZERO_THRESHOLD: f64 = 2.938_735_877_055_719e-39;

/// The binary exponent of the smallest value that has a bucket: a microsecond, in seconds.
const MIN_EXPONENT: i32 = -19;
/// Octaves from a microsecond to eight years, or from a byte to 256 MiB. Larger values count into the last bucket.
const OCTAVES: usize = 48;

/// Upper bounds of the buckets between 0.5 and 1, without 1.
const FRACTIONS: [f64; PER_OCTAVE] = [
    0.5,
    0.545_253_866_332_628_8,
    0.594_603_557_501_360_5,
    0.648_419_777_325_504_8,
    std::f64::consts::FRAC_1_SQRT_2,
    0.771_105_412_703_970_4,
    0.840_896_415_253_714_4,
    0.917_004_043_204_671_1,
];

/// Counts of values in exponential buckets. Writing is one addition.
#[derive(Debug)]
pub(crate) struct NativeBuckets {
    octaves: [OnceLock<Box<[AtomicU64; PER_OCTAVE]>>; OCTAVES],
    zero: AtomicU64,
}

/// A native histogram as the protobuf format has it: buckets by index, in rising order and none of them empty.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NativeHistogram {
    pub(crate) schema: i32,
    pub(crate) zero_threshold: f64,
    pub(crate) zero_count: u64,
    pub(crate) buckets: Vec<(i32, u64)>,
}

impl NativeBuckets {
    /// No bucket is allocated before its octave is used: most series have values in three or four.
    pub(crate) fn new() -> Self {
        Self { octaves: std::array::from_fn(|_| OnceLock::new()), zero: AtomicU64::default() }
    }

    /// Counts a value, which must not be negative.
    pub(crate) fn observe(&self, value: f64) {
        let counter = if value <= ZERO_THRESHOLD { Some(&self.zero) } else { self.bucket(index(value)) };
        if let Some(counter) = counter {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The counter of an index. Values outside of the range count into the first or the last bucket.
    fn bucket(&self, index: i32) -> Option<&AtomicU64> {
        let last = OCTAVES * PER_OCTAVE - 1;
        let at = usize::try_from(index - first_index()).unwrap_or(0).min(last);
        let octave = self.octaves.get(at / PER_OCTAVE)?;
        octave.get_or_init(|| Box::new(std::array::from_fn(|_| AtomicU64::default()))).get(at % PER_OCTAVE)
    }

    /// Returns the counts, in the finest resolution that does not exceed [`MAX_BUCKETS`].
    pub(crate) fn read(&self) -> NativeHistogram {
        let mut schema = SCHEMA;
        let mut buckets: Vec<(i32, u64)> = self.counts().collect();
        while buckets.len() > MAX_BUCKETS && schema > MIN_SCHEMA {
            buckets = halved(&buckets);
            schema -= 1;
        }
        let zero_count = self.zero.load(Ordering::Relaxed);
        NativeHistogram { schema, zero_threshold: ZERO_THRESHOLD, zero_count, buckets }
    }

    /// The buckets that are not empty, in rising order. Counters are read one by one: a scrape may miss a value that is
    /// being counted.
    fn counts(&self) -> impl Iterator<Item = (i32, u64)> {
        let octaves = self.octaves.iter().enumerate().filter_map(|(at, octave)| Some((at, octave.get()?)));
        let counters = octaves.flat_map(|(at, octave)| {
            octave.iter().enumerate().map(move |(slot, counter)| (at * PER_OCTAVE + slot, counter))
        });
        let counts =
            counters.map(|(at, counter)| (at as i32 + first_index(), counter.load(Ordering::Relaxed)));
        counts.filter(|(_, count)| *count > 0)
    }
}

/// The index of the first bucket that is kept.
fn first_index() -> i32 {
    (MIN_EXPONENT - 1) * PER_OCTAVE as i32
}

/// The index of the bucket of a positive, normal number: bucket `i` ends at 2^(i/8), inclusively.
fn index(value: f64) -> i32 {
    const EXPONENT: u64 = 0x7ff << 52;
    const HALF: u64 = 1022 << 52;
    let bits = value.to_bits();
    let exponent = ((bits & EXPONENT) >> 52) as i32 - 1022;
    let fraction = f64::from_bits((bits & !EXPONENT) | HALF);
    FRACTIONS.partition_point(|bound| *bound < fraction) as i32 + (exponent - 1) * PER_OCTAVE as i32
}

/// Merges pairs of buckets, which halves the resolution.
fn halved(buckets: &[(i32, u64)]) -> Vec<(i32, u64)> {
    let mut merged: Vec<(i32, u64)> = Vec::with_capacity(buckets.len() / 2 + 1);
    for (index, count) in buckets {
        let index = (index + 1).div_euclid(2);
        match merged.last_mut() {
            Some((last, sum)) if *last == index => *sum += count,
            _ => merged.push((index, *count)),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(values: &[f64]) -> NativeHistogram {
        let buckets = NativeBuckets::new();
        values.iter().for_each(|value| buckets.observe(*value));
        buckets.read()
    }

    #[test]
    fn a_bucket_ends_at_its_power_of_two_inclusively() {
        let histogram = read(&[0.0, 1.0, 1.0000001, 2.0, 0.5, 1e-6]);
        assert_eq!((histogram.schema, histogram.zero_count), (3, 1));
        assert_eq!(histogram.buckets, [(-159, 1), (-8, 1), (0, 1), (1, 1), (8, 1)]);
    }

    #[test]
    fn values_beyond_the_last_bucket_are_counted_in_it() {
        let histogram = read(&[1e12, f64::MAX, 1e-9]);
        assert_eq!(histogram.buckets.iter().map(|(_, count)| count).sum::<u64>(), 3);
    }

    #[test]
    fn too_many_buckets_halve_the_resolution() {
        let values: Vec<f64> = (0..200).map(|n| 1e-5 * 1.09_f64.powi(n)).collect();
        let histogram = read(&values);
        assert_eq!(histogram.schema, 2);
        assert!(histogram.buckets.len() <= MAX_BUCKETS);
        assert_eq!(histogram.buckets.iter().map(|(_, count)| count).sum::<u64>(), 200);
        assert_eq!(halved(&[(-3, 1), (-2, 1), (0, 1), (1, 1), (2, 1)]), [(-1, 2), (0, 1), (1, 2)]);
    }
}
