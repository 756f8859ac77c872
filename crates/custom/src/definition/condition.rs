//! Conditions in the status of a definition: `NamesAccepted`, `Established`, `Terminating` and the others.
//!
//! `lastTransitionTime` changes only if the status does, so that a controller that writes the same condition again
//! changes nothing and causes no event. Time is passed in. The order of conditions is that of their first occurrence.

use listwatch_wire::json::{Map, Value, json};

use super::text;

/// Sets a condition; its time changes only when its status does.
///
/// Replaces the whole list in the tree, which costs as much as there are conditions: a handful. An object that is no
/// map is left alone.
pub fn set_condition(
    object: &mut Value,
    kind: &str,
    holds: bool,
    (reason, message): (&str, &str),
    now: &str,
) {
    let Some(object) = object.as_object_mut() else { return };
    let status = object.entry("status").or_insert_with(|| Value::Object(Map::new()));
    let Some(status) = status.as_object_mut() else { return };
    let mut conditions = status.get("conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    let position = conditions.iter().position(|condition| text(condition, "type") == Some(kind));
    let word = if holds { "True" } else { "False" };
    let old = position.and_then(|position| conditions.get(position));
    let same = old.filter(|old| text(old, "status") == Some(word));
    let time = same.and_then(|old| text(old, "lastTransitionTime")).unwrap_or(now);
    let new = json!({"type": kind, "status": word, "lastTransitionTime": time, "reason": reason, "message": message});
    match position.and_then(|position| conditions.get_mut(position)) {
        Some(place) => *place = new,
        None => conditions.push(new),
    }
    status.insert("conditions", conditions.into());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_that_of_the_last_change() {
        let mut object = json!({"status": {"conditions": null}});
        let time = |object: &Value| object["status"]["conditions"][0]["lastTransitionTime"].clone();
        set_condition(&mut object, "Ready", false, ("No", "not yet"), "1");
        set_condition(&mut object, "Ready", false, ("Still", "not yet"), "2");
        assert_eq!(
            (time(&object), &object["status"]["conditions"][0]["reason"]),
            (json!("1"), &json!("Still"))
        );
        set_condition(&mut object, "Ready", true, ("Yes", "now"), "3");
        assert_eq!(time(&object), "3");
        set_condition(&mut object, "Other", true, ("Yes", "now"), "4");
        assert_eq!(object["status"]["conditions"].as_array().unwrap().len(), 2);
    }
}
