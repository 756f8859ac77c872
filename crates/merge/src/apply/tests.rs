//! Tests of server-side apply, each named by the rule it shows.
//! They use a small schema of their own with one of each list and map type; the schemas of real kinds are tested with
//! the server against recorded answers.

use listwatch_json::{Value, json};
use proptest::prelude::*;

use super::*;
use crate::patch::{ListKeys, ListKind, MapKind, MergeSchema, PatchStrategy, Shape};
use listwatch_wire::Status;

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

#[test]
fn a_created_object_belongs_to_its_writer_with_the_maps_it_added() {
    let mut world = World::new();
    world.update("writer", object(json!({"k": "1"})));
    assert_eq!(
        world.record(),
        &json!([{
            "manager": "writer", "operation": "Update", "apiVersion": "v1", "time": T0, "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {".": {}, "f:k": {}}}
        }])
    );
}

#[test]
fn structs_of_the_zero_object_are_nobodys() {
    let mut world = World::new();
    world.zero = json!({"metadata": {}, "spec": {"strategy": {}}});
    world.update("w", spec(json!({"size": 1, "strategy": {"type": "x"}})));
    assert_eq!(world.owned("w"), json!({"f:spec": {"f:size": {}, "f:strategy": {"f:type": {}}}}));
}

#[test]
fn an_update_takes_over_what_it_changes_and_only_that() {
    let mut world = World::new();
    world.update("my-tool", object(json!({"k": "1", "l": "1"})));
    let mut new = world.live.clone().unwrap();
    new["data"]["m"] = "1".into();
    new["data"]["l"] = "2".into();
    world.update("other-tool", new);
    assert_eq!(world.owned("my-tool"), json!({"f:data": {".": {}, "f:k": {}}}));
    assert_eq!(world.owned("other-tool"), json!({"f:data": {"f:l": {}, "f:m": {}}}));
}

#[test]
fn a_writer_of_its_own_fields_changes_its_time_and_nothing_else() {
    let mut world = World::new();
    world.update("a", object(json!({"x": "1"})));
    world.update("b", object(json!({"x": "1", "y": "1"})));
    let before = world.record().clone();
    world.update_at("b", T1, object(json!({"x": "1", "y": "2"})));
    let after = world.record();
    assert!(after[0].is_same(&before[0]) && after[1]["fieldsV1"].is_same(&before[1]["fieldsV1"]));
    assert_eq!((&before[1]["time"], &after[1]["time"]), (&T0.into(), &T1.into()));
}

#[test]
fn removal_is_forgotten_by_all_and_owned_by_none() {
    let mut world = World::new();
    world.update("one", object(json!({"k": "1", "l": "1"})));
    let mut new = world.live.clone().unwrap();
    new["data"].as_object_mut().unwrap().remove("k");
    world.update_at("two", T1, new);
    assert_eq!(world.owned("one"), json!({"f:data": {".": {}, "f:l": {}}}));
    assert_eq!(world.owned("two"), Value::Null);
    assert_eq!(world.record()[0]["time"], T0);
}

#[test]
fn an_update_without_the_record_keeps_it() {
    let mut world = World::new();
    world.update("one", object(json!({"k": "1"})));
    world.update_at("one", T1, object(json!({"k": "1"})));
    assert_eq!(world.owned("one"), json!({"f:data": {".": {}, "f:k": {}}}));
    assert_eq!(world.record()[0]["time"], T0, "nothing changed, so neither does the time");
}

#[test]
fn a_write_that_does_not_fit_the_schema_is_owned_by_nobody() {
    for odd in [json!({"items": 5}), json!({"items": [null]}), json!(1)] {
        let mut world = World::new();
        assert_eq!(world.update("one", spec(odd.clone()))["metadata"].get("managedFields"), None, "{odd}");
        let mut world = World::new();
        world.update("one", spec(json!({"size": 1})));
        world.update("two", spec(odd.clone()));
        assert_eq!(world.owned("one"), json!({"f:spec": {".": {}, "f:size": {}}}), "{odd}");
        assert_eq!(world.record().as_array().map(Vec::len), Some(1), "{odd}");
    }
}

