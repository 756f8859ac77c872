//! kube-rs against the server: the features that its users rely on.

#![cfg(test)]

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{
    Api, DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::core::DynamicObject;
use kube::discovery::{Discovery, Scope};
use kube::runtime::controller::Action;
use kube::runtime::{Controller, WatchStreamExt, reflector, watcher};
use kube::{Client, ResourceExt};
use listwatch_testkit::TestServer;
use serde_json::json;
use tokio::time::timeout;

/// Nothing here takes long; without a deadline a missing event would hang the test.
const SOON: Duration = Duration::from_secs(30);

async fn server() -> (TestServer, Client) {
    let server = TestServer::start().await.unwrap();
    let client = server.client().unwrap();
    (server, client)
}

fn config_map(name: &str, value: &str) -> ConfigMap {
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    ConfigMap {
        metadata,
        data: Some(BTreeMap::from([("key".to_owned(), value.to_owned())])),
        ..ConfigMap::default()
    }
}

fn value(map: &ConfigMap) -> &str {
    map.data.as_ref().and_then(|data| data.get("key")).map(String::as_str).unwrap_or_default()
}

#[tokio::test]
async fn api_creates_reads_replaces_patches_and_deletes() {
    let (_server, client) = server().await;
    let api: Api<ConfigMap> = Api::default_namespaced(client);
    let made = api.create(&PostParams::default(), &config_map("a", "1")).await.unwrap();
    assert!(made.uid().is_some());

    let mut changed = made.clone();
    changed.data = config_map("a", "2").data;
    let replaced = api.replace("a", &PostParams::default(), &changed).await.unwrap();
    assert_eq!(value(&replaced), "2");
    let stale = api.replace("a", &PostParams::default(), &changed).await.unwrap_err();
    assert!(matches!(stale, kube::Error::Api(status) if status.code == 409 && status.reason == "Conflict"));

    let merge = Patch::Merge(json!({"data": {"key": "3"}}));
    assert_eq!(value(&api.patch("a", &PatchParams::default(), &merge).await.unwrap()), "3");
    let strategic = Patch::Strategic(json!({"metadata": {"labels": {"x": "y"}}}));
    assert_eq!(api.patch("a", &PatchParams::default(), &strategic).await.unwrap().labels()["x"], "y");

    assert_eq!(api.list(&ListParams::default().labels("x=y")).await.unwrap().items.len(), 1);
    assert_eq!(api.get_metadata("a").await.unwrap().name_any(), "a");
    assert!(api.get_opt("nobody").await.unwrap().is_none());
    api.delete("a", &DeleteParams::default()).await.unwrap();
    assert!(api.get_opt("a").await.unwrap().is_none());
}

#[tokio::test]
async fn server_side_apply_knows_owners_and_conflicts() {
    let (_server, client) = server().await;
    let api: Api<ConfigMap> = Api::default_namespaced(client);
    let body = |value: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"key": value}});
    api.patch("applied", &PatchParams::apply("one"), &Patch::Apply(body("1"))).await.unwrap();
    let conflict =
        api.patch("applied", &PatchParams::apply("two"), &Patch::Apply(body("2"))).await.unwrap_err();
    assert!(matches!(conflict, kube::Error::Api(status) if status.code == 409));
    let forced =
        api.patch("applied", &PatchParams::apply("two").force(), &Patch::Apply(body("2"))).await.unwrap();
    assert_eq!(value(&forced), "2");
    let managers: Vec<_> =
        forced.managed_fields().iter().filter_map(|entry| entry.manager.as_deref()).collect();
    assert!(managers.contains(&"two"), "{managers:?}");
}

#[tokio::test]
async fn a_plain_watch_delivers_what_happens() {
    let (_server, client) = server().await;
    let api: Api<ConfigMap> = Api::default_namespaced(client);
    let version = api.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let mut events = pin!(api.watch(&WatchParams::default(), &version).await.unwrap());
    api.create(&PostParams::default(), &config_map("w", "1")).await.unwrap();
    api.delete("w", &DeleteParams::default()).await.unwrap();
    let mut next = async || timeout(SOON, events.next()).await.unwrap().unwrap().unwrap();
    assert!(matches!(next().await, WatchEvent::Added(map) if map.name_any() == "w"));
    assert!(matches!(next().await, WatchEvent::Deleted(map) if map.name_any() == "w"));
}

