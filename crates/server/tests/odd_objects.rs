//! Objects that say too much or contradict themselves, bodies in odd forms, and requests for what has no name. Each answer is
//! kube-apiserver's.

#![cfg(test)]

mod common;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use common::{Answer, Client, client};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const FLOWS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1";
const REQUEST: &str = "-----BEGIN CERTIFICATE REQUEST-----
MIHIMHACAQAwDjEMMAoGA1UEAwwDYm9iMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcD
QgAEe3MNS27kA3Iu07FPIaeThmXRbn1/pUww7ulD3dWZmtUFMS//vzuthPBdHjrv
8Z5aSQaMOMn+NsQ+N4nW9o04EqAAMAoGCCqGSM49BAMCA0gAMEUCIBefjrYonNu8
uIuntRU8DNVD2TQ6BgZnVOrQTWsjR6tnAiEAqJZUi65kI+rMNnNczm4a6cWRUQPA
bYF/a6jbm8IeRd4=
-----END CERTIFICATE REQUEST-----
";

/// The reason and field of each cause.
fn causes(answer: &Answer) -> Vec<String> {
    let status = answer.json();
    let causes = status["details"]["causes"].as_array().cloned().unwrap_or_default();
    let text = |cause: &Value, key: &str| cause[key].as_str().unwrap_or_default().to_owned();
    causes.iter().map(|cause| format!("{} {}", text(cause, "reason"), text(cause, "field"))).collect()
}

async fn merge(client: &mut Client, path: &str, body: &Value) -> Answer {
    client.send("PATCH", path, "content-type: application/merge-patch+json\r\n", &body.to_string()).await;
    client.answer().await
}

async fn post(client: &mut Client, path: &str, media: &str, body: &str) -> Answer {
    client.send("POST", path, &format!("content-type: {media}\r\n"), body).await;
    client.answer().await
}

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

#[tokio::test]
async fn contradictions_are_named_by_field() {
    let (_server, mut client) = client().await;
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    let mut labelled = template.clone();
    labelled["metadata"] = json!({"labels": {"job-name": "other"}});
    let workload = |labels: Value| {
        json!({"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]},
        }}})
    };
    let cron = json!({"metadata": {"name": "c"}, "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {
        "manualSelector": true, "selector": {"matchLabels": {"a": "b"}}, "template": template,
    }}}});
    let service = |spec: Value| json!({"metadata": {"name": "s"}, "spec": spec});
    let slice = |device: Value| {
        json!({"metadata": {"name": "s"}, "spec": {
            "driver": "d", "pool": {"name": "p", "resourceSliceCount": 1}, "perDeviceNodeSelection": true, "devices": [device],
        }})
    };
    for (path, body, expected) in [
        (
            JOBS,
            json!({"metadata": {"name": "j"}, "spec": {"template": labelled}}),
            vec!["FieldValueInvalid spec.template.metadata.labels[job-name]"],
        ),
        (
            "/apis/batch/v1/namespaces/default/cronjobs",
            cron,
            vec![
                "FieldValueInvalid spec.jobTemplate.spec.selector",
                "FieldValueNotSupported spec.jobTemplate.spec.manualSelector",
            ],
        ),
        // A template is not looked at before its selector can be read.
        (
            "/apis/apps/v1/namespaces/default/deployments",
            workload(json!({"a": "no value!"})),
            vec!["FieldValueInvalid spec.selector.matchLabels", "FieldValueInvalid spec.selector"],
        ),
        (
            SERVICES,
            service(json!({"ports": [{"port": 80}], "clusterIPs": ["10.0.0.9"]})),
            vec!["FieldValueInvalid spec.clusterIPs"],
        ),
        (
            SERVICES,
            service(json!({"ports": [{"port": 80}], "ipFamilies": ["IPv6"]})),
            vec!["FieldValueInvalid spec.ipFamilies[0]"],
        ),
        (
            "/apis/resource.k8s.io/v1/resourceslices",
            slice(json!({"name": "a"})),
            vec!["FieldValueRequired spec.devices[0]"],
        ),
        (
            "/apis/resource.k8s.io/v1/resourceslices",
            slice(json!({"name": "a", "allNodes": true, "attributes": {"a-b": {"int": 1}}})),
            vec!["FieldValueInvalid spec.devices[0].attributes"],
        ),
        (
            "/apis/storage.k8s.io/v1/volumeattachments",
            json!({"metadata": {"name": "v"}, "spec": {
                "attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "p", "inlineVolumeSpec": {}},
            }}),
            vec!["FieldValueForbidden spec.source"],
        ),
        (
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
            json!({"metadata": {"name": "a.static.k8s.io"}}),
            vec!["FieldValueInvalid metadata.name"],
        ),
    ] {
        let answer = client.call("POST", path, Some(&body)).await;
        assert_eq!(causes(&answer), expected, "{}", answer.json()["message"]);
        assert_eq!(answer.status, 422);
    }
}

