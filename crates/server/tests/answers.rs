//! Responses to unusual requests: odd paths, odd bodies, deleted objects, missing nodes.

#![cfg(test)]

mod common;

use common::{Client, client, names, start};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";

#[tokio::test]
async fn paths_are_taken_as_they_are() {
    let (_server, mut client) = client().await;
    for (path, status) in [
        ("/api/v1//configmaps", 404),
        ("/api/v1/namespaces//configmaps", 200),
        ("/livez", 200),
        ("/livez/", 404),
        ("/version/", 200),
        ("/api/v1/configmaps/%zz", 400),
    ] {
        assert_eq!(client.call("GET", path, None).await.status, status, "{path}");
    }
}

#[tokio::test]
async fn a_collection_is_deleted_as_it_is_listed() {
    let (_server, mut client) = client().await;
    for name in ["a", "b", "c"] {
        client.create(name, "1").await;
    }
    for query in ["resourceVersion=nonsense", "continue=nonsense"] {
        assert_eq!(client.call("DELETE", &format!("{MAPS}?{query}"), None).await.status, 400, "{query}");
    }
    let page = client.call("DELETE", &format!("{MAPS}?limit=1"), None).await.json();
    assert_eq!(names(&page), ["a"]);
    assert!(page["metadata"]["continue"].as_str().is_some_and(|token| !token.is_empty()));
    let headers = "accept: application/json;as=Table;g=meta.k8s.io;v=v1beta1\r\n";
    client.send("DELETE", MAPS, headers, "").await;
    let table = client.answer().await.json();
    assert_eq!((&table["kind"], &table["apiVersion"]), (&json!("Table"), &json!("meta.k8s.io/v1beta1")));
    assert_eq!(table["rows"].as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn a_copy_of_what_is_gone_cannot_come_back() {
    let (_server, mut client) = client().await;
    client.create("a", "1").await;
    let path = format!("{MAPS}/a");
    let mut copy = client.get(&path).await;
    client.call("DELETE", &path, None).await;
    assert_eq!(client.call("PUT", &path, Some(&copy)).await.status, 404);
    copy["metadata"].as_object_mut().unwrap().remove("uid");
    assert_eq!(client.call("PUT", &path, Some(&copy)).await.status, 404);
}

#[tokio::test]
async fn kinds_that_require_a_resource_version_require_it_for_status_too() {
    let (_server, mut client) = client().await;
    let path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let budget = json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 1}});
    let made = client.call("POST", path, Some(&budget)).await.json();
    for sub in ["", "/status"] {
        let path = format!("{path}/b{sub}");
        let mut object = made.clone();
        for version in [Value::Null, json!("0")] {
            object["metadata"]["resourceVersion"] = version;
            assert_eq!(client.call("PUT", &path, Some(&object)).await.status, 422, "{path}");
        }
        assert_eq!(client.call("PUT", &path, Some(&made)).await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn a_patch_is_parsed_before_and_applied_after_its_object_is_found() {
    let (_server, mut client) = client().await;
    client.create("a", "1").await;
    let merge = "content-type: application/merge-patch+json\r\n";
    for (name, body, status) in [("a", "{", 400), ("none", "{", 400), ("a", "[]", 400), ("none", "[]", 404)] {
        client.send("PATCH", &format!("{MAPS}/{name}"), merge, body).await;
        assert_eq!(client.answer().await.status, status, "{name} {body}");
    }
    let strategic = "content-type: application/strategic-merge-patch+json\r\n";
    client.send("PATCH", &format!("{MAPS}/a"), strategic, r#"{"kind":"Secret","data":{"z":"1"}}"#).await;
    let patched = client.answer().await.json();
    assert_eq!((&patched["kind"], &patched["data"]["z"]), (&json!("ConfigMap"), &json!("1")));
}

#[tokio::test]
async fn yaml_may_repeat_itself() {
    let (_server, mut client) = client().await;
    let body = "metadata:\n  name: twice\ndata:\n  k: '1'\n  k: '2'\n";
    let path = format!("{MAPS}?fieldValidation=Strict");
    client.send("POST", &path, "content-type: application/yaml\r\n", body).await;
    assert_eq!(client.answer().await.status, 400);
    client.send("POST", MAPS, "content-type: application/yaml\r\n", body).await;
    let answer = client.answer().await;
    assert_eq!(answer.header("warning"), Some("299 - \"line 5: key \\\"k\\\" already set in map\""));
    assert_eq!(answer.json()["data"], json!({"k": "2"}));
}

#[tokio::test]
async fn an_unscheduled_pod_has_no_log_and_no_exec() {
    let (_server, mut client) = client().await;
    let pod = |name: &str, node: Value| json!({"metadata": {"name": name}, "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}});
    for object in [pod("free", Value::Null), pod("bound", json!("nowhere"))] {
        assert_eq!(client.call("POST", PODS, Some(&object)).await.status, 201);
    }
    for (path, status) in [
        ("none/log", 404),
        ("free/log", 204),
        ("free/log?container=x", 400),
        ("free/log?tailLines=-1", 422),
        ("free/exec?command=ls", 400),
        ("bound/log", 404),
        ("free/proxy/some/path", 400),
    ] {
        assert_eq!(client.call("GET", &format!("{PODS}/{path}"), None).await.status, status, "{path}");
    }
}

#[tokio::test]
async fn events_come_in_pages_of_any_version() {
    let (_server, mut client) = client().await;
    let path = "/api/v1/namespaces/default/events";
    for name in ["a", "b"] {
        let event = json!({"metadata": {"name": name}, "involvedObject": {"namespace": "default"}});
        assert_eq!(client.call("POST", path, Some(&event)).await.status, 201);
    }
    let page = client.get(&format!("{path}?limit=1&resourceVersion=0")).await;
    assert_eq!(names(&page).len(), 1);
}

/// kubectl up to 1.28 asks for the v2 document in protobuf and fails without; newer ones ask again only if it changed.
#[tokio::test]
async fn the_v2_document_is_there_in_protobuf_and_is_named_by_its_content() {
    let (_server, mut client) = client().await;
    let accept = "accept: application/com.github.proto-openapi.spec.v2@v1.0+protobuf\r\n";
    client.send("GET", "/openapi/v2", accept, "").await;
    let protobuf = client.answer().await;
    let ty = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
    assert_eq!((protobuf.status, protobuf.header("content-type")), (200, Some(ty)));
    assert!(protobuf.body.starts_with(b"\x0a\x032.0"), "the first field is the Swagger version");
    let known = format!("if-none-match: {}\r\n", protobuf.header("etag").unwrap());
    client.send("GET", "/openapi/v2", &known, "").await;
    assert_eq!(client.answer().await.status, 304);
    client.send("GET", "/openapi/v2", "accept: text/html\r\n", "").await;
    assert_eq!(client.answer().await.status, 406);
}

/// The Python client compares texts, and kube-apiserver ends compact JSON with a newline.
#[tokio::test]
async fn compact_json_ends_with_a_newline_and_json_for_people_does_not() {
    let (_server, mut client) = client().await;
    client.create("a", "0").await;
    let one = format!("{MAPS}/a");
    for path in [&one, MAPS, "/apis", "/api/v1/namespaces/none", "/api/v1"] {
        let body = client.call("GET", path, None).await.body;
        assert!(body.ends_with(b"}\n") && !body.ends_with(b"\n\n"), "{path}");
        let body = client.call("GET", &format!("{path}?pretty=true"), None).await.body;
        assert!(body.ends_with(b"\n}"), "{path}");
    }
}

#[tokio::test]
async fn token_checkers_find_the_public_key() {
    let server = common::start_on(listwatch_server::Options::default()).await;
    let mut client = Client::new(&server).await;
    let keys = client.get("/openid/v1/jwks").await;
    let configuration = client.get("/.well-known/openid-configuration").await;
    assert!(configuration["jwks_uri"].as_str().unwrap().ends_with("/openid/v1/jwks"));
    let key = &keys["keys"][0];
    assert_eq!(
        (key["kty"].as_str(), key["crv"].as_str(), key["alg"].as_str()),
        (Some("EC"), Some("P-256"), Some("ES256"))
    );
    assert_eq!(key["x"].as_str().unwrap().len(), 43);
    server.shutdown().await;
}

/// Component statuses were an empty list, and a watch of them had the 405 of an unknown method.
#[tokio::test]
async fn component_statuses_are_computed_on_request() {
    let server = start().await;
    let mut client = Client::new(&server).await;
    let path = "/api/v1/componentstatuses";
    let list = client.get(path).await;
    assert_eq!((&list["kind"], &list["metadata"]), (&json!("ComponentStatusList"), &json!({})));
    assert_eq!(names(&list), ["controller-manager", "etcd-0", "scheduler"]);
    let store = client.get(&format!("{path}/etcd-0")).await;
    let healthy = json!([{"type": "Healthy", "status": "True", "message": "ok"}]);
    assert_eq!((&store["metadata"], &store["conditions"]), (&json!({"name": "etcd-0"}), &healthy));
    let one =
        client.get(&format!("{path}?fieldSelector=metadata.name%3Detcd-0&limit=1&resourceVersion=5")).await;
    assert_eq!(names(&one), ["etcd-0"]);
    let missing = client.call("GET", &format!("{path}/nope"), None).await;
    assert_eq!((missing.status, &missing.json()["details"]["kind"]), (404, &json!("componentstatus")));
    let watch = client.call("GET", &format!("{path}?watch=true"), None).await;
    assert_eq!((watch.status, &watch.json()["details"]["kind"]), (405, &json!("componentstatuses")));
}

/// A patch that named another type was refused about the field `patch`; the type of a built-in kind may be absent.
#[tokio::test]
async fn a_patched_object_keeps_its_type() {
    let server = start().await;
    let mut client = Client::new(&server).await;
    client.create("a", "1").await;
    let path = "/api/v1/namespaces/default/configmaps/a";
    for (patch, expected) in
        [(r#"{"kind":null}"#, 200), (r#"{"kind":"Other"}"#, 422), (r#"{"apiVersion":"v9"}"#, 422)]
    {
        client.send("PATCH", path, "content-type: application/merge-patch+json\r\n", patch).await;
        assert_eq!(client.answer().await.status, expected, "{patch}");
    }
}

/// `/version` answered JSON to clients that did not accept it, and discovery was never sent as protobuf.
#[tokio::test]
async fn discovery_has_the_negotiated_form() {
    let server = start().await;
    let mut client = Client::new(&server).await;
    let proto = "application/vnd.kubernetes.protobuf";
    for (path, accept, status, form) in [
        ("/version", "application/yaml", 406, "application/yaml"),
        ("/version", "application/*", 406, "application/json"),
        ("/version", "*/*", 200, "application/json"),
        ("/apis", "application/*", 200, "application/json"),
        ("/apis/apps/v1", "application/*", 406, "application/json"),
        ("/api", proto, 200, proto),
        ("/apis", proto, 200, proto),
        ("/api/v1", proto, 200, proto),
        ("/apis/apps", proto, 200, proto),
        ("/apis/apps/v1", proto, 200, proto),
    ] {
        client.send("GET", path, &format!("accept: {accept}\r\n"), "").await;
        let answer = client.answer().await;
        assert_eq!((answer.status, answer.header("content-type")), (status, Some(form)), "{path} {accept}");
    }
}

/// A dry run ignored the resourceVersion of a new object, which only the store refuses.
#[tokio::test]
async fn a_dry_run_of_a_creation_shows_the_version_that_was_sent() {
    let (_server, mut client) = client().await;
    let map = json!({"metadata": {"name": "a", "resourceVersion": "7"}});
    let dry = client.call("POST", &format!("{MAPS}?dryRun=All"), Some(&map)).await;
    assert_eq!((dry.status, &dry.json()["metadata"]["resourceVersion"]), (201, &json!("7")));
    assert_eq!(client.call("POST", MAPS, Some(&map)).await.status, 400);
}

/// The newest of several classes that are marked as the default is used, or the first by name. One class alone is not marked.
#[tokio::test]
async fn a_table_of_storage_classes_marks_the_default() {
    let (_server, mut client) = client().await;
    let classes = "/apis/storage.k8s.io/v1/storageclasses";
    for (name, is_default) in [("a", "false"), ("b", "true")] {
        let annotations = json!({"storageclass.kubernetes.io/is-default-class": is_default});
        let class = json!({"metadata": {"name": name, "annotations": annotations}, "provisioner": "p.q/r"});
        assert_eq!(client.call("POST", classes, Some(&class)).await.status, 201);
    }
    let table = "accept: application/json;as=Table;g=meta.k8s.io;v=v1\r\n";
    client.send("GET", classes, table, "").await;
    let rows = client.answer().await.json()["rows"].clone();
    assert_eq!((&rows[0]["cells"][0], &rows[1]["cells"][0]), (&json!("a"), &json!("b (default)")));
    client.send("GET", &format!("{classes}/b"), table, "").await;
    assert_eq!(client.answer().await.json()["rows"][0]["cells"][0], "b");
}

/// kubectl shows FlowSchemas in the order in which requests are matched.
#[tokio::test]
async fn a_table_of_flow_schemas_is_sorted_by_precedence() {
    let (_server, mut client) = client().await;
    let schemas = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas";
    for (name, precedence) in [("zz-a", 900), ("zz-b", 800), ("zz-c", 900)] {
        let spec =
            json!({"priorityLevelConfiguration": {"name": "exempt"}, "matchingPrecedence": precedence});
        let schema = json!({"metadata": {"name": name}, "spec": spec});
        assert_eq!(client.call("POST", schemas, Some(&schema)).await.status, 201);
    }
    client.send("GET", schemas, "accept: application/json;as=Table;g=meta.k8s.io;v=v1\r\n", "").await;
    let table = client.answer().await.json();
    let rows = table["rows"].as_array().unwrap().iter();
    let shown: Vec<&str> =
        rows.filter_map(|row| row["cells"][0].as_str()).filter(|name| name.starts_with("zz-")).collect();
    assert_eq!(shown, ["zz-b", "zz-a", "zz-c"]);
}

/// The errors of routing and of negotiation were the same, wildcards were refused everywhere, and `v=v1` alone was ignored.
#[tokio::test]
async fn a_406_is_worded_by_the_handler_that_refuses() {
    let (_server, mut client) = client().await;
    client.create("a", "1").await;
    let documents = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
    let streams = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";
    let route = |types: &str| format!("406: Not Acceptable\n\nAvailable representations: {types}");
    let negotiation = format!("only the following media types are accepted: {documents}");
    let one = format!("{MAPS}/a");
    for (path, accept, message) in [
        (&*one, "text/html", route(documents)),
        (&*one, "application/*", route(documents)),
        (MAPS, "*", route(&format!("{documents}, {streams}"))),
        ("/version", "text/html", route("application/json")),
        (MAPS, "application/json;v=v1", negotiation.clone()),
        (MAPS, "application/json;stream=other", negotiation),
        (
            &*one,
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            "you requested PartialObjectMetadataList, but the requested object is not a list (*core.ConfigMap)".into(),
        ),
        (
            MAPS,
            "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
            "you requested PartialObjectMetadata, but the requested object is a list (*core.ConfigMapList)".into(),
        ),
    ] {
        client.send("GET", path, &format!("accept: {accept}\r\n"), "").await;
        let answer = client.answer().await;
        assert_eq!((answer.status, &answer.json()["message"]), (406, &json!(message)), "{path} {accept}");
    }
    let missing = format!("{MAPS}/missing");
    client
        .send(
            "GET",
            &missing,
            "accept: application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1\r\n",
            "",
        )
        .await;
    assert_eq!(client.answer().await.status, 404);
}

/// kube-apiserver leaves the items of an empty list of metadata unset; ours were an empty list.
#[tokio::test]
async fn a_list_of_metadata_without_items_has_null() {
    let (_server, mut client) = client().await;
    let path = "/api/v1/namespaces/none/configmaps";
    let partial = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let yaml = partial.replace("json", "yaml");
    for (accept, text) in
        [(partial, "\"items\":null}"), (&*yaml, "\nitems: null\n"), ("application/json", "\"items\":[]}")]
    {
        client.send("GET", path, &format!("accept: {accept}\r\n"), "").await;
        let body = String::from_utf8(client.answer().await.body).unwrap();
        assert!(body.contains(text), "{accept}: {body}");
    }
}

/// A Job whose labels were taken away kept none; kube-apiserver fills in those of its template whenever it reads one.
#[tokio::test]
async fn a_job_always_has_the_labels_of_its_template() {
    let (_server, mut client) = client().await;
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    let container = json!({"name": "c", "image": "i"});
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [container]}});
    let job = json!({"metadata": {"name": "j"}, "spec": {"template": template}});
    let made = client.call("POST", jobs, Some(&job)).await.json();
    assert_eq!(made["metadata"]["labels"]["job-name"], "j");
    let headers = "content-type: application/merge-patch+json\r\n";
    for path in [format!("{jobs}/j"), format!("{jobs}/j/status")] {
        client.send("PATCH", &path, headers, r#"{"metadata":{"labels":null}}"#).await;
        assert_eq!(client.answer().await.json()["metadata"]["labels"], made["metadata"]["labels"], "{path}");
    }
    // Its name is checked before the labels are there.
    let mut odd = job.clone();
    odd["metadata"]["name"] = json!("Odd_name");
    let causes = client.call("POST", jobs, Some(&odd)).await.json()["details"]["causes"].clone();
    let fields: Vec<&str> =
        causes.as_array().unwrap().iter().filter_map(|cause| cause["field"].as_str()).collect();
    assert!(!fields.contains(&"metadata.labels"), "{fields:?}");
}

/// The Pods of a Job stay unless the deletion says otherwise; there was no warning.
#[tokio::test]
async fn deleting_a_job_warns_of_the_pods_it_leaves() {
    let (_server, mut client) = client().await;
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    for (path, warned) in [
        (format!("{jobs}/none"), true),
        (jobs.to_owned(), true),
        (format!("{jobs}/none?propagationPolicy=Background"), false),
        (format!("{jobs}/none?orphanDependents=true"), false),
        (format!("{PODS}/none"), false),
    ] {
        let answer = client.call("DELETE", &path, None).await;
        assert_eq!(answer.header("warning").is_some(), warned, "{path}");
    }
}

/// An Event waited for dependents that it cannot have.
#[tokio::test]
async fn an_event_goes_at_once_whatever_the_policy() {
    let (_server, mut client) = client().await;
    let events = "/api/v1/namespaces/default/events";
    for policy in ["Foreground", "Orphan", "Background"] {
        let event = json!({"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}});
        assert_eq!(client.call("POST", events, Some(&event)).await.status, 201);
        let answer =
            client.call("DELETE", &format!("{events}/e?propagationPolicy={policy}"), None).await.json();
        assert_eq!(answer["kind"], "Status", "{policy}");
        assert_eq!(client.call("GET", &format!("{events}/e"), None).await.status, 404, "{policy}");
    }
}

/// Names of Services had to begin with a letter, which Kubernetes 1.37 does not ask for any more.
#[tokio::test]
async fn the_name_of_a_service_may_begin_with_a_digit() {
    let (_server, mut client) = client().await;
    for (name, status) in [("1-web", 201), ("a.b", 422), ("Web", 422)] {
        let service = json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}});
        let answer = client.call("POST", "/api/v1/namespaces/default/services", Some(&service)).await;
        assert_eq!(answer.status, status, "{name}");
    }
}

/// A patch that made a list of the kind was taken for one that says nothing about it.
#[tokio::test]
async fn a_patch_cannot_make_something_else_of_the_type() {
    let (_server, mut client) = client().await;
    client.create("a", "1").await;
    for media in ["merge", "strategic-merge"] {
        let headers = format!("content-type: application/{media}-patch+json\r\n");
        for patch in [r#"{"kind":["x"]}"#, r#"{"apiVersion":7}"#] {
            client.send("PATCH", &format!("{MAPS}/a"), &headers, patch).await;
            assert_eq!(client.answer().await.status, 422, "{media} {patch}");
        }
    }
}

/// Owners that a patch repeats are found after admission, and the warning says so.
#[tokio::test]
async fn owners_that_a_patch_repeats_are_found_after_admission() {
    let (_server, mut client) = client().await;
    client.create("a", "1").await;
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"});
    let patch = json!({"metadata": {"ownerReferences": [owner, owner]}}).to_string();
    client
        .send("PATCH", &format!("{MAPS}/a"), "content-type: application/merge-patch+json\r\n", &patch)
        .await;
    let answer = client.answer().await;
    assert!(
        answer.header("warning").unwrap().contains("duplicate entries after mutating admission happens;")
    );
    assert_eq!(answer.json()["metadata"]["ownerReferences"].as_array().map(Vec::len), Some(1));
}

/// The annotation that counts templates had no owner.
#[tokio::test]
async fn who_creates_a_daemon_set_owns_the_count_of_its_templates() {
    let (_server, mut client) = client().await;
    let labels = json!({"a": "b"});
    let template =
        json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let set = json!({"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": labels}, "template": template}});
    let made = client.call("POST", "/apis/apps/v1/namespaces/default/daemonsets", Some(&set)).await.json();
    let key = "deprecated.daemonset.template.generation";
    assert_eq!(made["metadata"]["annotations"][key], "1");
    let owned = &made["metadata"]["managedFields"][0]["fieldsV1"]["f:metadata"]["f:annotations"];
    assert_eq!(owned[format!("f:{key}")], json!({}));
}

/// The inside of a part with one owner was not looked at in applied configurations, and unknown fields were dropped.
#[tokio::test]
async fn an_applied_configuration_is_checked_inside_of_atomic_parts() {
    let (_server, mut client) = client().await;
    let ingresses = "/apis/networking.k8s.io/v1/namespaces/default/ingresses";
    let port = json!({"service": {"name": "s", "port": {"number": "x"}}});
    let path = json!({"path": "/", "pathType": "Prefix", "backend": port});
    for (rule, why) in [
        (json!({"host": "a.b", "bogus": 1}), ".spec.rules[0].bogus: field not declared in schema"),
        (
            json!({"http": {"paths": [path]}}),
            ".spec.rules[0].http.paths[0].backend.service.port.number: expected numeric (int or float), got string",
        ),
    ] {
        let ingress = json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "i"}, "spec": {"rules": [rule]}});
        let headers = "content-type: application/apply-patch+yaml\r\n";
        client.send("PATCH", &format!("{ingresses}/i?fieldManager=m"), headers, &ingress.to_string()).await;
        let answer = client.answer().await;
        assert!(answer.status >= 400, "{}", answer.status);
        assert!(answer.json()["message"].as_str().unwrap().ends_with(why), "{}", answer.json()["message"]);
    }
    client.create("a", "1").await;
    let headers = "content-type: application/apply-patch+yaml\r\n";
    for (name, metadata) in [("a", json!({"name": true})), ("new", json!({"name": "new", "namespace": 2}))] {
        let odd = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
        client.send("PATCH", &format!("{MAPS}/{name}?fieldManager=m"), headers, &odd.to_string()).await;
        assert_eq!(client.answer().await.status, 400, "{name}");
    }
}

