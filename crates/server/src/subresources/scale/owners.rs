//! Field owners of replicas that are changed through a Scale.
//!
//! kube-apiserver converts `managedFields` between the target and its Scale and loses times on the way; these functions
//! leave the same entries. Ownership itself is recorded by the strategy of the target ([`crate::registry::managed`]).

use std::collections::HashMap;

use listwatch_kinds::tree::Tree;
use listwatch_wire::json::Value;

/// Returns true if the replicas have an owner. kube-apiserver does not start recording owners at a Scale.
pub(super) fn is_owned(object: &Value, path: &[String]) -> bool {
    let mut entries = object.at("metadata").list("managedFields").iter();
    entries.any(|entry| {
        let mut fields = entry.at("fieldsV1");
        for step in path {
            fields = fields.at(&format!("f:{step}"));
        }
        !fields.is_null()
    })
}

/// Removes the times that managers of the scale have just got: in kube-apiserver a manager keeps the time it had, and
/// a new one has none, which puts it first.
pub(super) fn keep_times(new: &mut Value, old: &Value) {
    let identity = |entry: &Value| {
        ["manager", "operation", "apiVersion", "subresource"].map(|key| entry.text(key).to_owned())
    };
    let times = old.at("metadata").list("managedFields").iter();
    let times: HashMap<[String; 4], &str> =
        times.map(|entry| (identity(entry), entry.text("time"))).collect();
    let Some(meta) = new.inner("metadata") else { return };
    let mut entries = meta.list("managedFields").to_vec();
    if entries.is_empty() {
        return;
    }
    for entry in entries.iter_mut().filter(|entry| entry.text("subresource") == "scale") {
        let time = times.get(&identity(entry)).copied().unwrap_or_default();
        match entry.as_object_mut() {
            Some(entry) if time.is_empty() => drop(entry.remove("time")),
            Some(entry) => entry.put("time", time),
            None => {}
        }
    }
    let order = |entry: &Value| {
        ["operation", "time", "manager", "apiVersion", "subresource"].map(|key| entry.text(key).to_owned())
    };
    entries.sort_by_key(order);
    meta.put("managedFields", entries);
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    /// `kubectl scale` left a time in managedFields that kube-apiserver does not write.
    #[test]
    fn a_manager_of_the_scale_has_the_time_it_had() {
        let entry = |manager: &str, subresource: &str, time: &str| {
            let mut entry = json!({"manager": manager, "operation": "Update", "apiVersion": "apps/v1"});
            for (key, text) in [("subresource", subresource), ("time", time)] {
                if !text.is_empty() {
                    entry.put(key, text);
                }
            }
            entry
        };
        let object = |entries: Vec<Value>| json!({"metadata": {"managedFields": entries}});
        let old = object(vec![entry("a", "", "1"), entry("b", "scale", "2")]);
        let mut new = object(vec![entry("a", "", "1"), entry("b", "scale", "3"), entry("c", "scale", "3")]);
        keep_times(&mut new, &old);
        assert_eq!(new, object(vec![entry("c", "scale", ""), entry("a", "", "1"), entry("b", "scale", "2")]));
    }

    /// Scaling replicas without an owner once made the user their owner.
    #[test]
    fn replicas_without_a_writer_have_no_owner() {
        let owned = |fields: Value| json!({"metadata": {"managedFields": [{"fieldsV1": fields}]}});
        let path = ["spec".to_owned(), "replicas".to_owned()];
        assert!(is_owned(&owned(json!({"f:spec": {"f:replicas": {}}})), &path));
        assert!(!is_owned(&owned(json!({"f:spec": {"f:paused": {}}})), &path));
        assert!(!is_owned(&json!({"metadata": {}}), &path));
    }
}
