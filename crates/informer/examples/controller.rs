//! The classic controller: an informer fills a cache and a queue, workers take keys from the queue and look at the
//! cache. This one reports pods that have been pending for too long.
//!
//! `cargo run -p listwatch --example controller [SECONDS]`, and Ctrl-C to end it.
//!
//! It talks to the cluster of your kubeconfig. Without a cluster, `cargo run --release -- serve --memory` starts a server
//! and prints the path of a kubeconfig to put into `KUBECONFIG`.

#![allow(clippy::print_stdout, reason = "an example shows what it found")]

use std::error::Error;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use listwatch::kube::client;
use listwatch::workqueue::{Job, Options, Outcome, Queue, Runner};
use listwatch::{Event, HandlerOptions, InformerFactory, Lister, ObjectError, ObjectKey};

/// The default of the time a Pod may be pending.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let patience = match std::env::args().nth(1) {
        Some(seconds) => Duration::from_secs(seconds.parse()?),
        None => PATIENCE,
    };
    let factory = InformerFactory::new(client(kube::Config::infer().await?)?);
    let pods = factory.informer::<Pod>();
    let queue = Queue::new(Options::new().name("pods"));

    let keys = queue.clone();
    let enqueue = move |event: &Event<Pod>| {
        // The queue refuses keys only after its shutdown; then no worker needs them.
        if let Some(key) = event.key() {
            let _ = keys.add(key.clone());
        }
    };
    let handler = pods.add_event_handler_with(enqueue, HandlerOptions::named("enqueue"))?;
    factory.start()?;
    // Workers that start before the cache is filled take what is not there yet for deleted.
    handler.wait_synced().await;
    println!("{} pods; telling which are pending for {} s", pods.store().len(), patience.as_secs());

    let lister = pods.lister();
    let runner = Runner::new(move |job: Job<ObjectKey>| {
        let lister = lister.clone();
        async move { reconcile(&lister, &job.key, patience) }
    });
    let running = runner.workers(4).start(&queue);

    tokio::signal::ctrl_c().await?;
    running.shut_down().await;
    factory.shutdown().await;
    Ok(())
}

fn reconcile(pods: &Lister<Pod>, key: &ObjectKey, patience: Duration) -> Result<Outcome, ObjectError> {
    let Ok(pod) = pods.namespace(key.namespace()).get(key.name()) else {
        println!("{key} is gone");
        return Ok(Outcome::Done);
    };
    let pod = pod.get()?;
    let pending = pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Pending");
    let created = pod.metadata.creation_timestamp.as_ref();
    let age = created.map_or(Duration::ZERO, |created| {
        Duration::try_from(jiff::Timestamp::now().duration_since(created.0)).unwrap_or_default()
    });
    if !pending {
        return Ok(Outcome::Done);
    }
    if age < patience {
        return Ok(Outcome::RequeueAfter(patience - age));
    }
    println!("{key} has been pending for {} s", age.as_secs());
    Ok(Outcome::RequeueAfter(patience.max(Duration::from_secs(1))))
}
