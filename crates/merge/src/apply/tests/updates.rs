//! Owners of fields written by create, update and patch.

use super::*;

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
fn structs_of_the_zero_object_have_no_owner() {
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
fn a_write_that_does_not_fit_the_schema_has_no_owner() {
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
