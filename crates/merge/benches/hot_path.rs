//! The cost of each write and each read in this crate: `cargo bench -p listwatch-merge`.
//!
//! Prints nanoseconds per operation, the least of several rounds: other work on the machine only ever adds.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints, and may fail")]

use std::hint::black_box;
use std::time::Instant;

use bytes::Bytes;
use listwatch_json as json;
use listwatch_json::{Value, json};
use listwatch_merge::apply::{FieldManager, FieldSet, KindVersions};
use listwatch_merge::patch::{ListKeys, ListKind, MapKind, MergeSchema, PatchStrategy};
use listwatch_wire::event::{self, Decoder, EventType};
use listwatch_wire::selector::LabelSelector;

/// Many short rounds, so that some run without interruption even on a busy machine.
const ROUNDS: u32 = 400;
const PER_ROUND: u32 = 20;

fn measure<T>(name: &str, mut work: impl FnMut() -> T) {
    let round = |work: &mut dyn FnMut() -> T| {
        let start = Instant::now();
        for _ in 0..PER_ROUND {
            black_box(work());
        }
        start.elapsed() / PER_ROUND
    };
    let best = (0..ROUNDS).map(|_| round(&mut work)).min().unwrap_or_default();
    println!("{name:58} {:>8} ns", best.as_nanos());
}

/// Enough of a schema: structs, maps of text, lists by name or type, everything below `metadata`, `spec` and `status`.
#[derive(Clone, Copy, Debug)]
struct Node(&'static str);

impl MergeSchema for Node {
    fn field(self, name: &str) -> Option<Self> {
        Some(Self(match name {
            "data" | "labels" | "annotations" | "limits" | "requests" => "map",
            "containers" | "containerStatuses" | "volumes" | "env" => "by name",
            "conditions" => "by type",
            "ownerReferences" => "by uid",
            _ => "",
        }))
    }
    fn items(self) -> Option<Self> {
        Some(Self(""))
    }
    fn list_kind(&self) -> ListKind<'_> {
        match self.0 {
            "by name" => ListKind::Map(ListKeys::Builtin(&["name"])),
            "by type" => ListKind::Map(ListKeys::Builtin(&["type"])),
            "by uid" => ListKind::Map(ListKeys::Builtin(&["uid"])),
            _ => ListKind::Atomic,
        }
    }
    fn map_kind(self) -> MapKind {
        if self.0 == "map" { MapKind::Granular } else { MapKind::Struct }
    }
    fn merge_key(&self) -> Option<&str> {
        None
    }
    fn patch_strategy(self) -> PatchStrategy {
        PatchStrategy::default()
    }
}

