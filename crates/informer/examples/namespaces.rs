//! One cache over a few namespaces, for programs without access to the others, with an index of pods by node.
//!
//! `cargo run -p listwatch --example namespaces -- default kube-system`
//!
//! It talks to the cluster of your kubeconfig. Without a cluster, `cargo run --release -- serve --memory` starts a server
//! and prints the path of a kubeconfig to put into `KUBECONFIG`.

#![allow(clippy::print_stdout, reason = "an example shows what it found")]

use std::error::Error;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use listwatch::kube::{KubeSource, client};
use listwatch::{Index, Object, SharedInformer};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut namespaces: Vec<String> = std::env::args().skip(1).collect();
    if namespaces.is_empty() {
        namespaces.push("default".to_owned());
    }
    let source = KubeSource::of::<Pod>(client(kube::Config::infer().await?)?).namespaces(namespaces);
    let informer = SharedInformer::<Pod>::builder(source)
        .name("pods")
        .on_problem(|problem, response| println!("{problem}; {response}"))
        .build();
    // The node is read from the bytes of the object; nothing is decoded for it.
    let by_node: Index<Pod, String> = informer.store().add_index("node", |pod: &Object<Pod>| {
        Ok(pod.text(&["spec", "nodeName"]).map(|node| node.into_owned()).into_iter().collect())
    })?;
    informer.start()?;
    informer.wait_synced().await;

    let snapshot = informer.snapshot();
    println!("{} pods at {}", snapshot.len(), snapshot.revision());
    for (node, count) in snapshot.index_values(&by_node)? {
        println!("{node}: {count}");
        for pod in snapshot.by_index(&by_node, node.as_str())? {
            println!("  {}", pod.key());
        }
    }
    let mut events = informer.events()?;
    while let Some(event) = events.next().await {
        println!("{event}");
    }
    Ok(())
}
