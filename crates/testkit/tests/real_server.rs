//! The whole client library against a server that already runs, which may be a real kube-apiserver.
//!
//! `LISTWATCH_TEST_KUBECONFIG=FILE cargo nextest run -p listwatch-testkit --test real_server --run-ignored all`. It works in a
//! namespace of its own, which it deletes at the end, and defines one custom resource.

#![cfg(test)]

#[path = "../../informer/examples/operator/greeting.rs"]
mod greeting;
#[path = "../../informer/examples/operator/ours.rs"]
mod ours;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret, ServiceAccount};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::ApiResource;
use kube::{Client, Config, CustomResourceExt, ResourceExt};
use listwatch::delta::Form;
use listwatch::factory::{Scope, Shared};
use listwatch::kube::{Compression, KubeSource, ResourceKind, TransportOptions, client_with};
use listwatch::warm::WarmOptions;
use listwatch::{Event, InformerFactory, InformerOptions, RetryWatcher, SharedInformer, Sources};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use greeting::Greeting;

/// The namespace of this run. That of an earlier one may still be going, or for ever where no controller removes namespaces.
fn own() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        format!("listwatch-real-server-{}", since.as_secs())
    })
}
const SOON: Duration = Duration::from_secs(60);

async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, future).await.unwrap_or_else(|_| panic!("{what} takes too long"))
}

async fn config() -> Config {
    let file =
        std::env::var("LISTWATCH_TEST_KUBECONFIG").expect("LISTWATCH_TEST_KUBECONFIG names a kubeconfig");
    let kubeconfig = Kubeconfig::read_from(file).unwrap();
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap()
}

async fn apply(client: &Client, namespace: &str, name: &str, text: &str) -> listwatch::Revision {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"of": own()}}, "data": {"text": text}});
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let map = maps.patch(name, &PatchParams::apply(own()).force(), &Patch::Apply(map)).await.unwrap();
    map.metadata.resource_version.unwrap().parse().unwrap()
}

async fn create_namespace(client: &Client) {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": own(), "labels": {"of": own()}}});
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces.patch(own(), &PatchParams::apply(own()).force(), &Patch::Apply(namespace)).await.unwrap();
}

/// Every way in which an informer reads, each until it has seen a change and a deletion.
async fn informers(client: &Client, transport: &str) {
    let source =
        || KubeSource::of::<ConfigMap>(client.clone()).labels(format!("of={}", own()).parse().unwrap());
    let (mut pages, mut coalescing) = (InformerOptions::default(), InformerOptions::default());
    (pages.reflector.streaming, pages.reflector.page_size) = (false, Some(2));
    coalescing.queue = coalescing.queue.form(Form::Coalescing);
    let dynamic =
        KubeSource::new(client.clone(), ResourceKind::dynamic(&ApiResource::erase::<ConfigMap>(&())));
    let metadata = KubeSource::new(client.clone(), ResourceKind::of::<ConfigMap>().metadata_only());
    let labelled = format!("of={}", own()).parse().unwrap();
    let shapes: [(&str, Sources, InformerOptions); 8] = [
        ("stream", source().namespace(own()).into(), InformerOptions::default()),
        ("pages", source().namespace(own()).into(), pages),
        ("all namespaces", source().into(), InformerOptions::default()),
        ("namespaces", source().namespaces([own(), "default"]).into(), coalescing),
        ("labelled", source().namespaces_labelled(labelled).into(), InformerOptions::default()),
        (
            "compressed",
            source().namespace(own()).compression(Compression::All).into(),
            InformerOptions::default(),
        ),
        ("dynamic", dynamic.namespace(own()).into(), InformerOptions::default()),
        ("metadata", metadata.namespace(own()).into(), InformerOptions::default()),
    ];
    for (name, sources, options) in shapes {
        let what = format!("{name} over {transport}");
        let informer = SharedInformer::<Value>::builder(sources).name(name).options(options).build();
        informer.start().unwrap();
        assert!(soon(&what, informer.wait_synced()).await, "{what}");
        let key = listwatch::ObjectKey::namespaced(own(), "changed");
        let revision = apply(client, own(), "changed", &what).await;
        let seen = soon(&what, informer.wait_for(&key, revision)).await.unwrap();
        assert_eq!(seen.map(|object| object.revision()), Some(revision), "{what}");
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), own());
        maps.delete("changed", &DeleteParams::default()).await.unwrap();
        let gone = listwatch::until::conditions::deleted;
        soon(&what, listwatch::until::wait_for(&informer, &key, gone)).await.unwrap();
        assert!(informer.status().problems.is_empty(), "{what}: {:?}", informer.status());
        informer.stop().await;
    }
}