fn config_map() -> Value {
    let data: listwatch_json::Map =
        (0..10).map(|i| (format!("key-{i}"), Value::from("x".repeat(75)))).collect();
    json!({
        "kind": "ConfigMap", "apiVersion": "v1",
        "metadata": {"name": "config-1234", "namespace": "default", "uid": "0d7c1d2e-6f5b-4a3c-9b8a-7c6d5e4f3a2b",
            "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"app": "web", "tier": "front"}},
        "data": data,
    })
}

fn pod() -> Value {
    let env = |n: u32| -> Vec<Value> {
        (0..n).map(|i| json!({"name": format!("VAR_{i}"), "value": "y".repeat(40)})).collect()
    };
    let container = |i: u32| {
        json!({
            "name": format!("c{i}"), "image": "registry.example/app:1.2.3", "env": env(18), "imagePullPolicy": "IfNotPresent",
            "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "100m", "memory": "128Mi"}},
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
            "args": ["--a", "--b", "--c"], "command": ["/bin/app"],
        })
    };
    let status = |i: u32| {
        json!({"name": format!("c{i}"), "ready": true, "restartCount": 0, "image": "registry.example/app:1.2.3",
        "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}, "containerID": "containerd://0123456789abcdef0123456789abcdef"})
    };
    let condition = |t: &str| json!({"type": t, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z", "lastProbeTime": null});
    let conditions = ["Ready", "Initialized", "PodScheduled", "ContainersReady"].map(condition);
    json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {"name": "pod-1234", "namespace": "default", "uid": "0d7c1d2e-6f5b-4a3c-9b8a-7c6d5e4f3a2b", "generateName": "pod-",
            "labels": {"app": "web", "pod-template-hash": "abc"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": true}]},
        "spec": {"nodeName": "node-1", "containers": (0..5).map(container).collect::<Vec<_>>(), "restartPolicy": "Always",
            "dnsPolicy": "ClusterFirst", "serviceAccountName": "default", "terminationGracePeriodSeconds": 30},
        "status": {"phase": "Running", "podIP": "10.0.0.1", "containerStatuses": (0..5).map(status).collect::<Vec<_>>(),
            "conditions": conditions},
    })
}

fn bytes() {
    let object = config_map();
    let stored = json::encode_stored(&object);
    println!("ConfigMap of {} bytes", stored.len());
    measure("parse into a tree, strictly", || json::parse(&stored).unwrap());
    measure("  (serde_json::from_slice)", || serde_json::from_slice::<Value>(&stored).unwrap());
    measure("encode for the store", || json::encode_stored(&object));
    measure("  (serde_json::to_vec)", || serde_json::to_vec(&object).unwrap());
    measure("find the labels in the bytes", || json::raw::lookup(&stored, &["metadata", "labels"]).is_some());
    measure("pass over the whole object", || json::raw::skip_value(&stored, 0));
    let selector: LabelSelector = "app in (web,db),tier=front".parse().unwrap();
    let label =
        |key: &str| json::raw::lookup(&stored, &["metadata", "labels", key]).and_then(json::raw::scalar);
    measure("match a label selector on the bytes", || selector.matches(label));
    let served = Bytes::from(stored.clone());
    let mut out = Vec::with_capacity(4096);
    measure("frame an event", || {
        out.clear();
        event::frame(EventType::Modified, &served, &mut out);
    });
    let stream = Bytes::from(out);
    measure("decode an event", || {
        let mut decoder = Decoder::default();
        decoder.push(stream.clone());
        decoder.next_event().unwrap()
    });
    let pod = Bytes::from(json::encode(&pod()));
    println!("Pod of {} bytes", pod.len());
    measure("pass over the whole object", || json::raw::skip_value(&pod, 0));
    measure("find status.phase in the bytes", || json::raw::lookup(&pod, &["status", "phase"]).is_some());
}

fn ownership() {
    let (zero, ignored) = (json!({"metadata": {}, "spec": {}, "status": {}}), FieldSet::new());
    let writer = FieldManager {
        schema: Node(""),
        zero: &zero,
        ignored: &ignored,
        versions: KindVersions::any(),
        manager: "writer",
        api_version: "v1",
        subresource: "",
        now: "2026-01-01T00:00:00Z",
    };
    let measure_update = |name: &str, manager: FieldManager<'_, Node>, live: Option<&Value>, new: &Value| {
        // The tree is consumed; what cloning it costs is taken off by hand.
        measure(&format!("{name}, with a clone"), || {
            let mut new = new.clone();
            manager.update(live, &mut new);
            new
        });
        measure("  (the clone alone)", || new.clone());
    };
    let plain = config_map();
    measure_update("record the creation of the ConfigMap", writer, None, &plain);
    let mut live = plain;
    writer.update(None, &mut live);
    let mut new = live.clone();
    *new.pointer_mut("/data/key-3").unwrap() = "changed".into();
    measure_update("record the update of one key", writer, Some(&live), &new);
    measure_update("record an update that changes nothing", writer, Some(&live), &live);

    let mut pod = pod();
    writer.update(None, &mut pod);
    println!(
        "Pod with {} bytes of managedFields",
        pod.pointer("/metadata/managedFields").unwrap().to_string().len()
    );
    let mut new = pod.clone();
    *new.pointer_mut("/status/conditions/0/status").unwrap() = "False".into();
    *new.pointer_mut("/status/phase").unwrap() = "Failed".into();
    let kubelet = FieldManager { manager: "kubelet", subresource: "status", ..writer };
    measure_update("record a status patch of the Pod", kubelet, Some(&pod), &new);
    let config =
        json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "pod-1234", "labels": {"x": "y"}}});
    measure("apply one label to the Pod", || writer.apply(Some(&pod), &config, false).unwrap());
}

fn main() {
    bytes();
    ownership();
}
