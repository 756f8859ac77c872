//! One rule applied to one value: the checks, and their errors with the messages of kube-apiserver.
//!
//! The subtle part is emptiness: a field that is not a pointer in Go is indistinguishable from its zero value, so `0`, `""` and
//! `false` count as absent there and as values elsewhere. The schema table says which is which. Uniqueness uses sets, since
//! lists come from users and can be long. The walk that finds the places is `walk`; the language of the tables is
//! `parse`.

use std::collections::HashSet;
use std::ops::RangeInclusive;

use listwatch_wire::json::{Value, json};
use listwatch_wire::status::FieldErrorKind;

use super::forms::TextForm;
use super::route::Route;
use super::rows::{DuplicateReport, Empty, FieldRule, PathStep, ShownValue, Unique};
use super::walk::At;
use crate::field::Errors;
use crate::schema::{Field, FieldType};
use crate::tree::Tree;
use crate::{names, selector};

/// Applies a rule; false if the value is missing and no further rule applies.
///
/// `field` is the schema of the field; elements and keys have none, and are never absent.
///
/// Proportional to the value for uniqueness and forms, constant otherwise. Errors are added in the order of the
/// table, which is the order clients see.
pub(super) fn whole(
    step: &PathStep,
    at: &At<'_>,
    field: Option<&'static Field>,
    errors: &mut Errors,
) -> bool {
    if matches!(step.rule, FieldRule::Required) {
        let missing = is_empty(at.value, field);
        if missing {
            errors.required(at.path, detail(step, at));
        }
        return !missing;
    }
    check_value(step, at, field, errors);
    true
}

/// The message of a rule that has its own.
fn own_detail(step: &PathStep, at: &At<'_>) -> Option<String> {
    step.detail.as_ref().map(|message| message.fill(at))
}

fn detail(step: &PathStep, at: &At<'_>) -> String {
    own_detail(step, at).unwrap_or_default()
}

/// Applies a rule about a value, which may be absent.
fn check_value(step: &PathStep, at: &At<'_>, field: Option<&'static Field>, errors: &mut Errors) {
    match &step.rule {
        // Required is decided by the caller. The first of several is checked by the walk, which must not enter the other fields.
        FieldRule::Required | FieldRule::FirstOf(_) => {}
        FieldRule::Enum { empty, .. } | FieldRule::Form { empty, .. }
            if is_passed_over(*empty, at.value, field) => {}
        FieldRule::Forbidden | FieldRule::Invalid if is_empty(at.value, field) => {}
        FieldRule::Enum { words, .. } => enumerated(words, step, at, field, errors),
        FieldRule::Form { form, .. } => formed(form, at, step, errors),
        FieldRule::Range { min, max, skip_zero } => {
            if let Some(number) = outside(at.value, field, *min..=*max, *skip_zero) {
                errors.invalid(at.path, number, own_detail(step, at).unwrap_or_else(|| bounds(*min, *max)));
            }
        }
        FieldRule::MaxBytes(max) => limited_bytes(*max, at, errors),
        FieldRule::MaxItems(max) => limited_items(*max, at, errors),
        FieldRule::Unique(unique) => repeated(unique, at, step, errors),
        FieldRule::Immutable { shown } => immutable(*shown, step, at, errors),
        FieldRule::Forbidden => errors.forbidden(at.path, detail(step, at)),
        FieldRule::Invalid => errors.invalid(at.path, shown(step, at, field), detail(step, at)),
        FieldRule::OneOf(fields) => exactly_one(fields, at, errors),
        FieldRule::Union(fields) => union(fields, at, errors),
        FieldRule::SelectedBy { route, plain } => selected(route, *plain, at, errors),
        FieldRule::Inside(route) => inside(route, step, at, errors),
        FieldRule::Known { routes, wanted, empty } => {
            let applies = !at.value.is_null() && (*empty || at.value != "");
            let is_known = |text| at.known.contains(routes, at.top, text);
            if applies && at.value.as_str().is_some_and(is_known) != *wanted {
                not_found(step, at, field, errors);
            }
        }
        FieldRule::Error(kind) => error(*kind, step, at, field, errors),
        FieldRule::Unsupported(words) => {
            errors.not_supported_in_order(at.path, &plain_text(&shown(step, at, field)), words);
        }
        FieldRule::Check(check) => check(at, errors),
    }
}

fn limited_bytes(max: usize, at: &At<'_>, errors: &mut Errors) {
    if at.value.as_str().is_some_and(|text| text.len() > max) {
        errors.too_long(at.path, max);
    }
}

fn limited_items(max: usize, at: &At<'_>, errors: &mut Errors) {
    let count = count(at.value);
    if count > max {
        errors.too_many(at.path, count, max);
    }
}

/// Adds an error for labels that the selector at the route does not match.
fn selected(route: &Route, plain: bool, at: &At<'_>, errors: &mut Errors) {
    if !is_selected(route.value(at.top), plain, at.value) {
        errors.invalid(at.path, at.value.clone(), "`selector` does not match template `labels`");
    }
}