/// Kinds whose validation is not that of the core group take finalizers without a domain.
#[tokio::test]
async fn some_kinds_take_finalizers_without_a_domain() {
    let (_server, mut client) = client().await;
    for (path, status) in [
        ("/apis/coordination.k8s.io/v1/namespaces/default/leases", 201),
        ("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", 201),
        (MAPS, 422),
    ] {
        let object = json!({"metadata": {"name": "f", "finalizers": ["unqualified"]}});
        assert_eq!(client.call("POST", path, Some(&object)).await.status, status, "{path}");
    }
}

/// A version in a new object that is none was refused, though the store has no use for it.
#[tokio::test]
async fn a_version_that_is_none_does_not_keep_an_object_from_being_created() {
    let (_server, mut client) = client().await;
    for (version, status) in [("7", 400), ("x", 201), ("0", 201)] {
        let object = json!({"metadata": {"name": format!("v-{version}"), "resourceVersion": version}});
        assert_eq!(client.call("POST", MAPS, Some(&object)).await.status, status, "{version}");
    }
}

/// A PUT with the uid of a deleted object was a conflict, also for kinds that no PUT creates.
#[tokio::test]
async fn what_no_put_creates_is_not_found_whatever_the_uid() {
    let (_server, mut client) = client().await;
    let path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/b";
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b", "uid": "u"}});
    assert_eq!(client.call("PUT", path, Some(&budget)).await.status, 404);
    let lease = json!({"metadata": {"name": "b", "uid": "u"}});
    let path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/b";
    assert_eq!(client.call("PUT", path, Some(&lease)).await.status, 409);
}

