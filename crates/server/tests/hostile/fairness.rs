//! Floods by some users, and their effect on others.

use std::time::{Duration, Instant};

use listwatch_server::{Handle, Options, RequestLimits};
use serde_json::{Value, json};

use crate::common::{Client, start_on};

/// Tokens of two users who may do anything without being administrators.
async fn two_users(options: Options) -> (Handle, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tokens");
    std::fs::write(&file, "greedy,greedy,1,\nmodest,modest,2,\n").unwrap();
    let server = start_on(Options { token_file: Some(file), ..options }).await;
    let subjects: Vec<Value> = ["greedy", "modest"]
        .iter()
        .map(|name| json!({"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"}))
        .collect();
    let binding = json!({
        "metadata": {"name": "both"}, "subjects": subjects,
        "roleRef": {"kind": "ClusterRole", "name": "cluster-admin", "apiGroup": "rbac.authorization.k8s.io"},
    });
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    assert_eq!(Client::new(&server).await.call("POST", path, Some(&binding)).await.status, 201);
    // Rights are those of the cache.
    let mut modest = Client::new(&server).await.with_token("modest");
    while modest.call("GET", MAPS, None).await.status == 403 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    (server, dir)
}

async fn as_user(server: &Handle, token: &str) -> Client {
    Client::new(server).await.with_token(token)
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test]
async fn bodies_that_do_not_come_take_no_seats() {
    // 600 slow POSTs by a user without any role made all other requests fail with 429, health checks included, for a
    // minute.
    let requests = RequestLimits { in_flight: 20, ..RequestLimits::default() };
    let (server, _dir) = two_users(Options { requests, ..Options::default() }).await;
    let mut slow = Vec::new();
    for _ in 0..100 {
        let mut client = as_user(&server, "greedy").await;
        client.raw(format!("POST {MAPS} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer greedy\r\ncontent-length: 100\r\n\r\n{{").as_bytes()).await;
        slow.push(client);
    }
    for user in ["modest", "greedy"] {
        let mut client = as_user(&server, user).await;
        assert_eq!(client.call("GET", MAPS, None).await.status, 200, "{user}");
        assert_eq!(client.call("GET", "/readyz", None).await.status, 200, "{user}");
    }
}

#[tokio::test]
async fn bodies_take_bounded_memory_and_users_have_shares() {
    // A user without any role sent 900 bodies of 3 MB over one connection and ended none: 3.2 GB.
    let requests = RequestLimits { user_bodies_bytes: 3 << 20, ..RequestLimits::default() };
    let (server, _dir) = two_users(Options { requests, ..Options::default() }).await;
    let mut announced = Vec::new();
    // Only the one that has to wait is given up early.
    let (long, short) = (Duration::from_secs(20), Duration::from_millis(300));
    for (user, patience) in [("greedy", long), ("greedy", short), ("modest", long)] {
        let mut client = as_user(&server, user).await;
        client.raw(format!("POST {MAPS} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {user}\r\ncontent-length: 2000000\r\nexpect: 100-continue\r\n\r\n").as_bytes()).await;
        let asked_for = tokio::time::timeout(patience, client.head()).await;
        announced.push((client, asked_for.map(|(status, _)| status).ok()));
    }
    let asked_for: Vec<_> = announced.iter().map(|(_, status)| *status).collect();
    assert_eq!(asked_for, [Some(100), None, Some(100)], "the second body of greedy has to wait");
    drop(announced.remove(0));
    assert_eq!(announced[0].0.head().await.0, 100, "until the first is gone");
}

