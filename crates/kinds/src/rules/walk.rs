//! [`RuleWalk`]: visits every place of an object that has rules and differs from the stored object.
//!
//! Parts that the new object shares with the old one are passed over by comparing pointers, so an update costs what it
//! changes; they were valid when they were stored. The order of visits is that of kube-apiserver's validation
//! functions, because the order of field errors is visible. List elements are compared by index. A required value that
//! is missing ends the rules of its line, except for immutability.

use listwatch_wire::json::Value;

use super::compile::{FieldShape, FieldStop, RouteStop, RuleStop, SetId};
use super::condition::{RuleCondition, Scene};
use super::known::KnownTexts;
use super::message::Message;
use super::rows::{FieldRule, PathStep, RuleLine, RuleTarget};
use super::sets::RuleSets;
use super::{ObjectPart, apply};
use crate::field::{Errors, Path};
use crate::schema::{Field, StructId};
use crate::tree::Tree;

/// A place that a check looks at.
///
/// Borrowed from the objects; a check allocates only for an error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At<'a> {
    /// The value; null where there is none. For a line with `:`, the struct itself.
    pub(crate) value: &'a Value,
    /// The stored value of the same place, if the object is being changed.
    pub(crate) old: Option<&'a Value>,
    /// The struct that the field is in.
    pub(crate) parent: &'a Value,
    /// The struct of the block: the same, unless a route led here.
    pub(crate) top: &'a Value,
    /// The path of the value in errors.
    pub(crate) path: &'a Path<'a>,
    /// The texts that rules about other parts of `top` have collected.
    pub(crate) known: &'a KnownTexts,
}

/// The tables, and an object of the kind that has passed already: what a new one shares with it is not looked into.
pub(super) struct RuleWalk<'v> {
    pub(super) rules: &'static RuleSets,
    pub(super) valid: Option<&'v Value>,
}

impl RuleWalk<'_> {
    /// Visits an object from its top.
    pub(super) fn root(
        &self,
        id: StructId,
        part: ObjectPart,
        with_status: bool,
        new: &Value,
        old: Option<&Value>,
        errors: &mut Errors,
    ) {
        let Some(set) = self.rules.of(id) else { return };
        let path = Path::object();
        let wanted = |field: &str| match part {
            ObjectPart::Main | ObjectPart::Spec => field != "status" || with_status,
            ObjectPart::Status => field == "status",
        };
        for stop in self.rules.stops(set) {
            match stop {
                RuleStop::Own(lines) if part == ObjectPart::Main => own(lines, new, old, &path, errors),
                RuleStop::Route(stop) if part != ObjectPart::Spec && wanted(stop.route.first()) => {
                    run_route(stop, new, old, &path, errors);
                }
                RuleStop::Field(stop) if wanted(stop.field.name) => {
                    let valid = self.valid.map(|valid| valid.at(stop.field.name));
                    self.field(stop, (new, old), valid, &path, errors);
                }
                _ => {}
            }
        }
    }

    /// Visits a struct.
    ///
    /// Recursion follows the schema. Elements of lists are paired by index, so an insertion at the front makes all of
    /// them count as changed.
    pub(super) fn visit(
        &self,
        set: SetId,
        (new, old): (&Value, Option<&Value>),
        valid: Option<&Value>,
        path: &Path<'_>,
        errors: &mut Errors,
    ) {
        if !new.is_object() || [old, valid].into_iter().flatten().any(|passed| new.is_same(passed)) {
            return;
        }
        let mut surplus: Vec<&str> = Vec::new();
        for stop in self.rules.stops(set) {
            match stop {
                RuleStop::Own(lines) => {
                    surplus.extend(alternatives(lines, new, path, errors));
                    own(lines, new, old, path, errors);
                }
                RuleStop::Route(stop) => run_route(stop, new, old, path, errors),
                RuleStop::Field(stop) if surplus.contains(&stop.field.name) => {}
                RuleStop::Field(stop) => {
                    let valid = valid.map(|valid| valid.at(stop.field.name));
                    self.field(stop, (new, old), valid, path, errors);
                }
            }
        }
    }

    /// The rules of the field, then what is below it: an element of a list with its index, an entry of a map with its
    /// key. `valid` is the same field of an object that has passed.
    fn field(
        &self,
        stop: &FieldStop,
        (parent, old_parent): (&Value, Option<&Value>),
        valid: Option<&Value>,
        above: &Path<'_>,
        errors: &mut Errors,
    ) {
        let (new, old) = (parent.at(stop.field.name), old_parent.map(|old| old.at(stop.field.name)));
        let own = above.child(stop.shown);
        let path = if stop.flat { *above } else { own };
        let mut skipped = false;
        for line in stop.lines.iter().filter(|line| holds(&line.guards, parent, old_parent)) {
            let known = KnownTexts::default();
            let at = At { value: new, old, parent, top: parent, path: &path, known: &known };
            run(line, &at, Some(stop.field), errors);
            skipped |= line.skip;
        }
        let skipped = skipped || (stop.once && old.is_some());
        let Some((shape, set)) = stop.below.filter(|_| !skipped) else { return };
        // A line that can end the walk may have ended it in the valid object: then its nested fields were not checked.
        let valid = valid.filter(|_| !stop.lines.iter().any(|line| line.skip));
        match shape {
            FieldShape::One => self.visit(set, (new, old), valid, &path, errors),
            FieldShape::List => self.elements(set, (new, old), valid, (&path, stop.flat), errors),
            FieldShape::Map => {
                for (key, item) in new.as_object().into_iter().flatten() {
                    let (old, valid) =
                        (old.and_then(|old| old.get(key)), valid.and_then(|valid| valid.get(key)));
                    self.visit(set, (item, old), valid, &path.key(key), errors);
                }
            }
        }
    }

    /// Visits the elements of a list. With `flat`, errors have the path of the list.
    fn elements(
        &self,
        set: SetId,
        (new, old): (&Value, Option<&Value>),
        valid: Option<&Value>,
        (path, flat): (&Path<'_>, bool),
        errors: &mut Errors,
    ) {
        let (before, passed) = (old.and_then(Value::as_array), valid.and_then(Value::as_array));
        for (index, item) in new.as_array().into_iter().flatten().enumerate() {
            let old = before.and_then(|before| before.get(index));
            let indexed = if flat { *path } else { path.index(index) };
            let valid = passed.and_then(|passed| passed.get(index));
            self.visit(set, (item, old), valid, &indexed, errors);
        }
    }
}