/// A factory with a saved cache, twice: the second lists nothing.
async fn warm_factory(client: &Client) {
    let directory = tempfile::tempdir().unwrap();
    for run in 0..2 {
        let revision = apply(client, own(), "warm", &format!("run {run}")).await;
        let factory = InformerFactory::new(client.clone()).warm(WarmOptions::new(directory.path()));
        let maps = factory.informer_for::<ConfigMap>(Scope::of::<ConfigMap>().namespace(own()));
        let namespaces = factory.informer::<Namespace>();
        factory.start().unwrap();
        assert!(soon("a warm factory", factory.wait_for_cache_sync()).await);
        soon("the change before the start", maps.store().wait_for(revision)).await.unwrap();
        assert_eq!(maps.lister().namespace(own()).get("warm").unwrap().revision(), revision);
        assert!(namespaces.store().get_by("", own()).is_some());
        let lists: u64 = factory.status().iter().map(|status| status.lists + status.streaming_lists).sum();
        assert_eq!(lists, if run == 0 { 2 } else { 0 }, "{:?}", factory.status());
        factory.shutdown().await;
    }
}

/// A kind whose objects are in namespaces, as its own type.
trait NamespacedKind:
    kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
    + Clone
    + DeserializeOwned
    + Debug
{
}

impl<K> NamespacedKind for K where
    K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + Debug
{
}

/// The versions of a kind that the server has, by name.
async fn listed<K: NamespacedKind>(client: &Client) -> BTreeMap<String, u64> {
    let api: Api<K> = Api::namespaced(client.clone(), own());
    let all = api.list(&ListParams::default()).await.unwrap();
    all.iter()
        .map(|object| (object.name_any(), object.resource_version().unwrap().parse().unwrap()))
        .collect()
}

async fn write<K: NamespacedKind>(client: &Client, round: usize) {
    let api: Api<K> = Api::namespaced(client.clone(), own());
    for n in 0..40 {
        let name = format!("kinds-{}", n % 7);
        if n % 5 == 4 {
            // It may not be there.
            let _ = api.delete(&name, &DeleteParams::default()).await;
            continue;
        }
        let object = json!({"apiVersion": K::api_version(&()), "kind": K::kind(&()),
            "metadata": {"name": name, "annotations": {"round": format!("{round}-{n}"), "padding": "x".repeat(3000)}}});
        api.patch(&name, &PatchParams::apply(own()).force(), &Patch::Apply(object)).await.unwrap();
    }
}

