//! Deltas: the client reproduces exactly the server's bytes, or reports an error. The examples of the specification are
//! in `delta_vectors.rs`.

#![cfg(test)]

use bytes::BytesMut;
use listwatch_wire::Revision;
use listwatch_wire::delta::{
    Compared, DeltaError, DeltaEvent, DeltaFrame, Insertion, Outline, compare, compare_outlined,
};
use listwatch_wire::event::{Decoder, DecoderOptions, EventType};
use listwatch_wire::json;
use proptest::prelude::*;
use serde_json::{Value, json};

const PREFIX: &str = r#"{"kind":"Pod","apiVersion":"v1","#;

/// The stored form of an object.
fn stored(spec: &Value, labels: &Value) -> Vec<u8> {
    let object = json!({"kind": "Pod", "apiVersion": "v1",
        "metadata": {"name": "a", "namespace": "n", "uid": "u", "labels": labels}, "spec": spec});
    json::encode_stored(&object.into())
}

fn splice(stored: &[u8]) -> usize {
    let text = std::str::from_utf8(stored).unwrap();
    text.find(r#""name":"a""#).unwrap() + r#""name":"a""#.len()
}

/// The bytes that clients see of it.
fn seen(stored: &[u8], revision: u64) -> Vec<u8> {
    let at = splice(stored);
    let version = format!(r#","resourceVersion":"{revision}""#);
    [PREFIX.as_bytes(), &stored[PREFIX.len()..at], version.as_bytes(), &stored[at..]].concat()
}

/// The line of the change from one to the other; none if the whole object is to be sent.
fn line(before: &[u8], after: &[u8], (base, revision): (u64, u64)) -> Option<BytesMut> {
    let Compared::Edits(edits) = compare(before, after, 1 << 20) else { return None };
    let spliced = r#","resourceVersion":"""#.len() + base.to_string().len();
    let number = r#","resourceVersion":""#.len();
    let seen_at =
        Insertion { skipped: PREFIX.len(), prefix: PREFIX.len(), splice: splice(before), spliced, number };
    let result = seen(after, revision);
    let mut out = BytesMut::new();
    let frame = DeltaFrame {
        namespace: "n",
        name: "a",
        uid: "u",
        base: Revision(base),
        revision: Revision(revision),
    };
    frame.modified(&edits, &seen_at, (result.len(), crc32fast::hash(&result)), &mut out);
    Some(out)
}

fn received(line: &[u8]) -> (EventType, bytes::Bytes) {
    let mut decoder = Decoder::new(DecoderOptions { deltas: true, ..DecoderOptions::default() });
    decoder.push(line.to_vec());
    let event = decoder.next_event().unwrap().unwrap();
    assert!(event.is_delta);
    (event.event_type, event.object)
}

fn round_trip(before: &[u8], after: &[u8], revisions: (u64, u64)) -> Option<usize> {
    let line = line(before, after, revisions)?;
    let (kind, delta) = received(&line);
    let event = DeltaEvent::parse(kind, &delta).unwrap();
    let result = event
        .apply(&seen(before, revisions.0))
        .unwrap_or_else(|error| panic!("{error}\n{}\n{}\n{}", text(before), text(after), text(&line)));
    assert_eq!(text(&result), text(&seen(after, revisions.1)));
    assert_eq!(
        tree_result(&line, &seen(before, revisions.0)),
        serde_json::from_slice::<Value>(&result).unwrap()
    );
    Some(line.len())
}

/// The result as a client has it that knows trees only.
fn tree_result(line: &[u8], base: &[u8]) -> Value {
    let event: Value = serde_json::from_slice(line).unwrap();
    let mut object: Value = serde_json::from_slice(base).unwrap();
    for operation in event["delta"]["patch"].as_array().unwrap() {
        let path = operation["path"].as_str().unwrap();
        let (parent, step) = path.rsplit_once('/').unwrap();
        let step = step.replace("~1", "/").replace("~0", "~");
        let value = operation["value"].clone();
        match (object.pointer_mut(parent).unwrap(), operation["op"].as_str().unwrap()) {
            (Value::Object(map), "remove") => assert!(map.remove(&step).is_some(), "{path}"),
            (Value::Object(map), "replace") => assert!(map.insert(step, value).is_some(), "{path}"),
            (Value::Object(map), _) => assert!(map.insert(step, value).is_none(), "{path}"),
            (Value::Array(items), "remove") => drop(items.remove(step.parse().unwrap())),
            (Value::Array(items), "replace") => items[step.parse::<usize>().unwrap()] = value,
            (Value::Array(items), _) => items.insert(step.parse().unwrap(), value),
            (other, _) => panic!("{path} is inside {other}"),
        }
    }
    object["metadata"]["resourceVersion"] = event["delta"]["resourceVersion"].clone();
    object
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn arb_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..130_i64).prop_map(Value::from),
        "[a,\"{}\\[\\]:~/é\\\\]{0,5}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map("[abc~/\"]{1,2}", inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// A value and one that resembles it: most of it stays.
fn arb_pair() -> impl Strategy<Value = (Value, Value)> {
    (arb_json(), arb_json(), any::<u64>()).prop_map(|(before, other, seed)| {
        let mut after = before.clone();
        disturb(&mut after, &other, seed);
        (before, after)
    })
}

/// A value whose containers are large enough for an outline.
fn padded(mut value: Value) -> Value {
    match &mut value {
        Value::Object(map) => {
            map.values_mut().for_each(|value| *value = padded(value.take()));
            map.insert("pad".into(), "{\"".repeat(40).into());
        }
        Value::Array(items) => {
            items.iter_mut().for_each(|value| *value = padded(value.take()));
            items.push("]\\".repeat(40).into());
        }
        _ => {}
    }
    value
}

fn disturb(value: &mut Value, other: &Value, seed: u64) {
    let next = seed.rotate_left(7).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    match value {
        Value::Object(map) if !seed.is_multiple_of(4) && !map.is_empty() => {
            let at = (next % map.len() as u64) as usize;
            let key = map.keys().nth(at).unwrap().clone();
            match seed % 7 {
                0 => drop(map.remove(&key)),
                1 => drop(map.insert(format!("{key}x"), other.clone())),
                _ => disturb(map.get_mut(&key).unwrap(), other, next),
            }
        }
        Value::Array(items) if !seed.is_multiple_of(4) && !items.is_empty() => {
            let at = (next % items.len() as u64) as usize;
            match seed % 7 {
                0 => drop(items.remove(at)),
                1 => items.insert(at, other.clone()),
                2 => items.push(other.clone()),
                _ => disturb(&mut items[at], other, next),
            }
        }
        value => *value = other.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn every_change_arrives_as_the_same_bytes(
        (before, after) in arb_pair(),
        labels in prop::collection::btree_map("[ab]{1,2}", "[xy]{0,2}", 0..3),
        more in prop::collection::btree_map("[ab]{1,2}", "[xy]{0,2}", 0..3),
        revisions in (1..2000_u64, 1..20_000_u64),
    ) {
        let (a, b) = (stored(&before, &json!(labels)), stored(&after, &json!(more)));
        prop_assert!(round_trip(&a, &b, revisions).is_some(), "no patch for {} {}", text(&a), text(&b));
    }

    /// An outline that was passed on through several versions finds the same operations as reading every version.
    #[test]
    fn an_outline_changes_nothing_but_the_time((first, other) in arb_pair(), seeds in prop::collection::vec(any::<u64>(), 1..6)) {
        let mut value = padded(first);
        let mut before = stored(&value, &json!({}));
        let mut outline = Outline::of(&before);
        for seed in seeds {
            disturb(&mut value, &padded(other.clone()), seed);
            let after = stored(&value, &json!({"seed": seed.to_string()}));
            let Compared::Edits(edits) = compare(&before, &after, 1 << 20) else { panic!("no patch") };
            let (found, next) = compare_outlined((&before, &outline), &after, 1 << 20).unwrap();
            prop_assert_eq!(found, edits);
            prop_assert_eq!(next.lookup(&after, &["metadata", "uid"]), Some(&b"\"u\""[..]));
            (before, outline) = (after, next);
        }
    }

    #[test]
    fn a_damaged_delta_is_refused_or_right((before, after) in arb_pair(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let (a, b) = (stored(&before, &json!({})), stored(&after, &json!({})));
        let Some(line) = line(&a, &b, (9, 10)) else { return Ok(()) };
        let (kind, delta) = received(&line);
        let mut damaged = delta.to_vec();
        let at = at.index(damaged.len());
        damaged[at] = byte;
        if let Ok(event) = DeltaEvent::parse(kind, &damaged)
            && let Ok(result) = event.apply(&seen(&a, 9)) {
            // The checksum cannot detect a resourceVersion that is changed in both places.
            prop_assert!(result == seen(&b, 10), "{}", text(&result));
        }
    }
}

#[test]
fn a_small_change_of_a_large_object_is_small() {
    let spec = |ready: &str, time: &str| {
        let conditions: Vec<Value> = ["Initialized", "Ready", "PodScheduled"]
            .iter()
            .map(|kind| json!({"type": kind, "status": if *kind == "Ready" { ready } else { "True" }, "lastTransitionTime": time}))
            .collect();
        json!({"containers": "x".repeat(10_000), "conditions": conditions, "zone": "z"})
    };
    let before = stored(&spec("False", "2024-01-01T00:00:00Z"), &json!({}));
    let after = stored(&spec("True", "2024-01-01T00:00:00Z"), &json!({}));
    let bytes = round_trip(&before, &after, (99, 100)).unwrap();
    assert!(bytes < 260, "{bytes}");
}

#[test]
fn several_changes_of_one_small_container_become_one() {
    let before = stored(&json!({"c": [{"a": 1, "b": 2, "c": 3}], "d": "x".repeat(500)}), &json!({}));
    let after = stored(&json!({"c": [{"a": 4, "b": 5, "c": 6}], "d": "x".repeat(500)}), &json!({}));
    let line = line(&before, &after, (1, 2)).unwrap();
    assert_eq!(text(&line).matches("\"op\"").count(), 1, "{}", text(&line));
    round_trip(&before, &after, (1, 2)).unwrap();
}

/// The record of field owners is sorted by time: a new time moves an entry past a large one that did not change.
#[test]
fn an_element_that_moved_does_not_drag_others_along() {
    let large = json!({"manager": "a", "fields": "x".repeat(5000)});
    let before = stored(&json!([large, {"manager": "b", "time": 1}, {"manager": "c"}]), &json!({}));
    let after = stored(&json!([{"manager": "b", "time": 2}, large, {"manager": "c"}]), &json!({}));
    let bytes = round_trip(&before, &after, (1, 2)).unwrap();
    assert!(bytes < 400, "{bytes}");
}

#[test]
fn deltas_that_do_not_fit_are_refused_by_name() {
    let (before, after) = (stored(&json!({"n": 1}), &json!({})), stored(&json!({"n": 2}), &json!({})));
    let line = line(&before, &after, (5, 6)).unwrap();
    let (kind, delta) = received(&line);
    let event = DeltaEvent::parse(kind, &delta).unwrap();
    // Another version of the object.
    assert!(matches!(event.apply(&seen(&before, 7)), Err(DeltaError::OutOfPlace(_))));
    // The same version with another content, as a transformation leaves it.
    let other = stored(&json!({"n": 1, "o": 1}), &json!({}));
    assert!(matches!(event.apply(&seen(&other, 5)), Err(DeltaError::WrongResult { .. })));
    assert!(event.apply(b"").is_err());
    for text in [
        "{}",
        "[]",
        r#"{"name":"a","resourceVersion":"x"}"#,
        r#"{"name":"a","resourceVersion":"5","patch":[],"at":"#,
    ] {
        assert!(
            matches!(DeltaEvent::parse(EventType::Modified, text.as_bytes()), Err(DeltaError::Malformed(_))),
            "{text}"
        );
    }
    let huge = br#"{"name":"a","base":"5","resourceVersion":"6","at":0,"bytes":99999999999,"crc32":"00000000","patch":[]}"#;
    let event = DeltaEvent::parse(EventType::Modified, huge).unwrap();
    assert!(matches!(event.apply(&seen(&before, 5)), Err(DeltaError::Malformed(_))));
}

#[test]
fn a_decoder_that_did_not_ask_takes_no_deltas() {
    let mut decoder = Decoder::default();
    decoder.push(&b"{\"type\":\"MODIFIED\",\"delta\":{}}\n"[..]);
    assert!(decoder.next_event().is_err());
}
