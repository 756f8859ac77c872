//! Keys, labels and selectors of a workload: labels with few values, so that random selectors split the objects and every
//! change may make an object enter or leave a selector.

use http::Method;
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use serde_json::{Value, json};

use super::Filtered;
use crate::collection::TestCollection;
use crate::history::WatchFilter;

const COLORS: [&str; 3] = ["red", "green", "blue"];
const SELECTORS: [&str; 9] = [
    "",
    "",
    "color=red",
    "color!=red",
    "color in (red, green)",
    "color notin (blue)",
    "big",
    "!big",
    "big,color=blue",
];

/// The next request of a writer for one of its keys.
pub(super) fn operation(
    random: &mut StdRng,
    collection: &TestCollection,
    name: &str,
    there: bool,
    write: usize,
) -> (Method, String, Option<Value>) {
    let path = collection.path();
    if !there {
        return (Method::POST, path, Some(object(random, collection, name, write)));
    }
    let item = format!("{path}/{name}");
    match random.random_range(0..10) {
        0..=2 => (Method::DELETE, item, None),
        3..=6 => (Method::PUT, item, Some(object(random, collection, name, write))),
        _ => {
            (Method::PATCH, item, Some(json!({"data": data(write), "metadata": {"labels": labels(random)}})))
        }
    }
}

/// A small object whose labels are chosen again with each write.
fn object(random: &mut StdRng, collection: &TestCollection, name: &str, write: usize) -> Value {
    json!({
        "kind": "Secret", "apiVersion": "v1", "type": "Opaque",
        "metadata": {"name": name, "namespace": collection.namespace(), "labels": labels(random)},
        "data": data(write),
    })
}

/// Eight digits are valid base64, which the data of a Secret must be. The part that never changes makes objects so large that
/// deltas are worth sending.
fn data(write: usize) -> Value {
    json!({"write": format!("{write:08}"), "same": "same".repeat(300)})
}

fn labels(random: &mut StdRng) -> Value {
    let color = COLORS.choose(random);
    if random.random_bool(0.5) { json!({"color": color, "big": "yes"}) } else { json!({"color": color}) }
}

/// A random selector, and the query that asks for it.
pub(super) fn filter(random: &mut StdRng, collection: &TestCollection) -> Filtered {
    let selector = SELECTORS.choose(random).copied().unwrap_or_default();
    let labels = selector.parse().unwrap_or_default();
    let encoded = selector.replace(' ', "%20").replace('=', "%3D").replace('!', "%21");
    (
        WatchFilter { namespace: Some(collection.namespace().to_owned()), labels },
        format!("labelSelector={encoded}"),
    )
}

#[cfg(test)]
mod tests {
    use listwatch_wire::selector::LabelSelector;

    use super::*;

    #[test]
    fn every_selector_is_one() {
        for selector in SELECTORS {
            assert!(selector.parse::<LabelSelector>().is_ok(), "{selector}");
        }
    }
}
