use super::super::tests::definition;
use super::*;
use listwatch_wire::json::json;

fn errors(change: impl FnOnce(&mut Value)) -> Vec<String> {
    let mut object = definition("widgets", "Widget");
    change(&mut object);
    super::super::begin(&mut object);
    validate_create(&object).iter().map(|error| format!("{} {:?}", error.field, error.kind)).collect()
}

fn set(path: &'static str, value: Value) -> impl FnOnce(&mut Value) {
    move |object| *object.pointer_mut(path).unwrap() = value
}

#[test]
fn a_valid_definition_has_no_errors() {
    assert_eq!(errors(|_| {}), [""; 0]);
}

#[test]
fn the_name_is_plural_dot_group() {
    assert_eq!(errors(set("/metadata/name", json!("wrong.example.test"))), ["metadata.name Invalid"]);
}

#[test]
fn one_version_is_stored() {
    let wrong = ["spec.versions Invalid", "status.storedVersions Invalid"];
    assert_eq!(errors(set("/spec/versions/0/storage", json!(false))), wrong);
}

#[test]
fn scope_and_schema_are_checked() {
    assert_eq!(errors(set("/spec/scope", json!("Galaxy"))), ["spec.scope NotSupported"]);
    assert_eq!(
        errors(set("/spec/versions/0/schema", json!({}))),
        ["spec.versions[0].schema.openAPIV3Schema Required"]
    );
    let untyped =
        json!({"type": "object", "properties": {"spec": {"properties": {"a": {"type": "string"}}}}});
    assert_eq!(
        errors(set("/spec/versions/0/schema/openAPIV3Schema", untyped)),
        ["spec.validation.openAPIV3Schema.properties[spec].type Required"]
    );
}

/// 300 patterns in 16 KB took 300 MB and two seconds, and 1 MB of them all memory that there is.
#[test]
fn patterns_of_all_versions_are_bounded_together() {
    let patterns = |count: usize| {
        let one = |n| json!({"type": "string", "pattern": format!("\\pL{{18}}{n}")});
        (0..count).map(|n| (format!("f{n}"), one(n))).collect::<Map>()
    };
    let rules = |count: usize| -> Vec<Value> {
        (0..count).map(|n| json!({"rule": format!("self.matches('\\\\pL{{18}}{n}')")})).collect()
    };
    let spec = |schema: Value| {
        errors(set(
            "/spec/versions/0/schema/openAPIV3Schema",
            json!({"type": "object", "properties": {"spec": schema}}),
        ))
    };
    assert_eq!(spec(json!({"type": "object", "properties": patterns(10)})), [""; 0]);
    let refused = spec(json!({"type": "object", "properties": patterns(200)}));
    assert_eq!(refused, ["spec.validation.openAPIV3Schema Forbidden"]);
    let in_rules =
        |count| json!({"type": "string", "maxLength": 10, "x-kubernetes-validations": rules(count)});
    assert_eq!(spec(in_rules(10)), [""; 0]);
    assert!(!spec(in_rules(200)).is_empty());
}

/// A schema of 480 nested maps overflowed the stack of the thread that parsed it and crashed the server.
#[test]
fn schemas_nest_no_deeper_than_can_be_read() {
    let nested = |levels: usize, wrap: &dyn Fn(Value) -> Value| {
        let inner = (0..levels).fold(json!({"type": "string"}), |schema, _| wrap(schema));
        json!({"type": "object", "properties": {"spec": inner}})
    };
    let wraps: [&dyn Fn(Value) -> Value; 4] = [
        &|schema| json!({"type": "object", "additionalProperties": schema}),
        &|schema| json!({"type": "object", "properties": {"a": schema}}),
        &|schema| json!({"type": "array", "items": schema}),
        &|schema| json!({"type": "string", "not": schema}),
    ];
    for wrap in wraps {
        let path = "/spec/versions/0/schema/openAPIV3Schema";
        for levels in [70, 95] {
            assert!(!errors(set(path, nested(levels, wrap))).is_empty());
        }
        let refused = ["spec.validation.openAPIV3Schema Forbidden"];
        assert_eq!(errors(set(path, nested(96, wrap))), refused);
        assert_eq!(errors(set(path, nested(500, wrap))), refused);
    }
}

#[test]
fn the_status_knows_every_version_that_may_be_stored() {
    let mut object = definition("widgets", "Widget");
    object["status"]["storedVersions"] = json!(["v1", "v9"]);
    let fields = |object: &Value| validate_status(object).into_iter().map(|e| e.field).collect::<Vec<_>>();
    assert_eq!(fields(&object), ["status.storedVersions[1]"]);
    object["status"]["storedVersions"] = json!([]);
    assert_eq!(fields(&object), ["status.storedVersions"]);
    object["status"]["storedVersions"] = json!(["v0"]);
    assert_eq!(fields(&object), ["status.storedVersions", "status.storedVersions[0]"]);
}

#[test]
fn names_are_labels_and_versions_differ() {
    assert_eq!(
        errors(set("/spec/group", json!("Bad_.test"))),
        ["metadata.name Invalid", "spec.group Invalid"]
    );
    let names = json!({"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList", "shortNames": ["ok", "Not ok"]});
    assert_eq!(errors(set("/spec/names", names)), ["spec.names.shortNames[1] Invalid"]);
    assert_eq!(errors(set("/spec/names/singular", json!("Widget"))), ["spec.names.singular Invalid"]);
    let twice = |object: &mut Value| {
        let mut again = object["spec"]["versions"][0].clone();
        again["storage"] = json!(false);
        object["spec"]["versions"].as_array_mut().unwrap().push(again);
    };
    assert_eq!(errors(twice), ["spec.versions Invalid"]);
}

#[test]
fn group_scope_and_kind_stay() {
    let mut old = definition("widgets", "Widget");
    old["status"]["conditions"] = json!([]);
    let mut new = old.clone();
    *new.pointer_mut("/spec/scope").unwrap() = json!("Cluster");
    let fields =
        |old: &Value| validate_update(&new, old).into_iter().map(|error| error.field).collect::<Vec<_>>();
    assert_eq!(fields(&old), [""; 0]);
    old["status"]["conditions"] = json!([{"type": "Established", "status": "True"}]);
    assert_eq!(fields(&old), ["spec.scope"]);
}
