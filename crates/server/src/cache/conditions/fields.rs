//! [`FieldConditions`]: a field selector, compiled.
//!
//! A kind has few selectable fields, so terms are grouped by field and not searched. The places of fields in objects are
//! [`FieldLookup`]s, which the registry makes; label selectors are [`super`].

use std::sync::Arc;

use listwatch_wire::selector::FieldSelector;
use memchr::memmem;

use super::ValueCondition;
use crate::cache::filter::FieldLookup;
use crate::cache::object::CachedObject;
use crate::cache::subject::MatchSubject;

/// A field selector, compiled: one condition per selectable field.
#[derive(Debug)]
pub(in crate::cache) struct FieldConditions {
    conditions: Box<[FieldCondition]>,
    /// The selector as text, equal for selectors that are and that find their fields in the same places.
    pub(in crate::cache) text: Box<str>,
}

/// All terms about one field.
#[derive(Debug)]
struct FieldCondition {
    field: Box<str>,
    place: FieldPlace,
    values: ValueCondition,
    /// The values that are excluded, if that is all that is asked for: an object whose bytes have none of them is selected, and the
    /// field is not looked for.
    excluded: Option<Box<[memmem::Finder<'static>]>>,
}

/// The excluded values that are searched for in an object. With more of them, finding the field costs less.
const SEARCHED: usize = 4;

/// The place of a field in an object.
#[derive(Debug)]
enum FieldPlace {
    Name,
    Namespace,
    Lookup(FieldLookup),
    /// No object has it.
    Nowhere,
}

impl FieldConditions {
    /// Compiles a selector; `None` if it selects everything. `known` has the positions of selectable fields.
    pub(in crate::cache) fn new(selector: &FieldSelector, known: &[FieldLookup]) -> Option<Arc<Self>> {
        let mut terms: Vec<_> = selector.terms().iter().collect();
        terms.sort_by(|a, b| a.field.cmp(&b.field));
        let by_field = terms.chunk_by(|a, b| a.field == b.field);
        let conditions: Box<[FieldCondition]> = by_field
            .filter_map(|terms| {
                let field = terms.first()?.field.as_str();
                let mut values = ValueCondition::default();
                for term in terms {
                    match term.negated {
                        true => values.none_of.push(term.value.as_str().into()),
                        false => values.narrow(vec![term.value.as_str().into()]),
                    }
                }
                values.sort();
                Some(FieldCondition::new(field.into(), FieldPlace::of(field, known), values))
            })
            .collect();
        (!conditions.is_empty()).then(|| Arc::new(Self { conditions, text: selector.to_string().into() }))
    }

    /// Returns true if the object is selected.
    pub(in crate::cache) fn matches(&self, object: &CachedObject) -> bool {
        let field = |path: &str| object.field(path);
        self.conditions.iter().all(|condition| condition.allows(object, &field))
    }

    /// Returns true if the object matches, with fields that were read for other filters.
    pub(in crate::cache) fn matches_subject(&self, subject: &MatchSubject<'_>) -> bool {
        let field = |path: &str| subject.field(path);
        self.conditions.iter().all(|condition| condition.allows(subject.object, &field))
    }

    /// The value a field must have exactly.
    pub(in crate::cache) fn exact(&self, field: &str) -> Option<&str> {
        let condition = self.conditions.iter().find(|condition| &*condition.field == field)?;
        condition.values.one_of.as_ref()?.first().map(|value| &**value)
    }

    /// The paths of the fields: two versions of a kind may find the same field in different places.
    pub(in crate::cache) fn paths(&self) -> impl Iterator<Item = &str> {
        self.conditions.iter().filter_map(|condition| match &condition.place {
            FieldPlace::Lookup(lookup) => Some(&*lookup.path),
            _ => None,
        })
    }
}

impl FieldCondition {
    /// Prepares a search of the bytes if the condition only excludes a few values: most objects then match without being
    /// parsed.
    fn new(field: Box<str>, place: FieldPlace, values: ValueCondition) -> Self {
        let excluded = match (&place, &values) {
            (FieldPlace::Lookup(lookup), ValueCondition { one_of: None, none_of })
                if none_of.len() <= SEARCHED
                    && none_of.iter().all(|value| !value.is_empty() && **value != *lookup.absent) =>
            {
                Some(none_of.iter().map(|value| memmem::Finder::new(value.as_bytes()).into_owned()).collect())
            }
            _ => None,
        };
        Self { field, place, values, excluded }
    }

    /// Returns true if the value of the field is selected. `field` reads a path of the object.
    fn allows<'a>(&'a self, object: &'a CachedObject, field: &dyn Fn(&str) -> Option<&'a str>) -> bool {
        let has_none = |excluded: &[memmem::Finder<'_>]| {
            excluded.iter().all(|value| value.find(object.stored()).is_none())
        };
        self.excluded.as_deref().is_some_and(has_none) || self.values.allows(self.place.value(object, field))
    }
}

impl FieldPlace {
    /// A field that is not known has been refused for clients; a view made otherwise finds it nowhere.
    fn of(field: &str, known: &[FieldLookup]) -> Self {
        match field {
            "metadata.name" => Self::Name,
            "metadata.namespace" => Self::Namespace,
            _ => known
                .iter()
                .find(|lookup| &*lookup.label == field)
                .map_or(Self::Nowhere, |lookup| Self::Lookup(lookup.clone())),
        }
    }

    /// The value that a selector compares: never absent for a selectable field, as in kube-apiserver, where an absent field is
    /// its zero value. `field` reads a path of the object.
    fn value<'a>(&'a self, object: &'a CachedObject, field: &dyn Fn(&str) -> Option<&'a str>) -> &'a str {
        match self {
            Self::Name => object.name(),
            Self::Namespace => object.namespace(),
            Self::Nowhere => "",
            Self::Lookup(lookup) => {
                let value = field(&lookup.path).filter(|value| !value.is_empty());
                let other = || lookup.fallback.as_deref().and_then(field);
                value.or_else(other).unwrap_or(&lookup.absent)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_value_elsewhere_in_an_object_is_not_excluded() {
        let lookup = FieldLookup {
            label: "status.phase".into(),
            path: "status.phase".into(),
            fallback: None,
            absent: "Pending".into(),
        };
        let object = |status: &str| {
            let value = format!(r#"{{"kind":"Pod","metadata":{{"name":"Failed"}},"status":{status}}}"#);
            CachedObject::new("/registry/pods/n/a".into(), 15, value.into(), listwatch_wire::Revision(1))
                .unwrap()
        };
        let matches = |selector: &str, status: &str| {
            let selector: FieldSelector = selector.parse().unwrap();
            let known = std::slice::from_ref(&lookup);
            FieldConditions::new(&selector, known).unwrap().matches(&object(status))
        };
        let live = "status.phase!=Failed,status.phase!=Succeeded";
        assert!(matches(live, "{}") && matches(live, r#"{"phase":"Running"}"#));
        assert!(!matches(live, r#"{"phase":"Failed"}"#) && !matches(live, r#"{"phase":"Succeeded"}"#));
        assert!(
            !matches("status.phase!=Pending", "{}") && matches("status.phase!=Pending", r#"{"phase":"x"}"#)
        );
        assert!(!matches("status.phase!=x,status.phase=y", r#"{"phase":"z"}"#));
    }
}
