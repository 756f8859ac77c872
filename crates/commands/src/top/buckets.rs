//! Histograms between two readings, and quantiles of them.
//!
//! A scraped histogram counts from the start of its process; what `top` shows is the difference of two readings.
//! Quantiles are interpolated within a bucket, as Prometheus does, so they are as exact as the buckets are narrow.
//! Reading the pages is `pages`.

/// A quantile of a histogram.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct BucketQuantile {
    pub(super) seconds: f64,
    /// True in the lowest bucket: all that is known is that it is less.
    is_less: bool,
}

impl BucketQuantile {
    /// Milliseconds, or a dash if nothing was measured.
    pub(super) fn text(measured: Option<Self>) -> String {
        measured.map_or_else(
            || "–".to_owned(),
            |Self { seconds, is_less }| format!("{}{:.1} ms", if is_less { "<" } else { "" }, seconds * 1e3),
        )
    }
}

/// Cumulative counts by upper bound in seconds, in the order of the bounds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Buckets(Vec<(f64, f64)>);

impl Buckets {
    /// Adds the count of a bucket, named by its label `le`, to that of other series with the same bound.
    pub(super) fn add(&mut self, bound: &str, count: f64) {
        let bound = bound.parse().unwrap_or(f64::INFINITY);
        let at = self.0.partition_point(|(known, _)| *known < bound);
        match self.0.get_mut(at) {
            Some((known, sum)) if *known == bound => *sum += count,
            _ => self.0.insert(at, (bound, count)),
        }
    }

    /// Estimates a quantile of the samples since an earlier reading, by linear interpolation within a bucket, as
    /// `histogram_quantile` of Prometheus does, except in the lowest bucket: kube-apiserver's ends at 5 ms, and half of that
    /// would be misleading. `None` if nothing was counted, or if the counters were reset.
    pub(super) fn quantile_since(&self, before: &Self, q: f64) -> Option<BucketQuantile> {
        let old = |bound: f64| before.0.iter().find(|(b, _)| *b == bound).map_or(0.0, |(_, count)| *count);
        let counts = || self.0.iter().map(|(bound, count)| (*bound, (count - old(*bound)).max(0.0)));
        let total = counts().next_back().map(|(_, count)| count).filter(|total| *total > 0.0)?;
        let mut lower = None;
        for (bound, count) in counts() {
            if count >= q * total {
                return Some(within(lower, (bound, count), q * total));
            }
            lower = Some((bound, count));
        }
        None
    }
}

/// The value of the observation with a rank, in the bucket between two bounds with their counts.
fn within(lower: Option<(f64, f64)>, (bound, count): (f64, f64), rank: f64) -> BucketQuantile {
    let Some((from, below)) = lower else { return BucketQuantile { seconds: bound, is_less: true } };
    let share = (rank - below) / (count - below).max(1.0);
    let seconds = if bound.is_finite() { from + share * (bound - from) } else { from };
    BucketQuantile { seconds, is_less: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buckets(counts: &[(&str, f64)]) -> Buckets {
        let mut buckets = Buckets::default();
        counts.iter().for_each(|(bound, count)| buckets.add(bound, *count));
        buckets
    }

    #[test]
    fn a_quantile_is_interpolated_in_its_bucket() {
        let before = buckets(&[("+Inf", 10.0), ("0.3", 10.0), ("0.1", 10.0)]);
        let now = buckets(&[("0.1", 10.0), ("0.1", 10.0), ("0.3", 30.0), ("+Inf", 30.0)]);
        let text = |q| BucketQuantile::text(now.quantile_since(&before, q));
        assert_eq!((text(0.75), text(0.25)), ("200.0 ms".to_owned(), "<100.0 ms".to_owned()));
        assert_eq!(before.quantile_since(&now, 0.5), None, "a program that restarted");
    }
}
