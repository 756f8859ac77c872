//! A stream of Pods as kubelets produce it, as whole objects, as gzip of whole objects, and as deltas: bytes and processor time.
//!
//! Pods of about 14.5 KB with the managedFields of a controller and a kubelet. Each write is a change of status: mostly
//! a heartbeat of a condition, every fourth a flip of readiness, by several writers at a time as several kubelets are.
//! The forms take turns in one run, several times, because the processor time of the same writes without a watcher is
//! taken off that of the server, and differs from round to round. The client's is that of an informer in a process of
//! its own.

use std::io::BufRead;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use listwatch::kube::{KubeSource, ResourceKind};
use listwatch::{Event, SharedInformer};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::time::sleep;

use crate::client::Connection;
use crate::count;
use crate::process::Server;

const PODS: &str = "/api/v1/namespaces/default/pods";
const POD_COUNT: usize = 16;
/// Connections that write at the same time. Each has Pods of its own, as a kubelet has.
const WRITERS: usize = 8;
const ROUNDS: usize = 3;
/// A client that has not seen all events by then never will.
const PATIENCE: Duration = Duration::from_secs(300);
const DELTA: &str = "accept: application/json;stream=watch;delta=json-patch,application/json\r\n";
/// Nothing has come for so long: everything has.
const QUIET: Duration = Duration::from_millis(400);

pub(crate) async fn run() {
    let server = Server::start();
    let mut writers = Vec::new();
    for _ in 0..WRITERS {
        writers.push(Connection::open(&server).await);
    }
    let mut size = 0;
    for pod in 0..POD_COUNT {
        writers[0].call("POST", PODS, &body(pod)).await;
        size = writers[0].call("PATCH", &status_path(pod), &first_status(pod)).await.len();
    }
    println!("Pods of {:.1} KB, status changes as kubelets make them", size as f64 / 1e3);
    println!(
        "{:>9} {:<8} {:>14} {:>10} {:>20} {:>10}",
        "watchers", "form", "bytes/event", "of whole", "server CPU µs/event", "of whole"
    );
    for (watchers, writes) in [(1, 4000), (100, 400), (1000, 100)] {
        servers(&server, &mut writers, watchers, count("LISTWATCH_WRITES", writes)).await;
    }
    clients(&server, &mut writers).await;
}

const FORMS: [(&str, &str); 3] = [("whole", ""), ("gzip", "accept-encoding: gzip\r\n"), ("delta", DELTA)];

/// One row per form: what so many watchers got, and what it cost the server.
async fn servers(server: &Server, writers: &mut [Connection], watchers: usize, writes: usize) {
    let (mut bytes, mut cpu) = ([0; FORMS.len()], [0.0; FORMS.len()]);
    for _ in 0..ROUNDS {
        let alone = arm(server, writers, 0, "", writes).await.1;
        for (i, (_, headers)) in FORMS.iter().enumerate() {
            let (got, spent) = arm(server, writers, watchers, headers, writes).await;
            bytes[i] += got;
            cpu[i] += spent - alone;
        }
    }
    let events = (watchers * writes * ROUNDS) as f64;
    for (i, (form, _)) in FORMS.iter().enumerate() {
        println!(
            "{watchers:>9} {form:<8} {:>14.0} {:>9.1}% {:>20.1} {:>10.2}",
            bytes[i] as f64 / events,
            bytes[i] as f64 / bytes[0] as f64 * 100.0,
            cpu[i] / events,
            cpu[i] / cpu[0]
        );
    }
}

/// Bytes that the watchers got, and processor time of the server, for some writes.
async fn arm(
    server: &Server,
    writers: &mut [Connection],
    watchers: usize,
    headers: &str,
    writes: usize,
) -> (usize, f64) {
    let bytes = Arc::new(AtomicUsize::new(0));
    let mut readers = Vec::new();
    let path = format!(
        "{PODS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=3600"
    );
    for _ in 0..watchers {
        let mut connection = Connection::open(server).await;
        connection.watch_with(&path, headers).await;
        let bytes = Arc::clone(&bytes);
        readers.push(tokio::spawn(async move {
            let mut buffer = vec![0; 64 << 10];
            while let Ok(read @ 1..) = connection.stream.read(&mut buffer).await {
                bytes.fetch_add(read, Ordering::Relaxed);
            }
        }));
    }
    quiet(&bytes).await;
    let (before, cpu) = (bytes.load(Ordering::Relaxed), server.cpu_micros());
    write(writers, writes).await;
    quiet(&bytes).await;
    let measured = (bytes.load(Ordering::Relaxed) - before, server.cpu_micros() - cpu);
    readers.iter().for_each(|reader| reader.abort());
    sleep(QUIET).await;
    measured
}

/// Every writer changes its own Pods, one after the other.
async fn write(writers: &mut [Connection], writes: usize) {
    /// Seconds never repeat, so that every write changes something.
    static SECONDS: AtomicUsize = AtomicUsize::new(0);
    let stride = writers.len();
    let each = writers.iter_mut().enumerate().map(|(first, writer)| async move {
        for n in (first..writes).step_by(stride) {
            let second = SECONDS.fetch_add(1, Ordering::Relaxed);
            writer.call("PATCH", &status_path(n % POD_COUNT), &status(n, second)).await;
        }
    });
    futures::future::join_all(each).await;
}

async fn quiet(bytes: &AtomicUsize) {
    let mut last = usize::MAX;
    while std::mem::replace(&mut last, bytes.load(Ordering::Relaxed)) != last {
        sleep(QUIET).await;
    }
}