async fn converged<K>(client: &Client, informer: &Shared<K>, what: &str)
where
    K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + Debug
        + Send
        + Sync
        + 'static,
{
    let expected = listed::<K>(client).await;
    let held = || -> BTreeMap<String, u64> {
        informer.snapshot().iter().map(|object| (object.name().to_owned(), object.revision().0)).collect()
    };
    let same = async {
        while held() != expected {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    if tokio::time::timeout(SOON, same).await.is_err() {
        panic!("{what}: {:?} instead of {expected:?}", held());
    }
}

/// A factory of several kinds with everything that is on by default: deltas, one stream for all kinds, saved caches. A
/// server that has none of it is used all the same, and nothing is reported as a problem.
async fn several_kinds(client: &Client) {
    let directory = tempfile::tempdir().unwrap();
    for round in 0..3 {
        let what = format!("several kinds, round {round}");
        let factory = InformerFactory::new(client.clone()).warm(WarmOptions::new(directory.path()));
        let maps = factory.informer_for::<ConfigMap>(Scope::of::<ConfigMap>().namespace(own()));
        let secrets = factory.informer_for::<Secret>(Scope::of::<Secret>().namespace(own()));
        let accounts = factory.informer_for::<ServiceAccount>(Scope::of::<ServiceAccount>().namespace(own()));
        let patched = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&patched);
        maps.add_event_handler(move |event: &Event<ConfigMap>| {
            if let Event::Updated { new, .. } = event {
                counted.fetch_add(usize::from(new.changed_paths().is_some()), Ordering::Relaxed);
            }
        })
        .unwrap();
        factory.start().unwrap();
        assert!(soon(&what, factory.wait_for_cache_sync()).await);
        tokio::join!(
            write::<ConfigMap>(client, round),
            write::<Secret>(client, round),
            write::<ServiceAccount>(client, round)
        );
        converged(client, &maps, &what).await;
        converged(client, &secrets, &what).await;
        converged(client, &accounts, &what).await;
        let status = factory.status();
        assert!(status.iter().all(|status| status.problems.is_empty()), "{what}: {status:?}");
        let lists: u64 = status.iter().map(|status| status.lists + status.streaming_lists).sum();
        assert_eq!(lists, if round == 0 { 3 } else { 0 }, "{what}: {status:?}");
        println!("{what}: {} updates of ConfigMaps came as patches", patched.load(Ordering::Relaxed));
        factory.shutdown().await;
    }
}

/// A watch without a cache.
async fn retry_watcher(client: &Client) {
    let revision = apply(client, own(), "watched", "before").await;
    let source = KubeSource::of::<ConfigMap>(client.clone()).namespace(own());
    let mut watcher = RetryWatcher::new(Arc::new(source), revision).unwrap();
    let changed = apply(client, own(), "watched", "after").await;
    loop {
        let event = soon("a retried watch", watcher.next()).await.expect("an event").unwrap();
        if let listwatch::lister_watcher::WatchEvent::Modified(object) = event
            && object.name() == "watched"
        {
            assert_eq!(object.revision(), changed);
            return;
        }
    }
}

/// The operator of the examples: finalizer, owned ConfigMap, leader election.
async fn operator(client: &Client) {
    greeting::define(client).await.unwrap();
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let established = kube::runtime::conditions::is_crd_established();
    let waited = kube::runtime::wait::await_condition(definitions.clone(), Greeting::crd_name(), established);
    soon("the definition", waited).await.unwrap();
    let stop = CancellationToken::new();
    let running = tokio::spawn(ours::run(client.clone(), stop.clone()));
    let greetings: Api<Greeting> = Api::namespaced(client.clone(), own());
    let greeting = json!({"apiVersion": "example.com/v1", "kind": "Greeting", "metadata": {"name": "hi"}, "spec": {"text": "hello"}});
    greetings.patch("hi", &PatchParams::apply(own()), &Patch::Apply(greeting)).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), own());
    let text = async {
        loop {
            let map = maps.get_opt("hi").await.unwrap();
            if map
                .and_then(|map| map.data)
                .is_some_and(|data| data.get("text").is_some_and(|text| text == "hello"))
            {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    soon("the operator's ConfigMap", text).await;
    greetings.delete("hi", &DeleteParams::default()).await.unwrap();
    let gone = async {
        while !greetings.list(&ListParams::default()).await.unwrap().items.is_empty() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    soon("the clean-up", gone).await;
    stop.cancel();
    soon("the end of the operator", running).await.unwrap().unwrap();
    definitions.delete(Greeting::crd_name(), &DeleteParams::default()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: LISTWATCH_TEST_KUBECONFIG"]
async fn the_library_works_with_a_server_that_runs() {
    let config = config().await;
    let client = listwatch::kube::client(config.clone()).unwrap();
    create_namespace(&client).await;
    for name in ["one", "two", "three", "four", "five"] {
        apply(&client, own(), name, "there before").await;
    }
    informers(&client, "HTTP/2").await;
    let mut transport = TransportOptions::default();
    transport.http2 = false;
    informers(&client_with(config.clone(), transport).unwrap(), "HTTP/1.1").await;
    informers(&Client::try_from(config).unwrap(), "kube's own client").await;
    warm_factory(&client).await;
    several_kinds(&client).await;
    retry_watcher(&client).await;
    operator(&client).await;
    let namespaces: Api<Namespace> = Api::all(client);
    namespaces.delete(own(), &DeleteParams::default()).await.unwrap();
}
