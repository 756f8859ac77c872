//! The words of the rule tables.
//!
//! A line is a name and words. The name is that of a field, `:` for the struct itself, or a route to fields below it
//! (`spec.containers[].image`, see [`super::route`]); `(a|b)` in a name stands for one line each. The words are
//! rules, and words that modify them.
//!
//! | rule | an error unless |
//! |---|---|
//! | `required` | the field is there and not empty |
//! | `enum=A,B`, `enum` | the text is one of the words; without words, one of those that `declared.txt` has for the field's type |
//! | `min=N`, `max=N`, `range=N..M` | the number is within the bounds |
//! | `max-bytes=N`, `max-items=N` | text and lists are no longer |
//! | `unique=KEY,KEY`, `unique` | elements differ in these fields, or altogether; `:here`, `:item`, `:list` and `:FIELD` say where a repetition is reported |
//! | `immutable` | an update leaves the field as it is |
//! | `forbidden`, `invalid` | the field is absent; the words choose the type of the error |
//! | `one-of=A,B` | exactly one of these fields of the struct is there |
//! | `union=A,B` | the same, with the messages of declared unions; empty text and `false` do not count |
//! | `first-of=A,B` | none of these fields is there beside the first one that is |
//! | `in=ROUTE\|ROUTE`, `not-in=…` | the value is, or is not, among those that the routes lead to |
//! | `selected-by=ROUTE` | the labels match the LabelSelector at the route; `selected-by-labels` is for a plain map |
//! | `inside=ROUTE` | the range of addresses is a strict subset of the one at the route |
//! | `error=KIND` | the conditions of the line do not hold; `error=unsupported:A\|B` lists the words that are supported |
//! | `check=NAME` | the function of that name in `validate/` finds nothing |
//! | a name of `forms.txt` | the text has that form |
//!
//! A rule about empty text treats a field as Go does: absent unless it is a pointer. `!` after the word checks empty
//! text as well, `?` takes it for absent.
//!
//! | modifier | meaning |
//! |---|---|
//! | `each`, `keys` | the rules that follow are about the elements or the keys; `each-here` and `keys-here` leave the index out of the path |
//! | `if=`, `unless=`, `changed=`, `changed-beside=` | the line counts only where the condition holds ([`super::condition`]) |
//! | `where=`, `where-not=` | the same, asked of the struct at the end of a route |
//! | `"text"` | the words of the error of the rule before it ([`super::message`]) |
//! | `shown=VALUE` | the value that the error shows: a number, a text, `.SIBLING`, `/ROUTE`, `null`, or `none` |
//! | `at=ROUTE` | the field that errors name, if it is another one |
//! | `as=BLOCK` | the struct of the field is checked by another block, such as `core.v1.NodeSelectorRequirement@field` |
//! | `skip` | nothing below the field is checked where the conditions of the line hold |
//! | `flat` | errors are reported at the struct, without the name of the field and the index |
//! | `once` | what is below the field is not checked again in an update |
//! | `set=A,B` | the values of a type, for `enum` elsewhere |
//!
//! A line `$NAME text` gives a name to a text: `$NAME` stands for it from there on. The tables are part of the
//! program: a word that is not understood is a defect that the tests find, and is passed over otherwise.

use listwatch_wire::status::FieldErrorKind;

use super::condition::RuleCondition;
use super::forms;
use super::message::Message;
use super::route::Route;
use super::rows::{
    DuplicateReport, Empty, FieldRule, PathStep, RuleLine, RuleRow, RuleTarget, ShownValue, Unique,
};
use super::tables::{Tables, is_comment};

/// Reads the rows of a block. Words that are not understood are added to `problems`.
pub(super) fn rows(tables: &Tables, block: &'static str, problems: &mut Vec<String>) -> Vec<RuleRow> {
    let mut reader = RuleReader { tables, block, declared: false, rows: Vec::new(), problems };
    for part in tables.parts(block) {
        reader.declared = part.declared;
        reader.part(part.text);
    }
    reader.rows
}

/// Reads the rows of one block.
struct RuleReader<'a> {
    tables: &'a Tables,
    block: &'static str,
    /// True while `declared.txt` is read, which repeats rules of `written.txt`.
    declared: bool,
    /// The result, which grows line by line.
    rows: Vec<RuleRow>,
    problems: &'a mut Vec<String>,
}

