//! Admission that decides: webhooks over real TLS with each failure policy, quotas that racing clients cannot exceed, and plugins
//! that are enabled by name.

#![cfg(test)]

mod common;
#[path = "common/https.rs"]
mod https;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use common::{Client, config_map, start_with};
use https::{Https, Reply};
use hyper::body::Incoming;
use listwatch_server::{
    AdmissionOptions, Handle, LifecycleOptions, Options, Security, Server, WebhookLimits,
};
use listwatch_storage::{MemoryEngine, MemoryOptions};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const REGISTRATION: &str = "/apis/admissionregistration.k8s.io/v1";
const AUDIT: &str = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules:\n\
    - {level: Metadata, verbs: [create], resources: [{group: '', resources: [configmaps]}]}\n\
    - {level: None}\n";
/// The largest answer that the server of these tests reads from a webhook.
const RESPONSE_BYTES: usize = 64 << 10;

/// A webhook server whose paths behave in different ways.
struct Hooks(Https);

impl Hooks {
    async fn start() -> Self {
        Self(Https::start(&["127.0.0.1"], None, review).await)
    }

    /// A webhook on ConfigMaps labelled with its path.
    fn hook(&self, path: &str, policy: &str) -> Value {
        let port = if path == "dead" { 1 } else { self.0.port };
        json!({
            "name": format!("{path}.example.com"),
            "clientConfig": {"url": format!("https://127.0.0.1:{port}/{path}"), "caBundle": self.0.ca},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
            "objectSelector": {"matchLabels": {"hook": path}}, "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "timeoutSeconds": 1, "failurePolicy": policy
        })
    }
}

/// Answers a review.
async fn review(request: http::Request<Incoming>) -> Reply {
    let path = request.uri().path().trim_start_matches('/').to_owned();
    let review: Value = serde_json::from_slice(&https::body(request).await).unwrap();
    match path.as_str() {
        "slow" => std::future::pending().await,
        "created" => https::text(201, answer(&path, &review)),
        "elsewhere" => https::redirect("/allow"),
        "compressed" => https::gzip(&answer(&path, &review)),
        _ => https::text(200, answer(&path, &review)),
    }
}

fn answer(path: &str, review: &Value) -> String {
    let mut response = json!({"uid": review["request"]["uid"], "allowed": true});
    match path {
        "mutate" => {
            let patch = json!([{"op": "add", "path": "/data", "value": {"by": review["request"]["userInfo"]["username"]}}]);
            response["patchType"] = "JSONPatch".into();
            response["patch"] = STANDARD.encode(patch.to_string()).into();
            response["warnings"] = json!(["changed by a webhook"]);
        }
        "deny" => {
            response["allowed"] = false.into();
            response["status"] = json!({"code": 403, "reason": "Forbidden", "message": "not today"});
        }
        "malformed" => return "this is no review".to_owned(),
        "huge" => response["auditAnnotations"] = json!({"k": "x".repeat(2 * RESPONSE_BYTES)}),
        "stranger" => response["uid"] = "of another review".into(),
        "tell" => response["warnings"] = json!([review_summary(&review["request"])]),
        "wipe" => {
            let patch = json!([{"op": "remove", "path": "/metadata/creationTimestamp"},
                {"op": "add", "path": "/metadata/generation", "value": 77}, {"op": "remove", "path": "/metadata/namespace"}]);
            response["patchType"] = "JSONPatch".into();
            response["patch"] = STANDARD.encode(patch.to_string()).into();
        }
        "disown" => {
            let patch = json!([{"op": "remove", "path": "/metadata/managedFields/0/apiVersion"}]);
            response["patchType"] = "JSONPatch".into();
            response["patch"] = STANDARD.encode(patch.to_string()).into();
        }
        "backdate" => {
            let patch = json!([{"op": "replace", "path": "/metadata/resourceVersion", "value": "1"}]);
            response["patchType"] = "JSONPatch".into();
            response["patch"] = STANDARD.encode(patch.to_string()).into();
        }
        "mistyped" => response["warnings"] = "not a list".into(),
        "move" | "rename-kind" | "repeat-owners" => {
            let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "u"});
            let patch = match path {
                "move" => json!([{"op": "replace", "path": "/metadata/namespace", "value": "kube-system"}]),
                "rename-kind" => json!([{"op": "replace", "path": "/kind", "value": "Nonsense"}]),
                _ => json!([{"op": "add", "path": "/metadata/ownerReferences", "value": [owner, owner]}]),
            };
            response["patchType"] = "JSONPatch".into();
            response["patch"] = STANDARD.encode(patch.to_string()).into();
        }
        _ => {}
    }
    json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response}).to_string()
}