#[test]
fn a_value_of_another_type_takes_what_was_inside_from_its_owners() {
    let (zero, ignored) = (json!({}), FieldSet::new());
    let manager = |manager| FieldManager {
        schema: crate::patch::Schemaless,
        zero: &zero,
        ignored: &ignored,
        versions: KindVersions::any(),
        manager,
        api_version: "v1",
        subresource: "",
        now: T0,
    };
    let thing = |extra: Value| json!({"kind": "Thing", "apiVersion": "v1", "metadata": {"name": "a"}, "extra": extra});
    let live = manager("one").apply(None, &thing(json!({"deep": 1})), false).unwrap().object;
    let mut new = thing(json!([]));
    manager("two").update(Some(&live), &mut new);
    let record = new["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!((record.len(), &record[0]["manager"]), (1, &json!("two")));
}

#[test]
fn an_empty_record_resets_and_stays_away_until_an_apply() {
    for reset in [json!([]), json!([{}])] {
        let mut world = World::new();
        world.apply("one", object(json!({"k": "1"})));
        let mut new = world.live.clone().unwrap();
        new["metadata"]["managedFields"] = reset;
        world.update("one", new);
        assert_eq!(world.record(), &Value::Null);
        world.update("two", object(json!({"k": "2"})));
        assert_eq!(world.record(), &Value::Null);
        world.apply("one", object(json!({"l": "2"})));
        assert_eq!(world.owned("before-first-apply"), json!({"f:data": {".": {}, "f:k": {}}}));
        assert_eq!(world.owned("one"), json!({"f:data": {"f:l": {}}}));
    }
}

#[test]
fn an_unreadable_record_is_replaced_by_the_old_one() {
    let mut world = World::new();
    world.update("one", object(json!({"k": "1"})));
    for bad in [
        json!("x"),
        json!([1]),
        json!([{"manager": "x", "operation": "Odd"}]),
        json!([{"operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": {"q": {}}}]),
    ] {
        let mut new = object(json!({"k": "1"}));
        new["metadata"]["managedFields"] = bad;
        world.update("two", new);
        assert_eq!(world.owned("one"), json!({"f:data": {".": {}, "f:k": {}}}));
    }
}

#[test]
fn a_later_entry_of_a_manager_replaces_an_earlier_one() {
    let mut world = World::new();
    let entry = |field: &str| json!({"manager": "x", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {field: {}}}});
    world.update("one", object(json!({"k": "1", "l": "1"})));
    let mut new = object(json!({"k": "1", "l": "1"}));
    new["metadata"]["managedFields"] = json!([entry("f:k"), entry("f:l")]);
    world.update("two", new);
    assert_eq!(world.owned("x"), json!({"f:data": {"f:l": {}}}));
}

#[test]
fn the_record_cannot_be_written_through_a_subresource() {
    let mut world = World::new();
    world.update("one", object(json!({"k": "1"})));
    let mut new = world.live.clone().unwrap();
    new["metadata"]["managedFields"] = json!([]);
    new["status"] = json!({"ready": 1});
    let manager = FieldManager { subresource: "status", ..world.manager("ctl", T1) };
    manager.update(world.live.as_ref(), &mut new);
    world.live = Some(new);
    assert_eq!(world.owned("one"), json!({"f:data": {".": {}, "f:k": {}}}));
    assert_eq!(world.owned("ctl"), json!({"f:status": {".": {}, "f:ready": {}}}));
    assert_eq!(world.record()[1]["subresource"], "status");
}

#[test]
fn the_oldest_updaters_are_merged_beyond_ten() {
    let mut world = World::new();
    world.update("m00", object(json!({"k00": "1"})));
    for i in 1..13 {
        let mut new = world.live.clone().unwrap();
        new["data"][&*format!("k{i:02}")] = "1".into();
        world.update_at(&format!("m{i:02}"), &format!("2026-01-01T00:00:{i:02}Z"), new);
    }
    let managers: Vec<&str> =
        world.record().as_array().unwrap().iter().map(|e| e["manager"].as_str().unwrap()).collect();
    assert_eq!(managers.len(), 10);
    assert_eq!(managers[0], "ancient-changes");
    assert_eq!(
        world.owned("ancient-changes"),
        json!({"f:data": {".": {}, "f:k00": {}, "f:k01": {}, "f:k02": {}, "f:k03": {}}})
    );
    assert_eq!(world.record()[0]["time"], "2026-01-01T00:00:03Z");
}

