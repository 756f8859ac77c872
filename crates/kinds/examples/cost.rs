//! Measures the walks over the schema table: `cargo run --release -p listwatch-kinds --example cost`.
//!
//! Two objects represent the rest: a ConfigMap of 1.2 KB, which is one large map, and a Pod of 10 KB, which is many small
//! structs. Cloning the object is part of each figure that changes it, and is printed beside them.

#![expect(clippy::print_stdout, reason = "a program for people")]

use std::hint::black_box;
use std::time::Instant;

use listwatch_kinds::{proto, schema, typecheck};
use listwatch_wire::json::{Value, json};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let before = resident();
    let started = Instant::now();
    let nodes = schema::schema().structs().count();
    println!(
        "table      {nodes} structs in {:?}, {} KB more resident",
        started.elapsed(),
        resident() - before
    );
    for (kind, object) in [("ConfigMap", config_map()), ("Pod", pod())] {
        let node = schema::node("", "v1", kind).ok_or("a built-in kind")?;
        let text = object.to_string();
        let body = proto::encode("v1", kind, &object)?;
        println!("{kind:10} {} bytes of JSON, {} of protobuf", text.len(), body.len());
        time("clone", || drop(black_box(object.clone())));
        time("parse", || drop(black_box(serde_json::from_str::<Value>(&text))));
        time("typecheck", || {
            let mut object = object.clone();
            black_box(typecheck::decode(node, &mut object, None));
        });
        time("fill", || {
            let mut object = object.clone();
            typecheck::fill(node, &mut object, None);
            black_box(object);
        });
        time("from pb", || drop(black_box(proto::decode(&body, ("v1", kind)))));
        time("to pb", || drop(black_box(proto::encode("v1", kind, &object))));
    }
    let started = Instant::now();
    let length = listwatch_kinds::openapi::v3("api/v1").map_or(0, |document| document.len());
    println!("openapi    core/v1, {} KB in {:?}", length / 1024, started.elapsed());
    Ok(())
}

/// The fastest of many short rounds: other processes may disturb the rest.
fn time(what: &str, mut work: impl FnMut()) {
    const CALLS: u32 = 100;
    let round = |work: &mut dyn FnMut()| {
        let started = Instant::now();
        for _ in 0..CALLS {
            work();
        }
        started.elapsed().as_secs_f64() * 1e6 / f64::from(CALLS)
    };
    let fastest = (0..100).map(|_| round(&mut work)).fold(f64::INFINITY, f64::min);
    println!("  {what:9} {fastest:6.2} µs");
}

/// Resident memory in KB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kb| kb.parse().ok()).unwrap_or(0)
}

fn config_map() -> Value {
    let data: listwatch_wire::json::Map =
        (0..10).map(|n| (format!("key-{n}"), "x".repeat(90).into())).collect();
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "n",
        "labels": {"app": "a", "tier": "b"}}, "data": data})
}

fn pod() -> Value {
    let env: Vec<Value> = (0..12)
        .map(|n| json!({"name": format!("VARIABLE_{n}"), "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}))
        .collect();
    let containers: Vec<Value> = (0..6)
        .map(|n| {
            json!({"name": format!("container-{n}"), "image": "registry.example.test/team/application:1.2.3", "env": env,
                "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
                "resources": {"limits": {"cpu": "500m", "memory": "512Mi"}, "requests": {"cpu": "100m", "memory": "64Mi"}},
                "volumeMounts": [{"name": "config", "mountPath": "/etc/config", "readOnly": true}],
                "livenessProbe": {"httpGet": {"path": "/healthz", "port": "http"}, "periodSeconds": 10},
                "imagePullPolicy": "IfNotPresent", "terminationMessagePath": "/dev/termination-log"})
        })
        .collect();
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "namespace": "n", "uid": "3b6f3a52-7f0c-4f4e-9a55-0a1b2c3d4e5f",
            "creationTimestamp": "2026-01-02T03:04:05Z", "labels": {"app": "a"}},
        "spec": {"containers": containers, "restartPolicy": "Always", "terminationGracePeriodSeconds": 30,
            "volumes": [{"name": "config", "configMap": {"name": "c", "defaultMode": 420}}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True",
            "lastTransitionTime": "2026-01-02T03:04:05Z"}]}})
}
