//! The forms of text and numbers that rule tables name.
//!
//! Most are patterns in `forms.txt`, one line per requirement, in the order in which kube-apiserver reports them:
//!
//! | line | meaning |
//! |---|---|
//! | `must REGEX "text"` | text that does not match is wrong |
//! | `not REGEX "text"` | text that matches is wrong |
//! | `error "text"` | the text is wrong |
//! | `is FORM` | another form; a text of one's own replaces its words |
//! | `of REGEX FORM` | the part in the first parentheses, if the pattern matches, has a form |
//! | `part REGEX FORM` | the same, and the error shows that part |
//! | `split REGEX FORM` | each part between matches of the pattern has a form, and the error shows that part |
//! | `lower FORM` | the text in lower case has a form, and the error shows that |
//!
//! `when REGEX` and `unless REGEX` before a line restrict it, `last` at its end leaves out the lines below it where it
//! found something. Forms that no pattern can express are functions below. Forms of addresses are in
//! [`super::addresses`].

use std::cmp::Ordering;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::LazyLock;

use base64::Engine as _;
use listwatch_wire::json::Value;
use listwatch_wire::names::{label_errors, label_key_errors, label_value_errors, subdomain_errors};

use super::addresses;
use super::pattern::LazyPattern;
use crate::{cron, meta, names, quantity, selector};

/// An error of a text.
#[derive(Debug)]
pub(super) struct Finding {
    /// The part that is invalid, if it is not the whole.
    pub(super) part: Option<String>,
    pub(super) text: String,
}

impl From<String> for Finding {
    fn from(text: String) -> Self {
        Self { part: None, text }
    }
}

/// A form and its test.
#[derive(Clone, Copy, Debug)]
pub(super) enum TextForm {
    Text(fn(&str) -> Vec<String>),
    Value(fn(&Value) -> Vec<String>),
    Pattern(&'static PatternForm),
}

impl TextForm {
    /// Tests a text.
    pub(super) fn findings(&self, text: &str) -> Vec<Finding> {
        match self {
            Self::Text(check) => check(text).into_iter().map(Finding::from).collect(),
            Self::Value(check) => check(&Value::from(text)).into_iter().map(Finding::from).collect(),
            Self::Pattern(form) => form.findings(text),
        }
    }