/// 136 idle requests of eight ServiceAccounts, each with a body that did not come, stopped all writes of the cluster for a minute.
#[tokio::test]
async fn bodies_that_do_not_come_give_way_to_others() {
    let requests = RequestLimits { bodies_bytes: 3 << 20, ..RequestLimits::default() };
    let (server, _dir) = two_users(Options { requests, ..Options::default() }).await;
    let mut slow = Vec::new();
    for _ in 0..10 {
        let mut client = as_user(&server, "greedy").await;
        client.raw(format!("POST {MAPS} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer greedy\r\ncontent-length: 3145728\r\n\r\n{{").as_bytes()).await;
        slow.push(client);
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    let map = json!({"metadata": {"name": "a"}});
    let mut modest = as_user(&server, "modest").await;
    let answer = modest.call("POST", MAPS, Some(&map));
    let answer = tokio::time::timeout(Duration::from_secs(15), answer).await.expect("an answer in time");
    assert_eq!(answer.status, 201);
    let answers = slow.iter_mut().map(|client| Box::pin(client.head()));
    assert_eq!(futures::future::select_all(answers).await.0.0, 429, "one of the slow ones has given way");
}

#[tokio::test]
async fn responses_name_the_flow_schema_and_priority_level() {
    let (server, _dir) = two_users(Options::default()).await;
    let mut admin = Client::new(&server).await;
    let of = async |client: &mut Client, group: &str, name: &str| {
        let object = client.get(&format!("/apis/flowcontrol.apiserver.k8s.io/v1/{group}/{name}")).await;
        object["metadata"]["uid"].as_str().unwrap().to_owned()
    };
    let global = of(&mut admin, "flowschemas", "global-default").await;
    let exempt = of(&mut admin, "prioritylevelconfigurations", "exempt").await;
    let answer = as_user(&server, "modest").await.call("GET", MAPS, None).await;
    assert_eq!(answer.header("x-kubernetes-pf-flowschema-uid"), Some(global.as_str()));
    let answer = admin.call("GET", MAPS, None).await;
    assert_eq!(answer.header("x-kubernetes-pf-prioritylevel-uid"), Some(exempt.as_str()));
    // A new schema and level take effect at once.
    let level = json!({"metadata": {"name": "mine"}, "spec": {"type": "Limited", "limited":
        {"nominalConcurrencyShares": 1, "limitResponse": {"type": "Reject"}}}});
    let schema = json!({"metadata": {"name": "mine"}, "spec": {
        "priorityLevelConfiguration": {"name": "mine"}, "matchingPrecedence": 1000,
        "rules": [{"subjects": [{"kind": "User", "user": {"name": "modest"}}],
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"]}]}]}});
    for (plural, object) in [("prioritylevelconfigurations", level), ("flowschemas", schema)] {
        let path = format!("/apis/flowcontrol.apiserver.k8s.io/v1/{plural}");
        let answer = admin.call("POST", &path, Some(&object)).await;
        assert_eq!(answer.status, 201, "{}", String::from_utf8_lossy(&answer.body));
    }
    let mine = of(&mut admin, "flowschemas", "mine").await;
    let answer = as_user(&server, "modest").await.call("GET", MAPS, None).await;
    assert_eq!(answer.header("x-kubernetes-pf-flowschema-uid"), Some(mine.as_str()));
    let metrics = String::from_utf8(admin.call("GET", "/metrics", None).await.body).unwrap();
    assert!(
        metrics.contains("apiserver_flowcontrol_nominal_limit_seats{priority_level=\"mine\"} 3\n"),
        "{metrics}"
    );
}

#[tokio::test]
async fn objects_that_the_server_maintains_are_restored() {
    let (server, _dir) = two_users(Options::default()).await;
    let mut admin = Client::new(&server).await;
    let path = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/catch-all";
    let before = admin.get(path).await["metadata"]["uid"].clone();
    assert_eq!(admin.call("DELETE", path, None).await.status, 200);
    let begin = Instant::now();
    loop {
        let now = admin.call("GET", path, None).await;
        if now.status == 200 && now.json()["metadata"]["uid"] != before {
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(20), "it did not come back");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The 99th percentile of so many requests, one every 10 milliseconds; none may be refused.
async fn p99(client: &mut Client, count: usize) -> Duration {
    let mut took = Vec::new();
    let mut ticks = tokio::time::interval(Duration::from_millis(10));
    for _ in 0..count {
        ticks.tick().await;
        let begin = Instant::now();
        assert_eq!(client.call("GET", &format!("{MAPS}?limit=1"), None).await.status, 200);
        took.push(begin.elapsed());
    }
    took.sort();
    took[count * 99 / 100 - 1]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_flood_by_one_user_rejects_no_request_of_another() {
    let (server, _dir) = two_users(Options::default()).await;
    let mut modest = as_user(&server, "modest").await;
    let quiet = p99(&mut modest, 100).await;
    let mut flood = Vec::new();
    for _ in 0..200 {
        let mut client = as_user(&server, "greedy").await;
        flood.push(tokio::spawn(async move {
            loop {
                let answer = client.call("GET", &format!("{MAPS}?limit=1"), None).await;
                assert!(matches!(answer.status, 200 | 429));
            }
        }));
    }
    let flooded = p99(&mut modest, 100).await;
    flood.iter().for_each(tokio::task::JoinHandle::abort);
    // All of it runs in this process, unoptimised; how the two compare is for a benchmark to say.
    assert!(flooded < quiet * 3 + Duration::from_millis(500), "{quiet:?} alone, {flooded:?} in the flood");
}

/// The value of a metric of the level that both users are in.
async fn of_level(admin: &mut Client, name: &str) -> f64 {
    let metrics = String::from_utf8(admin.call("GET", "/metrics", None).await.body).unwrap();
    let line = format!("{name}{{priority_level=\"global-default\"}} ");
    let value = metrics.lines().find_map(|text| text.strip_prefix(&line)).unwrap();
    value.parse().unwrap()
}

/// One user with two hundred connections kept all processors busy, and others waited for the time slices of the system: 6 ms
/// instead of 0.3. Now a flood waits for its share of CPU time, but only while another user is active.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_flood_is_paced_while_another_user_is_active() {
    let requests = RequestLimits { user_processor_percent: 1, ..RequestLimits::default() };
    let (server, _dir) = two_users(Options { requests, ..Options::default() }).await;
    let mut admin = Client::new(&server).await;
    let (paced, waited) =
        ("listwatch_flowcontrol_paced_requests_total", "listwatch_flowcontrol_paced_seconds_total");
    let mut flood = Vec::new();
    for _ in 0..50 {
        let mut client = as_user(&server, "greedy").await;
        flood.push(tokio::spawn(async move {
            loop {
                assert_eq!(client.call("GET", &format!("{MAPS}?limit=1"), None).await.status, 200);
            }
        }));
    }
    let mut modest = as_user(&server, "modest").await;
    let begin = Instant::now();
    while of_level(&mut admin, paced).await < 100.0 {
        assert_eq!(modest.call("GET", MAPS, None).await.status, 200);
        assert!(begin.elapsed() < Duration::from_secs(60), "the flood was not paced");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(of_level(&mut admin, waited).await > 0.0);
    flood.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn pacing_can_be_disabled() {
    let requests = RequestLimits { user_processor_percent: 100, ..RequestLimits::default() };
    let (server, _dir) = two_users(Options { requests, ..Options::default() }).await;
    let (mut greedy, mut modest) = (as_user(&server, "greedy").await, as_user(&server, "modest").await);
    for _ in 0..200 {
        assert_eq!(greedy.call("GET", MAPS, None).await.status, 200);
        assert_eq!(modest.call("GET", MAPS, None).await.status, 200);
    }
    let mut admin = Client::new(&server).await;
    assert_eq!(of_level(&mut admin, "listwatch_flowcontrol_paced_requests_total").await, 0.0);
}