#[test]
fn an_applied_configuration_owns_what_it_says() {
    let mut world = World::new();
    let config = json!({"kind": "Thing", "apiVersion": "v1", "metadata": {"name": "a", "labels": {"l": "x"}}, "data": {"k": "1"}});
    world.apply("one", config);
    assert_eq!(world.owned("one"), json!({"f:data": {"f:k": {}}, "f:metadata": {"f:labels": {"f:l": {}}}}));
    assert_eq!(world.record()[0]["operation"], "Apply");
}

#[test]
fn applying_the_same_again_changes_nothing() {
    let mut world = World::new();
    world.apply("one", object(json!({"k": "1"})));
    let before = world.live.clone();
    let applied = world.manager("one", T1).apply(before.as_ref(), &object(json!({"k": "1"})), false).unwrap();
    assert!(!applied.changed);
    assert_eq!(Some(applied.object), before);
}

#[test]
fn fields_of_updaters_conflict_and_can_be_forced() {
    let mut world = World::new();
    world.update("writer", object(json!({"k": "1"})));
    let refused = world.apply_at("one", T1, object(json!({"k": "2"})), false).unwrap_err();
    let status = Status::from(refused);
    assert_eq!(status.message, "Apply failed with 1 conflict: conflict with \"writer\" using v1: .data.k");
    assert_eq!(
        Value::from(serde_json::to_value(status.details).unwrap()),
        json!({"causes": [{"reason": "FieldManagerConflict", "message": "conflict with \"writer\" using v1", "field": ".data.k"}]})
    );
    world.apply_at("one", T1, object(json!({"k": "2"})), true).unwrap();
    assert_eq!(world.live.as_ref().unwrap()["data"], json!({"k": "2"}));
    assert_eq!(world.owned("one"), json!({"f:data": {"f:k": {}}}));
    assert_eq!(world.owned("writer"), json!({"f:data": {}}));
    assert_eq!(world.record()[0]["manager"], "one", "appliers come first");
}

/// A conflict of 40,000 fields was answered with 4 MB.
#[test]
fn the_answer_to_a_conflict_is_bounded() {
    let mut world = World::new();
    let data = |value: &str| -> Value {
        Value::Object((0..4000).map(|n| (format!("a-key-of-some-length-{n:05}"), value.into())).collect())
    };
    world.apply("a", object(data("1")));
    let refused = world.apply_at("b", T1, object(data("2")), false).unwrap_err();
    let text = refused.to_string();
    assert!(
        text.starts_with("Apply failed with 4000 conflicts: conflicts with \"a\":\n- .data.a-key"),
        "{text}"
    );
    let listed = text.matches("\n- ").count();
    assert!(text.ends_with(&format!("\nand {} more", 4000 - listed)) && listed > 1000, "{text}");
    let status = Status::from(refused);
    assert_eq!(status.details.as_ref().unwrap().causes.len(), listed);
    assert!(status.to_json().len() < 1 << 20);
}

#[test]
fn many_conflicts_are_listed_by_manager() {
    let mut world = World::new();
    world.apply("b", object(json!({"x": "1", "y": "1"})));
    world.apply("a", object(json!({"z": "1"})));
    let refused = world.apply_at("c", T1, object(json!({"x": "2", "y": "2", "z": "2"})), false).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "Apply failed with 3 conflicts: conflicts with \"a\":\n- .data.z\nconflicts with \"b\":\n- .data.x\n- .data.y"
    );
}

#[test]
fn agreeing_managers_share_and_the_last_to_let_go_removes() {
    let mut world = World::new();
    world.apply("one", object(json!({"k": "1", "m": "1"})));
    world.apply("two", object(json!({"m": "1"})));
    assert_eq!(world.record()[0].get("time"), None, "sharing changed nothing, so the new entry has no time");
    world.apply("one", object(json!({"k": "1"})));
    assert_eq!(world.live.as_ref().unwrap()["data"], json!({"k": "1", "m": "1"}));
    world.apply("two", object(json!({})));
    assert_eq!(world.live.as_ref().unwrap()["data"], json!({"k": "1"}));
    world.apply("one", json!({"kind": "Thing", "apiVersion": "v1", "metadata": {"name": "a"}}));
    assert_eq!(world.live.as_ref().unwrap().get("data"), None, "a map goes with its last entry");
    assert_eq!(world.owned("two"), json!({"f:data": {}}), "who applied an empty map still owns it");
}

