//! The Prometheus text format, as far as `top` reads it: names, labels and values, line by line.
//!
//! Label values may have any character, because queues and informers are named by people. Timestamps and exemplars, which
//! neither kube-apiserver nor client-go write, are not read: such a line is skipped.

use std::borrow::Cow;

/// One sample.
#[derive(Debug)]
pub(super) struct ExposedSample<'a> {
    pub(super) name: &'a str,
    labels: &'a str,
    pub(super) value: f64,
}

/// Reads all samples of a page; comments and lines that are none are skipped.
pub(super) fn samples(page: &str) -> impl Iterator<Item = ExposedSample<'_>> {
    page.lines().filter_map(ExposedSample::parse)
}

impl<'a> ExposedSample<'a> {
    /// Reads a line of the Prometheus text format; nothing for comments and for what is not a sample.
    fn parse(line: &'a str) -> Option<Self> {
        if line.starts_with('#') {
            return None;
        }
        let (series, value) = line.rsplit_once(' ')?;
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let labels = labels.trim_end().strip_suffix('}').unwrap_or(labels);
        Some(Self { name, labels, value: value.parse().ok()? })
    }

    /// The value of a label; empty if there is none.
    pub(super) fn label(&self, name: &str) -> Cow<'a, str> {
        let mut rest = self.labels;
        while let Some((key, after)) = rest.split_once("=\"") {
            let (value, after) = split_quoted(after);
            if key.trim_start_matches(',').trim() == name {
                return unescape(value);
            }
            rest = after;
        }
        Cow::Borrowed("")
    }
}

/// Splits at the closing quote of a label value, which is the first without a backslash before it.
fn split_quoted(text: &str) -> (&str, &str) {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'"' if !escaped => {
                return (text.get(..at).unwrap_or_default(), text.get(at + 1..).unwrap_or_default());
            }
            b'\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    (text, "")
}

/// Takes the backslashes out of a label value; nearly all have none.
fn unescape(value: &str) -> Cow<'_, str> {
    if !value.contains('\\') {
        return Cow::Borrowed(value);
    }
    let mut text = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => text.extend(chars.next().map(|escaped| if escaped == 'n' { '\n' } else { escaped })),
            c => text.push(c),
        }
    }
    Cow::Owned(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_may_have_any_character() {
        let page = "# HELP x y\nx{name=\"a,b=\\\"c\\\" \\\\\",le=\"+Inf\"} 3\nnone\ny 4.5e1\n";
        let read: Vec<_> = samples(page)
            .map(|sample| (sample.name, sample.label("name"), sample.label("le"), sample.value))
            .collect();
        assert_eq!(read[0], ("x", "a,b=\"c\" \\".into(), "+Inf".into(), 3.0));
        assert_eq!(read[1], ("y", "".into(), "".into(), 45.0));
        assert_eq!(read.len(), 2);
    }
}
