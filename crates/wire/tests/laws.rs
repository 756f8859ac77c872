//! Laws that hold for every input, each against a model or an inverse.

#[path = "../../json/tests/support/any_json.rs"]
mod any_json;

use any_json::value;
use bytes::Bytes;
use listwatch_wire::event::{self, Decoder, EventType, WireEvent};
use listwatch_wire::json;
use listwatch_wire::json::{Value, json};
use listwatch_wire::options::{DeleteOptions, ListOptions, Query, VersionMatch, WriteOptions};
use listwatch_wire::selector::{FieldSelector, FieldTerm, LabelSelector, Operator, Requirement};
use proptest::prelude::*;

fn requirement() -> impl Strategy<Value = Requirement> {
    let key = prop_oneof![
        "[a-z]([a-z0-9.-]{0,5}[a-z0-9])?",
        "[a-z]{1,3}\\.io/[A-Z]{1,3}",
        Just("in".to_owned()),
        Just("notin".to_owned())
    ];
    let text = prop_oneof!["([A-Za-z0-9]([A-Za-z0-9_.-]{0,4}[A-Za-z0-9])?)?", Just("in".to_owned())];
    let operator = prop_oneof![
        Just(Operator::Equals),
        Just(Operator::DoubleEquals),
        Just(Operator::NotEquals),
        Just(Operator::In),
        Just(Operator::NotIn),
        Just(Operator::Exists),
        Just(Operator::DoesNotExist),
        Just(Operator::GreaterThan),
        Just(Operator::LessThan),
    ];
    (key, operator, prop::collection::vec(text, 1..4), 0..100_i32).prop_filter_map(
        "invalid requirement",
        |(key, operator, texts, number)| {
            let values = match operator {
                Operator::Exists | Operator::DoesNotExist => Vec::new(),
                Operator::GreaterThan | Operator::LessThan => vec![number.to_string()],
                Operator::In | Operator::NotIn => texts,
                _ => texts.into_iter().take(1).collect(),
            };
            Requirement::new(&key, operator, values).ok()
        },
    )
}

fn field_selector() -> impl Strategy<Value = FieldSelector> {
    let term = ("[a-z]{1,4}(\\.[a-z]{1,4})?", "[a-z\\\\,= é]{0,5}", any::<bool>());
    prop::collection::btree_map("[a-z]{1,4}", term, 0..4).prop_map(|terms| {
        let terms = terms.into_values().map(|(field, value, negated)| FieldTerm { field, value, negated });
        let mut terms: Vec<_> = terms.collect();
        // Parsing sorts by the text of the terms.
        terms.sort_by_key(|t| FieldSelector::new(vec![t.clone()]).to_string());
        FieldSelector::new(terms)
    })
}

