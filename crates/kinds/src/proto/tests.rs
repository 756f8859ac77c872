//! Tests of the protobuf codec against the generated code of `k8s-pb`, in both directions, and with hostile bytes.
//! Generated code is the reference: it is made from Kubernetes' own `.proto` files and shares nothing with the table.

use k8s_pb::api::core::v1 as core;
use listwatch_wire::json::{Value, json};
use prost::Message;

use super::*;

/// Encodes with our walker, decodes with generated code.
fn to_prost<M: Message + Default>(api_version: &str, kind: &str, object: &Value) -> M {
    let body = encode(api_version, kind, object).unwrap();
    M::decode(Envelope::open(&body).unwrap().raw).unwrap()
}

/// Encodes with generated code, decodes with our walker.
fn from_prost(api_version: &str, kind: &str, message: &impl Message) -> Value {
    decode(&envelope(api_version, kind, &message.encode_to_vec()), ("", "")).unwrap()
}

fn pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "namespace": "n", "creationTimestamp": "2026-01-02T03:04:05Z",
            "labels": {"a": "b"}, "managedFields": [{"manager": "m", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {".": {}}}}]},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "volumes": [{"name": "v", "configMap": {"name": "c", "optional": false, "items": [{"key": "k", "path": "p"}]}}],
            "containers": [{"name": "m", "resources": {"limits": {"cpu": "500m"}},
                "livenessProbe": {"httpGet": {"path": "/", "port": "web"}, "periodSeconds": 5},
                "readinessProbe": {"tcpSocket": {"port": 80}},
                "securityContext": {"runAsUser": 0}}],
            "ephemeralContainers": [{"name": "e", "image": "i", "targetContainerName": "m"}]
        },
        "status": {"startTime": "2026-01-02T03:04:05Z"}
    })
}

#[test]
fn generated_code_reads_what_we_write() {
    let pod: core::Pod = to_prost("v1", "Pod", &pod());
    let spec = pod.spec.unwrap();
    assert_eq!(spec.termination_grace_period_seconds, Some(0));
    let source = spec.volumes[0].volume_source.clone().unwrap().config_map.unwrap();
    assert_eq!(source.local_object_reference.unwrap().name.as_deref(), Some("c"));
    assert_eq!(source.optional, Some(false));
    let container = &spec.containers[0];
    assert_eq!(container.resources.as_ref().unwrap().limits["cpu"].string.as_deref(), Some("500m"));
    let probe = container.liveness_probe.as_ref().unwrap().handler.as_ref().unwrap();
    let port = probe.http_get.as_ref().unwrap().port.as_ref().unwrap();
    assert_eq!((port.r#type, port.str_val.as_deref()), (Some(1), Some("web")));
    let ephemeral = spec.ephemeral_containers[0].clone();
    assert_eq!(ephemeral.ephemeral_container_common.unwrap().image.as_deref(), Some("i"));
    assert_eq!(pod.metadata.unwrap().creation_timestamp.unwrap().seconds, Some(1_767_323_045));
}

#[test]
fn we_read_what_generated_code_writes() {
    let message: core::Pod = to_prost("v1", "Pod", &pod());
    assert_eq!(from_prost("v1", "Pod", &message), pod());
}

#[test]
fn zero_values_of_plain_fields_are_absent_and_of_pointers_present() {
    let spec = core::PodSpec {
        host_network: Some(false),
        node_name: Some(String::new()),
        automount_service_account_token: Some(false),
        termination_grace_period_seconds: Some(0),
        ..Default::default()
    };
    let pod = core::Pod { spec: Some(spec), ..Default::default() };
    let wanted = json!({"automountServiceAccountToken": false, "terminationGracePeriodSeconds": 0});
    assert_eq!(from_prost("v1", "Pod", &pod)["spec"], wanted);
}

#[test]
fn bytes_in_maps_are_base64() {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "data": {"k": "dmFsdWU=", "empty": ""}});
    let message: core::Secret = to_prost("v1", "Secret", &secret);
    assert_eq!(message.data["k"], b"value");
    assert_eq!(from_prost("v1", "Secret", &message), secret);
}

