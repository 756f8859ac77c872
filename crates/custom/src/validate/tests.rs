use super::*;
use crate::tests::schema;
use listwatch_wire::json::{json, steps};

/// `field reason` of each error, for a schema of one field `f`.
fn errors(field: Value, value: Value) -> Vec<String> {
    let schema = schema(json!({"type": "object", "properties": {"f": field}}));
    let errors = validate(&schema, &json!({"f": value}), None);
    errors.iter().map(|error| format!("{} {:?}", error.field, error.kind)).collect()
}

#[test]
fn wrong_types_are_named_with_their_path() {
    assert_eq!(errors(json!({"type": "string"}), json!(5)), ["f TypeInvalid"]);
    assert_eq!(
        errors(json!({"type": "array", "items": {"type": "string"}}), json!(["a", 2])),
        ["f[1] TypeInvalid"]
    );
    assert_eq!(errors(json!({"type": "integer"}), json!(1.5)), ["f TypeInvalid", "<nil> Invalid"]);
    assert_eq!(errors(json!({"type": "integer"}), json!(2.0)), [""; 0], "a whole float is an integer");
    assert_eq!(errors(json!({"type": "number"}), json!(2)), [""; 0]);
    let small = json!({"type": "integer", "format": "int32"});
    assert_eq!(errors(small.clone(), json!(2_147_483_648_i64)), ["<nil> Invalid"]);
    assert_eq!(errors(small, json!(-2_147_483_648_i64)), [""; 0]);
    assert_eq!(errors(json!({"x-kubernetes-int-or-string": true}), json!(true)), ["f TypeInvalid"]);
    // Numbers that no signed integer of 64 bits can be were taken for integers.
    for (kind, count) in [
        (json!({"type": "integer"}), 2),
        (json!({"type": "integer", "format": "int64"}), 2),
        (json!({"type": "integer", "format": "int32"}), 2),
        (json!({"x-kubernetes-int-or-string": true}), 1),
        (json!({"type": "number"}), 0),
    ] {
        for number in [json!(u64::MAX), json!(1e19), json!(-1e19)] {
            assert_eq!(errors(kind.clone(), number.clone()).len(), count, "{kind} {number}");
        }
        assert_eq!(errors(kind.clone(), json!(2e9)).len(), 0, "{kind}");
    }
}

#[test]
fn bounds_hold() {
    assert_eq!(errors(json!({"type": "integer", "minimum": 1}), json!(0)), ["f Invalid"]);
    assert_eq!(
        errors(json!({"type": "number", "minimum": 0, "exclusiveMinimum": true}), json!(0)),
        ["f Invalid"]
    );
    assert_eq!(errors(json!({"type": "integer", "multipleOf": 5}), json!(7)), ["f Invalid"]);
    assert_eq!(
        errors(json!({"type": "string", "maxLength": 3}), json!("äöü")),
        [""; 0],
        "characters, not bytes"
    );
    assert_eq!(errors(json!({"type": "string", "maxLength": 3}), json!("abcd")), ["f TooLong"]);
    assert_eq!(errors(json!({"type": "string", "pattern": "^a+$"}), json!("b")), ["f Invalid"]);
    // The classes of Go are ASCII; those of Unicode made a thousand such patterns compile for a minute.
    assert_eq!(errors(json!({"type": "string", "pattern": r"^\w$"}), json!("é")), ["f Invalid"]);
    assert!(errors(json!({"type": "string", "pattern": r"^\w$"}), json!("e")).is_empty());
    assert_eq!(errors(json!({"type": "string", "enum": ["red"]}), json!("green")), ["f NotSupported"]);
    assert_eq!(errors(json!({"type": "array", "maxItems": 1}), json!([1, 2])), ["f TooMany"]);
    assert_eq!(errors(json!({"type": "object", "required": ["x"]}), json!({})), ["f.x Required"]);
}

#[test]
fn keyed_lists_and_sets_refuse_duplicates() {
    let keyed = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port"],
        "items": {"type": "object", "properties": {"port": {"type": "integer"}}}});
    assert_eq!(errors(keyed, json!([{"port": 1}, {"port": 1}])), ["f[1] Duplicate"]);
    let set = json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}});
    assert_eq!(errors(set, json!(["x", "x"])), ["f[1] Duplicate"]);
}

