//! A plain watch: prints the events of all pods from now on, until the server ends the watch.
//!
//! It does not recover from errors. `retry_watch` resumes after a break, and an informer also keeps the state.
//!
//! `cargo run -p listwatch --example watch`
//!
//! It talks to the cluster of your kubeconfig. Without a cluster, `cargo run --release -- serve --memory` starts a server
//! and prints the path of a kubeconfig to put into `KUBECONFIG`.

#![allow(clippy::print_stdout, reason = "an example shows what it found")]

use std::error::Error;
use std::time::Duration;

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::Pod;
use listwatch::ListerWatcher;
use listwatch::kube::{KubeSource, client};
use listwatch::lister_watcher::{ListRequest, ListVersion, WatchEvent, WatchRequest};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let pods = KubeSource::of::<Pod>(client(kube::Config::infer().await?)?);
    // A list returns the resourceVersion to watch from; one object is enough for that.
    let page = pods.list(&ListRequest::first(ListVersion::MostRecent, Some(1))).await?;
    let timeout = Some(Duration::from_secs(300));
    let request = WatchRequest { revision: Some(page.revision), initial_events: false, timeout };
    let mut events = pods.watch(&request).await?;
    println!("watching from {} for five minutes", page.revision);
    while let Some(batch) = events.try_next().await? {
        batch.iter().for_each(print);
    }
    Ok(())
}

fn print(event: &WatchEvent) {
    match event {
        WatchEvent::Added(pod) => println!("added {} at {}", pod.key(), pod.revision()),
        WatchEvent::Modified(pod) => println!("modified {} at {}", pod.key(), pod.revision()),
        WatchEvent::Deleted(pod) => println!("deleted {} at {}", pod.key(), pod.revision()),
        WatchEvent::Bookmark { revision, .. } => println!("nothing else up to {revision}"),
        WatchEvent::Error(status) => println!("the server ends the watch: {status}"),
        other => println!("{other:?}"),
    }
}
