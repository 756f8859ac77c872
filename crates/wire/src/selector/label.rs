//! [`LabelSelector`]: conditions on labels, in the form of a query (`a in (b,c),!d`).
//!
//! The form inside objects (`matchLabels`, `matchExpressions`) is in `listwatch_kinds`. All requirements must hold. An
//! absent label meets the negative ones: `a!=b` selects objects without `a`. The grammar is `label_parser`.

use std::fmt;
use std::str::FromStr;

use super::label_parser;
use crate::names::{label_key_errors, label_value_errors};
use crate::status::{FieldError, aggregate};

/// A conjunction of [`Requirement`]s on labels; the empty one selects everything.
///
/// ```
/// use listwatch_wire::selector::LabelSelector;
///
/// let selector: LabelSelector = "app=web,tier notin (db, cache),!legacy".parse()?;
/// let labels = |key: &str| (key == "app").then_some("web");
/// assert!(selector.matches(labels));
/// assert_eq!(selector.to_string(), "app=web,!legacy,tier notin (cache,db)");
/// # Ok::<(), listwatch_wire::selector::ParseLabelSelectorError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[doc(alias = "labels.Selector")]
pub struct LabelSelector {
    /// Sorted by key, so that equal selectors print alike.
    requirements: Vec<Requirement>,
}

/// The error of a label selector; the text is kube-apiserver's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseLabelSelectorError(pub String);

impl LabelSelector {
    /// The selector that holds if all requirements do.
    #[must_use]
    pub fn new(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Self { requirements }
    }

    /// Returns true if everything is selected.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The requirements, sorted by key.
    ///
    /// In the canonical order, which is by key.
    #[must_use]
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Returns true if an object with these labels is selected.
    pub fn matches<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements.iter().all(|r| r.matches(label(&r.key)))
    }

    /// The value a key must have exactly, if the selector fixes it: an index by label value can use it.
    ///
    /// The watch cache finds objects by it, through an index.
    ///
    /// ```
    /// use listwatch_wire::selector::LabelSelector;
    ///
    /// let selector: LabelSelector = "app=web,tier in (a,b)".parse().unwrap();
    /// assert_eq!((selector.exact("app"), selector.exact("tier")), (Some("web"), None));
    /// ```
    #[must_use]
    pub fn exact(&self, key: &str) -> Option<&str> {
        self.requirements.iter().filter(|r| r.key == key).find_map(Requirement::exact)
    }
}

impl FromStr for LabelSelector {
    type Err = ParseLabelSelectorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        label_parser::parse(text).map(Self::new).map_err(ParseLabelSelectorError)
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, requirement) in self.requirements.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

/// The relation of a label to the values of a [`Requirement`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    /// `key`
    Exists,
    /// `!key`
    DoesNotExist,
    /// `key=value`
    Equals,
    /// `key==value`, the same as [`Operator::Equals`]
    DoubleEquals,
    /// `key!=value`; holds without the label, too
    NotEquals,
    /// `key in (a,b)`
    In,
    /// `key notin (a,b)`; holds without the label, too
    NotIn,
    /// `key>5`, on integers
    GreaterThan,
    /// `key<5`, on integers
    LessThan,
}

/// One condition on one label.
///
/// ```
/// use listwatch_wire::selector::{Operator, Requirement};
///
/// let tier = Requirement::new("tier", Operator::NotIn, vec!["db".into(), "cache".into()])?;
/// assert_eq!(tier.to_string(), "tier notin (cache,db)");
/// assert!(tier.matches(Some("web")) && !tier.matches(Some("db")));
/// // A label that is absent is none of them.
/// assert!(tier.matches(None));
/// // `In` without a value could never match and is an error.
/// assert!(Requirement::new("tier", Operator::In, Vec::new()).is_err());
/// # Ok::<(), listwatch_wire::selector::ParseLabelSelectorError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Requirement {
    key: String,
    operator: Operator,
    /// Sorted and without repetition.
    values: Vec<String>,
}

