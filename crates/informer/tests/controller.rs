//! Controllers over in-memory sources, without a server and with a paused clock.
#![cfg(test)]

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube_derive::CustomResource;
use listwatch::controller::{ControllerError, OnError, Outcome, Reconcile, RunningController, predicate};
use listwatch::leader_election::{ElectionOptions, InMemoryLease, LeaderElection};
use listwatch::lister_watcher::{InMemory, Scripted};
use listwatch::workqueue::limiter::ExponentialBackoff;
use listwatch::{Controller, ObjectKey};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize)]
#[kube(group = "example.com", version = "v1", kind = "Greeting", namespaced, schema = "disabled")]
struct GreetingSpec {
    text: String,
}

fn greeting(name: &str, text: &str) -> Value {
    let (namespace, name) = name.split_once('/').unwrap_or(("x", name));
    json!({
        "apiVersion": "example.com/v1", "kind": "Greeting", "spec": {"text": text},
        "metadata": {"namespace": namespace, "name": name, "uid": format!("{namespace}{name}"), "generation": 1},
    })
}

fn owned_map(name: &str, owner: &str) -> Value {
    let owner = json!({
        "apiVersion": "example.com/v1", "kind": "Greeting", "name": owner, "uid": "u", "controller": true,
    });
    json!({"metadata": {"namespace": "x", "name": name, "uid": name, "ownerReferences": [owner]}})
}

/// The reconciled objects, in order.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn push(&self, line: impl Into<String>) {
        self.0.lock().unwrap().push(line.into());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    /// Starts a controller that logs the text of what it reconciles.
    fn follow<J: Send + Sync + 'static>(&self, controller: Controller<Greeting, J>) -> RunningController {
        let log = self.clone();
        let reconcile = move |greeting: Reconcile<Greeting>| {
            log.push(format!("{} {}", greeting.name(), greeting.get().unwrap().spec.text));
            async { Ok::<_, String>(Outcome::Done) }
        };
        controller.start(reconcile).unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn objects_are_reconciled_when_they_or_what_belongs_to_them_changes() {
    let (greetings, maps, others) = (InMemory::new(100), InMemory::new(100), InMemory::new(100));
    greetings.put(&greeting("a", "hello")).unwrap();
    let log = Log::default();
    let key = |name: &str| ObjectKey::namespaced("x", name);
    let controller = Controller::new(greetings.clone())
        .owns::<ConfigMap>(maps.clone())
        .watches(others.clone(), move |other: &listwatch::Object<Value>| {
            other.label("for").map(|name| key(&name))
        });
    let controller = log.follow(controller);
    controller.monitor().idle().await;
    assert_eq!(log.take(), ["a hello"]);

    greetings.put(&greeting("a", "hi")).unwrap();
    greetings.put(&greeting("b", "hey")).unwrap();
    controller.monitor().idle().await;
    assert_eq!(log.take(), ["a hi", "b hey"]);

    maps.put(&owned_map("m", "b")).unwrap();
    maps.put(&json!({"metadata": {"namespace": "x", "name": "nobodys"}})).unwrap();
    controller.monitor().idle().await;
    assert_eq!(log.take(), ["b hey"], "the owner of the map");
    maps.delete(&key("m")).unwrap();
    controller.monitor().idle().await;
    assert_eq!(log.take(), ["b hey"]);

    let other = |name: &str| json!({"metadata": {"namespace": "x", "name": "o", "labels": {"for": name}}});
    others.put(&other("a")).unwrap();
    controller.monitor().idle().await;
    assert_eq!(log.take(), ["a hi"]);
    others.put(&other("b")).unwrap();
    controller.monitor().idle().await;
    assert_eq!(log.take(), ["a hi", "b hey"], "what it was for, and what it is for now");

    greetings.delete(&key("a")).unwrap();
    controller.monitor().idle().await;
    assert!(log.take().is_empty());
    let status = controller.monitor().status();
    assert_eq!((status.reconciles, status.errors, status.missing), (8, 0, 1));
    assert!(status.active && status.informers.len() == 3 && status.queue.work_duration.count() == 9);
    controller.stop().await.unwrap();
    greetings.put(&greeting("c", "late")).unwrap();
    sleep(Duration::from_secs(1)).await;
    assert!(log.take().is_empty());
}

