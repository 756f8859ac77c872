//! One operator with our Controller and with kube-rs's: lines, and processor time per reconcile, in one run.
//!
//! `cargo xtask bench controller`. Each operator runs in a process of its own against a server in this one, so that its
//! processor time is its own. The work is the same: greetings are created, changed a few times and deleted, and each change
//! is waited for.

#![allow(
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    missing_docs,
    reason = "a benchmark"
)]

#[path = "../../../informer/examples/operator/greeting.rs"]
mod greeting;
#[path = "../../../informer/examples/operator/kube_rs.rs"]
mod kube_rs;
#[path = "../../../informer/examples/operator/ours.rs"]
mod ours;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use listwatch_testkit::TestServer;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use greeting::{Greeting, RECONCILES};

const GREETINGS: usize = 500;
const ROUNDS: usize = 5;
const WRITERS: usize = 16;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["operator", which] => runtime.block_on(operator(which)),
        _ => runtime.block_on(compare()),
    }
}

/// The child: runs an operator until its input ends, then prints what it cost.
async fn operator(which: &str) {
    let client = listwatch::kube::client(kube::Config::infer().await.unwrap()).unwrap();
    let stop = CancellationToken::new();
    let (end, begin) = (stop.clone(), cpu_micros());
    std::thread::spawn(move || {
        let _ = std::io::stdin().lines().next();
        end.cancel();
    });
    match which {
        "ours" => ours::run(client, stop).await.unwrap(),
        _ => kube_rs::run(client, stop).await.unwrap(),
    }
    println!("{} {} {}", cpu_micros() - begin, RECONCILES.load(Ordering::Relaxed), peak_mb());
}

async fn compare() {
    let server = TestServer::start().await.unwrap();
    let kubeconfig = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(kubeconfig.path(), server.kubeconfig()).unwrap();
    let client = server.client().unwrap();
    greeting::define(&client).await.unwrap();
    println!(
        "{:<12} {:>6} {:>12} {:>14} {:>16} {:>10}",
        "", "lines", "reconciles", "CPU µs each", "CPU µs a change", "peak MB"
    );
    for which in ["ours", "kube-rs", "ours", "kube-rs"] {
        let mut child = start(which, kubeconfig.path());
        work(&client).await;
        drop(child.stdin.take());
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(child.wait().unwrap().success());
        let figures: Vec<f64> = line.split_whitespace().map(|figure| figure.parse().unwrap()).collect();
        let changes = (GREETINGS * (ROUNDS + 2)) as f64;
        println!(
            "{which:<12} {:>6} {:>12} {:>14.0} {:>16.0} {:>10.1}",
            lines(which),
            figures[1],
            figures[0] / figures[1],
            figures[0] / changes,
            figures[2]
        );
    }
    server.stop().await;
}

fn start(which: &str, kubeconfig: &std::path::Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["operator", which])
        .env("KUBECONFIG", kubeconfig)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Creates, changes and deletes the greetings; each step is complete when the operator has followed.
async fn work(client: &Client) {
    for round in 0..=ROUNDS {
        each(|number| write(client.clone(), number, round)).await;
        let text = format!("round {round}");
        until(|| async {
            let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
            let maps = maps.list(&ListParams::default()).await.unwrap();
            let current =
                |map: &&ConfigMap| map.data.as_ref().is_some_and(|data| data.get("text") == Some(&text));
            maps.iter().filter(current).count() == GREETINGS
        })
        .await;
    }
    each(|number| remove(client.clone(), number)).await;
    until(|| async {
        let greetings: Api<Greeting> = Api::namespaced(client.clone(), "default");
        greetings.list(&ListParams::default()).await.unwrap().items.is_empty()
    })
    .await;
    // The garbage collector of the server takes the ConfigMaps with them.
    until(|| async {
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
        let maps = maps.list(&ListParams::default()).await.unwrap();
        !maps.iter().any(|map| map.name_any().starts_with("greeting-"))
    })
    .await;
}

async fn each<F: Future<Output = ()>>(step: impl Fn(usize) -> F) {
    stream::iter(0..GREETINGS).map(step).buffer_unordered(WRITERS).collect::<Vec<()>>().await;
}

async fn write(client: Client, number: usize, round: usize) {
    let greetings: Api<Greeting> = Api::namespaced(client, "default");
    let name = format!("greeting-{number}");
    let greeting = json!({
        "apiVersion": "example.com/v1", "kind": "Greeting", "metadata": {"name": name},
        "spec": {"text": format!("round {round}")},
    });
    greetings.patch(&name, &PatchParams::apply("bench"), &Patch::Apply(greeting)).await.unwrap();
}

async fn remove(client: Client, number: usize) {
    let greetings: Api<Greeting> = Api::namespaced(client, "default");
    greetings.delete(&format!("greeting-{number}"), &DeleteParams::default()).await.unwrap();
}

async fn until<F: Future<Output = bool>>(done: impl Fn() -> F) {
    let began = Instant::now();
    while !done().await {
        assert!(began.elapsed() < Duration::from_secs(120), "the operator does not follow");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let _ = std::io::stdout().flush();
}

/// Lines of code without comments and blank ones.
fn lines(which: &str) -> usize {
    let text = match which {
        "ours" => include_str!("../../../informer/examples/operator/ours.rs"),
        _ => include_str!("../../../informer/examples/operator/kube_rs.rs"),
    };
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//")).count()
}

/// Microseconds of processor time of all threads so far. The kernel counts in hundredths of a second.
fn cpu_micros() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) * 10_000.0
}

fn peak_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
}