impl RuleReader<'_> {
    /// The rows of the block in one table.
    fn part(&mut self, text: &'static str) {
        for line in text.lines().map(str::trim).filter(|line| !is_comment(line) && !line.starts_with('$')) {
            let line = if line.contains('$') { leaked(self.tables.replaced(line)) } else { line };
            for line in alternatives(line) {
                self.row(line);
            }
        }
    }

    /// Rows of one field are joined, those of routes and of the struct itself stay apart: their order among each
    /// other is the order of errors.
    fn row(&mut self, line: &'static str) {
        let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
        let mut row = RuleRow { name, ..RuleRow::default() };
        let mut parsed = RuleLine::default();
        let mut target = RuleTarget::Whole;
        for word in words(rest) {
            if !self.word(word, &mut row, &mut parsed, &mut target) {
                self.problems.push(format!("{}.{name}: {word}", self.block));
            }
        }
        if !parsed.steps.is_empty() || parsed.skip {
            // Exact, because most rows have one line and all are kept.
            row.lines.reserve_exact(1);
            row.lines.push(parsed);
        }
        // A row that only lists the values of a type says nothing about the field.
        if self.declared && row.lines.is_empty() {
            return;
        }
        match self.rows.iter_mut().find(|known| known.name == name) {
            Some(known) if is_field(name) => {
                if self.declared && row.is_immutable() {
                    known.hide_immutable();
                }
                for line in row.lines.iter_mut().filter(|_| self.declared) {
                    line.steps.retain(|step| !known.has_rule(step, &line.guards));
                }
                row.lines.retain(|line| !line.steps.is_empty() || line.skip);
                known.lines.append(&mut row.lines);
                known.variant = known.variant.or(row.variant);
                known.shown = known.shown.or(row.shown);
                known.flat |= row.flat;
                known.once |= row.once;
            }
            _ => self.rows.push(row),
        }
    }

    /// Adds one word to a row; false if it means nothing.
    fn word(
        &self,
        word: &'static str,
        row: &mut RuleRow,
        line: &mut RuleLine,
        target: &mut RuleTarget,
    ) -> bool {
        if let Some(text) = unquoted(word) {
            let Some(last) = line.steps.last_mut() else { return false };
            last.detail = Some(Message::parse(text));
            return true;
        }
        let (word, value) = word.split_once('=').unwrap_or((word, ""));
        let value = unquoted(value).unwrap_or(value);
        match word {
            "each" => *target = RuleTarget::Each { indexed: true },
            "each-here" => *target = RuleTarget::Each { indexed: false },
            "keys" => *target = RuleTarget::Keys { indexed: true },
            "keys-here" => *target = RuleTarget::Keys { indexed: false },
            "as" => row.variant = Some(value),
            "skip" => line.skip = true,
            "flat" => row.flat = true,
            "once" => row.once = true,
            "at" => row.shown = Some(value),
            "set" => {}
            "changed" => line.guards.push(RuleCondition::parse_changed(value)),
            "changed-beside" => line.guards.push(RuleCondition::parse_changed_beside(value)),
            "if" | "unless" => line.guards.push(RuleCondition::parse(value, word == "if")),
            "where" | "where-not" => line.local.push(RuleCondition::parse(value, word == "where")),
            "shown" => {
                let Some(last) = line.steps.last_mut() else { return false };
                last.shown = Some(shown(value));
            }
            _ => {
                let Some(rule) = self.rule(row.name, word, value) else { return false };
                line.steps.push(PathStep { target: *target, rule, detail: None, shown: None });
            }
        }
        true
    }

    /// `None` for a word that is not a rule, which the caller reports. A suffix says how empty text counts. Words that
    /// are not known are names of forms.
    fn rule(&self, field: &'static str, word: &'static str, value: &'static str) -> Option<FieldRule> {
        let (plain, empty) = match (word.strip_suffix('!'), word.strip_suffix('?')) {
            (Some(plain), _) => (plain, Empty::Checked),
            (_, Some(plain)) => (plain, Empty::Absent),
            _ => (word, Empty::AsTyped),
        };
        let skip_zero = empty == Empty::Absent;
        Some(match plain {
            "required" => FieldRule::Required,
            "enum" => FieldRule::Enum { words: list(self.words(field, value)?), empty },
            "min" => FieldRule::Range { min: value.parse().ok()?, max: i64::MAX, skip_zero },
            "max" => FieldRule::Range { min: i64::MIN, max: value.parse().ok()?, skip_zero },
            "range" => {
                let (min, max) = value.split_once("..")?;
                FieldRule::Range { min: min.parse().ok()?, max: max.parse().ok()?, skip_zero }
            }
            "max-bytes" => FieldRule::MaxBytes(value.parse().ok()?),
            "max-items" => FieldRule::MaxItems(value.parse().ok()?),
            "unique" => FieldRule::Unique(self.unique(value, self.declared || empty == Empty::Checked)),
            "immutable" => FieldRule::Immutable { shown: !self.declared },
            "forbidden" => FieldRule::Forbidden,
            "invalid" => FieldRule::Invalid,
            "one-of" => FieldRule::OneOf(list(value)),
            "union" => FieldRule::Union(list(value)),
            "selected-by" | "selected-by-labels" => {
                FieldRule::SelectedBy { route: Route::parse(value), plain: plain == "selected-by-labels" }
            }
            "inside" => FieldRule::Inside(Route::parse(value)),
            "first-of" => FieldRule::FirstOf(list(value)),
            "in" | "not-in" => {
                let routes = value.split('|').map(Route::parse).collect();
                FieldRule::Known { routes, wanted: plain == "in", empty: empty == Empty::Checked }
            }
            "error" => error_rule(value)?,
            "check" => FieldRule::Check(self.tables.check(value)?),
            _ => FieldRule::Form { form: forms::form(plain)?, empty },
        })
    }

    /// The words of an enumeration; those of the field's type if the line has none.
    fn words(&self, field: &'static str, own: &'static str) -> Option<&'static str> {
        let base = self.block.split('@').next().unwrap_or(self.block);
        if own.is_empty() { self.tables.enumerated(base, field) } else { Some(own) }
    }

    /// Declared rules report at the element, as the tags that they come from do.
    fn unique(&self, value: &'static str, empty: bool) -> Unique {
        let (keys, report) = value.split_once(':').unwrap_or((value, ""));
        let report = match report {
            "" if self.declared => DuplicateReport::Here,
            "" => DuplicateReport::Key,
            "here" => DuplicateReport::Here,
            "item" => DuplicateReport::Item,
            "list" => DuplicateReport::List,
            field => DuplicateReport::Field(field),
        };
        Unique { keys: list(keys), empty, report }
    }
}

