//! Prometheus' protobuf exposition: delimited `io.prometheus.client.MetricFamily` messages.
//!
//! Made from the text form, which every writer of metrics produces anyway, so that a family is written once and both
//! forms agree. What text cannot say, the native histograms, is added by name and labels. Scrapers that read native
//! histograms ask for this form; [`super::metrics`] negotiates.

use crate::observe::{NativeHistogram, NativeHistograms};

/// The distance between two buckets up to which the empty ones between them are sent, rather than a new span.
const MAX_GAP: i32 = 2;

/// Returns the families of a text, one message each with its length in front.
pub(crate) fn families(text: &str, natives: &NativeHistograms) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() / 2);
    let mut family: Option<Family<'_>> = None;
    for line in text.lines() {
        if let Some(head) = line.strip_prefix("# HELP ") {
            if let Some(done) = family.take() {
                done.finish(&mut out);
            }
            family = Some(Family::new(head));
        } else if let (Some(kind), Some(family)) = (line.strip_prefix("# TYPE "), &mut family) {
            family.kind = MetricType::of(kind.rsplit(' ').next().unwrap_or_default());
        } else if let Some(family) = &mut family {
            family.sample(line, natives);
        }
    }
    if let Some(done) = family {
        done.finish(&mut out);
    }
    out
}

/// Types of families, with their numbers in the format.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MetricType {
    Counter = 0,
    Gauge = 1,
    Untyped = 3,
    Histogram = 4,
}

impl MetricType {
    /// By the word in a `# TYPE` line. What is not known is sent without a type, as Prometheus does.
    fn of(word: &str) -> Self {
        match word {
            "counter" => Self::Counter,
            "gauge" => Self::Gauge,
            "histogram" => Self::Histogram,
            _ => Self::Untyped,
        }
    }
}

/// A family whose samples are being read.
struct Family<'a> {
    name: &'a str,
    help: &'a str,
    kind: MetricType,
    /// The finished `metric` fields.
    metrics: ProtobufMessage,
    /// The classic buckets of the histogram that is being read.
    buckets: ProtobufMessage,
    sum: f64,
}

impl<'a> Family<'a> {
    /// `head` is the rest of a `# HELP` line: name and text.
    fn new(head: &'a str) -> Self {
        let (name, help) = head.split_once(' ').unwrap_or((head, ""));
        let (metrics, buckets) = Default::default();
        Self { name, help, kind: MetricType::Untyped, metrics, buckets, sum: 0.0 }
    }

    /// Adds a line of the text: a sample, or a part of a histogram, which ends with its count.
    fn sample(&mut self, line: &str, natives: &NativeHistograms) {
        let Some((series, value)) = line.rsplit_once(' ') else { return };
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let (labels, value) = (labels.trim_end_matches('}'), value.parse().unwrap_or(f64::NAN));
        if self.kind != MetricType::Histogram {
            self.scalar(labels, value);
        } else if name.ends_with("_bucket") {
            self.bucket(labels, value);
        } else if name.ends_with("_sum") {
            self.sum = value;
        } else {
            let native = natives.get(self.name).and_then(|series| series.get(labels));
            self.histogram(labels, value as u64, native);
        }
    }

    /// A sample with one value, in the field of its type.
    fn scalar(&mut self, labels: &str, value: f64) {
        let mut inner = ProtobufMessage::default();
        inner.double(1, value);
        let mut metric = ProtobufMessage::of_labels(labels);
        let field = match self.kind {
            MetricType::Gauge => 2,
            MetricType::Counter => 3,
            MetricType::Untyped | MetricType::Histogram => 5,
        };
        metric.message(field, &inner);
        self.metrics.message(4, &metric);
    }

    /// The bucket without a bound is not sent: its count is that of the histogram.
    fn bucket(&mut self, labels: &str, count: f64) {
        let bound = pairs(labels).find(|(name, _)| *name == "le").map(|(_, value)| value).unwrap_or_default();
        if bound == "+Inf" {
            return;
        }
        let mut bucket = ProtobufMessage::default();
        bucket.uint(1, count as u64);
        bucket.double(2, bound.parse().unwrap_or(f64::NAN));
        self.buckets.message(3, &bucket);
    }

    /// Ends a histogram with its count: buckets and sum precede it in the text.
    fn histogram(&mut self, labels: &str, count: u64, native: Option<&NativeHistogram>) {
        let mut histogram = ProtobufMessage::default();
        histogram.uint(1, count);
        histogram.double(2, self.sum);
        histogram.0.append(&mut self.buckets.0);
        if let Some(native) = native {
            histogram.native(native);
        }
        let mut metric = ProtobufMessage::of_labels(labels);
        metric.message(7, &histogram);
        self.metrics.message(4, &metric);
    }

    /// Families without samples are left out, as in kube-apiserver.
    fn finish(self, out: &mut Vec<u8>) {
        if self.metrics.0.is_empty() {
            return;
        }
        let mut family = ProtobufMessage::default();
        family.bytes(1, self.name.as_bytes());
        family.bytes(2, self.help.as_bytes());
        family.uint(3, self.kind as u64);
        family.0.extend(self.metrics.0);
        varint(out, family.0.len() as u64);
        out.extend(family.0);
    }
}

/// The labels of a sample, unescaped.
fn pairs(labels: &str) -> impl Iterator<Item = (&str, String)> {
    let mut rest = labels;
    std::iter::from_fn(move || {
        let (name, quoted) = rest.split_once("=\"")?;
        let mut value = String::new();
        let mut characters = quoted.char_indices();
        while let Some((at, character)) = characters.next() {
            match character {
                '"' => {
                    rest = quoted.get(at + 1..)?;
                    return Some((name.trim_start_matches(','), value));
                }
                '\\' => match characters.next()?.1 {
                    'n' => value.push('\n'),
                    other => value.push(other),
                },
                other => value.push(other),
            }
        }
        None
    })
}

