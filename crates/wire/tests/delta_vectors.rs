//! The test vectors of `docs/delta-watch.md`. They were made by another program, from that page.

#![cfg(test)]

use std::collections::BTreeMap;

use listwatch_wire::delta::{DeltaError, DeltaEvent};
use listwatch_wire::event::{Decoder, DecoderOptions, EventType, WireEvent};
use listwatch_wire::json::{self, raw};
use serde_json::Value;

fn vectors() -> Vec<Value> {
    serde_json::from_str(include_str!("vectors/delta.json")).unwrap()
}

fn text<'v>(vector: &'v Value, field: &str) -> &'v str {
    vector[field].as_str().unwrap()
}

fn decoded(line: &str) -> WireEvent {
    let mut decoder = Decoder::new(DecoderOptions { deltas: true, ..DecoderOptions::default() });
    decoder.push(format!("{line}\n").into_bytes());
    decoder.next_event().unwrap().unwrap()
}

fn scalar<'a>(object: &'a str, field: &str) -> &'a str {
    raw::lookup(object.as_bytes(), &["metadata", field]).and_then(raw::scalar).unwrap_or_default()
}

/// The result for a client that holds `base`, or the step that failed, by its name in the vectors.
fn outcome(base: &str, event: &WireEvent) -> Result<String, &'static str> {
    let delta = DeltaEvent::parse(event.event_type, &event.object).map_err(|_| "event")?;
    let held = scalar(base, "resourceVersion");
    if held != delta.base.to_string() || scalar(base, "uid").as_bytes() != delta.uid {
        return Err("base");
    }
    if event.event_type == EventType::Deleted {
        let version = |number: &str| format!(r#""resourceVersion":"{number}""#);
        return Ok(base.replacen(&version(held), &version(&delta.revision.to_string()), 1));
    }
    let result = delta.apply(base.as_bytes()).map_err(|error| match error {
        DeltaError::Malformed(_) => "event",
        DeltaError::OutOfPlace(_) => "place",
        DeltaError::WrongResult { .. } => "result",
        _ => "base",
    })?;
    Ok(String::from_utf8(result).unwrap())
}

#[test]
fn every_vector_gives_its_result_or_error() {
    let vectors = vectors();
    assert!(vectors.len() > 50);
    for vector in vectors {
        let expected = match vector["error"].as_str() {
            Some(error) => Err(error),
            None => Ok(text(&vector, "result").to_owned()),
        };
        let found = outcome(text(&vector, "base"), &decoded(text(&vector, "event")));
        assert_eq!(found, expected, "{}", vector["name"]);
    }
}

/// A client that holds trees applies the patch as RFC 6902 has it, and ignores the places.
#[test]
fn the_patches_mean_the_same_on_trees() {
    for vector in vectors().iter().filter(|vector| vector["error"].is_null()) {
        let mut object: Value = serde_json::from_str(text(vector, "base")).unwrap();
        let event: Value = serde_json::from_str(text(vector, "event")).unwrap();
        for operation in event["delta"]["patch"].as_array().into_iter().flatten() {
            operate(&mut object, operation);
        }
        object["metadata"]["resourceVersion"] = event["delta"]["resourceVersion"].clone();
        let result: Value = serde_json::from_str(text(vector, "result")).unwrap();
        assert_eq!(object, result, "{}", vector["name"]);
    }
}

fn operate(object: &mut Value, operation: &Value) {
    let (parent, step) = operation["path"].as_str().unwrap().rsplit_once('/').unwrap();
    let step = step.replace("~1", "/").replace("~0", "~");
    let value = operation.get("value").cloned();
    match (object.pointer_mut(parent).unwrap(), operation["op"].as_str().unwrap()) {
        (Value::Object(map), "remove") => assert!(map.remove(&step).is_some()),
        (Value::Object(map), op) => {
            assert_eq!(map.insert(step, value.unwrap()).is_some(), op == "replace");
        }
        (Value::Array(items), "remove") => drop(items.remove(step.parse().unwrap())),
        (Value::Array(items), "add") => items.insert(step.parse().unwrap(), value.unwrap()),
        (Value::Array(items), _) => items[step.parse::<usize>().unwrap()] = value.unwrap(),
        (other, _) => panic!("{step} is inside {other}"),
    }
}

/// Bases and results are in the canonical form that the page describes.
#[test]
fn the_vectors_are_canonical() {
    for vector in vectors() {
        for object in ["base", "result"].into_iter().filter_map(|field| vector[field].as_str()) {
            let version = format!(r#","resourceVersion":"{}""#, scalar(object, "resourceVersion"));
            let tree = json::Value::read(object.as_bytes()).unwrap();
            let stored = String::from_utf8(json::encode_stored(&tree)).unwrap();
            assert_eq!(stored, object.replacen(&version, "", 1), "{}", vector["name"]);
        }
    }
}

/// The state of a client after each line of a stream: whole objects and deltas, also of a name that is used again.
#[test]
fn a_stream_leaves_the_state_that_it_should() {
    let lines: Vec<Value> = serde_json::from_str(include_str!("vectors/delta-stream.json")).unwrap();
    let mut held = BTreeMap::<String, String>::new();
    for line in lines {
        let event = decoded(text(&line, "line"));
        let object = std::str::from_utf8(&event.object).unwrap();
        let name = |namespace: &str, name: &str| format!("{namespace}/{name}");
        let (key, object) = if event.is_delta {
            let delta = DeltaEvent::parse(event.event_type, &event.object).unwrap();
            let key = name(delta.namespace, delta.name);
            let object = outcome(&held[&key], &event).unwrap();
            (key, object)
        } else {
            (name(scalar(object, "namespace"), scalar(object, "name")), object.to_owned())
        };
        match event.event_type {
            EventType::Added | EventType::Modified => drop(held.insert(key, object)),
            EventType::Deleted => assert!(held.remove(&key).is_some(), "{key}"),
            _ => {}
        }
        let expected: BTreeMap<String, String> = serde_json::from_value(line["held"].clone()).unwrap();
        assert_eq!(held, expected, "{}", line["line"]);
    }
}
