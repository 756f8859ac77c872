//! The effect of one user's flood on another: two hundred connections in a closed loop beside one request every ten
//! milliseconds, and health checks beside both.
//!
//! Each of the three has a thread of its own, so that they do not wait for each other in one run queue. The quiet and the
//! flooded stretches take turns within one run.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::TempDir;

use crate::client::{Connection, config_map, config_maps};
use crate::count;
use crate::process::Server;

/// The requests of the greedy user: a name for the table, a method and a path.
const LOADS: [(&str, &str, &str); 4] = [
    ("gets", "GET", "/api/v1/namespaces/default/configmaps/small"),
    ("lists", "GET", "/api/v1/namespaces/default/configmaps"),
    ("YAML of large objects", "YAML", "/api/v1/namespaces/large/configmaps"),
    ("writes", "POST", "/api/v1/namespaces/default/configmaps?dryRun=All"),
];

/// Answers and refusals of one side, and how long its responses took.
#[derive(Default)]
struct Seen {
    took: Vec<Duration>,
    refused: u64,
}

impl Seen {
    fn at(&mut self, percent: usize) -> f64 {
        self.took.sort();
        self.took
            .get((self.took.len() * percent / 100).min(self.took.len().saturating_sub(1)))
            .map_or(0.0, |t| t.as_secs_f64() * 1e3)
    }
}

pub(crate) async fn run() {
    let (connections, requests) = (count("CONNECTIONS", 200), count("REQUESTS", 500));
    let folder = TempDir::new().unwrap();
    let tokens = folder.path().join("tokens");
    fs::write(&tokens, "greedy,greedy,1,\nmodest,modest,2,\n").unwrap();
    let server = Arc::new(Server::with(&["--token-auth-file", tokens.to_str().unwrap()]));
    prepare(&server).await;
    println!(
        "{connections} connections of one user in a closed loop, {requests} requests of another, one every 10 ms"
    );
    println!(
        "{:24}{:>12}{:>12}{:>8}{:>10}{:>12}{:>12}{:>12}",
        "load", "quiet p99", "flood p99", "times", "refused", "livez max", "livez p99", "answers/s"
    );
    for (name, method, path) in LOADS {
        let mut quiet = modest(&server, requests);
        let stop = Arc::new(AtomicBool::new(false));
        let answers = Arc::new(AtomicU64::new(0));
        let greedy = greedy(&server, connections, (method, path), &stop, &answers);
        std::thread::sleep(Duration::from_millis(500));
        let (begin, before) = (Instant::now(), answers.load(Ordering::Relaxed));
        let probe = {
            let (server, stop) = (Arc::clone(&server), Arc::clone(&stop));
            std::thread::spawn(move || probe(&server, &stop))
        };
        let mut flooded = modest(&server, requests);
        let rate = (answers.load(Ordering::Relaxed) - before) as f64 / begin.elapsed().as_secs_f64();
        stop.store(true, Ordering::Relaxed);
        let mut health = probe.join().unwrap();
        greedy.join().unwrap();
        println!(
            "{name:24}{:>9.2} ms{:>9.2} ms{:>8.1}{:>10}{:>9.2} ms{:>9.2} ms{rate:>12.0}",
            quiet.at(99),
            flooded.at(99),
            flooded.at(99) / quiet.at(99),
            quiet.refused + flooded.refused,
            health.at(100),
            health.at(99),
        );
    }
}

/// Objects to read, and rights for both users.
async fn prepare(server: &Server) {
    let mut admin = Connection::open(server).await;
    let subject = |name: &str| json!({"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"});
    let binding = json!({"metadata": {"name": "both"}, "subjects": [subject("greedy"), subject("modest")],
        "roleRef": {"kind": "ClusterRole", "name": "cluster-admin", "apiGroup": "rbac.authorization.k8s.io"}});
    admin.call("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding.to_string()).await;
    admin.call("POST", "/api/v1/namespaces", &json!({"metadata": {"name": "large"}}).to_string()).await;
    admin.call("POST", &config_maps("default"), &config_map("small", &json!({"k": "v"}))).await;
    for n in 0..100 {
        admin
            .call(
                "POST",
                &config_maps("default"),
                &config_map(&format!("c{n}"), &json!({"k": "v".repeat(500)})),
            )
            .await;
    }
    for n in 0..5 {
        let data: serde_json::Map<_, _> =
            (0..500).map(|k| (format!("key{k}"), json!("v".repeat(1000)))).collect();
        admin.call("POST", &config_maps("large"), &config_map(&format!("l{n}"), &json!(data))).await;
    }
}

/// Runs on a thread of its own.
fn alone<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

fn modest(server: &Arc<Server>, requests: usize) -> Seen {
    let server = Arc::clone(server);
    let work = async move {
        let mut connection = Connection::open_as(&server, "modest").await;
        let mut seen = Seen::default();
        let mut ticks = tokio::time::interval(Duration::from_millis(10));
        for _ in 0..requests {
            ticks.tick().await;
            let begin = Instant::now();
            match connection.ask("GET", "/api/v1/namespaces/default/configmaps/small", "", "json").await {
                200 => seen.took.push(begin.elapsed()),
                _ => seen.refused += 1,
            }
        }
        seen
    };
    std::thread::spawn(move || alone(work)).join().unwrap()
}

fn probe(server: &Arc<Server>, stop: &AtomicBool) -> Seen {
    alone(async {
        let mut connection = Connection::open_as(server, "modest").await;
        let mut seen = Seen::default();
        while !stop.load(Ordering::Relaxed) {
            let begin = Instant::now();
            assert_eq!(connection.ask("GET", "/livez", "", "json").await, 200);
            seen.took.push(begin.elapsed());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        seen
    })
}

fn greedy(
    server: &Arc<Server>,
    connections: usize,
    (method, path): (&'static str, &'static str),
    stop: &Arc<AtomicBool>,
    answers: &Arc<AtomicU64>,
) -> std::thread::JoinHandle<()> {
    let (server, stop, answers) = (Arc::clone(server), Arc::clone(stop), Arc::clone(answers));
    std::thread::spawn(move || {
        alone(async move {
            let (method, accept) = if method == "YAML" { ("GET", "yaml") } else { (method, "json") };
            let map = config_map("new", &json!({"k": "v".repeat(2000)}));
            let body = if method == "POST" { map.as_str() } else { "" };
            let one = async || {
                let mut connection = Connection::open_as(&server, "greedy").await;
                while !stop.load(Ordering::Relaxed) {
                    connection.ask(method, path, body, accept).await;
                    answers.fetch_add(1, Ordering::Relaxed);
                }
            };
            futures::future::join_all((0..connections).map(|_| one())).await;
        });
    })
}
