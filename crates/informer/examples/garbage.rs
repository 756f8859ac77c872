//! Finds objects whose owner no longer exists, from metadata alone: the server leaves out spec and status, so that
//! caches of several kinds cost a few hundred bytes per object.
//!
//! `cargo run -p listwatch --example garbage`
//!
//! It talks to the cluster of your kubeconfig. Without a cluster, `cargo run --release -- serve --memory` starts a server
//! and prints the path of a kubeconfig to put into `KUBECONFIG`.

#![allow(clippy::print_stdout, reason = "an example shows what it found")]

use std::collections::HashSet;
use std::error::Error;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::Pod;
use kube::api::PartialObjectMeta;
use listwatch::factory::{Scope, Shared};
use listwatch::kube::{ResourceKind, client};
use listwatch::{InformerFactory, Object};

type Metadata = PartialObjectMeta;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let factory = InformerFactory::new(client(kube::Config::infer().await?)?);
    let kinds = [
        ("Deployment", ResourceKind::of::<Deployment>()),
        ("ReplicaSet", ResourceKind::of::<ReplicaSet>()),
        ("StatefulSet", ResourceKind::of::<StatefulSet>()),
        ("DaemonSet", ResourceKind::of::<DaemonSet>()),
        ("CronJob", ResourceKind::of::<CronJob>()),
        ("Job", ResourceKind::of::<Job>()),
        ("Pod", ResourceKind::of::<Pod>()),
    ];
    let informers: Vec<(&str, Shared<Metadata>)> = kinds
        .into_iter()
        .map(|(kind, resource)| (kind, factory.informer_for(Scope::new(resource.metadata_only()))))
        .collect();
    factory.start()?;
    if !factory.wait_for_cache_sync().await {
        return Err("stopped before everything was listed".into());
    }
    let watched: HashSet<&str> = informers.iter().map(|(kind, _)| *kind).collect();
    let alive: HashSet<String> = informers.iter().flat_map(|(_, informer)| uids(informer)).collect();
    let (mut objects, mut orphans) = (0, 0);
    for (kind, informer) in &informers {
        objects += informer.store().len();
        for object in informer.snapshot().iter() {
            if let Some(owner) = orphaned(object, &watched, &alive)? {
                println!("{kind} {} belongs to {owner}, which is gone", object.key());
                orphans += 1;
            }
        }
    }
    println!("{objects} objects of {} kinds, {orphans} without their owner", informers.len());
    factory.shutdown().await;
    Ok(())
}

fn uids(informer: &Shared<Metadata>) -> Vec<String> {
    informer.snapshot().iter().map(|object| object.uid().into_owned()).collect()
}

/// The owner, if it is of a kind that we know all of and none of them is it.
fn orphaned(
    object: &Object<Metadata>,
    watched: &HashSet<&str>,
    alive: &HashSet<String>,
) -> Result<Option<String>, listwatch::ObjectError> {
    let metadata = object.get()?;
    let owners = metadata.metadata.owner_references.iter().flatten();
    let mut gone = owners.filter(|owner| watched.contains(&*owner.kind) && !alive.contains(&owner.uid));
    Ok(gone.next().map(|owner| format!("{} {}", owner.kind, owner.name)))
}