/// Operation, name, versions and options of a review, in one line.
fn review_summary(request: &Value) -> String {
    let version = |object: &str| match &request[object]["metadata"]["resourceVersion"] {
        Value::Null => "none".to_owned(),
        _ => "one".to_owned(),
    };
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let (operation, name) = (text(&request["operation"]), text(&request["name"]));
    let (old, new) = (version("oldObject"), version("object"));
    format!("{operation} {name} old={old} new={new} {}", text(&request["options"]["kind"]))
}

async fn server() -> Handle {
    let webhooks = WebhookLimits { response_bytes: RESPONSE_BYTES, ..WebhookLimits::default() };
    let options = Options {
        admission: AdmissionOptions { webhooks, ..AdmissionOptions::default() },
        ..Options::default()
    };
    start_with(options, MemoryOptions::default()).await
}

fn labelled(name: &str, hook: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"hook": hook}}})
}

async fn configure(client: &mut Client, kind: &str, hooks: Vec<Value>) {
    let body = json!({"metadata": {"name": kind}, "webhooks": hooks});
    let made = client.call("POST", &format!("{REGISTRATION}/{kind}webhookconfigurations"), Some(&body)).await;
    assert_eq!(made.status, 201, "{}", String::from_utf8_lossy(&made.body));
}

#[tokio::test]
async fn a_mutating_webhook_changes_objects_and_warns_over_one_connection() {
    let (server, hooks) = (server().await, Hooks::start().await);
    let mut client = Client::new(&server).await;
    configure(&mut client, "mutating", vec![hooks.hook("mutate", "Fail")]).await;
    for n in 0..5 {
        let made = client.call("POST", MAPS, Some(&labelled(&format!("m{n}"), "mutate"))).await;
        assert_eq!(made.status, 201, "{}", String::from_utf8_lossy(&made.body));
        assert_eq!(made.json()["data"]["by"], "kubernetes-admin");
        assert_eq!(made.header("warning"), Some("299 - \"changed by a webhook\""));
    }
    assert_eq!(hooks.0.connections.load(Ordering::SeqCst), 1);
    // Objects that the selector does not match cost no call.
    assert_eq!(client.call("POST", MAPS, Some(&config_map("plain", "x"))).await.json()["data"]["k"], "x");
}

/// Owners of fields that a webhook had made unreadable were stored, and the next write dropped them all.
#[tokio::test]
async fn owners_that_a_webhook_has_made_unreadable_are_restored() {
    let (server, hooks) = (server().await, Hooks::start().await);
    let mut client = Client::new(&server).await;
    configure(&mut client, "mutating", vec![hooks.hook("disown", "Fail")]).await;
    let made = client.call("POST", MAPS, Some(&labelled("m", "disown"))).await;
    assert_eq!(made.status, 201);
    assert_eq!(made.json()["metadata"]["managedFields"][0]["apiVersion"], "v1");
    let warning = made.header("warning").unwrap();
    assert!(warning.contains("apiVersion must not be empty"), "{warning}");
}

