//! RBAC: a decision with many roles and bindings, and a change of them, alone and as a request.

use std::hint::black_box;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use listwatch_server::auth::rbac::{Binding, Policy};
use listwatch_server::auth::{AuthorizerAttributes, Decision};
use listwatch_server::{Handle, Options};
use serde_json::{Value, json};

use crate::common::{Client, start_on};
use crate::{cpu, made};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const GROUP: &str = "rbac.authorization.k8s.io";
const ROLES: usize = 1000;
const FEW: usize = 50;
const MANY: usize = 5000;
const DECISIONS: usize = 200_000;
const WRITES: usize = 400;
const ROUNDS: usize = 5;

pub(crate) async fn run() {
    changes();
    let [few, many] = [server(FEW).await, server(MANY).await];
    println!("\n{ROLES} roles, {MANY} bindings: CPU µs per request that is authenticated and authorized");
    decisions(&many).await;
    println!("\ncreate and delete a binding through the API: CPU µs per write");
    for round in 1..=ROUNDS {
        let (small, large) = (writes(&few).await, writes(&many).await);
        println!("  round {round}: {small:6.1} with {FEW} bindings, {large:6.1} with {MANY}");
    }
}

fn role(number: usize) -> Value {
    json!({"metadata": {"name": format!("role{number}")}, "rules": [
        {"apiGroups": ["", "apps"], "resources": ["pods", "deployments", format!("kind{number}")], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["batch"], "resources": ["jobs"], "resourceNames": [format!("job{number}")], "verbs": ["*"]},
    ]})
}

/// Most bindings are for a user, every tenth for a group that all users are in, in one namespace of a hundred.
fn binding(number: usize) -> Value {
    let subject = match number % 10 {
        0 => json!({"kind": "Group", "apiGroup": GROUP, "name": format!("team{}", number % 200)}),
        _ => json!({"kind": "User", "apiGroup": GROUP, "name": format!("user{}", number % 1000)}),
    };
    json!({
        "metadata": {"name": format!("binding{number}"), "namespace": format!("ns{}", number % 100)},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": format!("role{}", number % ROLES)},
        "subjects": [subject],
    })
}

/// The compiled evaluator alone.
fn changes() {
    let policy = |bindings: usize| {
        let mut policy = Policy::default();
        (0..ROLES).for_each(|n| policy.set_cluster_role(serde_json::from_value(role(n)).unwrap()));
        (0..bindings).for_each(|n| policy.set_binding(serde_json::from_value(binding(n)).unwrap()));
        policy
    };
    let (mut few, mut many) = (policy(FEW), policy(MANY));
    println!("one binding set and removed in the evaluator, with a copy for readers: CPU µs");
    for round in 1..=ROUNDS {
        let (small, large) = (change(&mut few), change(&mut many));
        println!("  round {round}: {small:6.2} with {FEW} bindings, {large:6.2} with {MANY}");
    }
}

fn change(policy: &mut Policy) -> f64 {
    const TIMES: usize = 5000;
    let begin = cpu();
    for number in 0..TIMES {
        let new: Binding = serde_json::from_value(binding(MANY + number)).unwrap();
        policy.set_binding(new);
        let _readers = black_box(policy.clone());
        policy.remove_binding(&format!("ns{}", (MANY + number) % 100), &format!("binding{}", MANY + number));
    }
    (cpu() - begin) / TIMES as f64 / 1000.0
}

async fn server(bindings: usize) -> Handle {
    let server = start_on(Options::default()).await;
    let mut client = Client::new(&server).await;
    for number in 0..100 {
        made(&mut client, "/api/v1/namespaces", &json!({"metadata": {"name": format!("ns{number}")}})).await;
    }
    for number in 0..ROLES {
        made(&mut client, &format!("{RBAC}/clusterroles"), &role(number)).await;
    }
    for number in 0..bindings {
        let path = format!("{RBAC}/namespaces/ns{}/rolebindings", number % 100);
        made(&mut client, &path, &binding(number)).await;
    }
    server
}

/// A request with each kind of credentials: authentication and authorization, as for every request.
async fn decisions(server: &Handle) {
    let mut client = Client::new(server).await;
    let accounts = "/api/v1/namespaces/ns1/serviceaccounts";
    made(&mut client, accounts, &json!({"metadata": {"name": "robot"}})).await;
    let token = client.call("POST", &format!("{accounts}/robot/token"), Some(&json!({}))).await.json();
    let token = token["status"]["token"].as_str().unwrap().to_owned();
    let binding = json!({
        "metadata": {"name": "robot"},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": "role7"},
        "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": "ns1"}],
    });
    made(&mut client, &format!("{RBAC}/namespaces/ns1/rolebindings"), &binding).await;
    for (what, token, resource, allowed) in [
        ("administrator", server.admin_token(), "pods", true),
        ("service account, allowed", token.as_str(), "pods", true),
        ("service account, refused", token.as_str(), "secrets", false),
    ] {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, format!("Bearer {token}").parse().unwrap());
        let wanted = AuthorizerAttributes {
            verb: "list",
            version: "v1",
            resource,
            namespace: "ns1",
            ..AuthorizerAttributes::default()
        };
        println!("  {what}: {:.2}", decide(server, &headers, &wanted, allowed));
    }
    // All users in turn, without credentials: the cost of the decision alone.
    let users: Vec<_> = (0..1000)
        .map(|n| listwatch_server::auth::User {
            name: format!("user{n}"),
            groups: vec![format!("team{}", n % 200), "system:authenticated".to_owned()],
            ..listwatch_server::auth::User::default()
        })
        .collect();
    let begin = cpu();
    for number in 0..DECISIONS {
        let wanted = AuthorizerAttributes {
            verb: "delete",
            version: "v1",
            resource: "secrets",
            namespace: "ns1",
            ..AuthorizerAttributes::default()
        };
        black_box(server.api().authorizer.at_once(&users[number % users.len()], &wanted));
    }
    println!(
        "  a thousand users in turn, refused, decision alone: {:.2}",
        (cpu() - begin) / DECISIONS as f64 / 1000.0
    );
}

fn decide(server: &Handle, headers: &HeaderMap, wanted: &AuthorizerAttributes<'_>, allowed: bool) -> f64 {
    let api = server.api();
    let begin = cpu();
    for _ in 0..DECISIONS {
        let user = api.authenticator.authenticate(black_box(headers)).expect("known");
        let decision = api.authorizer.at_once(&user, black_box(wanted));
        assert_eq!(decision == Some(Decision::Allow), allowed);
    }
    (cpu() - begin) / DECISIONS as f64 / 1000.0
}

async fn writes(server: &Handle) -> f64 {
    let mut client = Client::new(server).await;
    let path = format!("{RBAC}/namespaces/ns1/rolebindings");
    let mut object = binding(1);
    object["metadata"] = json!({"name": "measured"});
    let begin = cpu();
    for _ in 0..WRITES / 2 {
        assert_eq!(client.call("POST", &path, Some(&object)).await.status, 201);
        assert_eq!(client.call("DELETE", &format!("{path}/measured"), None).await.status, 200);
    }
    (cpu() - begin) / WRITES as f64 / 1000.0
}
