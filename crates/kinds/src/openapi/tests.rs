//! Tests of the OpenAPI documents, by the parts that clients read.
//! References must resolve, names of operations must be those of kube-apiserver, and each document must parse; texts
//! are not compared.

use listwatch_wire::json::Value;

use crate::kind::Kind;

use super::*;

fn document(group: &str, version: &str) -> Value {
    serde_json::from_slice(&v3(paths::root(group, version).trim_start_matches('/')).unwrap()).unwrap()
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
    let document: Value = serde_json::from_slice(&v2(&[], &[])).unwrap();
    let mut found = Vec::new();
    references(&document, &mut found);
    for reference in found {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some_and(Value::is_object), "{pointer}");
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
    assert_ne!(hash("api/v1"), hash("apis/apps/v1"));
    assert_eq!(hash("api/v1"), hash("api/v1"));
    assert_eq!(hash("api/v1").len(), 128);
}

fn gadget(schema: &Value) -> CustomResource<'_> {
    CustomResource {
        group: "kube.example.com",
        version: "v1",
        kind: "Gadget",
        list_kind: "GadgetList",
        plural: "gadgets",
        namespaced: true,
        status: true,
        scale: true,
        schema,
        selectable: &[],
    }
}

#[test]
fn custom_resources_bring_their_schemas() {
    let schema = listwatch_wire::json::json!({"type": "object"});
    let document: Value = serde_json::from_slice(&custom_v3(&[gadget(&schema)])).unwrap();
    assert!(document["components"]["schemas"]["com.example.kube.v1.Gadget"].is_object());
    assert!(document["components"]["schemas"][OBJECT_META].is_object());
    assert!(document["components"]["schemas"]["io.k8s.api.autoscaling.v1.Scale"].is_object());
    let path = &document["paths"]["/apis/kube.example.com/v1/namespaces/{namespace}/gadgets/{name}"];
    assert_eq!(path["patch"]["operationId"], "patchKubeExampleComV1NamespacedGadget");
    // `kubectl apply` of a change to a custom resource failed with 415, because the document offered a strategic merge patch.
    let types = path["patch"]["requestBody"]["content"].as_object().unwrap();
    assert!(types.contains_key("application/merge-patch+json"));
    assert!(!types.contains_key("application/strategic-merge-patch+json"));
}

#[test]
fn v2_has_custom_kinds_without_what_it_cannot_say() {
    let schema = listwatch_wire::json::json!({"type": "object", "required": ["a", "b"], "properties": {
        "a": {"type": "string", "nullable": true},
        "b": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}], "default": 1},
        "c": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"d": {"type": "string"}}},
        "e": {"type": "object", "oneOf": [{"required": ["f"]}], "properties": {"f": {"type": "string"}}},
    }});
    let document: Value = serde_json::from_slice(&v2(&[gadget(&schema)], &[])).unwrap();
    let gadget = &document["definitions"]["com.example.kube.v1.Gadget"];
    let expected = listwatch_wire::json::json!({
        "a": {},
        "b": {"x-kubernetes-int-or-string": true},
        "c": {"x-kubernetes-preserve-unknown-fields": true},
        "e": {"type": "object", "properties": {"f": {"type": "string"}}},
    });
    for (name, schema) in expected.as_object().unwrap() {
        assert_eq!(&gadget["properties"][name.as_str()], schema, "{name}");
    }
    assert_eq!(gadget["required"], listwatch_wire::json::json!(["b"]));
    assert!(document["paths"]["/apis/kube.example.com/v1/gadgets"]["get"].is_object());
}

/// Reads the fields of a protobuf message: number and bytes of each that has a length.
fn fields(bytes: &[u8]) -> Vec<(u32, &[u8])> {
    let mut reader = crate::proto::wire::WireReader::new(bytes);
    let mut found = Vec::new();
    while let Some((number, wire)) = reader.tag().unwrap() {
        match wire {
            2 => found.push((number, reader.bytes().unwrap())),
            wire => reader.skip(wire).unwrap(),
        }
    }
    found
}

/// Names of the members of a map message inside the document.
fn members(document: &[u8], section: u32, entry: u32) -> BTreeSet<String> {
    let section = fields(document).into_iter().find(|(number, _)| *number == section).unwrap().1;
    let entries = fields(section).into_iter().filter(|(number, _)| *number == entry);
    entries.map(|(_, entry)| String::from_utf8(fields(entry)[0].1.to_vec()).unwrap()).collect()
}

/// kubectl up to 1.28 reads the v2 document in protobuf only.
#[test]
fn the_protobuf_form_has_what_the_json_form_has() {
    let json: Value = serde_json::from_slice(&v2(&[], &[])).unwrap();
    let protobuf = v2_protobuf(&[], &[]);
    let names = |section: &str| -> BTreeSet<String> {
        json[section].as_object().unwrap().keys().map(|key| key.to_string()).collect()
    };
    assert_eq!(members(&protobuf, 8, 2), names("paths"));
    assert_eq!(members(&protobuf, 9, 1), names("definitions"));
    assert_eq!(members(&protobuf, 10, 1), names("parameters"));
}

#[test]
fn the_protobuf_form_of_v3_has_what_the_json_form_has() {
    let document = v3("apis/apps/v1").unwrap();
    let json: Value = serde_json::from_slice(&document).unwrap();
    let protobuf = v3_protobuf(&document).unwrap();
    let keys = |of: &Value| -> BTreeSet<String> {
        of.as_object().unwrap().keys().map(|key| key.to_string()).collect()
    };
    assert_eq!(members(&protobuf, 4, 1), keys(&json["paths"]));
    let inner = |bytes: &[u8], number: u32| -> Vec<u8> {
        fields(bytes).into_iter().find(|(found, _)| *found == number).unwrap().1.to_vec()
    };
    assert_eq!(members(&inner(&protobuf, 5), 1, 1), keys(&json["components"]["schemas"]));
    assert!(v3_protobuf(b"{").is_none());
}

/// The messages of a schema, by hand: field numbers are those of gnostic's `OpenAPIv3.proto`.
#[test]
fn schemas_and_references_have_the_numbers_of_gnostic() {
    let schemas = r##"{"components":{"schemas":{"a":{"type":"x","default":true},"b":{"$ref":"r"}}}}"##;
    let schema = b"\xca\x01\x01x\x8a\x02\x02\x10\x01";
    let wrapped = |number: u8, inner: &[u8]| [&[number << 3 | 2, inner.len() as u8], inner].concat();
    let entry = |name: &[u8], value: &[u8]| wrapped(1, &[wrapped(1, name), wrapped(2, value)].concat());
    let map = [entry(b"a", &wrapped(1, schema)), entry(b"b", &wrapped(2, &wrapped(1, b"r")))].concat();
    assert_eq!(v3_protobuf(schemas.as_bytes()).unwrap(), wrapped(5, &wrapped(1, &map)));
}

/// Texts are found by the number of their line: one line more in the table would shift all texts after it.
#[test]
fn every_line_of_the_table_has_a_line_of_text() {
    let schema = crate::schema::schema();
    let lines: usize = schema.structs().map(|(id, _)| 1 + schema.fields(id).len()).sum();
    let texts = docs::Docs::unpack().len();
    assert_eq!(texts, lines, "the table was edited by hand: cargo xtask kinds writes both");
}