/// A webhook could write an object with another namespace in it under the old key, where neither namespace had it whole, and
/// another kind was silently made the old one.
#[tokio::test]
async fn a_patch_cannot_make_another_object_of_it() {
    let (server, hooks) = (server().await, Hooks::start().await);
    let mut client = Client::new(&server).await;
    let ways = ["move", "rename-kind", "repeat-owners"].map(|way| hooks.hook(way, "Ignore"));
    configure(&mut client, "mutating", ways.into()).await;
    let moved = client.call("POST", MAPS, Some(&labelled("a", "move"))).await;
    let message = "the namespace of the provided object does not match the namespace sent on the request";
    assert_eq!((moved.status, &moved.json()["message"]), (400, &json!(message)));
    let renamed = client.call("POST", MAPS, Some(&labelled("a", "rename-kind"))).await;
    assert_eq!(renamed.status, 500);
    assert!(renamed.json()["message"].as_str().unwrap().contains("no kind \"Nonsense\" is registered"));
    let repeated = client.call("POST", MAPS, Some(&labelled("a", "repeat-owners"))).await;
    assert_eq!(repeated.json()["metadata"]["ownerReferences"].as_array().unwrap().len(), 1);
    assert!(
        repeated.header("warning").unwrap().contains("duplicate entries after mutating admission happens")
    );
}

/// Objects are stored without their version, and reviews showed them as they are stored; a patch was shown with options that
/// no webhook knows.
#[tokio::test]
async fn a_review_has_the_version_of_the_object_and_the_options_of_the_operation() {
    let (server, hooks) = (server().await, Hooks::start().await);
    let mut client = Client::new(&server).await;
    let mut hook = hooks.hook("tell", "Fail");
    hook["rules"][0]["operations"] = json!(["*"]);
    configure(&mut client, "validating", vec![hook]).await;
    let (map, one) = (labelled("m", "tell"), format!("{MAPS}/m"));
    let apply = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": map["metadata"]}).to_string();
    for (method, path, kind, body, expected) in [
        ("POST", MAPS, "application/json", map.to_string(), "CREATE m old=none new=none CreateOptions"),
        ("PUT", &one, "application/json", map.to_string(), "UPDATE m old=one new=one UpdateOptions"),
        (
            "PATCH",
            &one,
            "application/merge-patch+json",
            r#"{"data":{"a":"b"}}"#.into(),
            "UPDATE m old=one new=one UpdateOptions",
        ),
        ("DELETE", &one, "application/json", String::new(), "DELETE m old=one new=none DeleteOptions"),
        (
            "PATCH",
            &format!("{one}?fieldManager=t"),
            "application/apply-patch+yaml",
            apply,
            "CREATE m old=none new=none CreateOptions",
        ),
        ("DELETE", MAPS, "application/json", String::new(), "DELETE - old=one new=none DeleteOptions"),
    ] {
        client.send(method, path, &format!("content-type: {kind}\r\n"), &body).await;
        let answer = client.answer().await;
        let expected = format!("299 - \"{expected}\"");
        assert_eq!(answer.header("warning"), Some(expected.as_str()), "{method} {path} {}", answer.status);
    }
}

/// A webhook could take the creation time from a stored object, and its other system fields.
#[tokio::test]
async fn a_patch_of_an_update_cannot_touch_what_the_server_keeps() {
    let (server, hooks) = (server().await, Hooks::start().await);
    let mut client = Client::new(&server).await;
    let ways = ["wipe", "backdate"].map(|way| {
        let mut hook = hooks.hook(way, "Fail");
        hook["rules"][0]["operations"] = json!(["UPDATE"]);
        hook
    });
    configure(&mut client, "mutating", ways.into()).await;
    for way in ["wipe", "backdate"] {
        assert_eq!(client.call("POST", MAPS, Some(&labelled(way, way))).await.status, 201);
    }
    let mut map = labelled("wipe", "wipe");
    map["data"] = json!({"a": "b"});
    let made = client.call("PUT", &format!("{MAPS}/wipe"), Some(&map)).await;
    assert_eq!(made.status, 200, "{}", String::from_utf8_lossy(&made.body));
    let meta = &made.json()["metadata"];
    assert!(meta["creationTimestamp"].is_string() && meta["generation"].is_null());
    assert_eq!(meta["namespace"], "default");
    map["metadata"] = labelled("backdate", "backdate")["metadata"].take();
    let refused = client.call("PUT", &format!("{MAPS}/backdate"), Some(&map)).await;
    assert_eq!((refused.status, &refused.json()["reason"]), (409, &json!("Conflict")));
}

