//! Rules about fields that must stay, wherever they stand.

use listwatch_wire::json::Value;

use super::checks;
use crate::field::Errors;
use crate::rules::{At, Check};
use crate::tree::Tree;

pub(super) const CHECKS: &[(&str, Check)] =
    checks![updates_are_forbidden, count_is_not_decremented, wildcard_is_alone, choice_is_listed];

/// A field that stays, in kube-apiserver's second way of saying so.
fn updates_are_forbidden(at: &At<'_>, errors: &mut Errors) {
    if at.old.is_some_and(|old| old != at.value) {
        let place = at.path.to_string();
        errors.forbidden(at.path, format!("updates to {place} are forbidden."));
    }
}

fn count_is_not_decremented(at: &At<'_>, errors: &mut Errors) {
    let before = at.old.and_then(Value::as_i64);
    let now = at.value.as_i64().unwrap_or(0);
    if before.is_some_and(|before| now < before) {
        errors.invalid(at.path, now, "cannot be decremented");
    }
}

fn wildcard_is_alone(at: &At<'_>, errors: &mut Errors) {
    let items = at.value.as_array().map(Vec::as_slice).unwrap_or_default();
    if items.len() > 1 && items.iter().any(|item| item == "*") {
        let what = at.path.to_string();
        let what = what.rsplit('.').next().unwrap_or_default();
        let detail = format!("if '*' is present, must not specify other {what}");
        errors.invalid(at.path, at.value.clone(), detail);
    }
}

/// One of a few words, all of which are told where there is none.
fn choice_is_listed(at: &At<'_>, errors: &mut Errors) {
    let words: &[&str] = if at.parent.has("values") || at.parent.has("operator") {
        &["In", "NotIn"]
    } else {
        &["False", "True", "Unknown"]
    };
    match at.value.as_str().unwrap_or_default() {
        "" => errors.required(at.path, format!("valid values: {words:?}").replace(',', "")),
        word => errors.one_of(at.path, word, words),
    }
}
