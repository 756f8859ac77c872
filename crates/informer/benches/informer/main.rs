//! The client rows of the performance table: processor time and memory, ours beside kube-rs in the same run.
//!
//! `cargo bench -p listwatch`. Processor time is what counts: wall time is not stable on a shared machine. Each
//! client runs in a process of its own, so that its memory is its own; the server (which only moves prepared bytes
//! over TLS) in another, so that its time is not counted.

#![allow(
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::expect_used,
    clippy::unwrap_used,
    missing_docs,
    reason = "a benchmark"
)]

mod measure;
mod memory_source;
mod readers;
mod server;
mod sync;
mod warm;

use std::env;

/// Goal and peers of one figure; client-go's were measured on the same kind of machine with a real server.
pub(crate) fn row(name: &str, figure: &str, goal: &str, client_go: &str, kube_rs: &str) {
    println!("{name:<62} {figure:>12} {goal:>8} {client_go:>10} {kube_rs:>10}");
}

fn main() {
    let arguments: Vec<String> = env::args().skip(1).filter(|a| a != "--bench").collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["serve"] => server::main(),
        ["client", which, port] => sync::client(which, port.parse().unwrap()),
        ["updates", handlers, batch] => {
            memory_source::updates(handlers.parse().unwrap(), batch.parse().unwrap())
        }
        ["readers", which, objects, readers] => {
            readers::run(which, objects.parse().unwrap(), readers.parse().unwrap())
        }
        ["warm-client", directory, spawned] => warm::client(directory, spawned.parse().unwrap()),
        only => {
            row("", "listwatch", "goal", "client-go", "kube-rs");
            let wanted = |name: &str| only.is_empty() || only.contains(&name);
            if wanted("sync") {
                sync::all();
                sync::encoding();
            }
            if wanted("memory") {
                memory_source::all();
            }
            if wanted("read") {
                readers::all();
            }
            if wanted("warm") {
                warm::all();
            }
        }
    }
}