/// The fields of a protobuf message.
#[derive(Default)]
struct ProtobufMessage(Vec<u8>);

impl ProtobufMessage {
    /// A `Metric` with its labels.
    fn of_labels(labels: &str) -> Self {
        let mut metric = Self::default();
        for (name, value) in pairs(labels) {
            let mut pair = Self::default();
            pair.bytes(1, name.as_bytes());
            pair.bytes(2, value.as_bytes());
            metric.message(1, &pair);
        }
        metric
    }

    /// A field of wire type 0.
    fn uint(&mut self, field: u32, value: u64) {
        varint(&mut self.0, u64::from(field << 3));
        varint(&mut self.0, value);
    }

    /// A signed number in zigzag form.
    fn sint(&mut self, field: u32, value: i64) {
        self.uint(field, ((value << 1) ^ (value >> 63)) as u64);
    }

    /// A field of wire type 1.
    fn double(&mut self, field: u32, value: f64) {
        varint(&mut self.0, u64::from(field << 3 | 1));
        self.0.extend(value.to_le_bytes());
    }

    /// A field of wire type 2: its length and its bytes.
    fn bytes(&mut self, field: u32, value: &[u8]) {
        varint(&mut self.0, u64::from(field << 3 | 2));
        varint(&mut self.0, value.len() as u64);
        self.0.extend(value);
    }

    /// A message inside of this one, as bytes that were encoded before: its length precedes it.
    fn message(&mut self, field: u32, message: &Self) {
        self.bytes(field, &message.0);
    }

    /// The native fields of a histogram: spans of neighbouring buckets, and the differences of their counts.
    fn native(&mut self, native: &NativeHistogram) {
        self.sint(5, native.schema.into());
        self.double(6, native.zero_threshold);
        self.uint(7, native.zero_count);
        let (spans, counts) = spans(&native.buckets);
        for (offset, length) in spans {
            let mut span = Self::default();
            span.sint(1, offset.into());
            span.uint(2, length);
            self.message(12, &span);
        }
        let mut before = 0;
        for count in counts {
            self.sint(13, count - before);
            before = count;
        }
    }
}

/// Spans as pairs of offset and length, and the counts of all buckets in them. An offset is the distance from the end
/// of the span before, of the first span from zero.
fn spans(buckets: &[(i32, u64)]) -> (Vec<(i32, u64)>, Vec<i64>) {
    let (mut spans, mut counts): (Vec<(i32, u64)>, Vec<i64>) = Default::default();
    let mut next = 0;
    for (index, count) in buckets {
        let gap = index - next;
        match spans.last_mut() {
            Some((_, length)) if gap <= MAX_GAP => {
                *length += gap as u64 + 1;
                counts.extend((0..gap).map(|_| 0));
            }
            _ => spans.push((gap, 1)),
        }
        counts.push(i64::try_from(*count).unwrap_or(i64::MAX));
        next = index + 1;
    }
    (spans, counts)
}

/// Seven bits per byte, the lowest first; the highest bit of a byte is set if another one follows.
fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn samples_become_messages() {
        let text = "# HELP a_total x y\n# TYPE a_total counter\na_total{b=\"c\\\"d\"} 3\n# HELP none z\n# TYPE none gauge\n";
        let value = [&[9][..], &3f64.to_le_bytes()].concat();
        let pair = [&[10, 1][..], b"b", &[18, 3], b"c\"d"].concat();
        let metric = [&[10, pair.len() as u8][..], &pair, &[26, value.len() as u8], &value].concat();
        let family =
            [&[10, 7][..], b"a_total", &[18, 3], b"x y", &[24, 0, 34, metric.len() as u8], &metric].concat();
        assert_eq!(families(text, &NativeHistograms::new()), [&[family.len() as u8][..], &family].concat());
    }

    #[test]
    fn small_gaps_are_filled_and_large_ones_begin_a_span() {
        let (spans, counts) = spans(&[(-5, 1), (-3, 2), (4, 3), (5, 4)]);
        assert_eq!(spans, [(-5, 3), (6, 2)]);
        assert_eq!(counts, [1, 0, 2, 3, 4]);
    }

    #[test]
    fn a_histogram_has_classic_and_native_buckets() {
        let text = "# HELP h x\n# TYPE h histogram\nh_bucket{a=\"b\",le=\"1\"} 1\nh_bucket{a=\"b\",le=\"+Inf\"} 2\nh_sum{a=\"b\"} 5\nh_count{a=\"b\"} 2\n";
        let native =
            NativeHistogram { schema: 3, zero_threshold: 0.0, zero_count: 0, buckets: vec![(0, 1), (9, 1)] };
        let natives = NativeHistograms::from([("h", HashMap::from([("a=\"b\"".to_owned(), native)]))]);
        let bytes = families(text, &natives);
        let has = |part: &[u8]| bytes.windows(part.len()).any(|window| window == part);
        // One classic bucket: field 3, a count of one, the bound 1.0.
        assert!(has(&[&[26, 11, 8, 1, 17][..], &1f64.to_le_bytes()].concat()));
        // Schema 3 in zigzag form; two spans of one bucket; the second count differs by nothing.
        assert!(has(&[40, 6]) && has(&[98, 4, 8, 0, 16, 1, 98, 4, 8, 16, 16, 1, 104, 2, 104, 0]));
    }
}