fn inside(route: &Route, step: &PathStep, at: &At<'_>, errors: &mut Errors) {
    if !is_inside(at.value, route.value(at.top)) {
        errors.invalid(at.path, at.value.clone(), detail(step, at));
    }
}

/// Adds the error of a line whose conditions are its rule.
fn error(
    kind: FieldErrorKind,
    step: &PathStep,
    at: &At<'_>,
    field: Option<&'static Field>,
    errors: &mut Errors,
) {
    if kind == FieldErrorKind::Invalid && matches!(step.shown, Some(ShownValue::None)) {
        errors.invalid_without_value(at.path, detail(step, at));
    } else {
        errors.push(kind, at.path, shown(step, at, field), detail(step, at));
    }
}

/// Adds an error if an update changes the value. The error of a written rule shows the value, that of a declared one does not.
fn immutable(is_shown: bool, step: &PathStep, at: &At<'_>, errors: &mut Errors) {
    if at.old.is_some_and(|old| at.value != old) {
        let value = if is_shown { shown(step, at, None) } else { Value::Null };
        let detail = own_detail(step, at).unwrap_or_else(|| "field is immutable".to_owned());
        errors.invalid(at.path, value, detail);
    }
}

/// Adds the error for a text that is not among those of other fields: Invalid if the rule has a message, else NotFound.
fn not_found(step: &PathStep, at: &At<'_>, field: Option<&'static Field>, errors: &mut Errors) {
    match &step.detail {
        Some(message) => errors.invalid(at.path, shown(step, at, field), message.fill(at)),
        None => errors.not_found(at.path, at.value.clone()),
    }
}

/// The number, if it is outside of a range.
fn outside(
    value: &Value,
    field: Option<&'static Field>,
    range: RangeInclusive<i64>,
    skip_zero: bool,
) -> Option<i64> {
    // A number that is not a pointer in Go is zero where it is absent.
    let absent = field.filter(|field| !field.pointer).map(|_| 0);
    let number = value.as_i64().or(absent)?;
    let exempt = number == 0 && skip_zero;
    (!exempt && !range.contains(&number)).then_some(number)
}

/// False for a range of addresses that is not a strict subset of the other one. Text that is not a range is another rule's.
fn is_inside(inner: &Value, outer: &Value) -> bool {
    let outer = outer.as_str().unwrap_or_default();
    let is_outside = |inner| names::is_cidr(inner) && !names::is_strict_subset(inner, outer);
    !inner.as_str().is_some_and(is_outside)
}

/// Adds an error unless the text is one of the words. The supported values are listed in the order of the table, as
/// kube-apiserver does, unless the rule has a message of its own.
fn enumerated(
    words: &[&'static str],
    step: &PathStep,
    at: &At<'_>,
    field: Option<&'static Field>,
    errors: &mut Errors,
) {
    let text = at.value.as_str().unwrap_or_default();
    if words.contains(&text) {
        return;
    }
    match &step.detail {
        Some(detail) => errors.invalid(at.path, shown(step, at, field), detail.fill(at)),
        None => errors.not_supported_in_order(at.path, text, words),
    }
}

/// True if a selector matches the labels. An absent LabelSelector selects nothing, an empty `plain` map everything.
fn is_selected(selector: &Value, plain: bool, labels: &Value) -> bool {
    match plain {
        true => selector::matches(&json!({"matchLabels": selector}), labels),
        false => !selector.is_null() && selector::matches(selector, labels),
    }
}

/// A value as an error about supported values quotes it: text without its JSON quotes, nothing for null.
fn plain_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.to_string(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// The value that an error shows: as the table says, or the one of the field. One that is not a pointer in Go is never absent.
fn shown(step: &PathStep, at: &At<'_>, field: Option<&'static Field>) -> Value {
    match (&step.shown, field) {
        (Some(ShownValue::Text(text)), _) => Value::from(*text),
        (Some(ShownValue::Null | ShownValue::None), _) => Value::Null,
        (Some(ShownValue::Number(number)), _) => Value::from(*number),
        (Some(ShownValue::Sibling(route)), _) => route.value(at.parent).clone(),
        (Some(ShownValue::Top(route)), _) => route.value(at.top).clone(),
        (None, Some(field)) if at.value.is_null() && !field.pointer => match field.ty {
            FieldType::String => Value::from(""),
            FieldType::Int32 | FieldType::Int64 => Value::from(0),
            _ => Value::Null,
        },
        _ => at.value.clone(),
    }
}

/// True if a value is absent, or is the zero value of a type that has no other way to be absent.
fn is_empty(value: &Value, field: Option<&'static Field>) -> bool {
    let pointer = field.is_some_and(|field| field.pointer);
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty() && !pointer,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => {
            fields.is_empty()
                && (!pointer || field.is_some_and(|field| matches!(field.ty, FieldType::Map(_))))
        }
        Value::Number(number) => number.as_i64() == Some(0) && field.is_some() && !pointer,
        Value::Bool(flag) => !flag && field.is_some() && !pointer,
    }
}

/// True if a rule about text does not apply to this one.
fn is_passed_over(empty: Empty, value: &Value, field: Option<&'static Field>) -> bool {
    match empty {
        Empty::Checked => false,
        Empty::Absent => value.is_null() || value == "",
        // Elements of lists and keys of maps are never absent, even if they are empty.
        Empty::AsTyped => value.is_null() || (value == "" && field.is_some_and(|field| !field.pointer)),
    }
}

/// The number of elements or entries; zero for anything else, which the type check reports.
fn count(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.len(),
        Value::Object(fields) => fields.len(),
        _ => 0,
    }
}

