//! 100,000 objects of 1.5 KB: the server's memory, and the cost of a list of 100 of them.
//!
//! Two servers, a large one and one of 1,000 objects, answer the same list of 100 objects in turns. Stored bytes are counted
//! as the size of the whole list.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use crate::client::{Connection, config_map, config_maps};
use crate::process::Server;

const OBJECTS: usize = 100_000;
const FEW: usize = 1_000;
const PER_NAMESPACE: usize = 100;
const WRITERS: usize = 16;
/// With what the server adds, 1.5 KB.
const PAYLOAD: usize = 1_120;
const LISTS: usize = 200;
const LIST_ROUNDS: usize = 10;
/// Long enough for upkeep after the last write to be done.
const REST: Duration = Duration::from_secs(3);

pub(crate) async fn run() {
    let objects = crate::count("LISTWATCH_OBJECTS", OBJECTS);
    let (large, small) = (Server::start(), Server::start());
    let empty = large.memory();
    println!("{:<34} {:>9} {:>9} {:>8}", "", "MB", "not files", "times");
    println!("{:<34} {:>9.1} {:>9.1}", "empty", empty.resident, empty.anonymous);
    fill(&large, objects).await;
    fill(&small, FEW).await;
    sleep(REST).await;
    let written = large.memory();
    let stored = Connection::open(&large).await.size("/api/v1/configmaps").await as f64 / 1e6;
    let row = |name: &str, memory: crate::process::Memory| {
        let (resident, anonymous) = (memory.resident, memory.anonymous);
        println!("{name:<34} {resident:>9.1} {anonymous:>9.1} {:>8.2}", resident / stored);
    };
    row("after writing", written);
    let (many, few) = compare(&large, &small).await;
    row("after lists", large.memory());
    let large = large.restart();
    sleep(REST).await;
    row("after a restart", large.memory());
    println!("bytes stored: {stored:.1} MB, {objects} objects of {:.0} bytes", stored * 1e6 / objects as f64);
    println!(
        "a list of {PER_NAMESPACE}: {many:.0} µs of CPU among {objects}, {few:.0} among {FEW}: {:.2} times",
        many / few
    );
}

/// Writes so many objects, a hundred to a namespace.
async fn fill(server: &Server, objects: usize) {
    let next = Arc::new(AtomicUsize::new(0));
    let mut writers = tokio::task::JoinSet::new();
    for _ in 0..WRITERS {
        let (connection, next) = (Connection::open(server).await, Arc::clone(&next));
        writers.spawn(write(connection, next, objects / PER_NAMESPACE));
    }
    writers.join_all().await;
}

async fn write(mut connection: Connection, next: Arc<AtomicUsize>, namespaces: usize) {
    loop {
        let namespace = next.fetch_add(1, Ordering::Relaxed);
        if namespace >= namespaces {
            return;
        }
        let namespace = format!("team-{namespace:04}");
        let body = json!({"metadata": {"name": &namespace}}).to_string();
        connection.call("POST", "/api/v1/namespaces", &body).await;
        for number in 0..PER_NAMESPACE {
            let data = json!({"payload": format!("{number:0PAYLOAD$}")});
            let body = config_map(&format!("config-{number:03}"), &data);
            connection.call("POST", &config_maps(&namespace), &body).await;
        }
    }
}

/// CPU microseconds of one namespaced list on each of two servers, asked in turns.
async fn compare(large: &Server, small: &Server) -> (f64, f64) {
    let mut servers =
        [(large, Connection::open(large).await, 0.0), (small, Connection::open(small).await, 0.0)];
    for _ in 0..LIST_ROUNDS {
        for (server, connection, micros) in &mut servers {
            let before = server.cpu_micros();
            for _ in 0..LISTS {
                connection.size(&config_maps("team-0005")).await;
            }
            *micros += server.cpu_micros() - before;
        }
    }
    let [many, few] = servers.map(|(_, _, micros)| micros / (LISTS * LIST_ROUNDS) as f64);
    (many, few)
}