#[tokio::test(start_paused = true)]
async fn predicates_decide_what_counts_of_the_source_before_them() {
    let (greetings, maps) = (InMemory::new(100), InMemory::new(100));
    let mut changed = greeting("a", "1");
    changed["metadata"]["generation"] = json!(1);
    greetings.put(&changed).unwrap();
    maps.put(&owned_map("m", "a")).unwrap();
    let log = Log::default();
    let controller = Controller::new(greetings.clone())
        .filter(|event| predicate::generation(event) || predicate::labels(event))
        .owns::<ConfigMap>(maps.clone())
        .filter(predicate::changed(|map| map.field(&["data"]).map(<[u8]>::to_vec)));
    let controller = log.follow(controller);
    controller.monitor().idle().await;
    assert_eq!(log.take(), ["a 1"], "once for both initial objects");
    let mut check = async |change: &dyn Fn(&mut Value), expected: usize| {
        change(&mut changed);
        greetings.put(&changed).unwrap();
        controller.monitor().idle().await;
        assert_eq!(log.take().len(), expected, "{changed}");
    };
    check(&|greeting| greeting["status"] = json!("done"), 0).await;
    check(&|greeting| greeting["metadata"]["generation"] = json!(2), 1).await;
    check(&|greeting| greeting["metadata"]["labels"] = json!({"a": "b"}), 1).await;
    check(&|greeting| greeting["metadata"]["annotations"] = json!({"a": "b"}), 0).await;
    let mut map = owned_map("m", "a");
    maps.put(&map).unwrap();
    controller.monitor().idle().await;
    assert_eq!(log.take().len(), 0);
    map["data"] = json!({"k": "v"});
    maps.put(&map).unwrap();
    controller.monitor().idle().await;
    assert_eq!(log.take().len(), 1);
}

