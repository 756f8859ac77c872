//! Conditions of rules: `if=`, `unless=` and `changed=`.
//!
//! | form | holds where |
//! |---|---|
//! | `ROUTE` | something is there that is neither empty text nor an empty list |
//! | `ROUTE?` | the field is there, though it may be empty |
//! | `ROUTE:a\|b*` | the text or flag is one of the words; `*` at an end stands for any text |
//! | `ROUTE!:a\|b` | the text is there and none of the words |
//! | `ROUTE~REGEX` | the text or number matches |
//! | `ROUTE~~FORM` | the value has a form of `forms.txt` |
//! | `A<B`, `<=`, `>`, `>=` | the number or the time is smaller, and so on; an absent number is zero, or nothing holds if it is a pointer (`A?<B`) |
//! | `A==B`, `A!=B` | the values are equal, or differ |
//!
//! Routes begin at the struct of the block; in `where=` at the struct at the end of the route, and `/ROUTE` at the one
//! of the block. `old` is the stored struct (`if=old` is an update), `#ROUTE` the number of elements or letters, `+A+B`
//! the number of those fields that are there, and a route through `[]` stands for any of its values. Operands are
//! routes, numbers, or words in single quotes.
//!
//! `changed=TERM,TERM` holds in an update that changes one of the terms: the value of a route, or whether a condition
//! holds. A rule about several fields is limited by it to writes that are about them.
//! `changed-beside=ROUTE:FIELD,FIELD` holds in an update that changes anything below the route other than these fields.

use std::cmp::Ordering;

use listwatch_wire::json::Value;

use super::forms::{self, TextForm};
use super::operand::Operand;
use super::pattern::LazyPattern;
use super::route::Route;
use crate::validate::freeze::set_back;

/// One condition on a struct and its stored form.
///
/// Evaluated for each object that has the struct, so patterns are compiled once, at their first use, and routes are parsed.
#[derive(Clone, Debug)]
pub(super) enum RuleCondition {
    /// The test passes, or does not if it is not `wanted`.
    Tested { subject: Operand, test: Test, wanted: bool },
    /// One of the terms is not as in the stored struct.
    Changed(Vec<RuleCondition>),
    /// Something below the route is not as in the stored struct, beside the fields that are `free` to change.
    ChangedBeside { route: Route, free: Vec<&'static str> },
}

/// The form of a condition, see the table above.
#[derive(Clone, Debug)]
pub(super) enum Test {
    Given,
    Present,
    Words(Vec<&'static str>),
    OtherThan(Vec<&'static str>),
    Matches(LazyPattern),
    /// `None` for a name that is not a form, which the check of the tables reports.
    Formed(Option<TextForm>),
    Compare {
        orders: &'static [Ordering],
        other: Operand,
    },
    Equal {
        other: Operand,
        same: bool,
    },
}

/// The structs that a condition looks at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scene<'a> {
    pub(super) new: &'a Value,
    /// The stored form of the same struct.
    pub(super) old: Option<&'a Value>,
    /// The struct of the block.
    pub(super) top: &'a Value,
}

/// The signs of comparisons, longer ones first.
const SIGNS: [(&str, &[Ordering]); 4] = [
    ("<=", &[Ordering::Less, Ordering::Equal]),
    (">=", &[Ordering::Greater, Ordering::Equal]),
    ("<", &[Ordering::Less]),
    (">", &[Ordering::Greater]),
];

impl RuleCondition {
    /// Reads a condition.
    pub(super) fn parse(text: &'static str, wanted: bool) -> Self {
        let condition = |subject: &'static str, test: Test| Self::Tested {
            subject: Operand::parse(subject),
            test,
            wanted,
        };
        if let Some((subject, pattern)) = text.split_once('~') {
            let test = match pattern.strip_prefix('~') {
                Some(form) => Test::Formed(forms::form(form)),
                None => Test::Matches(LazyPattern::new(pattern)),
            };
            return condition(subject, test);
        }
        for (sign, same) in [("==", true), ("!=", false)] {
            if let Some((subject, other)) = text.split_once(sign) {
                return condition(subject, Test::Equal { other: Operand::parse(other), same });
            }
        }
        for (sign, orders) in SIGNS {
            if let Some((subject, other)) = text.split_once(sign) {
                return condition(subject, Test::Compare { orders, other: Operand::parse(other) });
            }
        }
        match (text.split_once(':'), text.strip_suffix('?')) {
            (Some((subject, words)), _) => {
                let words = words.split('|').collect();
                match subject.strip_suffix('!') {
                    Some(subject) => condition(subject, Test::OtherThan(words)),
                    None => condition(subject, Test::Words(words)),
                }
            }
            (None, Some(subject)) => condition(subject, Test::Present),
            (None, None) => condition(text, Test::Given),
        }
    }

