//! Namespaces that are added and removed while an informer runs.
#![cfg(test)]

mod support;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use listwatch::delta::{Form, QueueOptions};
use listwatch::lister_watcher::{InMemory, ListerWatcher, Sources};
use listwatch::{Event, HandlerOptions, InformerError, InformerOptions, SharedInformer};
use serde_json::{Value, json};
use support::informer::{Informer, Log, settle};

/// A collection per namespace, created on first use.
#[derive(Clone, Default)]
struct Cluster(Arc<Mutex<HashMap<String, InMemory>>>);

impl Cluster {
    fn of(&self, namespace: &str) -> InMemory {
        let mut all = self.0.lock().unwrap();
        all.entry(namespace.to_owned()).or_insert_with(|| InMemory::new(10_000)).clone()
    }

    fn put(&self, namespace: &str, name: &str) {
        let uid = format!("{namespace}/{name}");
        let metadata = json!({"namespace": namespace, "name": name, "uid": uid});
        self.of(namespace).put(&json!({ "metadata": metadata })).unwrap();
    }

    fn sources(&self, namespaces: &[&str]) -> Sources {
        let cluster = self.clone();
        let make = move |namespace: &str| -> Arc<dyn ListerWatcher> { Arc::new(cluster.of(namespace)) };
        Sources::namespaces(namespaces.iter().copied(), make)
    }
}

fn started(sources: Sources, options: InformerOptions) -> (Informer, Log) {
    let informer = SharedInformer::builder(sources).options(options).build();
    let log = Log::default();
    informer.add_event_handler(log.handler()).unwrap();
    informer.start().unwrap();
    (informer, log)
}

fn keys(informer: &Informer) -> Vec<String> {
    informer.snapshot().iter().map(|object| object.key().to_string()).collect()
}

/// Objects of an added namespace are delivered as added, those of a removed one as deleted.
#[tokio::test(start_paused = true)]
async fn a_namespace_comes_and_goes() {
    let cluster = Cluster::default();
    cluster.put("blue", "a");
    cluster.put("green", "b");
    let (informer, log) = started(cluster.sources(&["blue"]), InformerOptions::default());
    assert!(informer.wait_synced().await);
    settle().await;
    assert_eq!(log.take(), ["add blue/a 1 initial", "synced"]);
    assert!(informer.namespaces().add("green").unwrap());
    assert!(!informer.namespaces().add("green").unwrap());
    assert!(informer.namespaces().wait_synced("green").await);
    settle().await;
    assert_eq!(log.take(), ["add green/b 1"]);
    assert!(informer.namespaces().remove("blue").unwrap());
    assert!(!informer.namespaces().remove("blue").unwrap());
    informer.namespaces().wait_removed("blue").await;
    settle().await;
    assert_eq!(log.take(), ["delete blue/a 1 final state unknown"]);
    cluster.put("blue", "late");
    cluster.put("green", "c");
    settle().await;
    assert_eq!(log.take(), ["add green/c 2"]);
    assert_eq!(
        (keys(&informer), informer.namespaces().list()),
        (vec!["green/b".into(), "green/c".into()], vec!["green".to_owned()])
    );
    assert_eq!(informer.status().sources.len(), 1);
}

/// Removing and adding a namespace again at once must not lose its objects, nor report deletions after additions.
#[tokio::test(start_paused = true)]
async fn a_namespace_that_returns_at_once_is_whole() {
    for form in [Form::InOrder, Form::Coalescing] {
        let cluster = Cluster::default();
        cluster.put("blue", "a");
        let mut options = InformerOptions::default();
        options.queue = QueueOptions::default().form(form);
        let (informer, log) = started(cluster.sources(&["blue"]), options);
        assert!(informer.wait_synced().await);
        settle().await;
        log.take();
        for _ in 0..20 {
            informer.namespaces().remove("blue").unwrap();
            informer.namespaces().add("blue").unwrap();
        }
        assert!(informer.namespaces().wait_synced("blue").await);
        settle().await;
        assert_eq!(keys(&informer), ["blue/a"]);
        let told = log.take();
        assert_eq!(told.last().map(String::as_str), Some("add blue/a 1"), "{told:?}");
        cluster.put("blue", "b");
        settle().await;
        assert_eq!(log.take(), ["add blue/b 2"]);
    }
}

