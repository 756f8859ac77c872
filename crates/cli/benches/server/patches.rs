//! The cost of a change of the status of a Pod: the write that controllers and kubelets make most.
//!
//! Sixteen writers, each with a Pod of its own of about ten kilobytes, every patch acknowledged after it is on the disk. What is
//! measured is the server's processor time, kernel included.

use serde_json::json;

use crate::client::Connection;
use crate::count;
use crate::process::Server;

const WRITERS: usize = 16;
const PODS: &str = "/api/v1/namespaces/default/pods";

pub(crate) async fn run() {
    let patches = count("PATCHES", 500);
    let server = Server::start();
    let mut writers = Vec::new();
    let mut size = 0;
    for writer in 0..WRITERS {
        let mut connection = Connection::open(&server).await;
        size = connection.call("POST", PODS, &pod(writer)).await.len();
        writers.push(connection);
    }
    let before = server.cpu_micros();
    let work = writers.into_iter().enumerate().map(|(writer, mut connection)| async move {
        for n in 0..patches {
            connection.call("PATCH", &format!("{PODS}/pod-{writer}/status"), &patch(n)).await;
        }
    });
    futures::future::join_all(work.map(tokio::spawn)).await.into_iter().for_each(|done| done.unwrap());
    let micros = (server.cpu_micros() - before) / (patches * WRITERS) as f64;
    println!("status patch of a Pod of {:.1} KB, {WRITERS} writers, durable", size as f64 / 1e3);
    println!("{micros:>8.0} CPU µs per patch");
}

fn pod(writer: usize) -> String {
    let environment: Vec<_> =
        (0..20).map(|n| json!({"name": format!("VARIABLE_{n}"), "value": "x".repeat(40)})).collect();
    let containers: Vec<_> = (0..3)
        .map(|n| {
            json!({"name": format!("c{n}"), "image": "example.test/app:1", "env": environment,
                "ports": [{"containerPort": 8000 + n}]})
        })
        .collect();
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("pod-{writer}"), "labels": {"app": "bench"}},
        "spec": {"containers": containers}})
    .to_string()
}

fn patch(n: usize) -> String {
    let ready = if n.is_multiple_of(2) { "True" } else { "False" };
    json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready,
        "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": format!("Change{n}")}]}})
    .to_string()
}