proptest! {
    #[test]
    fn label_selectors_read_back_as_they_print(requirements in prop::collection::vec(requirement(), 0..4)) {
        let selector = LabelSelector::new(requirements);
        prop_assert_eq!(selector.to_string().parse::<LabelSelector>().unwrap(), selector);
    }

    #[test]
    fn label_requirements_mean_what_they_say(r in requirement(), label in prop::option::of("[a-z0-9]{0,2}|[0-9]{1,3}")) {
        let label = label.as_deref();
        let listed = label.is_some_and(|l| r.values().iter().any(|v| v == l));
        let compared = label.and_then(|l| l.parse::<i64>().ok()).zip(r.values().first().and_then(|v| v.parse::<i64>().ok()));
        let expected = match r.operator() {
            Operator::Exists => label.is_some(),
            Operator::DoesNotExist => label.is_none(),
            Operator::Equals | Operator::DoubleEquals | Operator::In => listed,
            Operator::NotEquals | Operator::NotIn => !listed,
            Operator::GreaterThan => compared.is_some_and(|(l, v)| l > v),
            Operator::LessThan => compared.is_some_and(|(l, v)| l < v),
        };
        prop_assert_eq!(r.matches(label), expected);
    }

    #[test]
    fn field_selectors_read_back_as_they_print(selector in field_selector()) {
        prop_assert_eq!(selector.to_string().parse::<FieldSelector>().unwrap(), selector);
    }

    #[test]
    fn list_options_read_back_as_a_query(
        requirements in prop::collection::vec(requirement(), 0..3),
        field_selector in field_selector(),
        (watch, bookmarks) in (any::<bool>(), any::<bool>()),
        version in "[0-9]{0,4}",
        version_match in prop::option::of(prop_oneof![Just(VersionMatch::Exact), Just(VersionMatch::NotOlderThan), Just(VersionMatch::Unknown("x y".into()))]),
        (timeout, limit) in (prop::option::of(any::<u32>()), 0..1_000_000_u64),
        token in "[a-zA-Z0-9_-]{0,8}",
        initial in prop::option::of(any::<bool>()),
    ) {
        let options = ListOptions {
            label_selector: LabelSelector::new(requirements),
            field_selector,
            watch,
            allow_watch_bookmarks: bookmarks,
            resource_version: version,
            resource_version_match: version_match,
            timeout_seconds: timeout,
            limit,
            continue_token: token,
            send_initial_events: initial,
        };
        prop_assert_eq!(ListOptions::parse(&Query::parse(&options.to_query())).unwrap(), options);
    }

    #[test]
    fn events_come_out_whatever_the_chunks(
        objects in prop::collection::vec((0..5_usize, value(true)), 0..6),
        cuts in prop::collection::vec(1..40_usize, 1..20),
    ) {
        let types = [EventType::Added, EventType::Modified, EventType::Deleted, EventType::Bookmark, EventType::Error];
        let (mut stream, mut expected) = (Vec::new(), Vec::new());
        for (event_type, object) in objects {
            let bytes = json::encode(&object);
            event::frame(types[event_type], &bytes, &mut stream);
            expected.push(WireEvent { event_type: types[event_type], object: Bytes::from(bytes), is_delta: false });
        }
        let (mut decoder, mut found, mut at) = (Decoder::default(), Vec::new(), 0);
        for cut in cuts.iter().cycle().take_while(|_| !stream.is_empty()) {
            let end = (at + cut).min(stream.len());
            decoder.push(Bytes::copy_from_slice(&stream[at..end]));
            // Only now and then are events taken out in between.
            if cut % 2 == 0 || end == stream.len() {
                while let Some(event) = decoder.next_event().unwrap() {
                    found.push(event);
                }
            }
            at = end;
            if at == stream.len() {
                break;
            }
        }
        decoder.finish().unwrap();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn encoded_values_parse_back(value in value(true)) {
        let encoded = json::encode(&value);
        let parsed = json::parse(&encoded).unwrap();
        // A float that is a whole number comes back as an integer, as it does from Go.
        prop_assert_eq!(json::encode(&parsed.value), encoded);
        prop_assert!(parsed.duplicates.is_empty());
    }

    #[test]
    fn parsing_agrees_with_serde(value in value(true)) {
        for text in [serde_json::to_string(&value).unwrap(), serde_json::to_string_pretty(&value).unwrap()] {
            prop_assert_eq!(json::parse(text.as_bytes()).unwrap().value, serde_json::from_str::<Value>(&text).unwrap());
        }
    }

    #[test]
    fn walking_bytes_agrees_with_the_tree(value in value(true), other in value(true), pretty in any::<bool>(), path in prop::collection::vec("[a-c~/.]{1,2}", 0..4)) {
        let object = json!({"a": value, "b": other});
        let bytes = if pretty { serde_json::to_vec_pretty(&object).unwrap() } else { json::encode(&object) };
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        let expected = path.iter().try_fold(&object, |value, step| value.as_object()?.get(step));
        let found = json::raw::lookup(&bytes, &path).map(|raw| serde_json::from_slice::<Value>(raw).unwrap());
        prop_assert_eq!(found.as_ref(), expected);
        prop_assert_eq!(json::raw::skip_value(&bytes, 0), Some(bytes.len()));
    }

    #[test]
    fn no_bytes_make_anything_panic(bytes in prop::collection::vec(any::<u8>(), 0..64), text in "[\\[\\]{}\",:\\\\a-e0-9.=!<>() $/%&+-]{0,40}") {
        for bytes in [bytes.as_slice(), text.as_bytes()] {
            let _ = json::parse(bytes);
            let _ = json::raw::lookup(bytes, &["a", "b"]);
            let _ = json::raw::skip_value(bytes, 0);
            let _ = (json::raw::scalar(bytes), json::raw::unescape(bytes));
            let mut decoder = Decoder::default();
            decoder.push(Bytes::copy_from_slice(bytes));
            while let Ok(Some(_)) = decoder.next_event() {}
        }
        let _ = text.parse::<LabelSelector>();
        let _ = text.parse::<FieldSelector>();
        let query = Query::parse(&text);
        let _ = (ListOptions::parse(&query), DeleteOptions::parse(&query), WriteOptions::parse(&query));
    }
}