/// An eviction is admitted as such; the deletion it leads to is not asked about again.
#[tokio::test]
async fn an_eviction_is_admitted_once() {
    let (server, hooks) = (server().await, Hooks::start().await);
    let mut client = Client::new(&server).await;
    let mut hook = hooks.hook("deny", "Fail");
    hook["rules"] =
        json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["pods"]}]);
    configure(&mut client, "validating", vec![hook]).await;
    let pods = "/api/v1/namespaces/default/pods";
    let mut pod = labelled("p", "deny");
    pod["spec"] = json!({"containers": [{"name": "c", "image": "i"}]});
    assert_eq!(client.call("POST", pods, Some(&pod)).await.status, 201);
    assert_eq!(client.call("DELETE", &format!("{pods}/p"), None).await.status, 403);
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}});
    let evicted = client.call("POST", &format!("{pods}/p/eviction"), Some(&eviction)).await;
    assert_eq!(evicted.status, 201, "{}", String::from_utf8_lossy(&evicted.body));
}

/// A selector of objects matched the options of `kubectl exec`, which are not an object.
#[tokio::test]
async fn no_object_selector_matches_a_connection() {
    let (server, hooks) = (server().await, Hooks::start().await);
    let mut client = Client::new(&server).await;
    let mut hook = hooks.hook("deny", "Fail");
    hook["rules"] = json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CONNECT"], "resources": ["pods/exec"]}]);
    hook["objectSelector"] = json!({"matchExpressions": [{"key": "hook", "operator": "DoesNotExist"}]});
    configure(&mut client, "validating", vec![hook]).await;
    let answer =
        client.call("POST", "/api/v1/namespaces/default/pods/nobody/exec?command=ls&stdout=1", None).await;
    assert_eq!(answer.status, 404, "{}", String::from_utf8_lossy(&answer.body));
}

/// Go's client takes every code from 200 to 206 for a response, and inflates what is compressed.
#[tokio::test]
async fn answers_that_kube_apiserver_takes_are_taken() {
    let (server, hooks) = (server().await, Hooks::start().await);
    let mut client = Client::new(&server).await;
    for kind in ["mutating", "validating"] {
        let ways = ["created", "compressed"].map(|way| hooks.hook(way, "Fail"));
        configure(&mut client, kind, ways.into()).await;
    }
    for way in ["created", "compressed"] {
        let made = client.call("POST", MAPS, Some(&labelled(way, way))).await;
        assert_eq!(made.status, 201, "{}", String::from_utf8_lossy(&made.body));
    }
}

#[tokio::test]
async fn a_validating_webhook_rejects_in_its_own_words() {
    let (server, hooks) = (server().await, Hooks::start().await);
    let mut client = Client::new(&server).await;
    configure(&mut client, "validating", vec![hooks.hook("deny", "Fail")]).await;
    let refused = client.call("POST", MAPS, Some(&labelled("d", "deny"))).await;
    assert_eq!(refused.status, 403);
    let message = "admission webhook \"deny.example.com\" denied the request: not today";
    assert_eq!(refused.json()["message"], message);
}

#[tokio::test]
async fn webhooks_that_fail_are_a_matter_of_the_failure_policy() {
    let (server, hooks) = (server().await, Hooks::start().await);
    let mut client = Client::new(&server).await;
    let ways = ["slow", "dead", "malformed", "huge", "stranger", "mistyped", "elsewhere"];
    for (policy, expected) in [("Fail", 500), ("Ignore", 201)] {
        for kind in ["validating", "mutating"] {
            configure(&mut client, kind, ways.iter().map(|way| hooks.hook(way, policy)).collect()).await;
            for way in ways {
                let made = client.call("POST", MAPS, Some(&labelled(&format!("{kind}-{way}"), way))).await;
                assert_eq!(
                    made.status,
                    expected,
                    "{kind} {way} {policy}: {}",
                    String::from_utf8_lossy(&made.body)
                );
                if expected == 500 {
                    let message = made.json()["message"].as_str().unwrap().to_owned();
                    assert!(
                        message.contains(&format!("failed calling webhook \"{way}.example.com\"")),
                        "{message}"
                    );
                }
            }
            let path = format!("{REGISTRATION}/{kind}webhookconfigurations/{kind}");
            assert_eq!(client.call("DELETE", &path, None).await.status, 200);
        }
    }
}

