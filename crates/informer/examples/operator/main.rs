//! One operator, written twice: with [`listwatch::Controller`] (`ours.rs`) and with kube-rs's (`kube_rs.rs`). For every
//! `Greeting` it keeps a ConfigMap with the text, cleans up before a Greeting is deleted, retries failures with backoff,
//! and works only while it is the leader.
//!
//! `cargo run -p listwatch --example operator [kube-rs]`, then
//! `kubectl create -f - <<< '{apiVersion: example.com/v1, kind: Greeting, metadata: {name: hi}, spec: {text: hello}}'`.
//!
//! It talks to the cluster of your kubeconfig. Without a cluster, `cargo run --release -- serve --memory` starts a server
//! and prints the path of a kubeconfig to put into `KUBECONFIG`. `cargo xtask bench controller` measures both.

mod greeting;
mod kube_rs;
mod ours;

use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let client = listwatch::kube::client(kube::Config::infer().await?)?;
    greeting::define(&client).await?;
    let stop = CancellationToken::new();
    let signal = stop.clone();
    tokio::spawn(async move {
        let _ = tokio::signal::ctrl_c().await;
        signal.cancel();
    });
    match std::env::args().nth(1).as_deref() {
        Some("kube-rs") => kube_rs::run(client, stop).await,
        _ => ours::run(client, stop).await,
    }
}
