//! [`RecentlyValid`]: objects of one kind that were created lately and found valid.
//!
//! Controllers create many objects from one template, which differ in their names and little else. The rules for a part
//! of a new object depend on nothing but what is in it, so a part that equals the same part of an object that was found
//! valid a moment ago is valid too. It is made to share that one's tree, which is smaller, and by which validation
//! recognises it.
//!
//! Updates need none of this: they share with the stored object what they do not change.

use std::collections::VecDeque;

use listwatch_wire::json::Value;
use parking_lot::Mutex;

use crate::cache::template;

/// The number of objects that are remembered of a kind: of so many templates objects can be made in turns.
const KEPT: usize = 2;
/// The names, elements and bytes of text of an object that is remembered.
const LARGEST: usize = 32 << 10;

/// Objects of one kind that were found valid when they were created, the newest last.
#[derive(Debug, Default)]
pub(super) struct RecentlyValid(Mutex<VecDeque<Value>>);

impl RecentlyValid {
    /// Makes an object share the parts that it has in common with one of the same template. Elements of lists are
    /// paired by index, as validation does.
    pub(super) fn share(&self, object: &mut Value) {
        let Some(known) = self.find(object) else { return };
        let Some(fields) = object.as_object_mut() else { return };
        for (name, value) in fields.iter_mut().filter(|(name, _)| *name != "metadata") {
            if let Some(known) = known.get(name) {
                value.share(known);
            }
        }
    }

    /// The newest object of the same template.
    pub(super) fn find(&self, object: &Value) -> Option<Value> {
        let valid = self.0.lock();
        if valid.is_empty() {
            return None;
        }
        let prefix = template(object)?;
        valid.iter().rev().find(|known| template(known) == Some(prefix)).cloned()
    }

    /// Records an object that was found valid, unless one with all its fields is recorded. What is named by its sender is not
    /// made from a template as a rule.
    pub(super) fn add(&self, object: &Value, known: Option<&Value>) {
        // An object of a known template adds nothing.
        if known.is_some() || template(object).is_none() || !fits(object, &mut { LARGEST }) {
            return;
        }
        let mut valid = self.0.lock();
        let oldest = if valid.len() >= KEPT { valid.pop_front() } else { None };
        valid.push_back(object.clone());
        drop(valid);
        drop(oldest);
    }
}

/// Returns true if a value has no more names, elements and bytes of text than there is room for.
fn fits(value: &Value, room: &mut usize) -> bool {
    match value {
        Value::String(text) => take(room, text.len()),
        Value::Array(items) => take(room, items.len()) && items.iter().all(|item| fits(item, room)),
        Value::Object(fields) => {
            fields.iter().all(|(name, value)| take(room, name.len() + 1) && fits(value, room))
        }
        _ => true,
    }
}

/// Takes room; false if there is not enough.
fn take(room: &mut usize, count: usize) -> bool {
    let left = room.checked_sub(count);
    *room = left.unwrap_or(0);
    left.is_some()
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    fn pod(template: &str, volume: &str) -> Value {
        json!({
            "metadata": {"name": "a", "generateName": template},
            "spec": {"containers": [{"image": "x"}], "volumes": [{"name": volume, "projected": {"sources": [1]}}]},
            "status": {"phase": "Pending"},
        })
    }

    #[test]
    fn objects_of_one_template_share_what_they_have_in_common() {
        let valid = RecentlyValid::default();
        let (first, mut second, mut other) = (pod("web-", "v1"), pod("web-", "v2"), pod("db-", "v3"));
        assert_eq!(valid.find(&first), None);
        valid.add(&first, None);
        valid.share(&mut second);
        assert_eq!(second, pod("web-", "v2"), "only what is equal is shared");
        let same = |path: &str| second.pointer(path).unwrap().is_same(first.pointer(path).unwrap());
        assert!(same("/spec/containers") && same("/spec/volumes/0/projected") && same("/status"));
        assert!(!same("/spec") && !same("/spec/volumes") && !same("/spec/volumes/0"));
        valid.add(&second, valid.find(&second).as_ref());
        assert_eq!(valid.0.lock().len(), 1, "one of a template is enough");
        valid.share(&mut other);
        assert!(!other["status"].is_same(&first["status"]), "another template");
    }

    #[test]
    fn few_and_small_objects_are_remembered() {
        let valid = RecentlyValid::default();
        valid.add(&pod("web-", &"x".repeat(LARGEST)), None);
        valid.add(&pod("", "named by its sender"), None);
        assert_eq!(valid.0.lock().len(), 0);
        (0..10).for_each(|n| valid.add(&pod(&n.to_string(), "v"), None));
        assert_eq!(valid.0.lock().len(), KEPT);
    }
}
