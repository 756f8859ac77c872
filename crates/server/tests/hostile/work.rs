//! Requests whose cost grows faster than their size, and requests that delay others.

use std::sync::Arc;
use std::time::{Duration, Instant};

use listwatch_server::{Options, Security, Server};
use listwatch_storage::{Engine, Expect, MemoryEngine, Write};
use serde_json::{Value, json};

use crate::common::{Client, Watch, start, start_on};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// The slowest of several responses of `/livez` while something goes on.
async fn slowest_livez(client: &mut Client, busy: &tokio::task::JoinHandle<()>) -> Duration {
    let mut slowest = Duration::ZERO;
    while !busy.is_finished() {
        let begin = Instant::now();
        assert_eq!(client.call("GET", "/livez", None).await.status, 200);
        slowest = slowest.max(begin.elapsed());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    slowest
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_objects_do_not_block_the_workers() {
    // Two dry runs with many owner references held `/livez` for 30 seconds, Pod ports and variables for 24.
    let server = start().await;
    let owners: Vec<Value> = (0..12_000)
        .map(|n| json!({"apiVersion": "v1", "kind": "Pod", "name": format!("p{n}"), "uid": format!("u{n}")}))
        .collect();
    let map = json!({"metadata": {"name": "a", "ownerReferences": owners}});
    let ports: Vec<Value> = (0..6_000).map(|n| json!({"containerPort": n % 65_000 + 1})).collect();
    let env: Vec<Value> = (0..12_000).map(|n| json!({"name": format!("A{}", n % 7)})).collect();
    let containers = json!([{"name": "c", "image": "i", "ports": ports, "env": env}]);
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": containers}});
    let mut busy = Vec::new();
    for (path, object) in [(MAPS, &map), (MAPS, &map), ("/api/v1/namespaces/default/pods", &pod)] {
        let (mut client, body) = (Client::new(&server).await, object.clone());
        busy.push(tokio::spawn(async move {
            let answer = client.call("POST", &format!("{path}?dryRun=All"), Some(&body)).await;
            assert_eq!(answer.status, 201, "{}", String::from_utf8_lossy(&answer.body[..500]));
        }));
    }
    let all = tokio::spawn(async move {
        for one in busy {
            one.await.unwrap();
        }
    });
    let slowest = slowest_livez(&mut Client::new(&server).await, &all).await;
    all.await.unwrap();
    // An unoptimised server on a busy machine; on a quiet one it is a few milliseconds.
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_body_of_much_work_does_not_block_the_workers() {
    // 300 bytes of YAML aliases occupied a worker as long as a body of a megabyte.
    let server = start().await;
    let mut body = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n".to_owned();
    for n in 1..7 {
        let before = vec![format!("*a{}", n - 1); 9].join(",");
        body += &format!("a{n}: &a{n} [{before}]\n");
    }
    let mut client = Client::new(&server).await;
    let busy = tokio::spawn(async move {
        let path = format!("{MAPS}/y?fieldManager=a");
        client.send("PATCH", &path, "content-type: application/apply-patch+yaml\r\n", &body).await;
        let answer = client.answer().await;
        assert_eq!(answer.status, 400, "{}", String::from_utf8_lossy(&answer.body));
    });
    // One worker of two may be busy; four probes at a time find out.
    let mut probes = Vec::new();
    for _ in 0..4 {
        let mut probe = Client::new(&server).await;
        let handle = busy.abort_handle();
        probes.push(tokio::spawn(async move {
            let mut slowest = Duration::ZERO;
            while !handle.is_finished() {
                let begin = Instant::now();
                assert_eq!(probe.call("GET", "/livez", None).await.status, 200);
                slowest = slowest.max(begin.elapsed());
            }
            slowest
        }));
    }
    busy.await.unwrap();
    for probe in probes {
        let slowest = probe.await.unwrap();
        assert!(slowest < Duration::from_millis(500), "{slowest:?}");
    }
}

#[tokio::test]
async fn a_long_list_of_strict_decoding_errors_is_cut() {
    let server = start().await;
    let mut client = Client::new(&server).await;
    let owners: Vec<Value> = (0..8_000)
        .map(|n| json!({"apiVersion": "v1", "kind": "Pod", "name": format!("p{n}"), "uid": format!("u{n}"), "controller": true}))
        .collect();
    let object = json!({"metadata": {"name": "a", "ownerReferences": owners}});
    let sent = object.to_string().len();
    let answer = client.call("POST", MAPS, Some(&object)).await;
    // Each of the references was answered with all of them.
    assert_eq!(answer.status, 422);
    assert!(answer.body.len() < 3 * sent, "{} for {sent}", answer.body.len());
}

#[tokio::test]
async fn unauthenticated_requests_create_no_metric_labels() {
    // 200 requests without credentials for paths of 64 KB made a response of 325 MB.
    let server = start_on(Options { anonymous: false, ..Options::default() }).await;
    let mut stranger = Client::new(&server).await.with_token("wrong");
    let long = "x".repeat(4000);
    for n in 0..20 {
        let path = format!("/apis/{long}{n}/v1/things");
        assert_eq!(stranger.call("GET", &path, None).await.status, 401);
        assert_eq!(stranger.call("GET", "/api/v1/pods", None).await.status, 401);
    }
    let mut client = Client::new(&server).await;
    for path in [format!("/apis/{long}/v1/things"), format!("/api/v1/namespaces/default/pods/a/{long}")] {
        assert_eq!(client.call("GET", &path, None).await.status, 404);
    }
    client.call("GET", "/api/v1/nodes", None).await;
    let metrics = String::from_utf8(client.call("GET", "/metrics", None).await.body).unwrap();
    assert!(!metrics.contains("xxxx"));
    assert!(
        !metrics
            .contains(r#"resource="pods",subresource="",scope="cluster",component="apiserver",code="401""#)
    );
    assert!(
        metrics
            .contains(r#"resource="nodes",subresource="",scope="cluster",component="apiserver",code="200""#)
    );
}

/// The longest time that the only worker of a runtime was kept from another task until something is done, and the time it took.
async fn longest_hold(work: impl Future<Output = ()>) -> (Duration, Duration) {
    let (begin, mut last, mut longest) = (Instant::now(), Instant::now(), Duration::ZERO);
    let others = async {
        loop {
            tokio::task::yield_now().await;
            longest = longest.max(last.elapsed());
            last = Instant::now();
        }
    };
    tokio::select! {
        () = work => {}
        () = others => {}
    }
    // What has held up the end of the work was not seen by the other task any more.
    (longest.max(last.elapsed()), begin.elapsed())
}

/// Fails if the work keeps the only worker of the runtime for a third of its time in one piece. A busy machine may stop the whole
/// process in the middle, though not each of ten times.
async fn does_not_block_the_workers(mut work: impl AsyncFnMut()) {
    let mut seen = Vec::new();
    for _ in 0..10 {
        let (longest, all) = longest_hold(work()).await;
        if longest < all / 3 {
            return;
        }
        seen.push((longest, all));
    }
    panic!("the worker was held up, longest and in all: {seen:?}");
}

/// A watch that matches nothing writes nothing, and so never yielded: it kept its worker for a whole collection.
#[tokio::test]
async fn a_watch_without_matches_does_not_block_the_workers() {
    let engine = Arc::new(MemoryEngine::default());
    let options = Options { security: Security::InsecureHttp, ..Options::default() };
    let server = Server::start(options, Arc::clone(&engine) as Arc<dyn Engine>).await.unwrap();
    let object = |n: usize| {
        let name = format!("c{n:06}");
        let key = format!("/registry/configmaps/default/{name}").into();
        let metadata = json!({"name": name, "namespace": "default", "uid": name});
        let object = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata});
        Write { key, value: Some(object.to_string().into()), expect: Expect::Any, origin: None }
    };
    for begin in (0..40_000).step_by(1000) {
        engine.transact((begin..begin + 1000).map(object).collect()).await.unwrap();
    }
    let first = Client::new(&server).await.get(&format!("{MAPS}?limit=1")).await;
    assert_eq!(first["metadata"]["remainingItemCount"], 39_999);
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&labelSelector=no%3Dne";
    does_not_block_the_workers(async || {
        let mut watch = Watch::open(&server, query).await;
        assert_eq!(watch.next().await.unwrap()["type"], "BOOKMARK");
    })
    .await;
}

/// A thousand watches with selectors of 58 KB took up a gigabyte, and each change was held against all of them.
#[tokio::test]
async fn the_long_selectors_of_one_user_are_bounded() {
    let mut options = Options::default();
    options.watch.user_selector_bytes = 10_000;
    let server = start_on(options).await;
    let query = |n: usize| {
        let selector: Vec<String> = (0..400).map(|key| format!("!{n}-{key:06}")).collect();
        format!("{MAPS}?watch=1&labelSelector={}", selector.join("%2C"))
    };
    let mut open = Vec::new();
    for n in 0..2 {
        let mut client = Client::new(&server).await;
        client.send("GET", &query(n), "", "").await;
        assert_eq!(client.head().await.0, 200);
        open.push(client);
    }
    let mut client = Client::new(&server).await;
    let refused = client.call("GET", &query(2), None).await;
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("1")));
    let short = format!("{MAPS}?watch=1&timeoutSeconds=1&labelSelector=a");
    assert_eq!(client.call("GET", &short, None).await.status, 200, "short ones are not counted");
    drop(open.pop());
    crate::common::eventually_async("the end of a watch gives its selector back", async || {
        let mut client = Client::new(&server).await;
        client.send("GET", &query(3), "", "").await;
        client.head().await.0 == 200
    })
    .await;
}

/// Evictions parsed all budgets of their namespace on the workers: a hundred of a megabyte each, which any editor can
/// create, kept `/livez` waiting for seven seconds.
#[tokio::test]
async fn large_disruption_budgets_do_not_block_the_workers() {
    let engine = Arc::new(MemoryEngine::default());
    let options = Options { security: Security::InsecureHttp, ..Options::default() };
    let server = Server::start(options, Arc::clone(&engine) as Arc<dyn Engine>).await.unwrap();
    let mut client = Client::new(&server).await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let pods = "/api/v1/namespaces/default/pods";
    assert_eq!(client.call("POST", pods, Some(&pod)).await.status, 201);
    let running = r#"{"status":{"phase":"Running"}}"#;
    client
        .send("PATCH", &format!("{pods}/p/status"), "content-type: application/merge-patch+json\r\n", running)
        .await;
    assert_eq!(client.answer().await.status, 200);
    let values: Vec<String> = (0..20_000).map(|n| format!("v{n}")).collect();
    for n in 0..100 {
        let selector = json!({"matchExpressions": [{"key": "a", "operator": "In", "values": values}]});
        let metadata = json!({"name": format!("b{n}"), "namespace": "default", "uid": format!("u{n}")});
        let budget = json!({"kind": "PodDisruptionBudget", "apiVersion": "policy/v1", "metadata": metadata,
            "spec": {"selector": selector}});
        let key = format!("/registry/poddisruptionbudgets.policy/default/b{n}").into();
        let value = Some(budget.to_string().into());
        engine.write(Write { key, value, expect: Expect::Any, origin: None }).await.unwrap();
    }
    let budgets = client.get("/apis/policy/v1/namespaces/default/poddisruptionbudgets?limit=1").await;
    assert_eq!(budgets["metadata"]["remainingItemCount"], 99);
    let eviction = json!({"kind": "Eviction", "apiVersion": "policy/v1", "metadata": {"name": "p"}});
    does_not_block_the_workers(async || {
        let answer = client.call("POST", &format!("{pods}/p/eviction?dryRun=All"), Some(&eviction)).await;
        assert_eq!(answer.status, 201, "{}", String::from_utf8_lossy(&answer.body));
    })
    .await;
}

/// A writer of Roles in one namespace can write hundreds of thousands of rules for all users: each request there took 50 ms
/// of a worker, and a review of one's rules made a response of 46 MB.
#[tokio::test]
async fn a_namespace_with_very_many_rules_does_not_block_the_workers() {
    let engine = Arc::new(MemoryEngine::default());
    let options = Options { security: Security::InsecureHttp, ..Options::default() };
    let server = Server::start(options, Arc::clone(&engine) as Arc<dyn Engine>).await.unwrap();
    let mut names = vec!["a"; 2_000_000];
    names.push("last");
    let metadata = json!({"name": "all", "namespace": "default", "uid": "u"});
    let rule = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": names});
    let role = json!({"kind": "Role", "apiVersion": "rbac.authorization.k8s.io/v1", "metadata": metadata, "rules": [rule]});
    let reference = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "all"});
    let everybody =
        json!([{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:authenticated"}]);
    let binding = json!({"kind": "RoleBinding", "apiVersion": "rbac.authorization.k8s.io/v1", "metadata": metadata,
        "roleRef": reference, "subjects": everybody});
    for (plural, object) in [("roles", role), ("rolebindings", binding)] {
        let key = format!("/registry/{plural}.rbac.authorization.k8s.io/default/all").into();
        let value = Some(object.to_string().into());
        engine.write(Write { key, value, expect: Expect::Any, origin: None }).await.unwrap();
    }
    let mut client = Client::new(&server).await;
    let bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings?limit=1";
    assert_eq!(client.get(bindings).await["items"][0]["metadata"]["name"], "all");
    let pods = "/api/v1/namespaces/default/pods";
    for (name, status) in [("last", 404), ("other", 403)] {
        client.send("GET", &format!("{pods}/{name}"), "impersonate-user: bob\r\n", "").await;
        assert_eq!(client.answer().await.status, status, "{name}");
    }
    let headers = "impersonate-user: bob\r\ncontent-type: application/json\r\n";
    let review = r#"{"spec":{"namespace":"default"}}"#;
    client.send("POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", headers, review).await;
    let answer = client.answer().await.json();
    assert_eq!(answer["status"]["incomplete"], true);
    assert!(answer.to_string().len() < 100_000);
    does_not_block_the_workers(async || {
        client.send("GET", &format!("{pods}/other"), "impersonate-user: bob\r\n", "").await;
        assert_eq!(client.answer().await.status, 403);
    })
    .await;
    // A message to a stream may name 256 watches, each of which is authorized.
    let message = r#"{"subscribe":[{"id":"a","version":"v1","resource":"pods","namespaces":["default"]}]}"#;
    does_not_block_the_workers(async || {
        let mut client = Client::new(&server).await;
        client.send("POST", "/listwatch/v1/watch", headers, message).await;
        assert_eq!(client.head().await.0, 200);
        while !client.read_line().await.contains("forbidden") {}
    })
    .await;
}

/// The Roles of a namespace are compared for each request in it, so they have a bound; administrators have none.
#[tokio::test]
async fn the_rules_of_a_namespace_have_a_bound() {
    let server = start().await;
    let mut client = Client::new(&server).await;
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["create"]}]);
    let writer = json!({"metadata": {"name": "writer"}, "rules": rules});
    let bob = json!({"metadata": {"name": "bob"}, "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io",
        "name": "bob"}], "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "writer"}});
    for (plural, object) in [("roles", writer), ("rolebindings", bob)] {
        let made = client.call("POST", &format!("{rbac}/namespaces/default/{plural}"), Some(&object)).await;
        assert_eq!(made.status, 201, "{}", String::from_utf8_lossy(&made.body));
    }
    let role = |name: &str| {
        let rule = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": vec!["a"; 120_000]});
        json!({"metadata": {"name": name}, "rules": [rule]}).to_string()
    };
    let headers = "impersonate-user: bob\r\ncontent-type: application/json\r\n";
    for (name, status) in [("one", 201), ("two", 403)] {
        client.send("POST", &format!("{rbac}/namespaces/default/roles"), headers, &role(name)).await;
        let answer = client.answer().await;
        let text = String::from_utf8_lossy(&answer.body);
        assert_eq!(answer.status, status, "{name}: {}", &text[..text.len().min(500)]);
    }
}
