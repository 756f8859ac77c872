//! Events of both groups.

use listwatch_wire::json::Value;
use listwatch_wire::names::label_key_errors;

use super::checks;
use crate::field::Errors;
use crate::rules::{At, Check};
use crate::tree::Tree;

pub(super) const CHECKS: &[(&str, Check)] = checks![event_is_valid];

const MAX_SHORT: usize = 128;
const MAX_NOTE: usize = 1024;

/// Errors name the fields of the stored event; only the reporter is named as the request names it.
fn event_is_valid(at: &At<'_>, errors: &mut Errors) {
    let event = at.value;
    let newer =
        !event.has("involvedObject") && event.has("regarding") || event.text("apiVersion").contains('/');
    let involved = if newer { event.at("regarding") } else { event.at("involvedObject") };
    let (about, own) = (involved.text("namespace"), event.at("metadata").text("namespace"));
    let timed = event.has("eventTime");
    let fits = match timed {
        true => !about.is_empty() || matches!(own, "default" | "kube-system"),
        false if about.is_empty() => matches!(own, "" | "default"),
        false => about == own,
    };
    if !fits {
        let path = at.path.child("involvedObject");
        errors.invalid(&path.child("namespace"), about, "does not match event.namespace");
    }
    if timed {
        reporter(at, newer, errors);
    }
    if newer && at.old.is_none() {
        new_event(at, errors);
    }
    if let (true, Some(old)) = (newer, at.old) {
        stays(at, old, errors);
    }
}

/// Events with a time say who reports what.
fn reporter(at: &At<'_>, newer: bool, errors: &mut Errors) {
    let key = if newer { "reportingController" } else { "reportingComponent" };
    let (name, path) = (at.value.text(key), at.path.child(key));
    if name.is_empty() {
        errors.required(&path, "");
    }
    errors.invalid_all(&path, name, label_key_errors(name));
    for key in ["reportingInstance", "action", "reason"] {
        let (text, path) = (at.value.text(key), at.path.child(key));
        if text.is_empty() {
            errors.required(&path, "");
        }
        if text.len() > MAX_SHORT {
            errors.invalid(&path, "", format!("can have at most {MAX_SHORT} characters"));
        }
    }
    let note = at.value.text(if newer { "note" } else { "message" });
    if note.len() > MAX_NOTE {
        errors.invalid(&at.path.child("message"), "", format!("can have at most {MAX_NOTE} characters"));
    }
}

fn new_event(at: &At<'_>, errors: &mut Errors) {
    if !at.value.has("eventTime") {
        errors.required(&at.path.child("eventTime"), "");
    }
    series(at, errors);
    let kind = at.value.text("type");
    if !matches!(kind, "Normal" | "Warning") {
        errors.invalid(&at.path.child("type"), "", format!("has invalid value: {kind}"));
    }
    let given = |key: &str| match at.value.at(key) {
        Value::Object(fields) => fields.iter().any(|(_, value)| value != ""),
        value => !value.is_null() && value.as_i64() != Some(0),
    };
    for (key, shown) in [
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
        ("deprecatedCount", "count"),
        ("deprecatedSource", "source"),
    ] {
        if given(key) {
            errors.invalid(&at.path.child(shown), "", "needs to be unset");
        }
    }
}

/// A series has two events at least, and a time.
fn series(at: &At<'_>, errors: &mut Errors) {
    let series = at.value.at("series");
    if !series.is_null() && series.int("count").unwrap_or(0) < 2 {
        errors.invalid(&at.path.child("series.count"), "", "should be at least 2");
    }
    if !series.is_null() && !series.has("lastObservedTime") {
        errors.required(&at.path.child("series.lastObservedTime"), "");
    }
}

/// Only the series of an event may change.
fn stays(at: &At<'_>, old: &Value, errors: &mut Errors) {
    if at.value.at("series") != old.at("series") {
        series(at, errors);
    }
    for (key, shown) in [
        ("regarding", "involvedObject"),
        ("reason", "reason"),
        ("note", "message"),
        ("deprecatedSource", "source"),
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
        ("deprecatedCount", "count"),
        ("type", "type"),
        ("eventTime", "eventTime"),
        ("action", "action"),
        ("related", "related"),
        ("reportingController", "reportingController"),
        ("reportingInstance", "reportingInstance"),
    ] {
        errors.immutable(&at.path.child(shown), at.value.at(key), old.at(key));
    }
}
