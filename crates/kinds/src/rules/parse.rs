//! The words of the rule tables.
//!
//! A line is a name and rules. `each` and `keys` turn the rules that follow to the elements or keys of the field, `each-here` does
//! so without adding the index to the path. A guard (`if=`, `unless=`) holds for its whole line. A quoted text after a rule
//! replaces the words of its error. `once` leaves what is below the field unchecked when an object is changed. The tables are part of the program: a word that is not understood is a defect that the
//! tests find, and is passed over otherwise.

use std::collections::HashMap;

use listwatch_wire::json::Value;

use super::forms::{self, TextForm};
use super::walk::At;
use crate::field::Errors;

/// A rule that spans fields. It reads what is below its place and nothing else, so that it need not run where that is
/// unchanged.
pub(crate) type Check = fn(&At<'_>, &mut Errors);

/// A rule about one value.
#[derive(Clone, Debug)]
pub(super) enum FieldRule {
    /// There, and not empty.
    Required,
    /// One of the words.
    Enum { words: Vec<&'static str>, empty: Empty },
    /// A number within bounds.
    Range { min: i64, max: i64, skip_zero: bool },
    /// Text or a number of a certain form.
    Form { form: TextForm, empty: Empty },
    /// At most so many bytes.
    MaxBytes(usize),
    /// At most so many elements.
    MaxItems(usize),
    /// Elements that differ in these fields, or altogether. What tags declare is reported at the element, what is written at
    /// its field.
    Unique { keys: Vec<&'static str>, at_element: bool },
    /// Not changed by an update.
    Immutable,
    /// Not there.
    Forbidden,
    /// Not there, because of what it says.
    Invalid,
    /// Exactly one of the fields of a struct.
    OneOf(Vec<&'static str>),
    /// The first of the fields of a struct that is there, and none of the others.
    FirstOf(Vec<&'static str>),
    /// A function.
    Check(Check),
}

/// The treatment of empty text by a rule. A text that is a pointer in Go can be given and empty; any other is then absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Empty {
    /// As Go tells it: absent unless it is a pointer.
    AsTyped,
    /// As any other text, even where the field is absent (`!`).
    Checked,
    /// As absent (`?`).
    Absent,
}

/// The values that a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RuleTarget {
    Whole,
    Each { indexed: bool },
    Keys,
}

#[derive(Clone, Debug)]
pub(super) struct PathStep {
    pub(super) target: RuleTarget,
    pub(super) rule: FieldRule,
    pub(super) detail: Option<&'static str>,
}

/// A condition on a sibling of the field.
#[derive(Clone, Debug)]
pub(super) struct RuleGuard {
    field: &'static str,
    words: Vec<&'static str>,
    wanted: bool,
}

impl RuleGuard {
    /// True if the struct that the field is in meets the condition.
    pub(super) fn holds(&self, parent: &Value) -> bool {
        let value = parent.get(self.field).unwrap_or(&Value::Null);
        let met = match (self.words.as_slice(), value) {
            ([], Value::Null) => false,
            ([], Value::Array(list)) => !list.is_empty(),
            ([], value) => value != "",
            (words, Value::String(text)) => words.contains(&text.as_str()),
            (words, Value::Bool(flag)) => words.contains(&if *flag { "true" } else { "false" }),
            (words, _) => words.contains(&""),
        };
        met == self.wanted
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct RuleLine {
    pub(super) guards: Vec<RuleGuard>,
    pub(super) steps: Vec<PathStep>,
    /// Nothing below the field is checked where the guards hold.
    pub(super) skip: bool,
}

/// Everything the tables say about one field, or (`:`) about a struct.
#[derive(Clone, Debug, Default)]
pub(super) struct RuleRow {
    pub(super) name: &'static str,
    pub(super) lines: Vec<RuleLine>,
    /// Another rule set for what is below.
    pub(super) variant: Option<&'static str>,
    /// Errors are reported at the struct, without the name of the field and the index.
    pub(super) flat: bool,
    /// The rules below hold for new objects only.
    pub(super) once: bool,
    /// The name that errors are reported under, where it is not the field's.
    pub(super) shown: Option<&'static str>,
}

impl RuleRow {
    /// True if the row has such a rule already: what is declared is often written too.
    fn says(&self, step: &PathStep, guards: &[RuleGuard]) -> bool {
        let same = |known: &PathStep| {
            known.target == step.target
                && std::mem::discriminant(&known.rule) == std::mem::discriminant(&step.rule)
                && !matches!(step.rule, FieldRule::Check(_) | FieldRule::Invalid | FieldRule::Forbidden)
        };
        guards.is_empty()
            && self.lines.iter().any(|line| line.guards.is_empty() && line.steps.iter().any(same))
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct RuleBlock {
    pub(super) base: Option<&'static str>,
    pub(super) rows: Vec<RuleRow>,
}

/// The blocks of all tables by name.
#[derive(Debug, Default)]
pub(super) struct Tables {
    pub(super) blocks: HashMap<&'static str, RuleBlock>,
    pub(super) problems: Vec<String>,
}

/// Reads tables; where several speak of one field, what the first says comes first.
pub(super) fn tables(texts: [&'static str; 2]) -> Tables {
    let mut reader = RuleReader { checks: crate::validate::all_checks().collect(), ..RuleReader::default() };
    for text in texts {
        reader.sets(text);
    }
    for (position, text) in texts.into_iter().enumerate() {
        reader.declared = position > 0;
        reader.table(text);
    }
    reader.tables
}

#[derive(Default)]
struct RuleReader {
    tables: Tables,
    checks: HashMap<&'static str, Check>,
    /// The table being read is not the first, and repeats some of what that says.
    declared: bool,
    /// Values of enumerated types by struct and field.
    sets: HashMap<(&'static str, &'static str), Vec<&'static str>>,
}

fn rows(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.lines().filter(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#'))
}

impl RuleReader {
    /// The values of enumerated types (`set=`), which rows elsewhere refer to by `enum` alone.
    fn sets(&mut self, text: &'static str) {
        let mut block = "";
        for line in rows(text) {
            let mut words = words(line).into_iter();
            let name = words.next().unwrap_or_default();
            if !line.starts_with(' ') {
                block = name;
            } else if let Some(values) = words.find_map(|word| word.strip_prefix("set=")) {
                self.sets.insert((block, name), values.trim_matches('"').split(',').collect());
            }
        }
    }

    fn table(&mut self, text: &'static str) {
        let mut current = "";
        for line in rows(text) {
            if line.starts_with(' ') {
                self.row(current, line.trim());
                continue;
            }
            let mut words = line.split_whitespace();
            current = words.next().unwrap_or_default();
            let block = self.tables.blocks.entry(current).or_default();
            if words.next() == Some(":") {
                block.base = words.next();
            }
        }
    }

    fn row(&mut self, block: &'static str, line: &'static str) {
        let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
        let mut row = RuleRow { name, ..RuleRow::default() };
        let mut parsed = RuleLine::default();
        let mut target = RuleTarget::Whole;
        for word in words(rest) {
            if !self.word(block, word, &mut row, &mut parsed, &mut target) {
                self.tables.problems.push(format!("{block}.{name}: {word}"));
            }
        }
        if !parsed.steps.is_empty() || parsed.skip {
            row.lines.push(parsed);
        }
        let rows = &mut self.tables.blocks.entry(block).or_default().rows;
        match rows.iter_mut().find(|known| known.name == name) {
            Some(known) if name != ":" => {
                for line in row.lines.iter_mut().filter(|_| self.declared) {
                    line.steps.retain(|step| !known.says(step, &line.guards));
                }
                row.lines.retain(|line| !line.steps.is_empty() || line.skip);
                known.lines.append(&mut row.lines);
                known.variant = known.variant.or(row.variant);
                known.shown = known.shown.or(row.shown);
                known.flat |= row.flat;
                known.once |= row.once;
            }
            _ => rows.push(row),
        }
    }

    /// Adds one word to a row; false if it means nothing.
    fn word(
        &self,
        block: &'static str,
        word: &'static str,
        row: &mut RuleRow,
        line: &mut RuleLine,
        target: &mut RuleTarget,
    ) -> bool {
        if let Some(text) = word.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
            let Some(last) = line.steps.last_mut() else { return false };
            last.detail = Some(text);
            return true;
        }
        let (word, value) = word.split_once('=').unwrap_or((word, ""));
        match word {
            "each" => *target = RuleTarget::Each { indexed: true },
            "each-here" => *target = RuleTarget::Each { indexed: false },
            "keys" => *target = RuleTarget::Keys,
            "as" => row.variant = Some(value),
            "skip" => line.skip = true,
            "flat" => row.flat = true,
            "once" => row.once = true,
            "at" => row.shown = Some(value),
            "set" => {}
            "if" | "unless" => line.guards.push(guard(value, word == "if")),
            _ => {
                let Some(rule) = self.rule(block, row.name, word, value) else { return false };
                line.steps.push(PathStep { target: *target, rule, detail: None });
            }
        }
        true
    }

    fn rule(
        &self,
        block: &'static str,
        field: &'static str,
        word: &'static str,
        value: &'static str,
    ) -> Option<FieldRule> {
        let (plain, empty) = match (word.strip_suffix('!'), word.strip_suffix('?')) {
            (Some(plain), _) => (plain, Empty::Checked),
            (_, Some(plain)) => (plain, Empty::Absent),
            _ => (word, Empty::AsTyped),
        };
        let skip_zero = empty == Empty::Absent;
        Some(match plain {
            "required" => FieldRule::Required,
            "enum" => {
                let base = block.split('@').next().unwrap_or(block);
                let words = match value {
                    "" => self.sets.get(&(base, field)).cloned()?,
                    listed => list(listed),
                };
                FieldRule::Enum { words, empty }
            }
            "min" => FieldRule::Range { min: value.parse().ok()?, max: i64::MAX, skip_zero },
            "max" => FieldRule::Range { min: i64::MIN, max: value.parse().ok()?, skip_zero },
            "range" => {
                let (min, max) = value.split_once("..")?;
                FieldRule::Range { min: min.parse().ok()?, max: max.parse().ok()?, skip_zero }
            }
            "max-bytes" => FieldRule::MaxBytes(value.parse().ok()?),
            "max-items" => FieldRule::MaxItems(value.parse().ok()?),
            "unique" => FieldRule::Unique { keys: list(value), at_element: self.declared },
            "immutable" => FieldRule::Immutable,
            "forbidden" => FieldRule::Forbidden,
            "invalid" => FieldRule::Invalid,
            "one-of" => FieldRule::OneOf(list(value)),
            "first-of" => FieldRule::FirstOf(list(value)),
            "check" => FieldRule::Check(*self.checks.get(value)?),
            _ => FieldRule::Form { form: forms::form(plain)?, empty },
        })
    }
}

fn list(text: &'static str) -> Vec<&'static str> {
    if text.is_empty() { Vec::new() } else { text.split(',').collect() }
}

fn guard(text: &'static str, wanted: bool) -> RuleGuard {
    match text.split_once(':') {
        Some((field, words)) => RuleGuard { field, words: words.split('|').collect(), wanted },
        None => RuleGuard { field: text, words: Vec::new(), wanted },
    }
}

/// Splits at blanks, except inside quotes.
fn words(text: &'static str) -> Vec<&'static str> {
    let mut quoted = false;
    let split = move |letter: char| {
        quoted ^= letter == '"';
        letter == ' ' && !quoted
    };
    text.split(split).filter(|word| !word.is_empty()).collect()
}