/// The fields of a struct that may have only one of several and has more: all but the first.
fn alternatives<'a>(
    lines: &'a [RuleLine],
    value: &Value,
    path: &Path<'_>,
    errors: &mut Errors,
) -> Vec<&'a str> {
    let mut surplus = Vec::new();
    for step in lines.iter().flat_map(|line| &line.steps) {
        let FieldRule::FirstOf(fields) = &step.rule else { continue };
        let what = step.detail.as_ref().map(Message::plain).unwrap_or_default();
        // `field~shown` has another name in errors; `field+` does not count towards the limit of one.
        let name = |entry: &'a str| entry.split(['~', '+']).next().unwrap_or(entry);
        let mut given = fields.iter().copied().filter(|entry| value.has(name(entry)));
        if given.next().is_none() {
            errors.required(path, format!("must specify a {what} type"));
        }
        for entry in given.filter(|entry| !entry.ends_with('+')) {
            let shown = entry.split_once('~').map_or(entry, |(_, shown)| shown);
            errors.forbidden(&path.child(shown), format!("may not specify more than 1 {what} type"));
            surplus.push(name(entry));
        }
    }
    surplus
}

/// Rules whose subject is the struct itself, such as a choice between its fields.
fn own(lines: &[RuleLine], new: &Value, old: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    for line in lines.iter().filter(|line| holds(&line.guards, new, old)) {
        let known = KnownTexts::default();
        run(line, &At { value: new, old, parent: new, top: new, path, known: &known }, None, errors);
    }
}

/// Guards are evaluated on the struct that the row belongs to, not on the value of the field.
fn holds(conditions: &[RuleCondition], new: &Value, old: Option<&Value>) -> bool {
    conditions.iter().all(|condition| condition.holds(Scene { new, old, top: new }))
}

/// Runs the rules of fields that a route leads to.
fn run_route(stop: &RouteStop, top: &Value, old_top: Option<&Value>, above: &Path<'_>, errors: &mut Errors) {
    for line in stop.lines.iter().filter(|line| holds(&line.guards, top, old_top)) {
        let known = KnownTexts::default();
        stop.route.visit(top, old_top, &mut |leaf| {
            let scene = Scene { new: leaf.parent, old: None, top };
            if !line.local.iter().all(|condition| condition.holds(scene)) {
                return;
            }
            stop.shown.path_of(leaf, above, &mut |path| {
                let at =
                    At { value: leaf.value, old: leaf.old, parent: leaf.parent, top, path, known: &known };
                run(line, &at, stop.field, errors);
            });
        });
    }
}

/// Runs the rules of a line in order; what is required and missing is not looked at further, but that it was there before.
///
/// Immutability is checked even if the value is missing, since removing a field changes it.
fn run(line: &RuleLine, at: &At<'_>, field: Option<&'static Field>, errors: &mut Errors) {
    let mut missing = false;
    for step in line.steps.iter() {
        if missing && !matches!(step.rule, FieldRule::Immutable { .. }) {
            continue;
        }
        let goes_on = match step.target {
            RuleTarget::Whole => apply::whole(step, at, field, errors),
            RuleTarget::Each { indexed } => {
                each(step, at, indexed, errors);
                true
            }
            RuleTarget::Keys { indexed } => {
                keys(step, at, indexed, errors);
                true
            }
        };
        missing |= !goes_on;
    }
}

/// Elements have no old value here: their rules hold for every version alike.
fn each(step: &PathStep, at: &At<'_>, indexed: bool, errors: &mut Errors) {
    let mut one = |value: &Value, path: &Path<'_>| {
        let at = At { value, old: None, path, ..*at };
        apply::whole(step, &at, None, errors);
    };
    match at.value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                let path = if indexed { at.path.index(index) } else { *at.path };
                one(item, &path);
            }
        }
        Value::Object(fields) => {
            for (key, item) in fields {
                let path = if indexed { at.path.key(key) } else { *at.path };
                one(item, &path);
            }
        }
        _ => {}
    }
}

/// The key is wrapped in a value, as the rules are written for values.
fn keys(step: &PathStep, at: &At<'_>, indexed: bool, errors: &mut Errors) {
    for (key, _) in at.value.as_object().into_iter().flatten() {
        let (value, path) = (Value::from(key.as_str()), if indexed { at.path.key(key) } else { *at.path });
        apply::whole(step, &At { value: &value, old: None, path: &path, ..*at }, None, errors);
    }
}
