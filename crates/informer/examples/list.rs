//! A plain list, page by page: the pods of a namespace, or of all.
//!
//! `cargo run -p listwatch --example list -- kube-system`
//!
//! It talks to the cluster of your kubeconfig. Without a cluster, `cargo run --release -- serve --memory` starts a server
//! and prints the path of a kubeconfig to put into `KUBECONFIG`.

#![allow(clippy::print_stdout, reason = "an example shows what it found")]

use std::error::Error;
use std::sync::Arc;

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::Pod;
use listwatch::kube::{KubeSource, client};
use listwatch::lister_watcher::{ListRequest, ListVersion};
use listwatch::pager::{OnExpired, Pager, PagerOptions};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut pods = KubeSource::of::<Pod>(client(kube::Config::infer().await?)?);
    if let Some(namespace) = std::env::args().nth(1) {
        pods = pods.namespace(namespace);
    }
    // For display only, so it does not matter if the pages of a very long list are of different revisions.
    let options = PagerOptions::default().on_expired(OnExpired::Continue);
    let mut pages =
        Pager::new(Arc::new(pods), ListRequest::first(ListVersion::MostRecent, Some(500)), options);
    let mut count = 0;
    while let Some(page) = pages.try_next().await? {
        count += page.objects.len();
        for pod in &page.objects {
            println!("{} {}", pod.key(), pod.text(&["status", "phase"]).unwrap_or_default());
        }
        for problem in &page.unusable {
            println!("cannot read one: {problem}");
        }
    }
    println!("{count} pods");
    Ok(())
}
