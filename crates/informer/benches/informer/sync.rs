//! Initial sync of 20,000 ConfigMaps over TLS: processor time per object, memory held, peak.

use std::hint::black_box;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::{reflector, watcher};
use listwatch::kube::KubeSource;
use listwatch::object::{Keep, Object};
use listwatch::wire::event::Decoder;
use listwatch::{InformerOptions, SharedInformer};

use crate::measure::{cpu_micros, elsewhere, peak_mb, reset_peak, resident_mb};
use crate::row;
use crate::server::{OBJECTS, config_map};

const ENCODING_RUNS: usize = 10;

pub(crate) fn all() {
    let mut server =
        Command::new(std::env::current_exe().unwrap()).arg("serve").stdout(Stdio::piped()).spawn().unwrap();
    let mut port = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut port).unwrap();
    let port = port.trim();
    let ours = elsewhere(&["client", "stream", port]);
    let ours_list = elsewhere(&["client", "list", port]);
    let theirs = elsewhere(&["client", "kube-stream", port]);
    let theirs_list = elsewhere(&["client", "kube-list", port]);
    let _ = server.kill();
    let _ = server.wait();
    let one = |value: f64| format!("{value:.1}");
    let names = ["client CPU us per object", "memory held: MB", "peak memory: MB"];
    let goals = ["10", "40", "50"];
    for (at, name) in names.iter().enumerate() {
        let go = ["96-111", "83", "87"][at];
        row(&format!("initial sync, streaming, {name}"), &one(ours[at]), goals[at], go, &one(theirs[at]));
        row(
            &format!("initial sync, list, {name}"),
            &one(ours_list[at]),
            goals[at],
            go,
            &one(theirs_list[at]),
        );
    }
}

/// The part of a sync that depends on the encoding: finding the events of a stream, and in each object the few fields that a
/// cache needs. Protobuf could save this at most. What it would cost instead is to write JSON from it, because objects are
/// kept, read and decoded as JSON; decoding one with serde_json is the least that such a conversion takes.
pub(crate) fn encoding() {
    let events: Vec<String> = (0..OBJECTS)
        .map(|number| format!(r#"{{"type":"ADDED","object":{}}}"#, config_map(number)) + "\n")
        .collect();
    let body = events.concat().into_bytes();
    let per_object = |work: &dyn Fn() -> usize| {
        let before = cpu_micros();
        (0..ENCODING_RUNS).for_each(|_| assert_eq!(work(), OBJECTS));
        (cpu_micros() - before) / (OBJECTS * ENCODING_RUNS) as f64
    };
    let reading = per_object(&|| {
        let mut decoder = Decoder::default();
        let mut objects = 0;
        for chunk in body.chunks(16 << 10) {
            decoder.push(bytes::Bytes::copy_from_slice(chunk));
            while let Ok(Some(event)) = decoder.next_event() {
                objects +=
                    usize::from(Object::<ConfigMap>::from_json(&event.object, Keep::default()).is_ok());
            }
        }
        objects
    });
    let copying = per_object(&|| {
        let parts = body.chunks(body.len() / OBJECTS).take(OBJECTS);
        parts.fold(0, |count, part| {
            black_box(Box::<[u8]>::from(part));
            count + 1
        })
    });
    let decoding = per_object(&|| {
        let lines = body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.fold(0, |count, line| {
            black_box(serde_json::from_slice::<serde_json::Value>(line).unwrap());
            count + 1
        })
    });
    row("of which reading the JSON, CPU us per object", &format!("{reading:.2}"), "", "", "");
    row("of which copying the bytes that are kept", &format!("{copying:.2}"), "", "", "");
    row("for comparison: building a JSON tree of the same", &format!("{decoding:.2}"), "", "", "");
}

fn config(port: u16) -> kube::Config {
    let mut config = kube::Config::new(format!("https://localhost:{port}").parse().unwrap());
    // The certificate is the server's own of this run; what it costs to check one is not what is measured.
    config.accept_invalid_certs = true;
    config
}

pub(crate) fn client(which: &str, port: u16) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let client = listwatch::kube::client(config(port)).unwrap();
        let (cpu, held) = (cpu_micros(), resident_mb());
        reset_peak();
        match which {
            "stream" | "list" => {
                let mut options = InformerOptions::default();
                options.reflector.streaming = which == "stream";
                let source = KubeSource::of::<ConfigMap>(client);
                let informer = SharedInformer::<ConfigMap>::builder(source).options(options).build();
                informer.start().unwrap();
                assert!(informer.wait_synced().await);
                assert_eq!(informer.store().len(), OBJECTS);
                report(cpu, held);
            }
            _ => {
                let config = watcher::Config::default();
                let config = if which == "kube-stream" { config.streaming_lists() } else { config };
                let (store, writer) = reflector::store();
                let stream = watcher(kube::Api::<ConfigMap>::all(client), config);
                let mut stream = Box::pin(reflector(writer, stream));
                while store.len() < OBJECTS {
                    stream.next().await.unwrap().unwrap();
                }
                report(cpu, held);
            }
        }
    });
}

fn report(cpu: f64, held: f64) {
    println!("{} {} {}", (cpu_micros() - cpu) / OBJECTS as f64, resident_mb() - held, peak_mb() - held);
    std::process::exit(0);
}