impl Requirement {
    /// A requirement with a valid key and as many valid values as its operator takes.
    ///
    /// # Errors
    /// All errors, with kube-apiserver's text.
    pub fn new(
        key: &str,
        operator: Operator,
        mut values: Vec<String>,
    ) -> Result<Self, ParseLabelSelectorError> {
        values.sort();
        values.dedup();
        let errors = requirement_errors(key, operator, &values);
        if errors.is_empty() {
            Ok(Self { key: key.to_owned(), operator, values })
        } else {
            Err(ParseLabelSelectorError(aggregate(errors.iter().map(ToString::to_string))))
        }
    }

    /// The label's key.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The operator.
    #[must_use]
    pub fn operator(&self) -> Operator {
        self.operator
    }

    /// The values, sorted.
    #[must_use]
    pub fn values(&self) -> &[String] {
        &self.values
    }

    /// Returns true if the value of the label, or its absence, meets the requirement.
    #[must_use]
    pub fn matches(&self, label: Option<&str>) -> bool {
        let listed = |value: &str| self.values.binary_search_by(|v| v.as_str().cmp(value)).is_ok();
        match self.operator {
            Operator::Exists => label.is_some(),
            Operator::DoesNotExist => label.is_none(),
            Operator::Equals | Operator::DoubleEquals | Operator::In => label.is_some_and(listed),
            Operator::NotEquals | Operator::NotIn => !label.is_some_and(listed),
            Operator::GreaterThan => self.numbers(label).is_some_and(|(label, bound)| label > bound),
            Operator::LessThan => self.numbers(label).is_some_and(|(label, bound)| label < bound),
        }
    }

    fn numbers(&self, label: Option<&str>) -> Option<(i64, i64)> {
        Some((label?.parse().ok()?, self.values.first()?.parse().ok()?))
    }

    fn exact(&self) -> Option<&str> {
        match (self.operator, self.values.as_slice()) {
            (Operator::Equals | Operator::DoubleEquals | Operator::In, [only]) => Some(only),
            _ => None,
        }
    }
}

/// The errors of a requirement, in the order and with the paths of apimachinery's `NewRequirement`.
fn requirement_errors(key: &str, operator: Operator, values: &[String]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let key_errors = label_key_errors(key);
    if !key_errors.is_empty() {
        errors.push(FieldError::invalid("key", key, key_errors.join("; ")));
    }
    errors
        .extend(value_count_error(operator, values).map(|text| FieldError::invalid("values", values, text)));
    for (i, value) in values.iter().enumerate() {
        if matches!(operator, Operator::GreaterThan | Operator::LessThan)
            && crate::go::parse_int(value).is_err()
        {
            let text = "for 'Gt', 'Lt' operators, the value must be an integer";
            errors.push(FieldError::invalid(format!("values[{i}]"), value.as_str(), text));
        }
    }
    for (i, value) in values.iter().enumerate() {
        let value_errors = label_value_errors(value);
        if !value_errors.is_empty() {
            errors.push(FieldError::invalid(
                format!("values[{i}][{key}]"),
                value.as_str(),
                value_errors.join("; "),
            ));
        }
    }
    errors
}

/// The error about the number of values, if it does not fit the operator.
fn value_count_error(operator: Operator, values: &[String]) -> Option<&'static str> {
    match (operator, values.len()) {
        (Operator::In | Operator::NotIn, 0) => Some("for 'in', 'notin' operators, values set can't be empty"),
        (Operator::Equals | Operator::DoubleEquals | Operator::NotEquals, n) if n != 1 => {
            Some("exact-match compatibility requires one single value")
        }
        (Operator::GreaterThan | Operator::LessThan, n) if n != 1 => {
            Some("for 'Gt', 'Lt' operators, exactly one value is required")
        }
        (Operator::Exists | Operator::DoesNotExist, n) if n != 0 => {
            Some("values set must be empty for exists and does not exist")
        }
        _ => None,
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, values) = (&self.key, self.values.join(","));
        match self.operator {
            Operator::Exists => write!(f, "{key}"),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::DoubleEquals => write!(f, "{key}=={values}"),
            Operator::NotEquals => write!(f, "{key}!={values}"),
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::GreaterThan => write!(f, "{key}>{values}"),
            Operator::LessThan => write!(f, "{key}<{values}"),
        }
    }
}
