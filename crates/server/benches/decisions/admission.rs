//! Admission: an update of a ConfigMap that no plugin matches, that policies decide about, and that a webhook decides about.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use hyper::body::Incoming;
use listwatch_server::{Handle, Options};
use serde_json::{Value, json};

use crate::common::{Client, start_on};
use crate::https::{self, Https, Reply};
use crate::{cpu, made};

const REGISTRATION: &str = "/apis/admissionregistration.k8s.io/v1";
const MAP: &str = "/api/v1/namespaces/default/configmaps/measured";
const WRITES: usize = 2000;
const REVIEWED: usize = 300;
const ROUNDS: usize = 5;

/// Calls of the webhook.
static CALLS: AtomicUsize = AtomicUsize::new(0);

pub(crate) async fn run() {
    policies().await;
    webhook().await;
}

/// One server per line, so that each round measures them in turns.
async fn policies() {
    let mut servers = Vec::new();
    for (what, objects) in [
        ("no policy", Vec::new()),
        ("a policy for Pods", validating("pods", "object.spec.hostNetwork == false")),
        ("a matching validating policy", validating("configmaps", EXPRESSION)),
        ("a matching mutating policy", mutating()),
    ] {
        servers.push((what, server(&objects).await));
    }
    println!("\nupdate of a ConfigMap: CPU µs per write, client included");
    for round in 1..=ROUNDS {
        let mut line = Vec::new();
        for (what, server) in &servers {
            line.push(format!("{what} {:.1}", writes(server, WRITES).await.cpu));
        }
        println!("  round {round}: {}", line.join(", "));
    }
}

/// A rule as people write them: a label must be there, and no value may be long.
const EXPRESSION: &str = "has(object.metadata.labels) && 'team' in object.metadata.labels && object.data.all(k, size(object.data[k]) < 1000)";

/// The time of a write with a webhook beside the time of a write and that of a request to the webhook.
async fn webhook() {
    let hook = Https::start(&["127.0.0.1"], None, review).await;
    let hooks = json!([{
        "name": "measured.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": format!("https://127.0.0.1:{}/", hook.port), "caBundle": hook.ca},
        "rules": rules("configmaps"),
    }]);
    let configuration = json!({"metadata": {"name": "measured"}, "webhooks": hooks});
    let objects = vec![("validatingwebhookconfigurations", configuration)];
    let (plain, reviewed) = (server(&[]).await, server(&objects).await);
    println!(
        "\nupdate of a ConfigMap with a webhook: µs of the clock per write, client and webhook in this process"
    );
    for round in 1..=ROUNDS {
        let before = CALLS.load(Ordering::SeqCst);
        let (without, with) = (writes(&plain, REVIEWED).await, writes(&reviewed, REVIEWED).await);
        let calls = CALLS.load(Ordering::SeqCst) - before;
        let connections = hook.connections.load(Ordering::SeqCst);
        println!(
            "  round {round}: {:.0} without, {:.0} with; {calls} calls for {} writes, {connections} connections so far",
            without.clock,
            with.clock,
            REVIEWED + 1
        );
    }
}

async fn review(request: http::Request<Incoming>) -> Reply {
    CALLS.fetch_add(1, Ordering::SeqCst);
    let review: Value = serde_json::from_slice(&https::body(request).await).unwrap();
    let response = json!({"uid": review["request"]["uid"], "allowed": true});
    https::json(
        200,
        &json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}),
    )
}

fn rules(resource: &str) -> Value {
    json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": [resource]}])
}

fn validating(resource: &str, expression: &str) -> Vec<(&'static str, Value)> {
    let spec = json!({"matchConstraints": {"resourceRules": rules(resource)}, "validations": [{"expression": expression}]});
    vec![
        ("validatingadmissionpolicies", json!({"metadata": {"name": "p"}, "spec": spec})),
        (
            "validatingadmissionpolicybindings",
            json!({"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}}),
        ),
    ]
}

fn mutating() -> Vec<(&'static str, Value)> {
    let expression = "Object{metadata: Object.metadata{annotations: {'seen': 'true'}}}";
    let mutations =
        json!([{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}]);
    let spec = json!({
        "matchConstraints": {"resourceRules": rules("configmaps")},
        "reinvocationPolicy": "Never",
        "mutations": mutations,
    });
    vec![
        ("mutatingadmissionpolicies", json!({"metadata": {"name": "p"}, "spec": spec})),
        ("mutatingadmissionpolicybindings", json!({"metadata": {"name": "b"}, "spec": {"policyName": "p"}})),
    ]
}

async fn server(objects: &[(&'static str, Value)]) -> Handle {
    let server = start_on(Options::default()).await;
    let mut client = Client::new(&server).await;
    for (plural, object) in objects {
        made(&mut client, &format!("{REGISTRATION}/{plural}"), object).await;
    }
    server
}

/// The cost of one write, in µs.
struct Cost {
    cpu: f64,
    clock: f64,
}

async fn writes(server: &Handle, count: usize) -> Cost {
    let mut client = Client::new(server).await;
    let object = |n: usize| {
        let data = json!({"n": n.to_string(), "text": "x".repeat(900)});
        json!({"metadata": {"name": "measured", "labels": {"team": "a"}}, "data": data})
    };
    made(&mut client, MAP.trim_end_matches("/measured"), &object(count)).await;
    let (begin, clock) = (cpu(), Instant::now());
    for number in 0..count {
        let answer = client.call("PUT", MAP, Some(&object(number))).await;
        assert_eq!(answer.status, 200, "{}", answer.json());
    }
    let per_write = |total: f64| total / count as f64;
    let clock = per_write(clock.elapsed().as_secs_f64() * 1e6);
    Cost { cpu: per_write((cpu() - begin) / 1000.0), clock }
}