    /// Tests a value: forms of text see an empty one where it is none.
    pub(super) fn findings_of(&self, value: &Value) -> Vec<Finding> {
        match self {
            Self::Value(check) => check(value).into_iter().map(Finding::from).collect(),
            text => text.findings(value.as_str().unwrap_or_default()),
        }
    }
}

/// A form of `forms.txt`.
#[derive(Debug, Default)]
pub(super) struct PatternForm {
    lines: Vec<FormLine>,
}

/// One line of a form: its conditions, and what it looks at.
#[derive(Debug)]
struct FormLine {
    /// All must agree for the line to count: a pattern, and true for `when`, false for `unless`.
    when: Vec<(LazyPattern, bool)>,
    demand: FormDemand,
    detail: Option<String>,
    /// A finding of this line ends the form, where kube-apiserver returns early.
    last: bool,
}

/// The first word of a line, with what follows it.
#[derive(Debug)]
enum FormDemand {
    Match { pattern: LazyPattern, wanted: bool },
    Never,
    Form(&'static str),
    Part { pattern: LazyPattern, form: &'static str, shown: bool },
    Split { pattern: LazyPattern, form: &'static str },
    Lower(&'static str),
}

impl PatternForm {
    /// Returns everything that a form finds in a text, in the order of its lines. A line marked as last ends the
    /// search if it found something, because what follows would repeat it.
    fn findings(&self, text: &str) -> Vec<Finding> {
        let mut found = Vec::new();
        for line in &self.lines {
            if !line.when.iter().all(|(pattern, wanted)| pattern.matches(text) == *wanted) {
                continue;
            }
            let before = found.len();
            found.extend(line.findings(text));
            if line.last && found.len() > before {
                break;
            }
        }
        found
    }
}

impl FormLine {
    /// Returns what one line finds.
    fn findings(&self, text: &str) -> Vec<Finding> {
        let own = || Finding::from(self.detail.as_deref().unwrap_or_default().replace("{=}", text));
        let found = match &self.demand {
            FormDemand::Match { pattern, wanted } if pattern.matches(text) == *wanted => Vec::new(),
            FormDemand::Match { .. } | FormDemand::Never => return vec![own()],
            FormDemand::Form(name) => findings_of(name, text),
            FormDemand::Lower(name) => shown_findings(name, &text.to_lowercase()),
            FormDemand::Split { pattern, form } => {
                let parts = pattern.regex().into_iter().flat_map(|regex| regex.split(text));
                parts.flat_map(|part| shown_findings(form, part)).collect()
            }
            FormDemand::Part { pattern, form: name, shown } => {
                let captured = pattern.regex().and_then(|regex| regex.captures(text));
                let Some(part) = captured.and_then(|captured| captured.get(1)) else { return Vec::new() };
                if *shown { shown_findings(name, part.as_str()) } else { findings_of(name, part.as_str()) }
            }
        };
        if found.is_empty() || self.detail.is_none() { found } else { vec![own()] }
    }
}

/// The findings of another form. Unknown names find nothing; a test looks for them.
fn findings_of(name: &str, text: &str) -> Vec<Finding> {
    form(name).map(|form| form.findings(text)).unwrap_or_default()
}

/// The findings of a part of a text, which show it unless they show a part of it.
fn shown_findings(name: &str, part: &str) -> Vec<Finding> {
    let mut found = findings_of(name, part);
    for finding in &mut found {
        finding.part.get_or_insert_with(|| part.to_owned());
    }
    found
}

/// The forms of `forms.txt` and the lines that are not understood.
struct PatternForms {
    forms: HashMap<&'static str, PatternForm>,
    problems: Vec<&'static str>,
}

/// Read at first use: about a hundred lines, and each pattern is compiled at its first use.
static PATTERNS: LazyLock<PatternForms> = LazyLock::new(|| {
    let mut read = PatternForms { forms: HashMap::new(), problems: Vec::new() };
    let mut current = "";
    let lines = include_str!("forms.txt").lines();
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if !line.starts_with(' ') {
            current = line.trim();
        } else if let Some(parsed) = form_line(line.trim()) {
            read.forms.entry(current).or_default().lines.push(parsed);
        } else {
            read.problems.push(line);
        }
    }
    read
});

/// `None` for a line that is not understood; the tests fail on those.
fn form_line(line: &'static str) -> Option<FormLine> {
    let (line, last) = line.strip_suffix(" last").map_or((line, false), |line| (line, true));
    let (line, detail) = match line.strip_suffix('"').and_then(|line| line.split_once('"')) {
        Some((line, detail)) => (line.trim_end(), Some(detail.replace("''", "\""))),
        None => (line, None),
    };
    let mut words = line.split(' ');
    let mut when = Vec::new();
    let demand = loop {
        let word = words.next()?;
        let demand = match word {
            "when" | "unless" => {
                when.push((LazyPattern::new(words.next()?), word == "when"));
                continue;
            }
            "must" | "not" => {
                FormDemand::Match { pattern: LazyPattern::new(words.next()?), wanted: word == "must" }
            }
            "error" => FormDemand::Never,
            "is" => FormDemand::Form(words.next()?),
            "of" | "part" => {
                let (pattern, form) = (LazyPattern::new(words.next()?), words.next()?);
                FormDemand::Part { pattern, form, shown: word == "part" }
            }
            "split" => FormDemand::Split { pattern: LazyPattern::new(words.next()?), form: words.next()? },
            "lower" => FormDemand::Lower(words.next()?),
            _ => return None,
        };
        break demand;
    };
    words.next().is_none().then_some(FormLine { when, demand, detail, last })
}

/// The form of that name.
///
/// Called when the tables are parsed; lines of `forms.txt` that refer to another form look it up at each use.
pub(super) fn form(name: &str) -> Option<TextForm> {
    if let Some(form) = PATTERNS.forms.get(name) {
        return Some(TextForm::Pattern(form));
    }
    text_form(name).map(TextForm::Text).or_else(|| value_form(name).map(TextForm::Value))
}

/// The forms of text that are checked by functions.
fn text_form(name: &str) -> Option<fn(&str) -> Vec<String>> {
    Some(match name {
        "dns-label" => label_errors,
        "dns-label-1035" => names::label_1035_errors,
        "dns-subdomain" => subdomain_errors,
        "dns-subdomain-caseless" => caseless_subdomain,
        "qualified-name" => label_key_errors,
        "label-value" => label_value_errors,
        "joined-label-value" => joined_label_value,
        "path-segment" => |text| names::path_segment(text, false),
        "ip" => addresses::ip,
        "external-ip" => addresses::reachable_ip,
        "endpoint-ip" => addresses::endpoint_ip,
        "trimmed-cidr" => |text| addresses::cidr(text.trim()),
        "cidr" => addresses::cidr,
        "interface-address" => addresses::interface,
        "resource-version" => resource_version,
        "any-cidr" => |text| error_if(!names::is_cidr(text), names::CIDR),
        "env-name" => names::env_name,
        "config-key" => names::config_key,
        "http-header" => names::http_header,
        "port-name" => names::port_name,
        "dns-search-path" => dns_search_path,
        "caseless-qualified-name" => |text| label_key_errors(&text.to_lowercase()),
        "no-address" => no_address,
        "cron-fields" => |text| cron::check(text).err().map(|error| error.to_string()).into_iter().collect(),
        "finalizer" => meta::finalizer_errors,
        "extended-resource" => extended_resource,
        "canonical-int32" => canonical_int32,
        "int64" => int64,
        "base64-json" => base64_json,
        _ => return None,
    })
}

/// The errors of a label value as one text.
fn joined_label_value(text: &str) -> Vec<String> {
    match label_value_errors(text) {
        found if found.is_empty() => found,
        found => vec![found.join(";")],
    }
}

fn resource_version(text: &str) -> Vec<String> {
    let is_whole = text == "0" || !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit());
    error_if(!is_whole, &format!("resource version is not well formed: {text}"))
}

fn no_address(text: &str) -> Vec<String> {
    error_if(text.parse::<IpAddr>().is_ok(), "must be a DNS name, not an IP address")
}

fn extended_resource(name: &str) -> Vec<String> {
    error_if(!names::is_extended_resource(name), "doesn't follow extended resource name standard")
}

fn canonical_int32(text: &str) -> Vec<String> {
    let is_canonical = text.parse::<i32>().is_ok_and(|number| number.to_string() == text);
    error_if(!is_canonical, "must be an integer")
}

fn int64(text: &str) -> Vec<String> {
    error_if(text.parse::<i64>().is_err(), "must be a valid decimal integer in canonical form")
}

/// The forms of values that are checked by functions: numbers, quantities, selectors, and what may be a number or a text.
fn value_form(name: &str) -> Option<fn(&Value) -> Vec<String>> {
    Some(match name {
        "port-or-name" => port_or_name,
        "count-or-percent" => count_or_percent,
        "at-most-100-percent" => |value| {
            let percent = value.as_str().and_then(|text| text.strip_suffix('%')?.parse::<u64>().ok());
            error_if(percent.is_some_and(|percent| percent > 100), "must not be greater than 100%")
        },
        "quantity-non-negative" => {
            |value| error_if(compared(value, &[Ordering::Less]), "must be greater than or equal to 0")
        }
        "quantity-positive" => {
            |value| error_if(compared(value, &[Ordering::Less, Ordering::Equal]), "must be greater than zero")
        }
        "json-object" => |value| error_if(!value.is_object(), "must be a valid JSON object"),
        "label-selector" => |value| error_if(!selector::is_usable(value), "invalid label selector."),
        "not-zero" => |value| error_if(value.as_i64() == Some(0), "must not be 0"),
        "ascending" => |value| {
            let numbers = value.as_array().into_iter().flatten().filter_map(Value::as_i64);
            error_if(!numbers.is_sorted(), "must be ordered")
        },
        _ => return None,
    })
}

/// Lines of `forms.txt` that are not understood, patterns that cannot be read, and forms that are not there.
#[cfg(test)]
pub(super) fn problems() -> Vec<String> {
    let mut problems: Vec<String> = PATTERNS.problems.iter().map(|line| (*line).to_owned()).collect();
    for (name, line) in
        PATTERNS.forms.iter().flat_map(|(name, form)| form.lines.iter().map(move |line| (name, line)))
    {
        let mut patterns: Vec<&LazyPattern> = line.when.iter().map(|(pattern, _)| pattern).collect();
        match &line.demand {
            FormDemand::Match { pattern, .. } => patterns.push(pattern),
            FormDemand::Part { pattern, .. } | FormDemand::Split { pattern, .. } => patterns.push(pattern),
            FormDemand::Never | FormDemand::Form(_) | FormDemand::Lower(_) => {}
        }
        let wrong = patterns.into_iter().filter(|pattern| pattern.regex().is_none());
        problems.extend(wrong.map(|pattern| format!("{name}: {}", pattern.text())));
        if let FormDemand::Form(other)
        | FormDemand::Lower(other)
        | FormDemand::Part { form: other, .. }
        | FormDemand::Split { form: other, .. } = &line.demand
            && form(other).is_none()
        {
            problems.push(format!("{name}: no form {other}"));
        }
    }
    problems
}

/// JSON in base64, which parameters of devices are.
fn base64_json(text: &str) -> Vec<String> {
    let bytes = base64::engine::general_purpose::STANDARD.decode(text).unwrap_or_default();
    let valid = serde_json::from_slice::<serde::de::IgnoredAny>(&bytes).is_ok();
    error_if(!valid, "invalid character in JSON")
}

/// Returns the error if the value is invalid.
pub(super) fn error_if(wrong: bool, text: &str) -> Vec<String> {
    if wrong { vec![text.to_owned()] } else { Vec::new() }
}

/// True if a quantity compares with zero in one of the forbidden ways.
fn compared(value: &Value, wrong: &[Ordering]) -> bool {
    let text = match value {
        Value::String(text) => text.to_string(),
        other => other.to_string(),
    };
    quantity::compare(&text, "0").is_ok_and(|order| wrong.contains(&order))
}

/// A number in range, or the name of a port.
fn port_or_name(value: &Value) -> Vec<String> {
    match value {
        Value::String(name) => names::port_name(name),
        other => {
            let number = other.as_i64().unwrap_or(0);
            error_if(!(1..=65_535).contains(&number), "must be between 1 and 65535, inclusive")
        }
    }
}

/// A number that is not negative, or a percentage.
fn count_or_percent(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => {
            let digits = text.strip_suffix('%').unwrap_or_default();
            let wrong = digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit());
            error_if(
                wrong,
                "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
            )
        }
        other => {
            error_if(other.as_i64().is_some_and(|number| number < 0), "must be greater than or equal to 0")
        }
    }
}

/// A subdomain in any case. The message is of such subdomains, the pattern in it is the one of lower case.
fn caseless_subdomain(text: &str) -> Vec<String> {
    const WORDS: [(&str, &str); 2] = [
        (
            "a lowercase RFC 1123 subdomain must consist of lower case",
            "an RFC 1123 subdomain must consist of",
        ),
        ("'example.com'", "'Example.com'"),
    ];
    let caseless = |error: String| WORDS.iter().fold(error, |error, (from, to)| error.replace(from, to));
    subdomain_errors(&text.to_lowercase()).into_iter().map(caseless).collect()
}

/// A subdomain that may have underscores, and a dot at its end.
fn dns_search_path(text: &str) -> Vec<String> {
    if text == "." {
        return Vec::new();
    }
    subdomain_errors(&text.strip_suffix('.').unwrap_or(text).replace('_', "a"))
}
