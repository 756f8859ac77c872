//! A watch that resumes where it broke: restart the server while this runs.
//!
//! It ends only when its resourceVersion has expired, or when it is not allowed to watch.
//!
//! `cargo run -p listwatch --example retry_watch [RESOURCE_VERSION]`
//!
//! It talks to the cluster of your kubeconfig. Without a cluster, `cargo run --release -- serve --memory` starts a server
//! and prints the path of a kubeconfig to put into `KUBECONFIG`.

#![allow(clippy::print_stdout, reason = "an example shows what it found")]

use std::error::Error;
use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use listwatch::kube::{KubeSource, client};
use listwatch::lister_watcher::{ListRequest, ListVersion, WatchEvent};
use listwatch::{ListerWatcher, RetryWatcher};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let maps = Arc::new(KubeSource::of::<ConfigMap>(client(kube::Config::infer().await?)?));
    let from = match std::env::args().nth(1) {
        Some(version) => version.parse()?,
        None => maps.list(&ListRequest::first(ListVersion::MostRecent, Some(1))).await?.revision,
    };
    println!("watching from {from}");
    let mut events = RetryWatcher::new(maps, from)?;
    while let Some(event) = events.next().await {
        match event {
            Ok(WatchEvent::Bookmark { revision, .. }) => println!("nothing else up to {revision}"),
            Ok(event) => println!("{event:?}"),
            Err(end) => println!("cannot go on: {end}"),
        }
    }
    Ok(())
}