#[test]
fn an_untouched_part_is_not_validated_again() {
    let schema = schema(json!({"type": "object", "properties": {
        "a": {"type": "string", "maxLength": 3}, "b": {"type": "string"}}}));
    let old = json!({"a": "toolong", "b": "1"});
    assert!(validate(&schema, &json!({"a": "toolong", "b": "2"}), Some(&old)).is_empty());
    assert_eq!(validate(&schema, &json!({"a": "alsolong", "b": "1"}), Some(&old)).len(), 1);
}

#[test]
fn combinations_hold() {
    let any = json!({"anyOf": [{"type": "integer"}, {"type": "string"}]});
    assert_eq!(errors(any.clone(), json!(1)), [""; 0]);
    assert_eq!(errors(any, json!(true)), ["<nil> Invalid", "f TypeInvalid"]);
    assert_eq!(errors(json!({"not": {"enum": ["x"]}}), json!("x")), ["<nil> Invalid"]);
    let one = json!({"oneOf": [{"minimum": 1}, {"maximum": 3}]});
    assert_eq!(errors(one, json!(2)), ["<nil> Invalid"], "both are valid");
    let all = json!({"type": "integer", "allOf": [{"minimum": 3}, {"multipleOf": 2}]});
    assert_eq!(errors(all, json!(1)), ["f Invalid", "f Invalid", "<nil> Invalid"]);
}

/// 15 KB of text and 60 such patterns took 40 s.
#[test]
fn searches_that_may_visit_many_states_count_as_steps() {
    let explosive: Vec<_> =
        (0..100).map(|n| json!({"pattern": format!("a[ab]{{{}}}[^ab]x", 600 + n)})).collect();
    let wide = schema(json!({"type": "string", "allOf": explosive}));
    let text = Value::from("ab".repeat(10_000));
    let found = ValidateWalk::new(1_000_000).run(&wide, &text, None);
    assert!(found.len() == 1 && found[0].detail.contains("alternatives or patterns"), "{found:?}");
    let names = schema(
        json!({"type": "array", "items": {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"}}),
    );
    assert!(validate(&names, &vec![Value::from("a".repeat(63)); 20_000].into(), None).is_empty());
}

/// 100,000 items of an enum of 50,000 values took a minute, because each was compared with all of them.
#[test]
fn the_length_of_an_enumeration_costs_nothing() {
    let steps_of = |values: usize| {
        let last = json!(format!("v{}", values - 1));
        let values: Vec<_> = (0..values).map(|n| json!(format!("v{n}"))).collect();
        let schema = schema(json!({"type": "array", "items": {"type": "string", "enum": values}}));
        let items = Value::from(vec![last; 100]);
        assert!(validate(&schema, &items, None).is_empty());
        let before = steps::taken();
        validate(&schema, &items, None);
        steps::taken() - before
    };
    // A lookup by hash compares with one value, or with a few whose hashes collide, which differ from run to run.
    let (many, few) = (steps_of(4000), steps_of(100));
    assert!(many < 10 * few, "{many} and {few}");
}

/// An object and the alternatives of its schema multiply: 300,000 items with 20,000 each kept a thread busy for a minute.
#[test]
fn a_validation_of_too_many_steps_is_refused() {
    let parts: Vec<_> = (0..100).map(|n| json!({"minimum": n})).collect();
    let many = |key: &str| schema(json!({"type": "array", "items": {"type": "integer", key: parts}}));
    for (key, value) in [("anyOf", -1), ("oneOf", -1), ("allOf", 1000)] {
        let items = Value::from(vec![json!(value); 1000]);
        let errors = ValidateWalk::new(10_000).run(&many(key), &items, None);
        let [only] = errors.as_slice() else { panic!("{key}: {} errors", errors.len()) };
        assert!(only.detail.starts_with("validation failed due to running out of steps"), "{key}: {only:?}");
        assert!(!only.field.is_empty(), "the place is named");
    }
    // What holds at once is not looked at further.
    let fine = Value::from(vec![json!(1000); 1000]);
    assert!(ValidateWalk::new(10_000).run(&many("anyOf"), &fine, None).is_empty());
}

/// Twenty thousand patterns of one long text are much work, too.
#[test]
fn the_length_of_a_text_counts() {
    let parts: Vec<_> = (0..100).map(|n| json!({"pattern": format!("x{n}$")})).collect();
    let schema = schema(json!({"type": "string", "anyOf": parts}));
    let text = Value::from("x".repeat(100_000));
    assert_eq!(ValidateWalk::new(100_000).run(&schema, &text, None).len(), 1);
    assert!(ValidateWalk::new(10_000_000).run(&schema, &text, None).len() > 1);
}

/// The path of each error may be as long as the object, also of errors that are not reported.
#[test]
fn long_paths_count_as_work() {
    let schema = |inner: Value| {
        schema(
            json!({"type": "object", "properties": {"f": {"type": "object", "additionalProperties": inner}}}),
        )
    };
    let object = |inner: Value| json!({"f": {"k".repeat(500_000): inner}});
    let set = json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}});
    let required: Vec<String> = (0..20_000).map(|n| format!("r{n}")).collect();
    let alternatives: Vec<Value> =
        (0..300).map(|n| json!({"minimum": 10 + n})).chain([json!({"maximum": 10})]).collect();
    let combined = json!({"type": "array", "items": {"type": "integer", "anyOf": alternatives}});
    let began = std::time::Instant::now();
    for (inner, value) in [
        (set, json!(vec!["a"; 100_000])),
        (json!({"type": "object", "required": required}), json!({})),
        (combined, json!(vec![1; 1000])),
    ] {
        assert_eq!(validate(&schema(inner), &object(value), None).len(), 1);
    }
    assert!(began.elapsed() < std::time::Duration::from_secs(10), "{:?}", began.elapsed());
}

