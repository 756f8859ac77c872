//! The parts of kube-apiserver's documents that the schema table lacks: enums and their texts, defaults, unions, the
//! order of required fields, and the types of discovery.
//!
//! A compressed JSON object: under `all` a merge patch for each definition as v3 has it, under `v2` what is different there.
//! `cargo xtask kinds --documents` makes it by comparing the documents of kube-apiserver with those written from the table alone
//! (`overlay_tests.rs`).

use std::io::Read;

use listwatch_merge::patch::merge_patch;
use listwatch_wire::json::{Value, json};

const COMPRESSED: &[u8] = include_bytes!("../schema/overlay.json.gz");

/// The overlay, unpacked; dropped when the document is written.
pub(super) struct Overlay(pub(super) Value);

impl Overlay {
    /// Unpacks the overlay, when a document is made.
    pub(super) fn unpack() -> Self {
        let mut text = Vec::new();
        // The bytes are part of the program; a test unpacks them. Without them the documents are less exact.
        let _ = flate2::read::GzDecoder::new(COMPRESSED).read_to_end(&mut text);
        Self(Value::read(&text).unwrap_or_else(|_| json!({})))
    }

    fn part(&self, part: &str, name: &str) -> Option<&Value> {
        self.0.get(part)?.get(name)
    }

    /// A definition that only the overlay has.
    pub(super) fn whole(&self, name: &str) -> Option<Value> {
        self.part("all", name).cloned()
    }

    /// A schema with the overlay on top.
    pub(super) fn over(&self, name: &str, mut schema: Value, dialect: super::Dialect) -> Value {
        if let Some(patch) = self.part("all", name) {
            let mut patch = patch.clone();
            if dialect == super::Dialect::V2 {
                as_v2(&mut patch);
            }
            merge_patch(&mut schema, patch);
        }
        if let (super::Dialect::V2, Some(patch)) = (dialect, self.part("v2", name)) {
            merge_patch(&mut schema, patch.clone());
        }
        schema
    }
}

/// References are elsewhere in v2 and may have something beside them; defaults of built-in kinds are not published there.
fn as_v2(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|key, value| {
                key.as_str() != "default" || value.as_object().is_some_and(|map| !map.is_empty())
            });
            if let Some(Value::Array(all)) = map.remove("allOf") {
                for (key, value) in all.iter().filter_map(Value::as_object).flatten() {
                    map.insert(key.clone(), value.clone());
                }
            }
            let name =
                map.get("$ref").and_then(Value::as_str).and_then(|reference| reference.rsplit('/').next());
            if let Some(reference) = name.map(|name| format!("#/definitions/{name}")) {
                map.insert("$ref".to_owned(), reference.into());
            }
            map.values_mut().for_each(as_v2);
        }
        Value::Array(list) => list.iter_mut().for_each(as_v2),
        _ => {}
    }
}