/// Python's `http.server` answers without a length and hangs up without TLS's closing alert. Go's client takes what came
/// for the response, so webhooks that work with kube-apiserver must not fail here; half a response is still none.
#[tokio::test]
async fn an_answer_may_end_with_the_connection() {
    for (whole, expected) in [(true, 201), (false, 500)] {
        let server = server().await;
        let mut client = Client::new(&server).await;
        let hooks = Https::abrupt(move |body| {
            let review: Value = serde_json::from_slice(body).unwrap();
            let answer = answer("mutate", &review);
            let end = if whole { answer.len() } else { answer.len() - 1 };
            format!("HTTP/1.0 200 OK\r\ncontent-type: application/json\r\n\r\n{}", &answer[..end]).into()
        });
        let hooks = Hooks(hooks.await);
        configure(&mut client, "mutating", vec![hooks.hook("mutate", "Fail")]).await;
        let made = client.call("POST", MAPS, Some(&labelled("m", "mutate"))).await;
        assert_eq!(made.status, expected, "{}", String::from_utf8_lossy(&made.body));
    }
}

/// Creates a ValidatingAdmissionPolicy and binds it, so that it denies.
async fn bind(client: &mut Client, policy: Value) {
    let name = &policy["metadata"]["name"];
    let binding =
        json!({"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}});
    for (plural, body) in
        [("validatingadmissionpolicies", policy), ("validatingadmissionpolicybindings", binding)]
    {
        let made = client.call("POST", &format!("{REGISTRATION}/{plural}"), Some(&body)).await;
        assert_eq!(made.status, 201, "{}", String::from_utf8_lossy(&made.body));
    }
}

#[tokio::test]
async fn a_policy_rejects_with_its_message_as_soon_as_it_is_bound() {
    let server = server().await;
    let mut client = Client::new(&server).await;
    let policy = json!({"metadata": {"name": "p"}, "spec": {
        "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]},
        "variables": [{"name": "n", "expression": "has(object.data) ? size(object.data) : 0"}],
        "validations": [{"expression": "variables.n < 2", "messageExpression": "'too many: ' + string(variables.n)"}]}});
    bind(&mut client, policy).await;
    let many = json!({"metadata": {"name": "a"}, "data": {"a": "", "b": ""}});
    let refused = client.call("POST", MAPS, Some(&many)).await;
    assert_eq!(refused.status, 422);
    assert!(refused.json()["message"].as_str().unwrap().ends_with("denied request: too many: 2"));
    assert_eq!(client.call("POST", MAPS, Some(&config_map("a", "x"))).await.status, 201);
}

/// Policies about the configurations of webhooks were accepted and never evaluated.
#[tokio::test]
async fn a_policy_can_be_about_webhooks() {
    let server = server().await;
    let mut client = Client::new(&server).await;
    let policy = json!({"metadata": {"name": "p"}, "spec": {
        "matchConstraints": {"resourceRules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}]},
        "validations": [{"expression": "false", "message": "no"}]}});
    bind(&mut client, policy).await;
    let refused = client
        .call(
            "POST",
            &format!("{REGISTRATION}/mutatingwebhookconfigurations"),
            Some(&json!({"metadata": {"name": "m"}, "webhooks": []})),
        )
        .await;
    assert_eq!(refused.status, 422);
    // What makes up policies is exempt, so that a wrong one can be deleted.
    let path = format!("{REGISTRATION}/validatingadmissionpolicies/p");
    assert_eq!(client.call("DELETE", &path, None).await.status, 200);
}

/// Match conditions may name `namespaceObject`; kube-apiserver shows them none.
#[tokio::test]
async fn match_conditions_have_a_namespace_object_that_is_null() {
    let server = server().await;
    let mut client = Client::new(&server).await;
    let policy = json!({"metadata": {"name": "p"}, "spec": {
        "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]},
        "matchConditions": [{"name": "none", "expression": "namespaceObject == null"}],
        "validations": [{"expression": "namespaceObject == null", "messageExpression": "namespaceObject.metadata.name"}]}});
    bind(&mut client, policy).await;
    let refused = client.call("POST", MAPS, Some(&config_map("a", "x"))).await;
    assert!(refused.json()["message"].as_str().unwrap().ends_with("denied request: default"));
}

/// Mutating policies wrote what no client may: another namespace, another kind, fields that the kind does not have. Objects had
/// no version in expressions.
#[tokio::test]
async fn a_mutating_policy_is_held_to_the_object_of_the_request() {
    let server = server().await;
    let mut client = Client::new(&server).await;
    let patch = |name: &str, path: &str, value: &str| {
        let expression = format!("[JSONPatch{{op: 'add', path: '{path}', value: '{value}'}}]");
        json!({"metadata": {"name": name}, "spec": {
            "matchConstraints": {
                "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}],
                "objectSelector": {"matchLabels": {"hook": name}}},
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
            "reinvocationPolicy": "Never"}})
    };
    let mut old = patch("old", "/metadata/annotations", "x");
    old["spec"]["mutations"][0]["jsonPatch"]["expression"] = json!(
        "[JSONPatch{op: 'add', path: '/data', value: {'was': oldObject == null ? '' : oldObject.metadata.resourceVersion}}]"
    );
    for policy in [
        patch("moved", "/metadata/namespace", "kube-system"),
        patch("renamed", "/kind", "Nonsense"),
        patch("strange", "/nonsense", "x"),
        patch("backdated", "/metadata/resourceVersion", "1"),
        old,
    ] {
        let name = policy["metadata"]["name"].clone();
        let binding = json!({"metadata": {"name": name}, "spec": {"policyName": name}});
        for (plural, body) in
            [("mutatingadmissionpolicies", &policy), ("mutatingadmissionpolicybindings", &binding)]
        {
            let made = client.call("POST", &format!("{REGISTRATION}/{plural}"), Some(body)).await;
            assert_eq!(made.status, 201, "{}", String::from_utf8_lossy(&made.body));
        }
    }
    for (name, code, text) in [
        ("moved", 400, "does not match the namespace sent on the request"),
        ("renamed", 500, "no kind \"Nonsense\" is registered for version \"v1\""),
        ("strange", 500, "strict decoding error: unknown field \"nonsense\""),
    ] {
        let refused = client.call("POST", MAPS, Some(&labelled(name, name))).await;
        assert_eq!(refused.status, code, "{name}");
        assert!(refused.json()["message"].as_str().unwrap().contains(text), "{name}: {}", refused.json());
    }
    for (name, code) in [("backdated", 409), ("old", 200)] {
        let made = client.call("POST", MAPS, Some(&json!({"metadata": {"name": name}}))).await.json();
        let changed = client.call("PUT", &format!("{MAPS}/{name}"), Some(&labelled(name, name))).await;
        assert_eq!(changed.status, code, "{}", String::from_utf8_lossy(&changed.body));
        if code == 200 {
            assert_eq!(changed.json()["data"]["was"], made["metadata"]["resourceVersion"]);
        }
    }
}

/// Any failure of a patch with a `test` counted as a failed test if its text had the word in it, such as in the name of a label:
/// the mutation was left out, and the request admitted.
#[tokio::test]
async fn only_a_failed_test_leaves_out_the_patch_of_a_policy() {
    let server = server().await;
    let mut client = Client::new(&server).await;
    let test = |name: &str| format!("JSONPatch{{op: 'test', path: '/metadata/name', value: '{name}'}}");
    let remove = "JSONPatch{op: 'remove', path: '/metadata/labels/test'}";
    let expression = format!("[object.metadata.name == 'a' ? {} : {}, {remove}]", test("nobody"), test("b"));
    let policy = json!({"metadata": {"name": "p"}, "spec": {
        "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}]},
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
        "reinvocationPolicy": "Never"}});
    let binding = json!({"metadata": {"name": "p"}, "spec": {"policyName": "p"}});
    for (plural, body) in
        [("mutatingadmissionpolicies", &policy), ("mutatingadmissionpolicybindings", &binding)]
    {
        assert_eq!(client.call("POST", &format!("{REGISTRATION}/{plural}"), Some(body)).await.status, 201);
    }
    assert_eq!(client.call("POST", MAPS, Some(&config_map("a", "x"))).await.status, 201);
    let refused = client.call("POST", MAPS, Some(&config_map("b", "x"))).await;
    let message = refused.json()["message"].as_str().unwrap().to_owned();
    assert_eq!(refused.status, 403, "{message}");
    assert!(message.contains("JSON Patch: remove operation does not apply"), "{message}");
}

/// A quota of so many ConfigMaps, as a quota controller would have set it up.
async fn limit(server: &Handle, count: &str) {
    let mut client = Client::new(server).await;
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    let hard = json!({"configmaps": count});
    let mut quota = json!({"metadata": {"name": "q"}, "spec": {"hard": hard}});
    assert_eq!(client.call("POST", quotas, Some(&quota)).await.status, 201);
    quota["status"] = json!({"hard": hard, "used": {"configmaps": "0"}});
    assert_eq!(client.call("PUT", &format!("{quotas}/q/status"), Some(&quota)).await.status, 200);
}

/// 50 clients try to create four ConfigMaps each; returns how many were created.
async fn race(servers: &[&Handle]) -> usize {
    let mut clients = Vec::new();
    for n in 0..50 {
        clients.push((n, Client::new(servers[n % servers.len()]).await));
    }
    let racing = clients.into_iter().map(|(n, mut client)| async move {
        let mut made = 0;
        for i in 0..4 {
            let answer = client.call("POST", MAPS, Some(&config_map(&format!("c{n}-{i}"), "x"))).await;
            assert!(matches!(answer.status, 201 | 403), "{}", String::from_utf8_lossy(&answer.body));
            made += usize::from(answer.status == 201);
        }
        made
    });
    futures::future::join_all(racing).await.into_iter().sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn racing_clients_of_one_server_cannot_exceed_a_quota() {
    let server = server().await;
    limit(&server, "100").await;
    assert_eq!(race(&[&server]).await, 100);
    let mut client = Client::new(&server).await;
    assert_eq!(client.get(MAPS).await["items"].as_array().unwrap().len(), 100);
    let quota = client.get("/api/v1/namespaces/default/resourcequotas/q").await;
    assert_eq!(quota["status"]["used"]["configmaps"], "100");
}

#[tokio::test(flavor = "multi_thread")]
async fn racing_clients_of_two_servers_cannot_exceed_a_quota() {
    let engine = Arc::new(MemoryEngine::default());
    let options = || Options {
        security: Security::InsecureHttp,
        lifecycle: LifecycleOptions::off(),
        ..Options::default()
    };
    let first = Server::start(options(), engine.clone()).await.unwrap();
    let second = Server::start(options(), engine).await.unwrap();
    let namespace = json!({"metadata": {"name": "default"}});
    assert_eq!(
        Client::new(&first).await.call("POST", "/api/v1/namespaces", Some(&namespace)).await.status,
        201
    );
    limit(&first, "100").await;
    // As in kube-apiserver, a server limits nothing by a quota that its cache has not learned of.
    let mut client = Client::new(&second).await;
    let quota = "/api/v1/namespaces/default/resourcequotas/q?resourceVersion=0";
    while client.call("GET", quota, None).await.status != 200
        || client.get(quota).await["status"]["hard"].is_null()
    {
        tokio::task::yield_now().await;
    }
    assert_eq!(race(&[&first, &second]).await, 100);
    assert_eq!(Client::new(&first).await.get(MAPS).await["items"].as_array().unwrap().len(), 100);
}

#[tokio::test]
async fn the_usage_of_a_quota_is_counted_anew_when_objects_go() {
    let lifecycle = LifecycleOptions { quota_status: true, ..LifecycleOptions::off() };
    let options = Options { lifecycle, ..Options::default() };
    let server = common::start_as_is(options, MemoryOptions::default()).await;
    limit(&server, "1").await;
    let mut client = Client::new(&server).await;
    client.create("a", "x").await;
    assert_eq!(client.call("POST", MAPS, Some(&config_map("b", "x"))).await.status, 403);
    assert_eq!(client.call("DELETE", &format!("{MAPS}/a"), None).await.status, 200);
    common::until(&server, "/api/v1/namespaces/default/resourcequotas/q", |quota| {
        quota.is_some_and(|quota| quota["status"]["used"]["configmaps"] == "0")
    })
    .await;
    client.create("b", "x").await;
}

/// Annotations of policies and webhooks were collected and thrown away: the audit log had none of them.
#[tokio::test]
async fn the_audit_log_has_the_annotations_of_policies_and_webhooks() {
    let directory = tempfile::tempdir().unwrap();
    let (policy_file, log_file) = (directory.path().join("policy.yaml"), directory.path().join("audit.log"));
    std::fs::write(&policy_file, AUDIT).unwrap();
    let rotation = listwatch_server::AuditRotation::default();
    let audit = Some(listwatch_server::AuditOptions { policy_file, log_file: log_file.clone(), rotation });
    let server = start_with(Options { audit, ..Options::default() }, MemoryOptions::default()).await;
    let (mut client, hooks) = (Client::new(&server).await, Hooks::start().await);
    configure(&mut client, "mutating", vec![hooks.hook("mutate", "Fail"), hooks.hook("dead", "Ignore")])
        .await;
    configure(&mut client, "validating", vec![hooks.hook("dead", "Ignore")]).await;
    let rules = json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]);
    for (plural, object) in [
        (
            "validatingadmissionpolicies",
            json!({"metadata": {"name": "p"}, "spec": {"matchConstraints": {"resourceRules": rules},
                "validations": [{"expression": "object.metadata.name == 'other'", "message": "not other"}],
                "auditAnnotations": [{"key": "name", "valueExpression": "'named ' + object.metadata.name"}]}}),
        ),
        (
            "validatingadmissionpolicybindings",
            json!({"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Warn", "Audit"]}}),
        ),
    ] {
        assert_eq!(client.call("POST", &format!("{REGISTRATION}/{plural}"), Some(&object)).await.status, 201);
    }
    for hook in ["mutate", "dead"] {
        let made = client.call("POST", MAPS, Some(&labelled(hook, hook))).await;
        assert_eq!(made.status, 201, "{}", String::from_utf8_lossy(&made.body));
        let warning =
            "299 - \"Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': not other\"";
        assert!(made.head.contains(warning), "{}", made.head);
    }
    let lines = || -> Vec<Value> {
        let text = std::fs::read_to_string(&log_file).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    common::eventually("two lines", || lines().len() >= 2).await;
    let told = lines();
    let (mutated, ignored) = (&told[0]["annotations"], &told[1]["annotations"]);
    assert_eq!(mutated["p/name"], "named mutate");
    let failure: Value = serde_json::from_str(
        mutated["validation.policy.admission.k8s.io/validation_failure"].as_str().unwrap(),
    )
    .unwrap();
    assert_eq!(
        failure,
        json!([{"message": "not other", "policy": "p", "binding": "b", "expressionIndex": 0, "validationActions": ["Warn", "Audit"]}])
    );
    let said: Value =
        serde_json::from_str(mutated["mutation.webhook.admission.k8s.io/round_0_index_0"].as_str().unwrap())
            .unwrap();
    assert_eq!(said, json!({"configuration": "mutating", "webhook": "mutate.example.com", "mutated": true}));
    for key in [
        "failed-open.mutation.webhook.admission.k8s.io/round_0_index_1",
        "failed-open.validating.webhook.admission.k8s.io/round_0_index_0",
    ] {
        assert_eq!(ignored[key], "dead.example.com", "{ignored}");
    }
}

#[tokio::test]
async fn a_plugin_that_is_off_by_default_is_called_when_it_is_enabled_by_name() {
    let admission =
        AdmissionOptions { enable: vec!["AlwaysPullImages".to_owned()], ..AdmissionOptions::default() };
    let server = start_with(Options { admission, ..Options::default() }, MemoryOptions::default()).await;
    let container = json!({"name": "c", "image": "nginx:1", "imagePullPolicy": "IfNotPresent"});
    let pod = json!({"metadata": {"name": "a"}, "spec": {"containers": [container]}});
    let made = Client::new(&server).await.call("POST", "/api/v1/namespaces/default/pods", Some(&pod)).await;
    assert_eq!(made.json()["spec"]["containers"][0]["imagePullPolicy"], "Always");
}