#[test]
fn a_number_is_allowed_however_it_is_written() {
    let two = json!({"type": "integer", "enum": [1, 2]});
    assert_eq!(errors(two.clone(), json!(2.0)), [""; 0]);
    assert_eq!(errors(two, json!(3.0)), ["f NotSupported"]);
}

#[test]
fn only_the_first_repetition_of_an_element_is_reported() {
    let set = json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}});
    let repeated = json!(["a", "b", "a", "a", "b"]);
    assert_eq!(errors(set, repeated), ["f[2] Duplicate", "f[4] Duplicate"]);
}

/// kube-apiserver does not look at the lists of an object that had repeated elements before.
#[test]
fn an_object_with_repeated_elements_may_get_more() {
    let set = json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}});
    let schema = schema(json!({"type": "object", "properties": {"f": set, "g": set}}));
    let (twice, other) = (json!({"f": ["a", "a"]}), json!({"f": ["a"], "g": ["b", "b"]}));
    assert_eq!(validate(&schema, &other, Some(&json!({"f": ["a"]}))).len(), 1);
    assert_eq!(validate(&schema, &other, Some(&twice)).len(), 0);
}

/// Of alternatives that do not hold, the errors of the one that looked at most are reported, as by kube-openapi.
#[test]
fn the_alternative_with_the_most_matches_is_reported() {
    let field = json!({
        "type": "object", "properties": {"a": {"type": "integer"}},
        "anyOf": [{"required": ["b"]}, {"properties": {"a": {"minimum": 0}}}],
    });
    let found = errors(field, json!({"a": -3}));
    assert!(
        found.contains(&"f.a Invalid".to_owned()) && !found.contains(&"f.b Required".to_owned()),
        "{found:?}"
    );
}

/// kube-openapi does not check the type of lists where the schema has a format.
#[test]
fn a_list_passes_for_a_text_with_a_format() {
    assert!(errors(json!({"type": "string", "format": "duration"}), json!([null])).is_empty());
    assert!(!errors(json!({"type": "string"}), json!([])).is_empty());
}

/// Elements that must differ are compared by other code of kube-apiserver, which shows keys of maps in brackets.
#[test]
fn a_repetition_in_a_map_of_lists_names_the_key() {
    let set = json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}});
    let map = json!({"type": "object", "additionalProperties": {"type": "object", "properties": {"s": set}}});
    assert_eq!(errors(map, json!({"a.b": {"s": ["x", "x"]}})), ["f[a.b].s[1] Duplicate"]);
}
