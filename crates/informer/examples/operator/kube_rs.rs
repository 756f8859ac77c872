//! The operator with kube-rs's controller. kube-rs has no leader election and no backoff per object: the former is taken from
//! listwatch, the latter is kept by hand. It reconciles as many objects at a time as listwatch does by default; without a
//! limit, it would reconcile all at once.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::controller::{Action, Config, Controller};
use kube::runtime::finalizer::{Event, finalizer};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher;
use kube::{Client, ResourceExt};
use listwatch::leader_election::{ElectionOptions, KubeLease, LeaderElection};
use tokio_util::sync::CancellationToken;

use crate::greeting::{Error, Greeting, NAME, RECONCILES, desired};

struct Context {
    client: Client,
    failures: Mutex<HashMap<ObjectRef<Greeting>, u32>>,
}

#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct Failed(#[from] Error);

pub(crate) async fn run(client: Client, stop: CancellationToken) -> Result<(), Error> {
    let options = ElectionOptions::new(format!("kube-rs-{}", std::process::id()));
    let election = LeaderElection::new(KubeLease::new(client.clone(), "default", NAME), options)?;
    election
        .run(&stop, |leadership| async move {
            let context = Arc::new(Context { client: client.clone(), failures: Mutex::default() });
            Controller::new(Api::<Greeting>::all(client.clone()), watcher::Config::default())
                .owns(Api::<ConfigMap>::all(client), watcher::Config::default())
                .with_config(Config::default().concurrency(8))
                .graceful_shutdown_on(async move { leadership.over().await })
                .run(reconcile, retry, context)
                .for_each(|_| async {})
                .await;
        })
        .await;
    Ok(())
}

async fn reconcile(greeting: Arc<Greeting>, context: Arc<Context>) -> Result<Action, Failed> {
    let namespace = greeting.namespace().unwrap_or_default();
    let greetings: Api<Greeting> = Api::namespaced(context.client.clone(), &namespace);
    let result = finalizer(&greetings, NAME, Arc::clone(&greeting), |event| async {
        match event {
            Event::Apply(greeting) => apply(&greeting, &context).await,
            Event::Cleanup(greeting) => cleanup(&greeting).await,
        }
    })
    .await;
    if result.is_ok() {
        context
            .failures
            .lock()
            .map_err(|error| error.to_string())
            .map_err(Error::from)?
            .remove(&reference(&greeting));
    }
    Ok(result.map_err(|error| Error::from(error.to_string()))?)
}

async fn apply(greeting: &Greeting, context: &Context) -> Result<Action, Failed> {
    RECONCILES.fetch_add(1, Ordering::Relaxed);
    let map = Patch::Apply(desired(greeting));
    let maps: Api<ConfigMap> =
        Api::namespaced(context.client.clone(), &greeting.namespace().unwrap_or_default());
    maps.patch(&greeting.name_any(), &PatchParams::apply(NAME).force(), &map).await.map_err(Error::from)?;
    Ok(Action::await_change())
}

async fn cleanup(_greeting: &Greeting) -> Result<Action, Failed> {
    RECONCILES.fetch_add(1, Ordering::Relaxed);
    Ok(Action::await_change())
}

fn reference(greeting: &Greeting) -> ObjectRef<Greeting> {
    ObjectRef::from_obj(greeting)
}

fn retry(greeting: Arc<Greeting>, _error: &Failed, context: Arc<Context>) -> Action {
    let mut failures = context.failures.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let before = failures.entry(reference(&greeting)).or_default();
    *before = before.saturating_add(1);
    let delay = Duration::from_millis(5).saturating_mul(2_u32.saturating_pow(*before));
    Action::requeue(delay.min(Duration::from_secs(1000)))
}