/// ConfigMaps and Secrets have no generation. A controller that filtered them by it received no update at all.
#[tokio::test(start_paused = true)]
async fn updates_of_objects_without_a_generation_pass_the_filter_by_it() {
    let (greetings, maps) = (InMemory::new(100), InMemory::new(100));
    greetings.put(&greeting("a", "1")).unwrap();
    let mut map = owned_map("m", "a");
    maps.put(&map).unwrap();
    let log = Log::default();
    let controller = Controller::new(greetings).owns::<ConfigMap>(maps.clone()).filter(predicate::generation);
    let controller = log.follow(controller);
    controller.monitor().idle().await;
    log.take();
    map["data"] = json!({"k": "v"});
    maps.put(&map).unwrap();
    controller.monitor().idle().await;
    assert_eq!(log.take().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn errors_are_retried_with_backoff_or_by_the_error_policy() {
    let began = Instant::now();
    let source = InMemory::new(10);
    for name in ["fails", "waits", "hopeless", "panics"] {
        source.put(&greeting(name, "")).unwrap();
    }
    let log = Log::default();
    let inner = log.clone();
    let reconcile = move |greeting: Reconcile<Greeting>| {
        inner.push(format!("{} {} after {} s", greeting.name(), greeting.retries, began.elapsed().as_secs()));
        async move {
            assert_ne!(greeting.name(), "panics");
            Err::<Outcome, _>(greeting.name().to_owned())
        }
    };
    let on_error = |error: &String, _| match error.as_str() {
        "waits" => OnError::After(Duration::from_secs(60)),
        "hopeless" => OnError::GiveUp,
        _ => OnError::Backoff,
    };
    let backoff = ExponentialBackoff::new(Duration::from_secs(1), Duration::from_secs(30));
    let controller = Controller::new(source).backoff(backoff).start_with(reconcile, on_error).unwrap();
    sleep(Duration::from_secs(100)).await;
    let told = log.take();
    let of = |name: &str| -> Vec<String> {
        told.iter().filter_map(|line| line.strip_prefix(name)).map(str::to_owned).collect()
    };
    let growing = [
        " 0 after 0 s",
        " 1 after 1 s",
        " 2 after 3 s",
        " 3 after 7 s",
        " 4 after 15 s",
        " 5 after 31 s",
        " 6 after 61 s",
        " 7 after 91 s",
    ];
    assert_eq!(of("fails"), growing);
    assert_eq!(of("panics"), growing);
    assert_eq!(of("waits"), [" 0 after 0 s", " 0 after 60 s"]);
    assert_eq!(of("hopeless"), [" 0 after 0 s"]);
    assert_eq!(controller.monitor().status().errors, 8 + 8 + 2 + 1, "whatever the policy makes of them");
    controller.stop().await.unwrap();
}

/// An object is cleaned up after exactly once it may go, and never reconciled while it is going.
#[tokio::test(start_paused = true)]
async fn a_finalizer_is_set_before_the_first_reconcile_and_removed_after_the_clean_up() {
    let source = InMemory::new(100);
    source.put(&greeting("a", "hello")).unwrap();
    let log = Log::default();
    let cleanup = log.clone();
    let failures = AtomicUsize::new(2);
    let controller = Controller::new(source.clone()).finalizer(
        "example.com/clean",
        source.clone(),
        move |greeting: Reconcile<Greeting>| {
            cleanup.push(format!("clean up {}", greeting.name()));
            let left = failures.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1));
            async move { if left.is_ok() { Err("not yet") } else { Ok(Outcome::Done) } }
        },
    );
    let controller = log.follow(controller);
    controller.monitor().idle().await;
    assert_eq!(log.take(), ["a hello"]);
    let key = ObjectKey::namespaced("x", "a");
    let mut object: Value = serde_json::from_slice(source.get(&key).unwrap().json()).unwrap();
    assert_eq!(object["metadata"]["finalizers"], json!(["example.com/clean"]));
    object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    source.put(&object).unwrap();
    sleep(Duration::from_secs(5)).await;
    assert_eq!(log.take(), ["clean up a"; 3], "two of them failed");
    assert!(source.get(&key).is_none(), "the object may go");
    controller.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn live_changes_go_before_the_initial_objects_and_tenants_take_turns() {
    let source = InMemory::new(1000);
    for number in 0..100 {
        source.put(&greeting(&format!("big/{number:03}"), "")).unwrap();
    }
    source.put(&greeting("small/one", "")).unwrap();
    let log = Log::default();
    let (inner, gate) = (log.clone(), Arc::new(tokio::sync::Semaphore::new(0)));
    let permits = Arc::clone(&gate);
    let reconcile = move |greeting: Reconcile<Greeting>| {
        let (gate, log) = (Arc::clone(&permits), inner.clone());
        async move {
            gate.acquire().await.unwrap().forget();
            log.push(greeting.key().to_string());
            Ok::<_, String>(Outcome::Done)
        }
    };
    let controller = Controller::new(source.clone())
        .concurrency(1)
        .fair(|key| key.namespace().to_owned())
        .start(reconcile)
        .unwrap();
    sleep(Duration::from_secs(1)).await;
    source.put(&greeting("live/now", "")).unwrap();
    sleep(Duration::from_secs(1)).await;
    gate.add_permits(4);
    sleep(Duration::from_secs(1)).await;
    let told = log.take();
    assert_eq!(told[1], "live/now", "{told:?}");
    assert!(told.contains(&"small/one".to_owned()), "{told:?}");
    gate.add_permits(1000);
    controller.monitor().idle().await;
    assert_eq!(controller.monitor().status().reconciles, 102);
}

/// A stop lets what is in progress and due end, in its grace, and begins nothing new.
#[tokio::test(start_paused = true)]
async fn stopping_drains_within_the_grace() {
    for (takes, ends) in [(5, true), (60, false)] {
        let source = InMemory::new(10);
        source.put(&greeting("a", "")).unwrap();
        let log = Log::default();
        let inner = log.clone();
        let reconcile = move |_: Reconcile<Greeting>| {
            let log = inner.clone();
            async move {
                sleep(Duration::from_secs(takes)).await;
                log.push("done");
                Ok::<_, String>(Outcome::RequeueAfter(Duration::from_secs(1)))
            }
        };
        let stop = CancellationToken::new();
        let controller = Controller::new(source).shutdown_on(stop.clone()).start(reconcile).unwrap();
        sleep(Duration::from_secs(1)).await;
        stop.cancel();
        let ended = timeout(Duration::from_secs(31), controller.ended()).await.expect("within the grace");
        assert_eq!(ended.is_ok(), ends, "{ended:?}");
        assert_eq!(log.take().len(), usize::from(ends));
    }
}

/// The caches of a standby are full before it leads, so that it works at once; it works only while it leads.
#[tokio::test(start_paused = true)]
async fn a_standby_is_warm_and_works_only_while_it_leads() {
    let (source, lease) = (InMemory::new(100), Arc::new(InMemoryLease::default()));
    source.put(&greeting("a", "hello")).unwrap();
    let candidate = |name: &str| {
        let election = LeaderElection::new(Arc::clone(&lease), ElectionOptions::new(name)).unwrap();
        Controller::new(source.clone()).name(name).leader_election(election)
    };
    let (first, second) = (Log::default(), Log::default());
    let leader = first.follow(candidate("first"));
    leader.monitor().idle().await;
    assert_eq!(first.take(), ["a hello"]);
    let standby = second.follow(candidate("second"));
    sleep(Duration::from_secs(60)).await;
    let status = standby.monitor().status();
    assert!(status.informers[0].synced && !status.active && second.take().is_empty());
    leader.stop().await.unwrap();
    let began = Instant::now();
    while second.take().is_empty() {
        sleep(Duration::from_millis(100)).await;
    }
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert!(standby.monitor().status().active);
    standby.stop().await.unwrap();
}

/// Reconciling with a cache that is not filled takes what is not there yet for deleted.
#[tokio::test(start_paused = true)]
async fn nothing_is_reconciled_before_every_cache_is_filled() {
    let (source, never) = (InMemory::new(10), Scripted::default());
    source.put(&greeting("a", "hello")).unwrap();
    let log = Log::default();
    let controller = log.follow(Controller::new(source).owns::<ConfigMap>(never));
    sleep(Duration::from_secs(10)).await;
    assert!(log.take().is_empty() && !controller.monitor().status().active);
    timeout(Duration::from_secs(1), controller.stop()).await.expect("at once").unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_controller_over_a_stopped_informer_fails() {
    let informer = listwatch::SharedInformer::<Greeting>::new(InMemory::new(10));
    informer.start().unwrap();
    informer.stop().await;
    let run = Controller::new(informer).run(|_| async { Ok::<_, String>(Outcome::Done) }).await;
    assert!(matches!(run, Err(ControllerError::Informer(_))), "{run:?}");
}
