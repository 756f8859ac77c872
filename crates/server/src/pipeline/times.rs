//! Writes that change nothing but the times in `managedFields`.
//!
//! An apply whose configuration has values in another form (a quantity, a `creationTimestamp` of null) counts as a
//! change until it has been decoded, and moves the time of its manager. Storing that would be an event for every
//! watcher, each time a client applies the same again.

use listwatch_kinds::tree::Tree;
use listwatch_wire::json::{Map, Value};

/// Returns true if two objects differ in the times of their `managedFields` only.
#[doc(alias = "IgnoreManagedFieldsTimestampsTransformer")]
pub(super) fn only_times_differ(new: &Value, old: &Value) -> bool {
    let meta = |object: &Value| object.at("metadata").as_object().cloned();
    same_but(new.as_object(), old.as_object(), "metadata")
        && same_but(meta(new).as_ref(), meta(old).as_ref(), "managedFields")
        && same_entries(new.at("metadata").list("managedFields"), old.at("metadata").list("managedFields"))
}

fn same_entries(new: &[Value], old: &[Value]) -> bool {
    let same = |(new, old): (&Value, &Value)| same_but(new.as_object(), old.as_object(), "time");
    new.len() == old.len() && new.iter().zip(old).all(same)
}

/// Compares two maps except for one field.
fn same_but(new: Option<&Map>, old: Option<&Map>, except: &str) -> bool {
    let (Some(new), Some(old)) = (new, old) else { return false };
    let fields = |map: &Map| map.len() - usize::from(map.contains_key(except));
    fields(new) == fields(old)
        && new.iter().all(|(name, value)| **name == *except || old.get(name) == Some(value))
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    #[test]
    fn times_of_managers_do_not_count() {
        let object = |time: &str, manager: &str, data: &str| json!({"metadata": {"name": "a", "managedFields": [{"manager": manager, "time": time}]}, "data": data});
        let old = object("1", "m", "x");
        assert!(only_times_differ(&object("2", "m", "x"), &old));
        assert!(!only_times_differ(&object("2", "n", "x"), &old));
        assert!(!only_times_differ(&object("2", "m", "y"), &old));
        let mut more = object("2", "m", "x");
        more.put("spec", 1);
        assert!(!only_times_differ(&more, &old) && !only_times_differ(&old, &more));
        let mut without = old.clone();
        without.inner("metadata").unwrap().remove("managedFields");
        assert!(!only_times_differ(&without, &old), "managers that are dropped are a change");
    }
}