#[test]
fn json_schemas_survive() {
    let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": {"group": "g",
        "versions": [{"name": "v1", "schema": {"openAPIV3Schema": {"type": "object", "properties": {
            "a": {"default": {"x": [1, null]}, "enum": ["b", 1], "maximum": 1.5, "minLength": 0},
            "b": {"additionalProperties": true}, "c": {"additionalProperties": {"type": "string"}},
            "d": {"items": {"type": "integer"}}, "e": {"dependencies": {"f": ["x", "y"]}},
            "g": {"x-kubernetes-preserve-unknown-fields": true, "$ref": "r"}}}}}]}});
    let message: k8s_pb::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition =
        to_prost("apiextensions.k8s.io/v1", "CustomResourceDefinition", &crd);
    assert_eq!(from_prost("apiextensions.k8s.io/v1", "CustomResourceDefinition", &message), crd);
}

#[test]
fn maps_of_lists_are_messages_of_their_own() {
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {"user": "u", "extra": {"scopes": ["a", "b"]}}});
    let message: k8s_pb::api::authorization::v1::SubjectAccessReview =
        to_prost("authorization.k8s.io/v1", "SubjectAccessReview", &review);
    assert_eq!(message.spec.as_ref().unwrap().extra["scopes"].items, ["a", "b"]);
    assert_eq!(from_prost("authorization.k8s.io/v1", "SubjectAccessReview", &message), review);
}

#[test]
fn inlined_messages_may_be_nested() {
    let policy = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "spec": {"matchConstraints": {"resourceRules": [{"apiGroups": ["apps"], "operations": ["CREATE"],
            "resourceNames": ["x"]}]}}});
    let message: k8s_pb::api::admissionregistration::v1::ValidatingAdmissionPolicy =
        to_prost("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", &policy);
    assert_eq!(from_prost("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", &message), policy);
}

#[test]
fn request_options_are_the_same_in_every_group() {
    for group in ["v1", "apps/v1", "policy/v1"] {
        let options = json!({"apiVersion": group, "kind": "DeleteOptions", "propagationPolicy": "Background",
            "gracePeriodSeconds": 0, "preconditions": {"uid": "u"}});
        assert_eq!(decode(&encode(group, "DeleteOptions", &options).unwrap(), ("", "")).unwrap(), options);
    }
}

#[test]
fn an_envelope_without_a_kind_takes_the_expected_one() {
    let body = envelope("", "", &core::ConfigMap::default().encode_to_vec());
    assert_eq!(decode(&body, ("v1", "ConfigMap")).unwrap()["kind"], "ConfigMap");
    let error = decode(&envelope("a/v1", "B", &[]), ("v1", "ConfigMap")).unwrap_err();
    assert_eq!(error, ProtoError::UnknownKind { api_version: "a/v1".into(), kind: "B".into() });
}

#[test]
fn lists_are_written_in_pieces() {
    let list = ListWriter::new("v1", "Pod", &json!({"resourceVersion": "7"})).unwrap();
    let mut items = Vec::new();
    list.item(&pod(), &mut items).unwrap();
    let body = [&list.begin(items.len() as u64), &items[..], list.end()].concat();
    let message = core::PodList::decode(Envelope::open(&body).unwrap().raw).unwrap();
    assert_eq!(message.metadata.unwrap().resource_version.as_deref(), Some("7"));
    assert_eq!(message.items.len(), 1);
    let whole = encode("v1", "PodList", &json!({"metadata": {"resourceVersion": "7"}, "items": [pod()]}));
    assert_eq!(decode(&body, ("", "")), decode(&whole.unwrap(), ("", "")));
}

/// The fields of this list have each other's numbers in `v1beta1`.
#[test]
fn lists_of_metadata_have_the_numbers_of_their_version() {
    let object = json!({"metadata": {"name": "a"}});
    for (version, [metadata, items]) in
        [("meta.k8s.io/v1", [0x0a, 0x12]), ("meta.k8s.io/v1beta1", [0x12, 0x0a])]
    {
        let list =
            ListWriter::new(version, "PartialObjectMetadata", &json!({"resourceVersion": "7"})).unwrap();
        let mut item = Vec::new();
        list.item(&object, &mut item).unwrap();
        assert_eq!(item[0], items, "{version}");
        let body = [&list.begin(item.len() as u64), &item[..], list.end()].concat();
        assert_eq!(Envelope::open(&body).unwrap().raw[0], metadata, "{version}");
    }
    let one = encode("meta.k8s.io/v1beta1", "PartialObjectMetadata", &object).unwrap();
    let same = encode("meta.k8s.io/v1", "PartialObjectMetadata", &object).unwrap();
    assert_eq!(Envelope::open(&one).unwrap().raw, Envelope::open(&same).unwrap().raw);
}

