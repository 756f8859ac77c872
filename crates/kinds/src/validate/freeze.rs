//! Changes that a kind allows in an object that is otherwise immutable.
//!
//! As in kube-apiserver, the fields that may change are set back to their stored values in a copy, and the rest must be
//! equal: a field that is new in a later version is immutable without a rule of its own. The routes to the fields that
//! may change are in rows of the tables (`changed-beside`), or with the kinds where they depend on the object
//! (`pod_change`, `pod_resize`, `storage`).

use listwatch_wire::json::{Map, Value};

use crate::tree::Tree;

/// Returns the new value with the stored values of some fields below it (`a.b`, `list[].c`).
///
/// Elements of lists are paired by index. A struct that only such fields were added to is removed again.
pub(crate) fn set_back(new: &Value, old: &Value, routes: &[&str]) -> Value {
    let mut back = new.clone();
    if let Some(fields) = back.as_object_mut() {
        for route in routes {
            field(fields, old, route);
        }
    }
    back
}

/// Sets a field to what it was, at a dotted route in which `name[]` stands for every element of a list. Used to
/// compare everything else: what may change is made equal first.
fn field(new: &mut Map, old: &Value, route: &str) {
    let Some((name, below)) = route.split_once('.') else {
        match old.has(route) {
            true => new.put(route, old.at(route).clone()),
            false => drop(new.remove(route)),
        }
        return;
    };
    if let Some(list) = name.strip_suffix("[]") {
        return new.each(list).zip(old.list(list)).for_each(|(item, before)| field(item, before, below));
    }
    let before = old.at(name);
    let inner = if before.is_object() { new.inner_or_new(name) } else { new.inner(name) };
    inner.into_iter().for_each(|inner| field(inner, before, below));
    if before.is_null() && new.at(name).fields().is_some_and(|fields| fields.is_empty()) {
        new.remove(name);
    }
}
