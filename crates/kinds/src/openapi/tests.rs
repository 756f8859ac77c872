//! What clients look for in the documents.

use listwatch_wire::json::Value;

use super::*;

fn document(group: &str, version: &str) -> Value {
    serde_json::from_slice(&v3(group, version).unwrap()).unwrap()
}

/// Every group and version once.
fn group_versions() -> impl Iterator<Item = (&'static str, &'static str)> {
    let versions: std::collections::BTreeSet<_> = table::all().iter().map(|k| (k.group, k.version)).collect();
    versions.into_iter()
}

/// Every reference in a document.
fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(map) => {
            found.extend(map.get("$ref").and_then(Value::as_str));
            map.values().for_each(|v| references(v, found));
        }
        Value::Array(items) => items.iter().for_each(|v| references(v, found)),
        _ => {}
    }
}

#[test]
fn every_group_version_has_a_document_whose_references_resolve() {
    for (group, version) in group_versions() {
        let document = document(group, version);
        let mut found = Vec::new();
        references(&document, &mut found);
        for reference in found {
            let name = reference.strip_prefix("#/components/schemas/").unwrap();
            assert!(document["components"]["schemas"][name].is_object(), "{name} in {group}");
        }
    }
}

#[test]
fn the_v2_document_is_whole() {
    let document: Value = serde_json::from_slice(&v2()).unwrap();
    let mut found = Vec::new();
    references(&document, &mut found);
    for reference in found {
        let name = reference.strip_prefix("#/definitions/").unwrap();
        assert!(document["definitions"][name].is_object(), "{name}");
    }
    assert!(document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"].is_object());
}

#[test]
fn kubectl_finds_that_the_server_validates_fields() {
    for (group, version) in group_versions() {
        let document = document(group, version);
        let served = |k: &&Kind| k.group == group && k.version == version && k.allows("patch");
        for kind in table::all().iter().filter(served) {
            let gvk = listwatch_wire::json::json!({"group": group, "version": version, "kind": kind.kind});
            let validates = document["paths"].as_object().unwrap().values().any(|path| {
                let parameters = path["patch"]["parameters"].as_array();
                path["patch"]["x-kubernetes-group-version-kind"] == gvk
                    && parameters.is_some_and(|p| p.iter().any(|p| p["name"] == "fieldValidation"))
            });
            assert!(validates, "{}", kind.kind);
        }
    }
}

#[test]
fn explain_finds_the_text_of_a_field() {
    let schemas = &document("", "v1")["components"]["schemas"];
    let pod = &schemas["io.k8s.api.core.v1.Pod"];
    assert_eq!(pod["x-kubernetes-group-version-kind"][0]["kind"], "Pod");
    let spec = &schemas["io.k8s.api.core.v1.PodSpec"]["properties"];
    assert!(spec["containers"]["description"].as_str().unwrap().starts_with("List of containers"));
    let policy = spec["restartPolicy"]["description"].as_str().unwrap();
    assert!(policy.contains("Always"), "{policy}");
    assert_eq!(schemas["io.k8s.api.core.v1.PodSpec"]["required"][0], "containers");
}

#[test]
fn merge_rules_are_in_the_schemas() {
    let schemas = &document("", "v1")["components"]["schemas"];
    let ports = &schemas["io.k8s.api.core.v1.ServiceSpec"]["properties"]["ports"];
    assert_eq!(ports["x-kubernetes-patch-merge-key"], "port");
    assert_eq!(ports["x-kubernetes-list-map-keys"], listwatch_wire::json::json!(["port", "protocol"]));
    let volumes = &schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["volumes"];
    assert_eq!(volumes["x-kubernetes-patch-strategy"], "merge,retainKeys");
}

#[test]
fn hashes_differ_by_document_and_are_stable() {
    assert_ne!(hash("", "v1"), hash("apps", "v1"));
    assert_eq!(hash("", "v1"), hash("", "v1"));
    assert_eq!(hash("", "v1").len(), 128);
}

#[test]
fn custom_resources_bring_their_schemas() {
    let resource = Resource {
        group: "example.test",
        version: "v1",
        kind: "Widget",
        plural: "widgets",
        namespaced: true,
        verbs: vec!["get", "list", "patch"],
        subresources: Vec::new(),
        definition: "test.example.v1.Widget".to_owned(),
        list_definition: "test.example.v1.WidgetList".to_owned(),
        custom: true,
    };
    let schemas = BTreeMap::from([(
        "test.example.v1.Widget".to_owned(),
        listwatch_wire::json::json!({"type": "object"}),
    )]);
    let document: Value = serde_json::from_slice(&custom_v3(&[resource], &schemas)).unwrap();
    assert!(document["components"]["schemas"]["test.example.v1.Widget"].is_object());
    let meta = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
    assert!(document["components"]["schemas"][meta].is_object());
    let paths = &document["paths"]["/apis/example.test/v1/namespaces/{namespace}/widgets/{name}"];
    assert_eq!(paths["patch"]["operationId"], "patchExampleV1NamespacedWidget");
    assert!(paths["delete"].is_null());
    // `kubectl apply` of a change to a custom resource failed with 415, because the document offered a strategic merge patch.
    let types = paths["patch"]["requestBody"]["content"].as_object().unwrap();
    assert!(types.contains_key("application/merge-patch+json"));
    assert!(!types.contains_key("application/strategic-merge-patch+json"));
}