#[test]
fn watch_events_are_frames_around_envelopes() {
    let object = encode("v1", "Pod", &pod()).unwrap();
    let stream = watch_frame("ADDED", &object);
    let event = k8s_pb::apimachinery::pkg::apis::meta::v1::WatchEvent::decode(&stream[4..]).unwrap();
    assert_eq!(event.object.unwrap().raw.as_deref(), Some(object.as_slice()));
    assert_eq!(event.r#type.as_deref(), Some("ADDED"));
    assert_eq!(stream[..4], (stream.len() as u32 - 4).to_be_bytes());
}

#[test]
fn nesting_is_bounded() {
    let mut bytes = Vec::new();
    for _ in 0..100_000 {
        let mut outer = Vec::with_capacity(bytes.len() + 8);
        // `not` of a JSON schema, the one type that nests in itself.
        wire::put_bytes(&mut outer, 28, &bytes);
        bytes = outer;
        if bytes.len() > 4_000 {
            break;
        }
    }
    let id = crate::schema::schema().schema_props();
    assert_eq!(decode::message(id, &bytes, 0), Err(ProtoError::TooDeep));
}

/// Each envelope in a raw extension began to count depth again: a ControllerRevision nested 20,000 times in its own data
/// overflowed the stack and ended the server.
#[test]
fn objects_inside_objects_count_towards_the_depth() {
    let mut data = br#"{"a": 1}"#.to_vec();
    let nest = |data: &[u8]| {
        let (mut raw, mut message) = (Vec::new(), Vec::new());
        wire::put_bytes(&mut raw, 1, data);
        wire::put_bytes(&mut message, 2, &raw);
        envelope("apps/v1", "ControllerRevision", &message)
    };
    for _ in 0..20 {
        data = nest(&data);
    }
    assert!(decode(&data, ("", "")).is_ok());
    for _ in 0..500 {
        data = nest(&data);
    }
    assert_eq!(decode(&data, ("", "")), Err(ProtoError::TooDeep));
}

#[test]
fn broken_bytes_are_refused_with_a_reason() {
    assert_eq!(decode(b"{}", ("v1", "Pod")), Err(ProtoError::NoMagic));
    assert_eq!(decode(b"k8s\0\x0a\xff", ("v1", "Pod")), Err(ProtoError::Truncated));
    assert_eq!(decode(b"k8s\0\x07", ("v1", "Pod")), Err(ProtoError::IllegalTag(7)));
    let invalid = envelope("v1", "ConfigMap", &[0x0a, 3, 0x0a, 1, 0xff]);
    assert_eq!(decode(&invalid, ("", "")), Err(ProtoError::InvalidUtf8("name")));
    let wire_type = envelope("v1", "ConfigMap", &[0x0a, 2, 0x08, 1]);
    assert_eq!(decode(&wire_type, ("", "")), Err(ProtoError::WireType { field: "name", found: 0 }));
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_answered(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300), pick in 0..400usize) {
        let _ = decode(&bytes, ("v1", "Pod"));
        let kinds = crate::schema::schema().kinds();
        let kind = &kinds[pick % kinds.len()];
        let node = crate::schema::node(kind.group, kind.version, kind.kind).unwrap();
        if let Ok(object) = message_at(node, &bytes, 0) {
            // What was understood can be written and read again.
            let mut again = Vec::new();
            encode_message(node, &object, &mut again).unwrap();
            message_at(node, &again, 0).unwrap();
        }
    }

    #[test]
    fn damaged_objects_are_answered(at in 0..400usize, byte in proptest::prelude::any::<u8>()) {
        let mut body = encode("v1", "Pod", &pod()).unwrap();
        let at = at % body.len();
        body[at] = byte;
        let _ = decode(&body, ("v1", "Pod"));
    }
}

/// The verbs of a resource are a message of their own; as kube-apiserver writes them.
#[test]
fn verbs_of_discovery_stand_in_a_message() {
    let list = json!({"groupVersion": "v1", "resources": [
        {"name": "bindings", "singularName": "binding", "namespaced": true, "kind": "Binding", "verbs": ["create"]}]});
    let bytes = encode("v1", "APIResourceList", &list).unwrap();
    let verbs = b"\"\x08\x0a\x06create";
    assert!(bytes.windows(verbs.len()).any(|part| part == verbs), "{bytes:?}");
}