/// Words separated by commas; no word at all is an empty list.
fn list(text: &'static str) -> Vec<&'static str> {
    if text.is_empty() { Vec::new() } else { text.split(',').collect() }
}

/// Reads the value that an error shows in place of the field's own: a sibling's (`.route`), one from the top of the
/// object (`/route`), a number, a text, or none.
fn shown(value: &'static str) -> ShownValue {
    match (value.strip_prefix('.'), value.strip_prefix('/'), value.parse()) {
        (Some(route), ..) => ShownValue::Sibling(Route::parse(route)),
        (_, Some(route), _) => ShownValue::Top(Route::parse(route)),
        (.., Ok(number)) => ShownValue::Number(number),
        _ if value == "null" => ShownValue::Null,
        _ if value == "none" => ShownValue::None,
        _ => ShownValue::Text(value),
    }
}

/// Writes a line once for each of the words in `(a|b)`; `(*)` repeats the word that was chosen.
fn alternatives(line: &'static str) -> Vec<&'static str> {
    let name = line.split(' ').next().unwrap_or(line);
    let group = name.split_once('(').and_then(|(_, rest)| rest.split_once(')'));
    let Some((words, _)) = group else { return vec![line] };
    let one = |word: &str| -> &'static str {
        leaked(line.replacen(&format!("({words})"), word, 1).replacen("(*)", word, usize::MAX))
    };
    words.split('|').map(one).flat_map(alternatives).collect()
}

/// Each block is read once and kept.
/// Memory is bounded by the tables, which are part of the program.
fn leaked(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

/// True for the name of a field, false for the struct itself and for routes.
pub(super) fn is_field(name: &str) -> bool {
    name != ":" && !name.contains(['.', '['])
}

/// The text between double quotes.
fn unquoted(text: &str) -> Option<&str> {
    text.strip_prefix('"')?.strip_suffix('"')
}

/// An error where the conditions of the line hold.
fn error_rule(value: &'static str) -> Option<FieldRule> {
    Some(match value.split_once(':') {
        Some(("unsupported", words)) => FieldRule::Unsupported(words.split('|').collect()),
        None if value == "unsupported" => FieldRule::Unsupported(Vec::new()),
        _ => FieldRule::Error(error_kind(value)?),
    })
}

/// Kinds that a table may name. The others belong to rules of their own.
fn error_kind(word: &str) -> Option<FieldErrorKind> {
    Some(match word {
        "required" => FieldErrorKind::Required,
        "invalid" => FieldErrorKind::Invalid,
        "forbidden" => FieldErrorKind::Forbidden,
        "duplicate" => FieldErrorKind::Duplicate,
        "internal" => FieldErrorKind::Internal,
        _ => return None,
    })
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