#[tokio::test]
async fn mandatory_flow_objects_keep_their_spec() {
    let (_server, mut client) = client().await;
    let spec = |name: &str| json!({"priorityLevelConfiguration": {"name": name}, "matchingPrecedence": 5, "rules": []});
    let schema = json!({"metadata": {"name": "catch-all"}, "spec": spec("catch-all")});
    let answer = client.call("POST", &format!("{FLOWS}/flowschemas"), Some(&schema)).await;
    assert_eq!(causes(&answer), ["FieldValueInvalid spec"]);
    let level = |shares: i64| {
        json!({"metadata": {"name": "catch-all"}, "spec": {"type": "Limited", "limited": {
            "nominalConcurrencyShares": shares, "limitResponse": {"type": "Reject"},
        }}})
    };
    let levels = format!("{FLOWS}/prioritylevelconfigurations?dryRun=All");
    assert_eq!(causes(&client.call("POST", &levels, Some(&level(7))).await), ["FieldValueInvalid spec"]);
    assert_eq!(client.call("POST", &levels, Some(&level(5))).await.status, 201);
}

/// Anything could be written as a certificate, an approval could be taken back, and conditions had no times.
#[tokio::test]
async fn an_approval_is_dated_and_stays() {
    let (_server, mut client) = client().await;
    let spec = json!({"request": STANDARD.encode(REQUEST), "signerName": "example.com/s", "usages": ["client auth"]});
    let made = client.call("POST", REQUESTS, Some(&json!({"metadata": {"name": "r"}, "spec": spec}))).await;
    assert_eq!(made.status, 201);
    let (approval, status) = (format!("{REQUESTS}/r/approval"), format!("{REQUESTS}/r/status"));
    let conditions = |types: &[&str]| {
        let all: Vec<Value> = types.iter().map(|kind| json!({"type": kind, "status": "True"})).collect();
        json!({"status": {"conditions": all}})
    };
    let approved = merge(&mut client, &approval, &conditions(&["Approved"])).await.json();
    for key in ["lastUpdateTime", "lastTransitionTime"] {
        assert!(approved["status"]["conditions"][0][key].is_string(), "{approved}");
    }
    let both = merge(&mut client, &approval, &conditions(&["Approved", "Denied"])).await;
    assert_eq!(causes(&both), ["FieldValueInvalid status.conditions"]);
    let none = merge(&mut client, &approval, &conditions(&[])).await;
    assert_eq!(causes(&none), ["FieldValueForbidden status.conditions"]);
    let signed = merge(&mut client, &status, &json!({"status": {"certificate": STANDARD.encode("x")}})).await;
    assert_eq!(causes(&signed), ["FieldValueInvalid status.certificate"]);
}

#[tokio::test]
async fn containers_under_a_repeated_key_are_merged() {
    let (_server, mut client) = client().await;
    let text = r#"{"metadata":{"name":"a"},"metadata":{"labels":{"l":"1"}},"data":{"a":"1","b":"1"},"data":{"b":"2"}}"#;
    let made = post(&mut client, MAPS, "application/json", text).await.json();
    assert_eq!(made["metadata"]["name"], "a");
    assert_eq!(made["metadata"]["labels"], json!({"l": "1"}));
    assert_eq!(made["data"], json!({"a": "1", "b": "2"}));
}

#[tokio::test]
async fn bodies_are_read_by_their_type() {
    let (_server, mut client) = client().await;
    let map = |name: &str| json!({"metadata": {"name": name}}).to_string();
    assert_eq!(post(&mut client, MAPS, "application/json; charset=utf-8;", &map("a")).await.status, 201);
    assert_eq!(post(&mut client, MAPS, "application/json; charset=utf-8; odd", &map("b")).await.status, 415);
    let yaml = "%YAML 1.1\n---\nmetadata: {name: c}\n---\nmetadata: {name: d}\n";
    assert_eq!(post(&mut client, MAPS, "application/yaml", yaml).await.json()["metadata"]["name"], "c");
}

