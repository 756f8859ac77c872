//! Initial sync of 20,000 ConfigMaps over TLS: processor time per object, memory held, peak.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::{reflector, watcher};
use listwatch::kube::KubeSource;
use listwatch::{InformerOptions, SharedInformer};

use crate::measure::{cpu_micros, elsewhere, peak_mb, reset_peak, resident_mb};
use crate::row;
use crate::server::OBJECTS;

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