    /// Reads the terms of `changed=`.
    pub(super) fn parse_changed(terms: &'static str) -> Self {
        Self::Changed(terms.split(',').map(|term| Self::parse(term, true)).collect())
    }

    /// Reads the value of `changed-beside=`.
    pub(super) fn parse_changed_beside(text: &'static str) -> Self {
        let (route, fields) = text.split_once(':').unwrap_or((text, ""));
        Self::ChangedBeside { route: Route::parse(route), free: fields.split(',').collect() }
    }

    /// True if a struct meets the condition.
    ///
    /// A route that leads to several values holds if any of them does.
    pub(super) fn holds(&self, scene: Scene<'_>) -> bool {
        match self {
            Self::Tested { subject, test, wanted } => {
                let mut met = false;
                subject.each(scene, &mut |value| met |= test.is_met(value, scene, subject));
                met == *wanted
            }
            Self::Changed(terms) => terms.iter().any(|term| term.changes(scene)),
            Self::ChangedBeside { route, free } => scene.old.is_some_and(|old| {
                let old = route.value(old);
                set_back(route.value(scene.new), old, free) != *old
            }),
        }
    }

    /// True if the stored struct has another value at the route, or does not meet the condition alike.
    fn changes(&self, scene: Scene<'_>) -> bool {
        let Some(old) = scene.old else { return false };
        let before = Scene { new: old, old: None, top: old };
        match self {
            Self::Tested { subject, test: Test::Given, .. } => {
                subject.values(scene) != subject.values(before)
            }
            condition => condition.holds(scene) != condition.holds(before),
        }
    }