#[test]
fn a_field_of_an_updater_survives_the_applier() {
    let mut world = World::new();
    world.apply("one", object(json!({"k": "1", "l": "1"})));
    let mut new = world.live.clone().unwrap();
    new["data"]["k"] = "2".into();
    world.update("writer", new);
    world.apply("one", object(json!({"l": "1"})));
    assert_eq!(world.live.as_ref().unwrap()["data"], json!({"k": "2", "l": "1"}));
}

#[test]
fn set_lists_are_owned_by_value() {
    let mut world = World::new();
    let config =
        |f: Value| json!({"kind": "Thing", "apiVersion": "v1", "metadata": {"name": "a", "finalizers": f}});
    world.apply("one", config(json!(["example.test/a"])));
    assert_eq!(world.owned("one"), json!({"f:metadata": {"f:finalizers": {"v:\"example.test/a\"": {}}}}));
    let both = world.apply("two", config(json!(["example.test/b"])))["metadata"]["finalizers"].clone();
    assert_eq!(both, json!(["example.test/a", "example.test/b"]));
    world.apply("one", json!({"kind": "Thing", "apiVersion": "v1", "metadata": {"name": "a"}}));
    assert_eq!(world.live.as_ref().unwrap()["metadata"]["finalizers"], json!(["example.test/b"]));
}

#[test]
fn keyed_elements_are_owned_by_key_with_defaults_and_atomic_fields_whole() {
    let mut world = World::new();
    world.apply(
        "one",
        spec(json!({"items": [{"name": "main", "image": "i"}], "args": ["a", "b"], "one": {"x": 1}})),
    );
    assert_eq!(
        world.owned("one"),
        json!({"f:spec": {"f:args": {}, "f:items": {"k:{\"name\":\"main\",\"port\":80}": {".": {}, "f:image": {}, "f:name": {}}}, "f:one": {}}})
    );
    let refused = world
        .apply_at(
            "two",
            T1,
            spec(json!({"items": [{"name": "main", "port": 80, "image": "j"}], "args": ["c"]})),
            false,
        )
        .unwrap_err();
    assert_eq!(
        refused.to_string(),
        "Apply failed with 2 conflicts: conflicts with \"one\":\n- .spec.args\n- .spec.items[name=\"main\",port=80].image"
    );
}

