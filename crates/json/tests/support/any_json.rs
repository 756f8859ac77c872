//! A proptest strategy for JSON values. The tests of several crates include this file by its path.

use listwatch_json::{Map, Value, json};
use proptest::prelude::*;

/// Any JSON value, with odd strings; with nulls only if asked.
pub(crate) fn value(nulls: bool) -> impl Strategy<Value = Value> {
    let null = if nulls { Just(Value::Null).boxed() } else { Just(json!(true)).boxed() };
    let text = prop_oneof!["[a-z]{0,3}", "\\PC{0,4}", Just("\"\\\n\u{0}\u{7f}é😀".to_owned())];
    let leaf = prop_oneof![
        null,
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        // Halves: floats that every reader reads alike.
        (-1000..1000_i32).prop_map(|n| Value::from(f64::from(n) + 0.5)),
        text.prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-c~/.]{1,2}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect::<Map>())),
        ]
    })
}
