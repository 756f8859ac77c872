//! One rule applied to one value: the checks, and their errors in the words of kube-apiserver.
//!
//! The subtle part is emptiness: a field that is no pointer in Go cannot be told from its zero value, so `0`, `""` and
//! `false` count as absent there and as values elsewhere. The schema table knows which. Uniqueness uses sets, since
//! lists come from users and can be long. The walk that finds the places is `walk`; the language of the tables is
//! `parse`.

use std::collections::HashSet;

use listwatch_wire::json::{Map, Value};

use super::forms::TextForm;
use super::parse::{Empty, FieldRule, PathStep};
use super::walk::At;
use crate::field::Errors;
use crate::schema::{Field, Type};
use crate::tree::Tree;

/// Applies a rule; false if the value is missing and there is nothing more to say about it.
pub(super) fn whole(
    step: &PathStep,
    at: &At<'_>,
    field: Option<&'static Field>,
    errors: &mut Errors,
) -> bool {
    let detail = step.detail;
    match &step.rule {
        FieldRule::Required if is_empty(at.value, field) => {
            errors.required(at.path, detail.unwrap_or_default());
            return false;
        }
        FieldRule::Required => {}
        FieldRule::Enum { words, empty } => one_of(words, *empty, at, field, errors),
        FieldRule::Range { min, max, skip_zero } => {
            // A number that is no pointer in Go is zero where it is absent.
            let absent = field.filter(|field| !field.pointer && !*skip_zero).map(|_| 0);
            let Some(number) = at.value.as_i64().or(absent) else { return true };
            let unset = number == 0 && *skip_zero;
            if !unset && !(*min..=*max).contains(&number) {
                errors.invalid(at.path, number, detail.map_or_else(|| bounds(*min, *max), str::to_owned));
            }
        }
        FieldRule::Form { form, empty } => {
            if !is_passed_over(*empty, at.value, field) {
                formed(*form, at, detail, errors);
            }
        }
        FieldRule::MaxBytes(max) => {
            if at.value.as_str().is_some_and(|text| text.len() > *max) {
                errors.too_long(at.path, *max);
            }
        }
        FieldRule::MaxItems(max) => {
            let count = count(at.value);
            if count > *max {
                errors.too_many(at.path, count, *max);
            }
        }
        FieldRule::Unique { keys, at_element } => unique(keys, *at_element, at, errors),
        FieldRule::Immutable => changed(at, detail, errors),
        FieldRule::Forbidden if !is_empty(at.value, field) => {
            errors.forbidden(at.path, detail.unwrap_or_default());
        }
        FieldRule::Invalid if !is_empty(at.value, field) => {
            errors.invalid(at.path, at.value.clone(), detail.unwrap_or_default());
        }
        FieldRule::Forbidden | FieldRule::Invalid => {}
        FieldRule::OneOf(fields) => exactly_one(fields, at, errors),
        // The walk has seen to it, because it must not enter the others.
        FieldRule::FirstOf(_) => {}
        FieldRule::Check(check) => check(at, errors),
    }
    true
}

/// Absent; or the zero value of a type that has no other way to be absent.
fn is_empty(value: &Value, field: Option<&'static Field>) -> bool {
    let pointer = field.is_some_and(|field| field.pointer);
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty() && !pointer,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => {
            fields.is_empty() && (!pointer || field.is_some_and(|field| matches!(field.ty, Type::Map(_))))
        }
        Value::Number(number) => number.as_i64() == Some(0) && field.is_some() && !pointer,
        Value::Bool(flag) => !flag && field.is_some() && !pointer,
    }
}

/// True if a rule about text has nothing to say about this one.
fn is_passed_over(empty: Empty, value: &Value, field: Option<&'static Field>) -> bool {
    match empty {
        Empty::Checked => false,
        Empty::Absent => value.is_null() || value == "",
        // An element of a list and a key of a map are there, even if they are empty.
        Empty::AsTyped => value.is_null() || (value == "" && field.is_some_and(|field| !field.pointer)),
    }
}

fn count(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.len(),
        Value::Object(fields) => fields.len(),
        _ => 0,
    }
}

fn bounds(min: i64, max: i64) -> String {
    match (min, max) {
        (min, i64::MAX) => format!("must be greater than or equal to {min}"),
        (i64::MIN, max) => format!("must be less than or equal to {max}"),
        (min, max) => format!("must be between {min} and {max}, inclusive"),
    }
}

fn one_of(words: &[&str], empty: Empty, at: &At<'_>, field: Option<&'static Field>, errors: &mut Errors) {
    let text = at.value.as_str().unwrap_or_default();
    if !is_passed_over(empty, at.value, field) && !words.contains(&text) {
        errors.not_supported(at.path, text, words);
    }
}

fn formed(form: TextForm, at: &At<'_>, detail: Option<&str>, errors: &mut Errors) {
    let found = match form {
        TextForm::Text(check) => check(at.value.as_str().unwrap_or_default()),
        TextForm::Value(check) => check(at.value),
    };
    // The value of an absent field is the zero value in messages.
    let shown = || match (at.value, form) {
        (Value::Null, TextForm::Text(_)) => Value::from(""),
        (Value::Null, TextForm::Value(_)) => Value::from(0),
        (value, _) => value.clone(),
    };
    match detail {
        Some(detail) if !found.is_empty() => errors.invalid(at.path, shown(), detail),
        _ => {
            for text in found {
                errors.invalid(at.path, shown(), text);
            }
        }
    }
}

fn unique(keys: &[&'static str], at_element: bool, at: &At<'_>, errors: &mut Errors) {
    let items = at.value.as_array().map(Vec::as_slice).unwrap_or_default();
    if items.len() < 2 {
        return;
    }
    let mut seen = HashSet::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let place = at.path.index(index);
        match keys {
            [] => {
                if !seen.insert(item.to_string()) {
                    errors.duplicate(&place, item.clone());
                }
            }
            [key] => {
                let value = item.at(key);
                if !value.is_null() && value != "" && !seen.insert(value.to_string()) {
                    let place = if at_element { place } else { place.child(key) };
                    errors.duplicate(&place, value.clone());
                }
            }
            keys => {
                let identity: Map =
                    keys.iter().map(|key| ((*key).to_owned(), item.at(key).clone())).collect();
                let identity = Value::Object(identity);
                if !seen.insert(identity.to_string()) {
                    errors.duplicate(&place, identity);
                }
            }
        }
    }
}

fn changed(at: &At<'_>, detail: Option<&str>, errors: &mut Errors) {
    let Some(old) = at.old else { return };
    if at.value != old {
        errors.invalid(at.path, at.value.clone(), detail.unwrap_or("field is immutable"));
    }
}

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
