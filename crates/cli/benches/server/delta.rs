//! A stream of Pods as kubelets produce it, as whole objects, as gzip of whole objects, and as deltas: bytes and processor time.
//!
//! Pods of about 14.5 KB with the managedFields of a controller and a kubelet. Each write is a change of status: mostly a heartbeat of
//! a condition, every fourth a flip of readiness. The forms take turns in one run. The processor time of the same
//! writes without a watcher is taken off that of the server; the client's is that of an informer in a process of its own.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

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
const DELTA: &str = "accept: application/json;stream=watch;delta=json-patch,application/json\r\n";
/// Nothing has come for so long: everything has.
const QUIET: Duration = Duration::from_millis(400);

pub(crate) async fn run() {
    let server = Server::start();
    let mut writer = Connection::open(&server).await;
    let mut size = 0;
    for pod in 0..POD_COUNT {
        writer.call("POST", PODS, &body(pod)).await;
        size = writer.call("PATCH", &status_path(pod), &first_status(pod)).await.len();
    }
    println!("Pods of {:.1} KB, status changes as kubelets make them", size as f64 / 1e3);
    println!(
        "{:>9} {:<8} {:>14} {:>10} {:>20}",
        "watchers", "form", "bytes/event", "of whole", "server CPU µs/event"
    );
    for (watchers, writes) in [(1, 4000), (100, 400), (1000, 100)] {
        let writes = count("LISTWATCH_WRITES", writes);
        let alone = arm(&server, &mut writer, 0, "", writes).await.1;
        let mut whole = 0.0;
        for (form, headers) in [("whole", ""), ("gzip", "accept-encoding: gzip\r\n"), ("delta", DELTA)] {
            let (bytes, cpu) = arm(&server, &mut writer, watchers, headers, writes).await;
            let events = (watchers * writes) as f64;
            let each = bytes as f64 / events;
            if form == "whole" {
                whole = each;
            }
            println!(
                "{watchers:>9} {form:<8} {each:>14.0} {:>9.1}% {:>20.1}",
                each / whole * 100.0,
                (cpu - alone).max(0.0) / events
            );
        }
    }
    clients(&server, &mut writer).await;
}

/// Bytes that the watchers got, and processor time of the server, for some writes.
async fn arm(
    server: &Server,
    writer: &mut Connection,
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
    write(writer, writes).await;
    quiet(&bytes).await;
    let measured = (bytes.load(Ordering::Relaxed) - before, server.cpu_micros() - cpu);
    readers.iter().for_each(|reader| reader.abort());
    sleep(QUIET).await;
    measured
}

async fn write(writer: &mut Connection, writes: usize) {
    for n in 0..writes {
        writer.call("PATCH", &status_path(n % POD_COUNT), &status(n)).await;
    }
}

async fn quiet(bytes: &AtomicUsize) {
    let mut last = usize::MAX;
    while std::mem::replace(&mut last, bytes.load(Ordering::Relaxed)) != last {
        sleep(QUIET).await;
    }
}

/// An informer on whole objects and one on deltas, each in a process of its own.
async fn clients(server: &Server, writer: &mut Connection) {
    let writes = count("LISTWATCH_WRITES", 4000);
    println!("{:>9} {:<8} {:>20}", "informer", "form", "client CPU µs/event");
    for form in ["whole", "delta", "whole", "delta"] {
        let mut child = client(server, form, writes);
        // Until it has its initial state.
        sleep(Duration::from_secs(2)).await;
        write(writer, writes).await;
        let said = tokio::task::spawn_blocking(move || {
            let mut said = String::new();
            std::io::Read::read_to_string(&mut child.stdout.take().unwrap(), &mut said).unwrap();
            assert!(child.wait().unwrap().success());
            said
        });
        let micros: f64 = said.await.unwrap().trim().parse().unwrap();
        println!("{:>9} {form:<8} {:>20.1}", "", micros / writes as f64);
    }
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
    let before = crate::process::own_cpu_micros();
    while seen.load(Ordering::Relaxed) < events {
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
fn status(n: usize) -> String {
    let time = format!("2026-01-01T{:02}:{:02}:{:02}Z", n / 3600 % 24, n / 60 % 60, n % 60);
    if !n.is_multiple_of(4) {
        return json!({"status": {"conditions": [{"type": "Ready", "lastProbeTime": time}]}}).to_string();
    }
    let ready = (n / POD_COUNT).is_multiple_of(2);
    let conditions: Vec<Value> =
        ["Ready", "ContainersReady"].iter().map(|kind| condition(kind, ready, &time, &time)).collect();
    json!({"status": {"conditions": conditions, "containerStatuses": [container(0, ready), container(1, true)]}}).to_string()
}
