//! [`LabelConditions`] and [`FieldConditions`]: selectors compiled for matching many objects.
//!
//! A selector may have thousands of requirements; a list matches it with every object, and a change is matched with every
//! view. So all requirements on one key become one condition, conditions are found by their key, and the cost of a match
//! depends on the object's own labels, or on the few selectable fields, and not on the length of the selector.
//!
//! Parsing and the meaning of one requirement are in `listwatch_wire::selector`.

mod fields;

use std::sync::Arc;

use listwatch_wire::selector::{LabelSelector, Operator, Requirement};

pub(super) use fields::FieldConditions;

/// A label selector, compiled: one condition per key, found by binary search. An object matches if every condition
/// that needs a label meets one, and no label fails its condition.
#[derive(Debug)]
pub(super) struct LabelConditions {
    /// Sorted by key, each key once.
    conditions: Box<[LabelCondition]>,
    /// The number of conditions that only a label meets.
    required: usize,
    /// The selector as text, equal for equal selectors.
    pub(super) text: Box<str>,
}

/// All requirements on one label. A long selector has thousands of labels, most with a requirement of presence or absence only.
#[derive(Debug)]
struct LabelCondition {
    key: Box<str>,
    required: bool,
    forbidden: bool,
    /// The condition on the value, if there is one.
    value: Option<Box<LabelValueCondition>>,
}

/// All requirements on the value of one label.
#[derive(Debug, Default)]
struct LabelValueCondition {
    values: ValueCondition,
    above: Option<i64>,
    below: Option<i64>,
}

/// The values that something may have.
#[derive(Debug, Default)]
struct ValueCondition {
    /// Sorted; `None` for any value.
    one_of: Option<Vec<Box<str>>>,
    /// Sorted.
    none_of: Vec<Box<str>>,
}

/// A label that every object has which a selector selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NeededLabel<'a> {
    pub(super) key: &'a str,
    /// The value, if only one will do.
    pub(super) value: Option<&'a str>,
}

impl LabelConditions {
    /// Compiles a selector; `None` if it selects everything.
    pub(super) fn new(selector: &LabelSelector) -> Option<Arc<Self>> {
        // Sorted by key already.
        let by_key = selector.requirements().chunk_by(|a, b| a.key() == b.key());
        let conditions: Box<[LabelCondition]> = by_key.filter_map(LabelCondition::new).collect();
        let required = conditions.iter().filter(|condition| condition.required).count();
        let text = selector.to_string().into();
        (!conditions.is_empty()).then(|| Arc::new(Self { conditions, required, text }))
    }

    /// Returns true if an object with these labels, each key once, is selected.
    pub(super) fn matches<'a>(&self, labels: impl Iterator<Item = (&'a str, &'a str)>) -> bool {
        let mut met = 0;
        for (key, value) in labels {
            let Ok(at) = self.conditions.binary_search_by(|condition| (*condition.key).cmp(key)) else {
                continue;
            };
            let Some(condition) = self.conditions.get(at) else { continue };
            if !condition.allows(value) {
                return false;
            }
            met += usize::from(condition.required);
        }
        met == self.required
    }

    /// Returns true if labels match that are sorted by key. The shorter side is walked and the longer one searched from where the last search
    /// ended, so that neither thousands of labels nor thousands of conditions cost more than there are of the other.
    pub(super) fn matches_sorted(&self, labels: &[(&str, &str)]) -> bool {
        match () {
            () if self.required > labels.len() => false,
            () if labels.len() <= self.conditions.len() => self.meet_all(labels),
            () => self.all_met(labels),
        }
    }

    /// Looks for the condition of each label.
    fn meet_all(&self, labels: &[(&str, &str)]) -> bool {
        let (mut met, mut rest) = (0, &*self.conditions);
        for (key, value) in labels {
            rest = skip(rest, |condition| *condition.key < **key);
            let Some(condition) = rest.first().filter(|condition| *condition.key == **key) else { continue };
            if !condition.allows(value) {
                return false;
            }
            met += usize::from(condition.required);
        }
        met == self.required
    }

    /// Looks for the label of each condition.
    fn all_met(&self, labels: &[(&str, &str)]) -> bool {
        let mut rest = labels;
        self.conditions.iter().all(|condition| {
            rest = skip(rest, |(key, _)| **key < *condition.key);
            match rest.first().filter(|(key, _)| **key == *condition.key) {
                Some((_, value)) => condition.allows(value),
                None => !condition.required,
            }
        })
    }

    /// The narrowest label that what is selected must have.
    pub(super) fn needed(&self) -> Option<NeededLabel<'_>> {
        let needed = self.conditions.iter().filter(|condition| condition.required).map(|condition| {
            let one_of = condition.value.as_ref().and_then(|value| value.values.one_of.as_deref());
            let value = match one_of {
                Some([only]) => Some(&**only),
                _ => None,
            };
            NeededLabel { key: &condition.key, value }
        });
        needed.max_by_key(|label| label.value.is_some())
    }
}

/// Skips the items of a sorted list for which `before` holds, in steps that double: what is near is found at once.
fn skip<T>(items: &[T], before: impl Fn(&T) -> bool) -> &[T] {
    let mut step = 1;
    while items.get(step - 1).is_some_and(&before) {
        step *= 2;
    }
    let (from, to) = (step / 2, (step - 1).min(items.len()));
    let found = items.get(from..to).unwrap_or_default().partition_point(before);
    items.get(from + found..).unwrap_or_default()
}

