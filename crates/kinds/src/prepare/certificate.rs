//! Certificate signing requests: the times of their conditions, and the conditions that only an approval may set.
//!
//! That an update adds or removes none of them is checked by the rules and by admission in the server.

use std::collections::HashMap;

use listwatch_wire::json::Value;

use crate::tree::Tree;

/// Completes a change of the status: an approval stays as it was given.
pub(crate) fn update_request_status(new: &mut Value, old: &Value) {
    for kind in ["Approved", "Denied"] {
        let stored: Vec<Value> = of_type(old, kind).cloned().collect();
        if stored.len() == of_type(new, kind).count()
            && let Some(status) = new.inner("status")
        {
            let written = status.each("conditions").filter(|condition| condition.text("type") == kind);
            for (written, stored) in written.zip(stored) {
                *written = stored.fields().cloned().unwrap_or_default();
            }
        }
    }
    stamp_conditions(new, old);
}

/// Fills in the times of conditions. A condition that has been there with the same status keeps the time of its transition.
pub fn stamp_conditions(new: &mut Value, old: &Value) {
    let now = crate::time::now();
    let mut times = HashMap::new();
    for stored in old.at("status").list("conditions") {
        times.entry((stored.text("type"), stored.text("status"))).or_insert(stored.at("lastTransitionTime"));
    }
    let Some(status) = new.inner("status") else { return };
    for condition in status.each("conditions") {
        condition.fill("lastUpdateTime", now.clone());
        let before = times.get(&(condition.text("type"), condition.text("status")));
        let before = before.filter(|time| !time.is_null()).map(|time| (*time).clone());
        condition.fill("lastTransitionTime", before.unwrap_or_else(|| now.clone().into()));
    }
}

fn of_type<'a>(request: &'a Value, kind: &'a str) -> impl Iterator<Item = &'a Value> {
    request.at("status").list("conditions").iter().filter(move |condition| condition.text("type") == kind)
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    #[test]
    fn an_approval_keeps_its_words_and_times() {
        let approved = json!({"type": "Approved", "status": "True", "reason": "r", "lastUpdateTime": "2020-01-01T00:00:00Z", "lastTransitionTime": "2020-01-01T00:00:00Z"});
        let old = json!({"status": {"conditions": [approved]}});
        let mut new = json!({"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "other"}, {"type": "Failed", "status": "True", "lastUpdateTime": null}]}});
        update_request_status(&mut new, &old);
        let conditions = new.at("status").list("conditions");
        assert_eq!(conditions.first(), Some(&approved));
        assert!(conditions.last().is_some_and(|failed| failed.text("lastTransitionTime").ends_with('Z')));
    }
}
