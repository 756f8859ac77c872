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
//! found something. Forms that no pattern can express are functions in
//! [`super::form_checks`].

use std::collections::HashMap;
use std::sync::LazyLock;

use listwatch_wire::json::Value;

use super::form_checks;
use super::pattern::LazyPattern;

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
    let text = form_checks::of_text(name).map(TextForm::Text);
    text.or_else(|| form_checks::of_value(name).map(TextForm::Value))
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