/// Both pages were 404 before; kube-apiserver serves them by default since 1.36.
#[tokio::test]
async fn status_and_flags_are_pages_and_objects() {
    let flags = vec![("bind".to_owned(), "127.0.0.1:0".to_owned())];
    let options = listwatch_server::Options { flags, ..Default::default() };
    let server = common::start_with(options, Default::default()).await;
    let mut client = Client::new(&server).await;
    let page = client.call("GET", "/flagz", None).await;
    assert_eq!(page.header("content-type"), Some("text/plain; charset=utf-8"));
    let text = String::from_utf8(page.body).unwrap();
    assert!(
        text.starts_with("\napiserver flagz\nWarning: ") && text.ends_with("\nbind=127.0.0.1:0\n"),
        "{text}"
    );
    let mut ask = async |path: &str, accept: &str| {
        client.send("GET", path, &format!("accept: {accept}\r\n"), "").await;
        client.answer().await
    };
    let kind = |kind: &str, version: &str| format!("application/json;as={kind};g=config.k8s.io;v={version}");
    let object = ask("/flagz", &kind("Flagz", "v1beta1")).await;
    assert_eq!(
        object.json(),
        json!({"kind": "Flagz", "apiVersion": "config.k8s.io/v1beta1", "metadata": {"name": "apiserver"},
            "flags": {"bind": "127.0.0.1:0"}})
    );
    assert_eq!(object.header("warning"), None);
    let status = ask("/statusz", &kind("Statusz", "v1alpha1")).await;
    assert!(status.header("warning").unwrap().contains("statusz endpoint is deprecated"));
    let status = status.json();
    assert_eq!(status["emulationVersion"], "1.37");
    assert!(status["paths"].as_array().unwrap().contains(&json!("/healthz")), "{status}");
    let refused = ask("/statusz", "application/json").await;
    assert_eq!(refused.status, 406);
    let message =
        "only the following media types are accepted: application/json, application/yaml, text/plain";
    assert_eq!(refused.json()["message"], message);
    assert_eq!(ask("/statusz/", "*/*").await.status, 404);
    server.shutdown().await;
}