impl LabelCondition {
    /// Combines the requirements on one label into one condition, which is then checked once per event.
    fn new(requirements: &[Requirement]) -> Option<Self> {
        let key = requirements.first()?.key().into();
        let mut all = Self { key, required: false, forbidden: false, value: None };
        requirements.iter().for_each(|requirement| all.add(requirement));
        if let Some(value) = &mut all.value {
            value.values.sort();
        }
        Some(all)
    }

    /// A label may be absent only if all requirements on it are met by its absence.
    fn add(&mut self, requirement: &Requirement) {
        match requirement.operator() {
            Operator::Exists => {}
            Operator::DoesNotExist => self.forbidden = true,
            _ => self.value.get_or_insert_default().add(requirement),
        }
        self.required |=
            !matches!(requirement.operator(), Operator::DoesNotExist | Operator::NotEquals | Operator::NotIn);
    }

    /// For a label that is present. For an absent one `required` decides.
    fn allows(&self, value: &str) -> bool {
        !self.forbidden && self.value.as_ref().is_none_or(|condition| condition.allows(value))
    }
}

impl LabelValueCondition {
    /// Several requirements on one key narrow each other: lists are intersected, bounds take the stricter one.
    fn add(&mut self, requirement: &Requirement) {
        let values = || requirement.values().iter().map(|value| Box::from(value.as_str()));
        // A value that is not a number sets no bound here; the requirement itself matches no object.
        let bound = || requirement.values().first().and_then(|value| value.parse::<i64>().ok());
        match requirement.operator() {
            Operator::Exists | Operator::DoesNotExist => {}
            Operator::Equals | Operator::DoubleEquals | Operator::In => {
                self.values.narrow(values().collect())
            }
            Operator::NotEquals | Operator::NotIn => self.values.none_of.extend(values()),
            Operator::GreaterThan => self.above = self.above.max(Some(bound().unwrap_or(i64::MAX))),
            Operator::LessThan => {
                let bound = bound().unwrap_or(i64::MIN);
                self.below = Some(self.below.map_or(bound, |below| below.min(bound)));
            }
        }
    }

    /// Numbers are parsed only if there is a bound. A value that is not a number meets none.
    fn allows(&self, value: &str) -> bool {
        let number = || value.parse::<i64>().ok();
        self.values.allows(value)
            && self.above.is_none_or(|bound| number().is_some_and(|number| number > bound))
            && self.below.is_none_or(|bound| number().is_some_and(|number| number < bound))
    }
}

impl ValueCondition {
    /// Keeps only these, which are sorted.
    fn narrow(&mut self, values: Vec<Box<str>>) {
        match &mut self.one_of {
            Some(before) => before.retain(|value| values.binary_search(value).is_ok()),
            none => *none = Some(values),
        }
    }

    /// For binary search. `one_of` is sorted by the parser of selectors.
    fn sort(&mut self) {
        self.none_of.sort_unstable();
        self.none_of.dedup();
    }

    fn allows(&self, value: &str) -> bool {
        let listed = |values: &[Box<str>]| values.binary_search_by(|other| (**other).cmp(value)).is_ok();
        self.one_of.as_deref().is_none_or(listed) && !listed(&self.none_of)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn requirement() -> impl Strategy<Value = String> {
        let key = prop::sample::select(vec!["a", "b", "c"]);
        let value = prop::sample::select(vec!["", "x", "y", "5", "7", "03"]);
        (key, 0..9u8, value.clone(), value).prop_map(|(key, operator, v, w)| match operator {
            0 => key.to_owned(),
            1 => format!("!{key}"),
            2 => format!("{key}={v}"),
            3 => format!("{key}=={v}"),
            4 => format!("{key}!={v}"),
            5 => format!("{key} in ({v},{w})"),
            6 => format!("{key} notin ({v},{w})"),
            7 => format!("{key}>{}", v.len() * 5),
            _ => format!("{key}<{}", w.len() * 6),
        })
    }

    proptest! {
        /// The compiled form selects what the requirements select one by one.
        #[test]
        fn compiled_selectors_mean_what_they_say(
            requirements in prop::collection::vec(requirement(), 1..6),
            labels in prop::collection::btree_map("[abc]", prop::sample::select(vec!["", "x", "y", "5", "7", "03", "9"]), 0..4),
        ) {
            let selector: LabelSelector = requirements.join(",").parse().unwrap();
            let expected = selector.matches(|key| labels.get(key).copied());
            let compiled = LabelConditions::new(&selector).unwrap();
            prop_assert_eq!(compiled.matches(labels.iter().map(|(key, value)| (key.as_str(), *value))), expected);
            let sorted: Vec<_> = labels.iter().map(|(key, value)| (key.as_str(), *value)).collect();
            prop_assert_eq!(compiled.matches_sorted(&sorted), expected);
            if let (true, Some(needed)) = (expected, compiled.needed()) {
                let value = labels.get(needed.key).copied();
                prop_assert!(value.is_some() && needed.value.is_none_or(|one| value == Some(one)));
            }
        }
    }

    /// A list with 8,000 requirements held up a worker for 40 seconds: each looked through the labels of each object.
    #[test]
    fn a_long_selector_costs_no_more_than_the_labels_of_an_object() {
        for one in [|n| format!("a!=v{n}"), |n| format!("!a{n}"), |n| format!("b{n}")] {
            let selector: LabelSelector = (0..8000).map(one).collect::<Vec<_>>().join(",").parse().unwrap();
            let compiled = LabelConditions::new(&selector).unwrap();
            let looked = std::cell::Cell::new(0);
            let labels = [("a", "x"), ("z", "y")].into_iter().inspect(|_| looked.set(looked.get() + 1));
            compiled.matches(labels);
            assert!(looked.get() <= 2, "each label is looked at once");
        }
    }
}
