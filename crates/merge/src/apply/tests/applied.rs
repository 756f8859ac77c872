//! Owners, conflicts and removals of applied configurations.

use listwatch_wire::Status;

use super::*;

#[test]
fn an_applied_configuration_owns_its_fields() {
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
