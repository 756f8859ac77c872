//! The operator with [`listwatch::Controller`].

use std::sync::atomic::Ordering;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use listwatch::Controller;
use listwatch::controller::{KubeFinalizers, Outcome, Reconcile};
use listwatch::leader_election::{ElectionOptions, KubeLease, LeaderElection};
use tokio_util::sync::CancellationToken;

use crate::greeting::{Error, Greeting, NAME, RECONCILES, desired};

pub(crate) async fn run(client: Client, stop: CancellationToken) -> Result<(), Error> {
    let options = ElectionOptions::new(format!("ours-{}", std::process::id()));
    let election = LeaderElection::new(KubeLease::new(client.clone(), "default", NAME), options)?;
    Controller::new(Api::<Greeting>::all(client.clone()))
        .owns(Api::<ConfigMap>::all(client.clone()))
        .finalizer(NAME, KubeFinalizers::of::<Greeting>(client.clone()), cleanup)
        .leader_election(election)
        .shutdown_on(stop)
        .run(move |greeting| reconcile(client.clone(), greeting))
        .await?;
    Ok(())
}

async fn reconcile(client: Client, greeting: Reconcile<Greeting>) -> Result<Outcome, Error> {
    RECONCILES.fetch_add(1, Ordering::Relaxed);
    let map = Patch::Apply(desired(&*greeting.get()?));
    let maps: Api<ConfigMap> = Api::namespaced(client, greeting.namespace());
    maps.patch(greeting.name(), &PatchParams::apply(NAME).force(), &map).await?;
    Ok(Outcome::Done)
}

async fn cleanup(_greeting: Reconcile<Greeting>) -> Result<Outcome, Error> {
    RECONCILES.fetch_add(1, Ordering::Relaxed);
    Ok(Outcome::Done)
}