    /// The routes that begin at the struct of the condition itself, and whether its pattern can be read, for the check
    /// of the tables.
    #[cfg(test)]
    pub(super) fn routes(&self) -> Option<Vec<&Route>> {
        let (subject, test) = match self {
            Self::Changed(terms) => {
                return terms.iter().map(Self::routes).collect::<Option<Vec<_>>>().map(|all| all.concat());
            }
            Self::ChangedBeside { route, .. } => return Some(vec![route]),
            Self::Tested { subject, test, .. } => (subject, test),
        };
        let mut operands = vec![subject];
        match test {
            Test::Matches(pattern) if pattern.regex().is_none() => return None,
            Test::Formed(None) => return None,
            Test::Compare { other, .. } | Test::Equal { other, .. } => operands.push(other),
            _ => {}
        }
        Some(operands.into_iter().flat_map(Operand::routes).collect())
    }
}

impl Test {
    /// Evaluated per value: a route to several values leads to several evaluations.
    fn is_met(&self, value: &Value, scene: Scene<'_>, subject: &Operand) -> bool {
        match self {
            Self::Given => match value {
                Value::Null => false,
                Value::Array(list) => !list.is_empty(),
                value => value != "",
            },
            Self::Present => !value.is_null(),
            Self::Words(words) => match value {
                Value::String(text) => words.iter().any(|word| fits(word, text)),
                Value::Null => words.contains(&""),
                other => words.contains(&other.to_string().as_str()),
            },
            Self::OtherThan(words) => value.as_str().is_some_and(|text| !words.contains(&text)),
            Self::Formed(form) => form.is_some_and(|form| form.findings_of(value).is_empty()),
            Self::Matches(pattern) => {
                let number = if value.is_number() { value.to_string() } else { String::new() };
                let text = value.as_str().unwrap_or(&number);
                pattern.matches(text)
            }
            Self::Compare { orders, other } => {
                let mut met = false;
                other.each(scene, &mut |right| {
                    let order = order((subject, value), (other, right));
                    met |= order.is_some_and(|order| orders.contains(&order));
                });
                met
            }
            Self::Equal { other, same } => {
                let mut met = false;
                other.each(scene, &mut |right| met |= (value == right) == *same);
                met
            }
        }
    }
}

/// Compares two values as numbers, or as texts: stored times have one form, in which the order of texts is that of times.
fn order((left, value): (&Operand, &Value), (right, other): (&Operand, &Value)) -> Option<Ordering> {
    match (value, other) {
        (Value::String(value), Value::String(other)) => Some(value.as_str().cmp(other.as_str())),
        _ => Some(left.number(value)?.cmp(&right.number(other)?)),
    }
}

/// Compares with a word that may have a `*` at one end.
fn fits(word: &str, text: &str) -> bool {
    match (word.strip_suffix('*'), word.strip_prefix('*')) {
        (Some(start), _) => text.starts_with(start),
        (_, Some(end)) => text.ends_with(end),
        _ => word == text,
    }
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    #[test]
    fn conditions_look_at_fields_counts_and_the_stored_object() {
        let new = json!({"a": {"b": "system-x", "n": 3}, "empty": "", "list": [{"t": "x"}, {"t": "y"}], "no": false});
        let old = json!({"a": {"n": 5}});
        for (text, expected) in [
            ("a.b", true),
            ("empty", false),
            ("empty?", true),
            ("absent?", false),
            ("a.b:system-*", true),
            ("a.b:x|*-x", true),
            ("no:false", true),
            ("absent:", true),
            ("a.n<old.a.n", true),
            ("a.n>=3", true),
            ("absent<1", true),
            ("absent?<1", false),
            ("#list>1", true),
            ("#a.b==8", true),
            ("list[].t:y", true),
            ("list[].t:z", false),
            ("a.b=='system-x'", true),
            ("a.n!=old.a.n", true),
            ("old", true),
            ("+a+empty+absent==2", true),
            ("a.n~^[0-9]$", true),
            ("a.b~^x", false),
            ("a.n:3", true),
            ("list[].t!:x|y", false),
            ("list[].t!:x", true),
            ("absent!:x", false),
            ("list[0].t:x", true),
            ("a.b~~dns-label", true),
            ("a~~json-object", true),
            ("list~~json-object", false),
        ] {
            let scene = Scene { new: &new, old: Some(&old), top: &new };
            assert_eq!(RuleCondition::parse(text, true).holds(scene), expected, "{text}");
            assert_eq!(RuleCondition::parse(text, false).holds(scene), !expected, "unless {text}");
        }
        assert!(!RuleCondition::parse("old", true).holds(Scene { new: &new, old: None, top: &new }));
    }

    #[test]
    fn a_change_is_of_a_value_or_of_a_condition_and_of_a_stored_object() {
        let new = json!({"n": 4, "m": 1, "time": "2020-01-02T00:00:00Z"});
        let old = json!({"n": 3, "m": 1, "time": "2020-01-10T00:00:00Z"});
        let holds = |condition: RuleCondition, old| condition.holds(Scene { new: &new, old, top: &new });
        for (terms, expected) in
            [("m", false), ("m,n", true), ("n>3", true), ("n>5,m:1", false), ("none", false)]
        {
            assert_eq!(holds(RuleCondition::parse_changed(terms), Some(&old)), expected, "{terms}");
        }
        assert!(!holds(RuleCondition::parse_changed("n"), None));
        for (text, expected) in [(":n,time", false), (":n", true), ("none:n", false)] {
            assert_eq!(holds(RuleCondition::parse_changed_beside(text), Some(&old)), expected, "{text}");
            assert!(!holds(RuleCondition::parse_changed_beside(text), None));
        }
        assert!(holds(RuleCondition::parse("time<old.time", true), Some(&old)));
    }
}