#[tokio::test]
async fn amounts_are_rounded_up_to_thousandths() {
    let (_server, mut client) = client().await;
    let mut asked = pod("p");
    asked["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "1500u", "memory": "0.0001"}});
    let made = client.call("POST", PODS, Some(&asked)).await.json();
    assert_eq!(made["spec"]["containers"][0]["resources"]["limits"], json!({"cpu": "2m", "memory": "1m"}));
}

#[tokio::test]
async fn a_binding_is_for_one_version_and_a_token_for_one_account() {
    let (_server, mut client) = client().await;
    client.call("POST", PODS, Some(&pod("p"))).await;
    let binding = |version: &str| json!({"metadata": {"name": "p", "resourceVersion": version}, "target": {"name": "n"}});
    let bound = client.call("POST", &format!("{PODS}/p/binding"), Some(&binding("1"))).await;
    assert_eq!((bound.status, bound.json()["details"]["kind"].as_str()), (409, Some("pods")));
    assert_eq!(client.call("POST", &format!("{PODS}/p/binding"), Some(&binding(""))).await.status, 201);

    client.call("POST", ACCOUNTS, Some(&json!({"metadata": {"name": "a"}}))).await;
    let token = json!({"metadata": {"uid": "other"}, "spec": {}});
    assert_eq!(client.call("POST", &format!("{ACCOUNTS}/a/token"), Some(&token)).await.status, 409);
    let reference = json!({"spec": {"boundObjectRef": {"kind": "Pod", "apiVersion": "v2", "name": "none"}}});
    let answer = client.call("POST", &format!("{ACCOUNTS}/a/token"), Some(&reference)).await;
    assert_eq!((answer.status, answer.json()["details"]["kind"].as_str()), (404, Some("pods")));
    let elsewhere = ACCOUNTS.replace("default", "nowhere");
    let answer = client.call("POST", &format!("{elsewhere}/a/token"), Some(&json!({"spec": {}}))).await;
    assert_eq!((answer.status, answer.json()["details"]["kind"].as_str()), (404, Some("namespaces")));
}

#[tokio::test]
async fn reviews_have_no_names() {
    let (_server, mut client) = client().await;
    let reviews = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    assert_eq!(client.call("GET", reviews, None).await.status, 405);
    assert_eq!(client.call("GET", &format!("{reviews}/x"), None).await.status, 404);
    let named = client.call("POST", reviews, Some(&json!({"metadata": {"name": "x"}}))).await.json();
    assert_eq!(named["metadata"]["name"], Value::Null, "{named}");
}

/// Labels and finalizers of these kinds could be changed together with the status.
#[tokio::test]
async fn the_status_of_some_kinds_is_written_without_metadata() {
    let (_server, mut client) = client().await;
    let attachment = json!({"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "p"}});
    for (path, spec) in [
        ("/apis/storage.k8s.io/v1/volumeattachments", attachment),
        ("/apis/resource.k8s.io/v1/namespaces/default/resourceclaims", json!({})),
        ("/apis/networking.k8s.io/v1/servicecidrs", json!({"cidrs": ["10.77.0.0/24"]})),
    ] {
        let made = json!({"metadata": {"name": "x", "labels": {"a": "b"}}, "spec": spec});
        assert_eq!(client.call("POST", path, Some(&made)).await.status, 201);
        let change = json!({"metadata": {"labels": {"c": "d"}, "finalizers": ["e.f/g"]}});
        let written = merge(&mut client, &format!("{path}/x/status"), &change).await.json();
        assert_eq!(written["metadata"]["labels"], json!({"a": "b"}), "{written}");
        assert_eq!(written["metadata"]["finalizers"], Value::Null);
    }
}

/// A Scale that changed nothing was answered without admission, and a refused deletion of a collection had no name.
#[tokio::test]
async fn admission_sees_what_changes_nothing_and_what_has_no_name() {
    const REGISTRATION: &str = "/apis/admissionregistration.k8s.io/v1";
    const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
    let (server, mut client) = client().await;
    let labels = json!({"a": "b"});
    let template =
        json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"selector": {"matchLabels": labels}, "template": template});
    client.call("POST", DEPLOYMENTS, Some(&json!({"metadata": {"name": "d"}, "spec": spec}))).await;
    client.create("a", "1").await;
    let rule = |group: &str, resource: &str, operation: &str| json!({"apiGroups": [group], "apiVersions": ["v1"], "operations": [operation], "resources": [resource]});
    let rules = json!([rule("apps", "deployments/scale", "UPDATE"), rule("", "configmaps", "DELETE")]);
    let policy =
        json!({"matchConstraints": {"resourceRules": rules}, "validations": [{"expression": "false"}]});
    let binding = json!({"policyName": "p", "validationActions": ["Deny"]});
    for (plural, spec) in
        [("validatingadmissionpolicies", policy), ("validatingadmissionpolicybindings", binding)]
    {
        let made = json!({"metadata": {"name": "p"}, "spec": spec});
        assert_eq!(client.call("POST", &format!("{REGISTRATION}/{plural}"), Some(&made)).await.status, 201);
    }
    common::eventually_async("the policy holds", async || {
        let mut client = Client::new(&server).await;
        let scale = json!({"spec": {"replicas": 1}});
        merge(&mut client, &format!("{DEPLOYMENTS}/d/scale"), &scale).await.status == 422
    })
    .await;
    let refused = client.call("DELETE", MAPS, None).await.json();
    assert_eq!(refused["details"]["name"], "Unknown", "{refused}");
}

#[tokio::test]
async fn likely_mistakes_are_mentioned() {
    let (_server, mut client) = client().await;
    let old = "kubernetes.io/enforce-mountable-secrets";
    for (path, body, expected) in [
        (ACCOUNTS, json!({"metadata": {"name": "a", "annotations": {old: "true"}}}), "deprecated in v1.32+"),
        (
            "/api/v1/namespaces/default/resourcequotas",
            json!({"metadata": {"name": "q"}, "spec": {"hard": {
                "requests.cpu": "2", "limits.cpu": "1",
            }}}),
            "ResourceQuota requests.cpu (2) should be less than limits.cpu (1)",
        ),
        (
            JOBS,
            json!({"metadata": {"name": "j"}, "spec": {
                "completions": 200_000, "parallelism": 20_000, "completionMode": "Indexed",
                "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}},
            }}),
            "Kubernetes might not be able to track completedIndexes",
        ),
        (
            "/api/v1/persistentvolumes",
            json!({"metadata": {"name": "v"}, "spec": {
                "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "beta.kubernetes.io/os", "operator": "Exists"}]}]}},
            }}),
            "nodeSelectorTerms[0].matchExpressions[0].key: beta.kubernetes.io/os is deprecated since v1.14",
        ),
        (
            "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
            json!({
                "metadata": {"name": "e"}, "addressType": "FQDN", "endpoints": [],
            }),
            "FQDN endpoints are deprecated",
        ),
        (
            "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
            json!({"metadata": {"name": "w"}, "webhooks": [{
                "name": "a.b.c", "clientConfig": {"url": "https://127.0.0.1:1"}, "sideEffects": "None", "admissionReviewVersions": ["v1"],
                "rules": [{"apiGroups": ["authentication.k8s.io"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["tokenreviews"]}],
            }]}),
            "webhooks[0].rules[0]: tokenreviews.authentication.k8s.io is excluded from admission webhooks",
        ),
    ] {
        let answer = client.call("POST", path, Some(&body)).await;
        assert_eq!(answer.status, 201, "{}", answer.json());
        assert!(
            answer.header("warning").is_some_and(|text| text.contains(expected)),
            "{:?}",
            answer.header("warning")
        );
    }
}

/// Ansible's `k8s_scale` names the kind of the target in its patch, and was refused.
#[tokio::test]
async fn a_strategic_patch_of_a_scale_may_name_any_kind() {
    let (_server, mut client) = client().await;
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let labels = json!({"a": "b"});
    let deployment = json!({"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod("p")["spec"]}}});
    assert_eq!(client.call("POST", deployments, Some(&deployment)).await.status, 201);
    let (path, body) =
        (format!("{deployments}/d/scale"), json!({"kind": "Deployment", "spec": {"replicas": 3}}));
    assert_eq!(merge(&mut client, &path, &body).await.status, 422);
    let strategic = "content-type: application/strategic-merge-patch+json\r\n";
    client.send("PATCH", &path, strategic, &body.to_string()).await;
    let answer = client.answer().await.json();
    assert_eq!((&answer["kind"], &answer["spec"]["replicas"]), (&json!("Scale"), &json!(3)));
}
