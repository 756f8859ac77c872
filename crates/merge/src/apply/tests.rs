//! Tests of server-side apply, each named by the rule it shows.
//! They use a small schema of their own with one of each list and map type; the schemas of real kinds are tested with
//! the server against recorded answers.

mod applied;
mod laws;
mod updates;

use listwatch_json::{Value, json};

use super::*;
use crate::patch::{ListKeys, ListKind, MapKind, MergeSchema, PatchStrategy, Shape};

/// A small kind: `spec` is a struct; `spec.items` a list by `name` and `port` (default 80), `spec.args` atomic,
/// `spec.one` an atomic map; `metadata` has labels and a set of finalizers; `data` is a map of text; `status` a struct.
#[derive(Clone, Copy, Debug)]
struct Node(&'static str);

impl MergeSchema for Node {
    fn field(self, name: &str) -> Option<Self> {
        let field = match (self.0, name) {
            ("", "kind" | "apiVersion") => "scalar",
            ("", "metadata") => "metadata",
            ("", "spec") => "spec",
            ("", "status") => "status",
            ("", "data") | ("metadata", "labels" | "annotations") => "map",
            ("metadata", "finalizers") => "set",
            ("metadata", _) | ("spec", "size" | "mode") | ("status", "ready") => "scalar",
            ("spec", "items") => "items",
            ("spec", "args") => "atomic",
            ("spec", "one") => "atomic",
            ("spec", "strategy") => "strategy",
            ("strategy", "type" | "max") => "scalar",
            ("item", "name" | "port" | "image") => "scalar",
            ("item", "env") => "map",
            ("map", _) => "scalar",
            ("atomic", _) => "atomic",
            _ => return None,
        };
        Some(Self(field))
    }
    fn items(self) -> Option<Self> {
        Some(Self(if self.0 == "items" { "item" } else { "scalar" }))
    }
    fn list_kind(&self) -> ListKind<'_> {
        match self.0 {
            "items" => ListKind::Map(ListKeys::Builtin(&["port", "name"])),
            "set" => ListKind::Set,
            _ => ListKind::Atomic,
        }
    }
    fn map_kind(self) -> MapKind {
        match self.0 {
            "map" => MapKind::Granular,
            "atomic" => MapKind::Atomic,
            _ => MapKind::Struct,
        }
    }
    fn merge_key(&self) -> Option<&str> {
        None
    }
    fn patch_strategy(self) -> PatchStrategy {
        PatchStrategy::default()
    }
    fn shape(self) -> Shape {
        match self.0 {
            "metadata" | "spec" | "map" => Shape::Map,
            "items" | "set" => Shape::List,
            _ => Shape::Any,
        }
    }
    fn key_default(&self, key: &str) -> Option<Value> {
        (key == "port").then(|| 80.into())
    }
}

const T0: &str = "2026-01-01T00:00:00Z";
const T1: &str = "2026-01-01T00:00:01Z";

/// A world with one object in it.
struct World {
    zero: Value,
    ignored: FieldSet,
    versions: KindVersions,
    live: Option<Value>,
}

impl World {
    fn new() -> Self {
        let (zero, ignored) = (json!({"metadata": {}}), FieldSet::new());
        Self { zero, ignored, versions: KindVersions::any().clone(), live: None }
    }

    fn manager<'a>(&'a self, manager: &'a str, now: &'a str) -> FieldManager<'a, Node> {
        let (zero, ignored) = (&self.zero, &self.ignored);
        FieldManager {
            schema: Node(""),
            zero,
            ignored,
            versions: &self.versions,
            manager,
            api_version: "v1",
            subresource: "",
            now,
        }
    }

    fn update_at(&mut self, manager: &str, now: &str, mut new: Value) -> &Value {
        self.manager(manager, now).update(self.live.as_ref(), &mut new);
        self.live.insert(new)
    }

    fn update(&mut self, manager: &str, new: Value) -> &Value {
        self.update_at(manager, T0, new)
    }

    fn apply_at(
        &mut self,
        manager: &str,
        now: &str,
        config: Value,
        force: bool,
    ) -> Result<&Value, ApplyError> {
        let applied = self.manager(manager, now).apply(self.live.as_ref(), &config, force)?;
        Ok(self.live.insert(applied.object))
    }

    fn apply(&mut self, manager: &str, config: Value) -> &Value {
        self.apply_at(manager, T0, config, false).unwrap()
    }

    fn owned(&self, manager: &str) -> Value {
        let entries =
            self.live.as_ref().unwrap()["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        entries.into_iter().find(|e| e["manager"] == manager).map_or(Value::Null, |e| e["fieldsV1"].clone())
    }

    fn record(&self) -> &Value {
        &self.live.as_ref().unwrap()["metadata"]["managedFields"]
    }
}

fn object(data: Value) -> Value {
    json!({"kind": "Thing", "apiVersion": "v1", "metadata": {"name": "a"}, "data": data})
}

fn spec(spec: Value) -> Value {
    json!({"kind": "Thing", "apiVersion": "v1", "metadata": {"name": "a"}, "spec": spec})
}
