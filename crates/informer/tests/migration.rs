//! The right-hand side of `docs/migration.md`: compiled here, and every line of the page must be in this file.
#![cfg(test)]
#![allow(clippy::unused_async, unused_variables, dead_code, reason = "it is compiled and not run")]

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::core::ApiResource;
use kube::{Api, Client};
use listwatch::controller::{KubeFinalizers, OnError, Outcome, Reconcile, predicate};
use listwatch::factory::Scope;
use listwatch::kube::{KubeSource, ResourceKind};
use listwatch::leader_election::{ElectionOptions, InMemoryLease, LeaderElection};
use listwatch::lister_watcher::{ListRequest, ListVersion};
use listwatch::processor::HandlerFuncs;
use listwatch::retry::retry_on_conflict;
use listwatch::store::IndexValues;
use listwatch::until::{conditions, wait_for};
use listwatch::warm::WarmOptions;
use listwatch::workqueue::{Options, Parallel, Queue, limiter};
use listwatch::{
    Controller, Deleted, HandlerOptions, InformerFactory, Object, ObjectKey, Problem, ProblemResponse,
    SharedInformer,
};

type Failed = Box<dyn std::error::Error + Send + Sync>;

async fn informers(client: Client, api_resource: ApiResource) -> Result<(), Failed> {
    let factory = InformerFactory::new(client);
    let pods = factory.informer::<Pod>();
    let scopes = (Scope::of::<Pod>().namespace("x"), Scope::of::<Pod>().labels(&"app=web".parse()?));
    let (added, deleted) = (|_: &Object<Pod>, _: bool| {}, |_: &Deleted<Pod>| {});
    let handler = HandlerFuncs::<Pod>::new().on_add(added).on_delete(deleted);
    let options = HandlerOptions::default().resync(Duration::from_secs(600));
    let registration = pods.add_event_handler_with(handler, options)?;
    registration.remove();
    factory.start()?;
    let synced = factory.wait_for_cache_sync().await;
    let by_node = |pod: &Object<Pod>| {
        Ok(pod
            .text(&["spec", "nodeName"])
            .map(|node| node.into_owned())
            .into_iter()
            .collect::<IndexValues<String>>())
    };
    let index = pods.add_index("node", by_node)?;
    let count = pods.snapshot().by_index(&index, "n1")?.count();
    let (strip, report) = (Ok, |_: &Problem, _: ProblemResponse| {});
    let builder = SharedInformer::<Pod>::builder(listwatch::lister_watcher::InMemory::new(1));
    let builder = builder.transform(strip);
    let builder = builder.warm(WarmOptions::new("/var/cache/operator"));
    let informer = builder.on_problem(report).build();
    let revision = pods.store().revision();
    let lister = pods.lister();
    let pod = lister.namespace("x").get("y")?;
    let selector = "app=web".parse()?;
    let some = lister.list(&selector);
    let kinds = (ResourceKind::of::<Pod>().metadata_only(), ResourceKind::dynamic(&api_resource));
    factory.shutdown().await;
    Ok(())
}

async fn several_namespaces(client: Client) -> Result<(), Failed> {
    let pods = SharedInformer::<Pod>::new(KubeSource::of::<Pod>(client).namespaces(["x", "y"]));
    pods.namespaces().add("z")?;
    Ok(())
}

async fn from_kube_rs(client: Client, api: Api<Pod>) -> Result<(), Failed> {
    let pods = SharedInformer::<Pod>::new(api);
    let events = pods.events()?;
    let pod = pods.store().get_by("x", "y");
    let snapshot = pods.snapshot();
    let count = pods.snapshot().iter().count();
    let synced = pods.wait_synced().await;
    let source = KubeSource::of::<Pod>(client).labels("app=web".parse()?);
    let key = ObjectKey::namespaced("x", "y");
    let running = wait_for(&pods, &key, conditions::pod_running).await?;
    let any = ListRequest::first(ListVersion::Any, Some(500));
    Ok(())
}

async fn queues(n: usize, api: Api<Pod>) -> Result<(), Failed> {
    let queue: Queue<&'static str> = Queue::new(Options::new().limiter(limiter::default_controller()));
    let key = "x/y";
    queue.add(key)?;
    queue.add_after(key, Duration::from_secs(1))?;
    queue.add_rate_limited(key)?;
    if let Some(item) = queue.get().await {
        item.finish();
    }
    if let Some(item) = queue.get().await {
        item.retry();
    }
    let drained = queue.shut_down_with_drain().await;
    let piece = |number: usize| async move {};
    Parallel::new(4).run(n, piece).await;
    let update = || async { api.get("y").await };
    let pod = retry_on_conflict(update).await?;
    Ok(())
}

async fn cleanup(request: Reconcile<Pod>) -> Result<Outcome, Failed> {
    Ok(Outcome::Done)
}

async fn reconcile(request: Reconcile<Pod>) -> Result<Outcome, Failed> {
    let pod: &Object<Pod> = &request;
    let metadata = (pod.owners(), pod.finalizers(), pod.is_deleting());
    let decoded = request.get()?;
    Ok(Outcome::RequeueAfter(Duration::from_secs(60)))
}

async fn controllers(client: &Client) -> Result<(), Failed> {
    let lease = Arc::new(InMemoryLease::default());
    let election = LeaderElection::new(lease, ElectionOptions::new("me"))?;
    let users_of = |secret: &Object<Secret>| [ObjectKey::namespaced(secret.namespace(), "user")];
    let again = client.clone();
    let client = || again.clone();
    let controller = {
        let client = client();
        Controller::new(Api::<Pod>::all(client))
    };
    let controller = controller.filter(predicate::generation);
    let controller = {
        let client = client();
        controller.owns(Api::<ConfigMap>::all(client))
    };
    let controller = controller.filter(|event| predicate::labels(event) || predicate::annotations(event));
    let controller = {
        let client = client();
        controller.watches(Api::<Secret>::all(client), users_of)
    };
    let controller = {
        let client = client();
        controller.finalizer("example.com/clean", KubeFinalizers::of::<Pod>(client), cleanup)
    };
    controller
        .concurrency(4)
        .timeout(Duration::from_secs(60))
        .backoff(limiter::default_item_based())
        .leader_election(election)
        .shutdown_grace(Duration::from_secs(30))
        .shutdown_on_signal()
        .run_with(reconcile, |_: &Failed, _| OnError::After(Duration::from_secs(5)))
        .await?;
    Ok(())
}

fn by_hand(monitor: &listwatch::controller::ControllerMonitor, key: ObjectKey) -> Result<(), Failed> {
    monitor.queue().add(key)?;
    Ok(())
}

fn squeezed(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_whitespace()).collect()
}

#[test]
fn every_line_of_the_migration_page_compiles() {
    let page = include_str!("../../../docs/migration.md");
    let here = squeezed(include_str!("migration.rs"));
    let mut rows = 0;
    for row in page.lines().filter(|line| line.starts_with("| `")) {
        let row = row.replace("\\|", "\u{1}");
        let cells: Vec<_> = row.trim_matches('|').split('|').collect();
        let ours = cells.last().unwrap().trim().trim_matches('`').replace('\u{1}', "|");
        let bare = squeezed(&ours);
        assert!(here.contains(bare.trim_end_matches('?')), "not compiled: {ours}");
        rows += 1;
    }
    assert!(rows > 50, "{rows} rows");
}