/// One text for both ends, or for the one that there is.
fn bounds(min: i64, max: i64) -> String {
    match (min, max) {
        (min, i64::MAX) => format!("must be greater than or equal to {min}"),
        (i64::MIN, max) => format!("must be less than or equal to {max}"),
        (min, max) => format!("must be between {min} and {max}, inclusive"),
    }
}

/// One error per finding. A form may show a part of the text instead of the whole.
fn formed(form: &TextForm, at: &At<'_>, step: &PathStep, errors: &mut Errors) {
    let found = form.findings_of(at.value);
    // The value of an absent field is the zero value in messages.
    let whole = || match (at.value, form) {
        _ if step.shown.is_some() => shown(step, at, None),
        (Value::Null, TextForm::Value(_)) => Value::from(0),
        (Value::Null, _) => Value::from(""),
        (value, _) => value.clone(),
    };
    match &step.detail {
        Some(detail) if !found.is_empty() => errors.invalid(at.path, whole(), detail.fill(at)),
        _ => {
            for finding in found {
                let shown = finding.part.map_or_else(whole, Value::from);
                errors.invalid(at.path, shown, finding.text);
            }
        }
    }
}

/// A hash set over the keys. Elements without keys are skipped by default, because another rule
/// requires them.
fn repeated(unique: &Unique, at: &At<'_>, step: &PathStep, errors: &mut Errors) {
    let items = at.value.as_array().map(Vec::as_slice).unwrap_or_default();
    if items.len() < 2 {
        return;
    }
    let mut seen = HashSet::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let place = at.path.index(index);
        let blank = |value: &Value| value.is_null() || value == "";
        let identity = match unique.keys.as_slice() {
            [] => item.clone(),
            [key] => text_of(item.at(key).clone()),
            keys => Value::Object(keys.iter().map(|key| ((*key).to_owned(), item.at(key).clone())).collect()),
        };
        let named = match (unique.report, unique.keys.as_slice()) {
            (DuplicateReport::Field(field), _) => !blank(item.at(field)) && item.int(field) != Some(0),
            (_, [_]) => unique.empty || !blank(&identity),
            _ => true,
        };
        if !named || seen.insert(identity.to_string()) {
            continue;
        }
        let (place, value) = match (unique.report, unique.keys.as_slice()) {
            (DuplicateReport::Item, _) => (place, item.clone()),
            (DuplicateReport::List, _) => (*at.path, text_of(identity)),
            (DuplicateReport::Field(field), _) => (place.child(field), item.at(field).clone()),
            (DuplicateReport::Key, [key]) => (place.child(key), text_of(identity)),
            _ => (place, text_of(identity)),
        };
        match &step.detail {
            Some(detail) => errors.invalid(&place, value, detail.fill(at)),
            None => errors.duplicate(&place, value),
        }
    }
}

/// An absent key is an empty one.
fn text_of(key: Value) -> Value {
    if key.is_null() { Value::from("") } else { key }
}

/// Messages list fields in the order of the table.
fn exactly_one(fields: &[&'static str], at: &At<'_>, errors: &mut Errors) {
    let given: Vec<&str> = fields.iter().copied().filter(|field| at.value.has(field)).collect();
    let listed = || fields.iter().map(|field| format!("`{field}`")).collect::<Vec<_>>().join(", ");
    match given.len() {
        0 => errors.invalid(at.path, "", format!("must specify one of: {}", listed())),
        1 => {}
        _ => {
            let given: Vec<String> = given.iter().map(|field| format!("{field:?}")).collect();
            let detail = format!("exactly one of {} must be specified", listed());
            errors.invalid(at.path, format!("{{{}}}", given.join(", ")), detail);
        }
    }
}

/// As the tags of a union word it. Empty text and `false` do not count as given.
fn union(fields: &[&'static str], at: &At<'_>, errors: &mut Errors) {
    let is_given = |field: &&&str| match at.value.at(field) {
        Value::String(text) => !text.is_empty(),
        Value::Bool(flag) => *flag,
        other => !other.is_null(),
    };
    let quoted = |field: &&str| format!("`{field}`");
    let given: Vec<String> = fields.iter().filter(is_given).map(quoted).collect();
    let listed: Vec<String> = fields.iter().map(quoted).collect();
    let detail = format!("exactly one of {} is required", listed.join(", "));
    match given.len() {
        0 => errors.required(at.path, detail),
        1 => {}
        _ => {
            let value = format!("{{{}}}", given.join(", "));
            errors.invalid(at.path, value, format!("{detail}, but multiple fields are set"));
        }
    }
}