#[test]
fn elements_go_when_their_only_owner_drops_them() {
    let mut world = World::new();
    world.apply("one", spec(json!({"items": [{"name": "a", "image": "i"}, {"name": "b"}]})));
    world.apply("two", spec(json!({"items": [{"name": "c"}, {"name": "b"}]})));
    let names = |world: &World| -> Vec<String> {
        let items = world.live.as_ref().unwrap()["spec"]["items"].as_array().unwrap().clone();
        items.iter().map(|i| i["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&world), ["a", "c", "b"]);
    world.apply("one", spec(json!({"items": [{"name": "b"}]})));
    assert_eq!(names(&world), ["c", "b"]);
}

#[test]
fn ignored_fields_are_neither_owned_nor_contested() {
    let mut world = World::new();
    world.update(
        "one",
        json!({"kind": "Thing", "apiVersion": "v1", "metadata": {"name": "a"}, "spec": {"size": 1}}),
    );
    world.ignored = FieldSet::of_fields(&[&["spec"], &["metadata", "labels"]]);
    let config = json!({"kind": "Thing", "apiVersion": "v1", "metadata": {"name": "a", "labels": {"x": "1"}}, "spec": {"size": 9}, "status": {"ready": 3}});
    let manager = FieldManager { subresource: "status", ..world.manager("ctl", T1) };
    let applied = manager.apply(world.live.as_ref(), &config, false).unwrap();
    world.live = Some(applied.object);
    assert_eq!(world.owned("ctl"), json!({"f:status": {"f:ready": {}}}));
}

/// A key that is left out and has no default is no part of an element's identity, as long as another one is there.
#[test]
fn an_element_may_leave_out_some_of_its_keys() {
    let world = World::new();
    let applied = world.manager("one", T0).apply(None, &spec(json!({"items": [{"port": 5}]})), false);
    assert_eq!(applied.unwrap().object["spec"]["items"][0]["port"], 5);
}

#[test]
fn configurations_must_fit_the_schema() {
    let world = World::new();
    let refused =
        |config: Value| world.manager("one", T0).apply(None, &config, false).unwrap_err().to_string();
    let mut unknown = object(json!({}));
    unknown["bogus"] = 1.into();
    let prefix = "failed to create typed patch object (/a; /v1, Kind=Thing): ";
    assert_eq!(refused(unknown), format!("{prefix}.bogus: field not declared in schema"));
    assert_eq!(
        refused(spec(json!({"items": [{"name": "x"}, {"name": "x"}]}))),
        format!("{prefix}.spec.items: duplicate entries for key [name=\"x\",port=80]")
    );
    assert_eq!(
        refused(spec(json!({"items": [null], "zzz": 1}))),
        format!(
            "{prefix}errors:\n  .spec.items: element 0: associative list with keys may not have a null element\n  .spec.zzz: field not declared in schema"
        )
    );
    assert_eq!(refused(object(json!("text"))), format!("{prefix}.data: expected map, got &{{text}}"));
    assert_eq!(refused(spec(json!({"items": 5}))), format!("{prefix}.spec.items: expected list, got &{{5}}"));
    let mut managed = object(json!({}));
    managed["metadata"]["managedFields"] = json!([]);
    assert_eq!(refused(managed), "metadata.managedFields must be nil");
}

/// The owner of a map lost it when an applier took its last key back.
#[test]
fn a_map_that_an_applier_empties_keeps_its_owner() {
    let mut world = World::new();
    let labelled = |labels: Value| json!({"kind": "Thing", "apiVersion": "v1", "metadata": {"name": "a", "labels": labels}});
    world.update("one", labelled(json!({"a": "1"})));
    world.apply_at("two", T0, labelled(json!({"a": "2"})), true).unwrap();
    assert_eq!(world.owned("one"), json!({"f:metadata": {"f:labels": {}}}));
    world.apply("two", json!({"kind": "Thing", "apiVersion": "v1", "metadata": {"name": "a"}}));
    assert_eq!(world.owned("one"), json!({"f:metadata": {"f:labels": {}}}));
    assert!(world.live.as_ref().unwrap()["metadata"].get("labels").is_none());
}

#[test]
fn a_struct_emptied_of_owned_fields_goes_whole() {
    let mut world = World::new();
    world.apply("one", spec(json!({"size": 1, "strategy": {"type": "x"}})));
    let live = world.live.as_mut().unwrap();
    live["spec"]["strategy"]["max"] = 5.into();
    world.apply("one", spec(json!({"size": 1})));
    assert_eq!(world.live.as_ref().unwrap()["spec"], json!({"size": 1}));
}

#[test]
fn managers_from_user_agents_are_printable_and_short() {
    assert_eq!(manager_from_user_agent("kubectl/v1.37 (linux/amd64)"), "kubectl");
    assert_eq!(manager_from_user_agent("a\u{7}b"), "ab");
    assert_eq!(manager_from_user_agent(&"x".repeat(500)).len(), DEFAULT_MANAGER_MAX);
}

mod laws {
    use std::collections::BTreeSet;

    use super::*;

    type Path = Vec<String>;

    fn element() -> impl Strategy<Value = String> {
        prop_oneof![
            prop::sample::select(vec!["f:a", "f:b", "f:c"]).prop_map(String::from),
            Just("k:{\"name\":\"x\"}".to_owned()),
            Just("v:1".to_owned()),
        ]
    }

    fn paths() -> impl Strategy<Value = BTreeSet<Path>> {
        prop::collection::btree_set(prop::collection::vec(element(), 1..4), 0..8)
    }

    /// The set a naive reader of the definition would build.
    fn set(paths: &BTreeSet<Path>) -> FieldSet {
        let mut out = FieldSet::new();
        for path in paths {
            let leaf = json!({});
            let nested = path.iter().rev().fold(leaf, |below, step| json!({ step.clone(): below }));
            out.union(&FieldSet::from_json(nested).unwrap());
        }
        out
    }

    fn model(set: &FieldSet) -> BTreeSet<Path> {
        fn walk(node: &Value, path: &mut Path, out: &mut BTreeSet<Path>) {
            let map = node.as_object().unwrap();
            if !path.is_empty() && (map.is_empty() || map.contains_key(".")) {
                out.insert(path.clone());
            }
            for (key, below) in map.iter().filter(|(key, _)| *key != ".") {
                path.push(key.to_string());
                walk(below, path, out);
                path.pop();
            }
        }
        let mut out = BTreeSet::new();
        walk(&set.to_json(), &mut Vec::new(), &mut out);
        out
    }

    fn config() -> impl Strategy<Value = Value> {
        let data = prop::collection::btree_map("[a-d]", "[12]", 0..4);
        let items = prop::collection::btree_map("[a-c]", prop::option::of("[12]"), 0..3);
        let args = prop::option::of(prop::collection::vec(0..3, 0..3));
        (data, items, args, any::<bool>()).prop_map(|(data, items, args, set)| {
            let item = |(name, image): (String, Option<String>)| match image {
                Some(image) => json!({"name": name, "image": image}),
                None => json!({"name": name}),
            };
            let mut spec = json!({"items": items.into_iter().map(item).collect::<Vec<_>>()});
            if let Some(args) = args {
                spec["args"] = json!(args);
            }
            let mut config = json!({"kind": "Thing", "apiVersion": "v1", "metadata": {"name": "a"}, "data": data, "spec": spec});
            if set {
                config["metadata"]["finalizers"] = json!(["x", "y"]);
            }
            config
        })
    }

    proptest! {
        #[test]
        fn set_operations_agree_with_plain_sets(a in paths(), b in paths()) {
            let (left, right) = (set(&a), set(&b));
            prop_assert_eq!(&model(&left), &a);
            prop_assert_eq!(left.contains(&right), b.is_subset(&a));
            let mut union = left.clone();
            union.union(&right);
            prop_assert_eq!(model(&union), a.union(&b).cloned().collect());
            let mut difference = left.clone();
            difference.subtract(&right);
            prop_assert_eq!(model(&difference), a.difference(&b).cloned().collect());
            prop_assert_eq!(model(&left.intersection(&right)), a.intersection(&b).cloned().collect());
            let mut recursive = left;
            recursive.subtract_recursive(&right);
            let expected = a.iter().filter(|p| !b.iter().any(|q| p.starts_with(q))).cloned().collect();
            prop_assert_eq!(model(&recursive), expected);
        }

        #[test]
        fn equal_sets_have_equal_json(a in paths(), b in paths()) {
            let mut one = set(&a);
            one.union(&set(&b));
            one.subtract(&set(&b));
            let expected: BTreeSet<Path> = a.difference(&b).cloned().collect();
            prop_assert_eq!(one, set(&expected));
        }

        #[test]
        fn applying_twice_is_applying_once(first in config(), second in config(), other in config()) {
            let mut world = World::new();
            world.apply_at("one", T0, first, true).unwrap();
            world.apply_at("two", T0, other, true).unwrap();
            world.apply_at("one", T0, second.clone(), true).unwrap();
            let once = world.live.clone();
            let again = world.manager("one", T1).apply(once.as_ref(), &second, false).unwrap();
            prop_assert!(!again.changed);
            prop_assert_eq!(Some(again.object), once);
        }

        #[test]
        fn applied_fields_are_set_and_owned(configs in prop::collection::vec(config(), 1..4)) {
            let mut world = World::new();
            for (i, config) in configs.iter().enumerate() {
                world.apply_at(["one", "two"][i % 2], T0, config.clone(), true).unwrap();
                let live = world.live.as_ref().unwrap();
                for (key, value) in config["data"].as_object().unwrap() {
                    prop_assert_eq!(&live["data"][key.as_str()], value);
                }
            }
        }

        #[test]
        fn dropping_everything_leaves_nothing_behind(a in config(), b in config()) {
            let mut world = World::new();
            world.apply_at("one", T0, a, true).unwrap();
            world.apply_at("two", T0, b, true).unwrap();
            let bare = json!({"kind": "Thing", "apiVersion": "v1", "metadata": {"name": "a"}});
            world.apply_at("one", T0, bare.clone(), true).unwrap();
            world.apply_at("two", T0, bare, true).unwrap();
            let live = world.live.as_ref().unwrap();
            prop_assert_eq!(live["metadata"].get("finalizers"), None);
            prop_assert_eq!((world.owned("one"), world.owned("two")), (Value::Null, Value::Null));
            for part in ["data", "spec"] {
                prop_assert!(live.get(part).is_none_or(|v| v == &json!({}) || v == &json!({"items": []})), "{}", live);
            }
        }
    }
}