/// With namespaces added and removed in random order, the events of a handler add up to the content of the cache.
#[tokio::test]
async fn events_add_up_while_namespaces_churn() {
    let cluster = Cluster::default();
    let names = ["a", "b", "c", "d"];
    names.iter().for_each(|namespace| cluster.put(namespace, "first"));
    let informer = Informer::builder(cluster.sources(&["a"])).build();
    let held = Arc::new(Mutex::new(HashMap::<String, u64>::new()));
    let model = Arc::clone(&held);
    let handler = move |event: &Event<Value>| {
        let mut held = model.lock().unwrap();
        match event {
            Event::Added { object, .. } => {
                let before = held.insert(object.key().to_string(), object.revision().0);
                assert_eq!(before, None, "{event}");
            }
            Event::Updated { new, .. } => {
                assert!(held.insert(new.key().to_string(), new.revision().0).is_some(), "{event}");
            }
            Event::Deleted(gone) => {
                assert!(held.remove(gone.object.key().as_str()).is_some(), "{event}");
            }
            Event::Synced => {}
        }
    };
    let handler = informer.add_event_handler_with(handler, HandlerOptions::named("model")).unwrap();
    informer.start().unwrap();
    let mut seed = 7_u64;
    for round in 0..400 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let namespace = names[(seed >> 33) as usize % names.len()];
        match (seed >> 40) % 4 {
            0 => drop(informer.namespaces().add(namespace).unwrap()),
            1 => drop(informer.namespaces().remove(namespace).unwrap()),
            _ => cluster.put(namespace, &format!("o{}", seed >> 60)),
        }
        if round % 7 == 0 {
            tokio::task::yield_now().await;
        }
    }
    for namespace in informer.namespaces().list() {
        assert!(informer.namespaces().wait_synced(&namespace).await);
    }
    for namespace in
        names.iter().filter(|namespace| !informer.namespaces().list().contains(&(**namespace).to_owned()))
    {
        informer.namespaces().wait_removed(namespace).await;
    }
    let expected = || -> HashMap<String, u64> {
        let snapshot = informer.snapshot();
        snapshot.iter().map(|object| (object.key().to_string(), object.revision().0)).collect()
    };
    let same = async {
        while *held.lock().unwrap() != expected() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), same).await.unwrap();
    assert_eq!(handler.status().panics, 0);
}

/// A namespace that cannot be read delays neither the sync of the others nor waits for changes.
#[tokio::test(start_paused = true)]
async fn a_failing_namespace_does_not_delay_the_others() {
    let good = InMemory::new(100);
    let source = good.clone();
    let make = move |namespace: &str| -> Arc<dyn ListerWatcher> {
        match namespace {
            "bad" => Arc::new(listwatch::lister_watcher::Scripted::default()),
            _ => Arc::new(source.clone()),
        }
    };
    let (informer, _) = started(Sources::namespaces(["good"], make), InformerOptions::default());
    assert!(informer.wait_synced().await);
    informer.namespaces().add("bad").unwrap();
    let revision = good.put(&json!({"metadata": {"namespace": "good", "name": "a"}})).unwrap();
    tokio::time::timeout(Duration::from_secs(5), informer.store().wait_for(revision)).await.unwrap().unwrap();
}

/// An informer may begin without namespaces; fixed sources are reported as such.
#[tokio::test(start_paused = true)]
async fn none_at_the_start_and_fixed_sources() {
    let cluster = Cluster::default();
    cluster.put("blue", "a");
    let (informer, log) = started(cluster.sources(&[]), InformerOptions::default());
    informer.namespaces().add("blue").unwrap();
    assert!(informer.namespaces().wait_synced("blue").await);
    assert!(informer.wait_synced().await);
    settle().await;
    assert_eq!(log.take(), ["add blue/a 1 initial", "synced"]);
    informer.stop().await;
    assert!(matches!(informer.namespaces().add("green"), Err(InformerError::Stopped)));
    let fixed = Informer::new(InMemory::new(1));
    assert!(matches!(fixed.namespaces().add("x"), Err(InformerError::FixedNamespaces)));
}

/// Namespaces that carry a label are followed: from when they have it to when they lose it or go.
#[tokio::test(start_paused = true)]
async fn labelled_namespaces_are_followed() {
    let cluster = Cluster::default();
    cluster.put("blue", "a");
    cluster.put("green", "b");
    // What a server sends for a label selector: a Namespace that loses the label is sent as deleted.
    let namespaces = InMemory::new(100);
    let namespace = |name: &str| json!({"metadata": {"name": name, "uid": name}});
    namespaces.put(&namespace("blue")).unwrap();
    let sources = cluster.sources(&[]).follow(Arc::new(namespaces.clone()));
    let (informer, log) = started(sources, InformerOptions::default());
    assert!(informer.wait_synced().await);
    settle().await;
    assert_eq!(log.take(), ["add blue/a 1 initial", "synced"]);
    namespaces.put(&namespace("green")).unwrap();
    settle().await;
    assert_eq!(log.take(), ["add green/b 1"]);
    namespaces.delete(&listwatch::ObjectKey::cluster("blue"));
    settle().await;
    assert_eq!(log.take(), ["delete blue/a 1 final state unknown"]);
    assert_eq!(informer.namespaces().list(), ["green"]);
    informer.stop().await;
}

/// With nothing to follow, the cache is complete: it is empty.
#[tokio::test(start_paused = true)]
async fn following_nothing_is_synced() {
    let sources = Cluster::default().sources(&[]).follow(Arc::new(InMemory::new(10)));
    let (informer, log) = started(sources, InformerOptions::default());
    assert!(informer.wait_synced().await);
    settle().await;
    assert_eq!(log.take(), ["synced"]);
}