async fn watcher_follows(config: watcher::Config) {
    let (_server, client) = server().await;
    let api: Api<ConfigMap> = Api::default_namespaced(client);
    api.create(&PostParams::default(), &config_map("before", "1")).await.unwrap();
    let (store, writer) = reflector::store();
    let mut stream = pin!(watcher(api.clone(), config).reflect(writer).applied_objects());
    let mut next = async || timeout(SOON, stream.next()).await.unwrap().unwrap().unwrap().name_any();
    while next().await != "before" {}
    api.create(&PostParams::default(), &config_map("after", "1")).await.unwrap();
    while next().await != "after" {}
    assert!(store.state().iter().any(|map| map.name_any() == "before"));
}

#[tokio::test]
async fn watcher_follows_after_a_list() {
    Box::pin(watcher_follows(watcher::Config::default())).await;
}

#[tokio::test]
async fn watcher_follows_with_streaming_lists() {
    Box::pin(watcher_follows(watcher::Config::default().streaming_lists())).await;
}

#[tokio::test]
async fn a_kube_rs_controller_reconciles_to_the_desired_state() {
    let (_server, client) = server().await;
    let api: Api<ConfigMap> = Api::default_namespaced(client.clone());
    for n in 0..5 {
        api.create(&PostParams::default(), &config_map(&format!("c{n}"), "todo")).await.unwrap();
    }
    let done = Arc::new(AtomicUsize::new(0));
    let reconcile = |map: Arc<ConfigMap>, context: Arc<(Api<ConfigMap>, Arc<AtomicUsize>)>| async move {
        if value(&map) == "todo" {
            let patch = Patch::Merge(json!({"data": {"key": "done"}}));
            context.0.patch(&map.name_any(), &PatchParams::default(), &patch).await?;
            context.1.fetch_add(1, Ordering::SeqCst);
        }
        Ok::<_, kube::Error>(Action::await_change())
    };
    let retry = |_: Arc<ConfigMap>, _: &kube::Error, _: Arc<_>| Action::requeue(Duration::from_millis(50));
    let context = Arc::new((api.clone(), done.clone()));
    let mut runs =
        pin!(Controller::new(api.clone(), watcher::Config::default()).run(reconcile, retry, context));
    timeout(SOON, async {
        while done.load(Ordering::SeqCst) < 5 {
            runs.next().await;
        }
    })
    .await
    .unwrap();
    let maps = api.list(&ListParams::default()).await.unwrap();
    assert_eq!(maps.iter().filter(|map| value(map) == "done").count(), 5);
}

#[tokio::test]
async fn discovery_finds_kinds_and_dynamic_objects_work() {
    let (_server, client) = server().await;
    let discovery = Discovery::new(client.clone()).run().await.unwrap();
    let gvk = kube::core::GroupVersionKind::gvk("apps", "v1", "Deployment");
    let (resource, capabilities) = discovery.resolve_gvk(&gvk).unwrap();
    assert_eq!((resource.plural.as_str(), &capabilities.scope), ("deployments", &Scope::Namespaced));
    assert!(capabilities.supports_operation("watch"));
    let api: Api<DynamicObject> = Api::default_namespaced_with(client.clone(), &resource);
    assert_eq!(api.list(&ListParams::default()).await.unwrap().items.len(), 0);
    let typed: Api<Deployment> = Api::default_namespaced(client.clone());
    assert_eq!(typed.list_metadata(&ListParams::default()).await.unwrap().items.len(), 0);
    let namespaces: Api<Namespace> = Api::all(client);
    let names: Vec<_> =
        namespaces.list(&ListParams::default()).await.unwrap().iter().map(ResourceExt::name_any).collect();
    assert!(["default", "kube-system"].iter().all(|name| names.contains(&(*name).to_owned())), "{names:?}");
}
