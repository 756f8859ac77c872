//! The rows of the rule tables, as [`super::parse`] reads them: rules, with their values, conditions and messages.
//!
//! Data only. `compile` joins the rows with the schema, `walk` finds the places, and `apply` checks a value against a
//! rule. A new word of the tables needs a variant of [`FieldRule`], its reading in `parse` and its error in `apply`.

use listwatch_wire::status::FieldErrorKind;

use super::condition::RuleCondition;
use super::forms::TextForm;
use super::message::Message;
use super::route::Route;
use super::walk::At;
use crate::field::Errors;

/// A rule that spans fields. It reads what is below its place and nothing else, so that it need not run where that is
/// unchanged.
pub(crate) type Check = fn(&At<'_>, &mut Errors);

/// A rule about one value.
///
/// Each variant is a word of the tables. The wording of its error is in `apply`, unless the line has its own.
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
    /// Elements that differ in these fields, or altogether.
    Unique(Unique),
    /// An update leaves the field as it is. The error shows the new value, but not where the rule is declared.
    Immutable { shown: bool },
    /// Not there.
    Forbidden,
    /// The field must be absent; the error is Invalid and shows its value.
    Invalid,
    /// Exactly one of the fields of a struct.
    OneOf(Vec<&'static str>),
    /// Exactly one of these fields, with the messages of declared unions and without counting empty values.
    Union(Vec<&'static str>),
    /// The first of the fields of a struct that is there, and none of the others.
    FirstOf(Vec<&'static str>),
    /// One of the values that routes from the struct of the block lead to; none of them if it is not `wanted`.
    Known { routes: Vec<Route>, wanted: bool, empty: bool },
    /// Labels that a selector matches: a LabelSelector, which selects nothing if it is absent, or a `plain` map of labels.
    SelectedBy { route: Route, plain: bool },
    /// A range of addresses that is a strict subset of another one.
    Inside(Route),
    /// An error wherever the conditions of the line hold.
    Error(FieldErrorKind),
    /// Always an error, which lists the supported values.
    Unsupported(Vec<&'static str>),
    /// A function.
    Check(Check),
}

/// Elements that must differ.
#[derive(Clone, Debug)]
pub(super) struct Unique {
    /// The key fields; none for the whole element.
    pub(super) keys: Vec<&'static str>,
    /// Elements without these fields are alike as well (`!`).
    pub(super) empty: bool,
    pub(super) report: DuplicateReport,
}

/// The place and the value of the error about a repeated element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DuplicateReport {
    /// The field and its value, or the element and its keys if they are several.
    Key,
    /// The element and the value of its key, as tags declare it (`:here`).
    Here,
    /// The element as a whole (`:item`).
    Item,
    /// The list and the value that is repeated in it (`:list`).
    List,
    /// One of several keys (`:FIELD`).
    Field(&'static str),
}

/// The treatment of empty text by a rule. A text that is a pointer in Go can be given and empty; any other is then absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Empty {
    /// As in Go: empty means absent unless the field is a pointer.
    AsTyped,
    /// As any other text, even where the field is absent (`!`).
    Checked,
    /// As absent (`?`).
    Absent,
}

/// The values that a rule is about.
/// `indexed` adds the index or key to the path of errors, which kube-apiserver does not do everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RuleTarget {
    Whole,
    Each { indexed: bool },
    Keys { indexed: bool },
}

/// One rule of a line with its values and message. Several on one line run in order, and stop at the first value that
/// is missing.
#[derive(Clone, Debug)]
pub(super) struct PathStep {
    pub(super) target: RuleTarget,
    pub(super) rule: FieldRule,
    /// The words of the error, where they are not those of the rule.
    pub(super) detail: Option<Message>,
    /// The value in the error, where it is not the one that was looked at.
    pub(super) shown: Option<ShownValue>,
}

/// A value to report in place of the invalid one.
#[derive(Clone, Debug)]
pub(super) enum ShownValue {
    Text(&'static str),
    Number(i64),
    Null,
    /// The error shows no value.
    None,
    /// A value below the struct that the field is in (`.ROUTE`); that struct if the route is empty.
    Sibling(Route),
    /// A value below the struct of the block (`/ROUTE`).
    Top(Route),
}

/// The rules of one line of a table, which hold under the same conditions.
#[derive(Clone, Debug, Default)]
pub(super) struct RuleLine {
    /// All must hold. They are evaluated on the struct that the row belongs to.
    pub(super) guards: Vec<RuleCondition>,
    /// Conditions on the struct at the end of a route.
    pub(super) local: Vec<RuleCondition>,
    pub(super) steps: Vec<PathStep>,
    /// Nothing below the field is checked where the guards hold.
    pub(super) skip: bool,
}

/// All rules of the tables for one field, or (`:`) for a struct.
///
/// Rows are merged by name over both tables: written rules come before declared ones.
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
    /// True if the field is immutable in every object.
    pub(super) fn is_immutable(&self) -> bool {
        let is = |step: &PathStep| matches!(step.rule, FieldRule::Immutable { .. });
        self.lines.iter().any(|line| line.guards.is_empty() && line.steps.iter().any(is))
    }

    /// Leaves the values of changed fields out of errors: a declared rule takes the place of a written one.
    pub(super) fn hide_immutable(&mut self) {
        let steps =
            self.lines.iter_mut().filter(|line| line.guards.is_empty()).flat_map(|line| &mut line.steps);
        for step in steps {
            if let FieldRule::Immutable { shown } = &mut step.rule {
                *shown = false;
            }
        }
    }

    /// True if the row has such a rule already: what is declared is often written too.
    ///
    /// A rule that is both declared and written would report its error twice.
    pub(super) fn has_rule(&self, step: &PathStep, guards: &[RuleCondition]) -> bool {
        let same = |known: &PathStep| {
            known.target == step.target
                && std::mem::discriminant(&known.rule) == std::mem::discriminant(&step.rule)
                && !matches!(step.rule, FieldRule::Check(_) | FieldRule::Invalid | FieldRule::Forbidden)
        };
        guards.is_empty()
            && self.lines.iter().any(|line| line.guards.is_empty() && line.steps.iter().any(same))
    }
}