/// An informer on whole objects and one on deltas, each in a process of its own, in turns.
async fn clients(server: &Server, writers: &mut [Connection]) {
    let writes = count("LISTWATCH_WRITES", 4000);
    println!("{:>9} {:<8} {:>20} {:>10}", "informer", "form", "client CPU µs/event", "of whole");
    let mut micros = [0.0; 2];
    for _ in 0..ROUNDS {
        for (i, form) in ["whole", "delta"].into_iter().enumerate() {
            micros[i] += follower(server, writers, form, writes).await;
        }
    }
    for (i, form) in ["whole", "delta"].into_iter().enumerate() {
        let each = micros[i] / (writes * ROUNDS) as f64;
        println!("{:>9} {form:<8} {each:>20.1} {:>10.2}", "", micros[i] / micros[0]);
    }
}

/// The processor time of one informer for so many events.
async fn follower(server: &Server, writers: &mut [Connection], form: &str, writes: usize) -> f64 {
    let mut child = client(server, form, writes);
    let mut lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
    // The first line says that it has its initial state.
    let (mut lines, ready) = tokio::task::spawn_blocking(move || {
        let ready = lines.next();
        (lines, ready)
    })
    .await
    .unwrap();
    assert_eq!(ready.unwrap().unwrap(), "synced");
    write(writers, writes).await;
    let said = tokio::task::spawn_blocking(move || lines.next().unwrap().unwrap()).await.unwrap();
    assert!(child.wait().unwrap().success());
    said.parse().unwrap()
}

fn client(server: &Server, form: &str, events: usize) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["delta-client", form, &events.to_string()])
        .env("KUBECONFIG", server.kubeconfig())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The child: follows the Pods for so many events, then prints its processor time since the initial state was complete.
pub(crate) async fn follow(form: &str, events: usize) {
    let client = listwatch::kube::client(kube::Config::infer().await.unwrap()).unwrap();
    let source =
        KubeSource::new(client, ResourceKind::of::<Pod>()).namespace("default").deltas(form == "delta");
    let informer = SharedInformer::<listwatch::object::Raw>::new(source);
    let seen = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&seen);
    let handler = move |event: &Event<_>| {
        if matches!(event, Event::Updated { .. }) {
            counted.fetch_add(1, Ordering::Relaxed);
        }
    };
    let _registration = informer.add_event_handler(handler).unwrap();
    informer.start().unwrap();
    informer.wait_synced().await;
    println!("synced");
    let (before, began) = (crate::process::own_cpu_micros(), Instant::now());
    while seen.load(Ordering::Relaxed) < events {
        assert!(began.elapsed() < PATIENCE, "saw {} of {events} events", seen.load(Ordering::Relaxed));
        sleep(Duration::from_millis(20)).await;
    }
    println!("{}", crate::process::own_cpu_micros() - before);
}

fn status_path(pod: usize) -> String {
    format!("{PODS}/pod-{pod}/status?fieldManager=kubelet")
}

fn body(pod: usize) -> String {
    let environment: Vec<_> =
        (0..36).map(|n| json!({"name": format!("VARIABLE_{n}"), "value": "x".repeat(32)})).collect();
    let containers: Vec<_> = (0..2)
        .map(|n| {
            json!({"name": format!("c{n}"), "image": "example.test/app:1", "env": environment,
                "ports": [{"containerPort": 8000 + n}], "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
                "volumeMounts": [{"name": "data", "mountPath": "/data"}]})
        })
        .collect();
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("pod-{pod}"), "labels": {"app": "bench"}},
        "spec": {"nodeName": "node-1", "containers": containers, "volumes": [{"name": "data", "emptyDir": {}}]}})
    .to_string()
}

fn condition(kind: &str, status: bool, time: &str, probed: &str) -> Value {
    json!({"type": kind, "status": if status { "True" } else { "False" }, "lastTransitionTime": time, "lastProbeTime": probed})
}

fn first_status(pod: usize) -> String {
    let at = "2026-01-01T00:00:00Z";
    let conditions: Vec<Value> = ["Initialized", "Ready", "ContainersReady", "PodScheduled"]
        .iter()
        .map(|kind| condition(kind, true, at, at))
        .collect();
    let containers: Vec<Value> = (0..2).map(|n| container(n, true)).collect();
    json!({"status": {"phase": "Running", "hostIP": "10.0.0.1", "podIP": format!("10.1.0.{pod}"), "startTime": at,
        "conditions": conditions, "containerStatuses": containers}})
    .to_string()
}

fn container(number: usize, ready: bool) -> Value {
    json!({"name": format!("c{number}"), "ready": ready, "started": true, "restartCount": 0, "image": "example.test/app:1",
        "imageID": format!("example.test/app@sha256:{}", "0".repeat(64)), "containerID": format!("containerd://{}", "1".repeat(64)),
        "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}})
}

/// Three heartbeats, then a flip of readiness.
fn status(n: usize, second: usize) -> String {
    let (day, hour, minute) = (second / 86_400 % 28 + 1, second / 3600 % 24, second / 60 % 60);
    let time = format!("2026-01-{day:02}T{hour:02}:{minute:02}:{:02}Z", second % 60);
    if !n.is_multiple_of(4) {
        return json!({"status": {"conditions": [{"type": "Ready", "lastProbeTime": time}]}}).to_string();
    }
    let ready = (n / POD_COUNT).is_multiple_of(2);
    let conditions: Vec<Value> =
        ["Ready", "ContainersReady"].iter().map(|kind| condition(kind, ready, &time, &time)).collect();
    json!({"status": {"conditions": conditions, "containerStatuses": [container(0, ready), container(1, true)]}}).to_string()
}
