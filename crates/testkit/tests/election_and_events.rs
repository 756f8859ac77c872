//! Leader election and the event recorder against a real server: Leases and Events as the cluster keeps them.

#![cfg(test)]

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use listwatch::event_recorder::{EventRecorder, KubeSink, ObjectReference, Occurrence, Reporter};
use listwatch::leader_election::{ElectionOptions, ElectionOutcome, KubeLease, LeaderElection};
use listwatch_testkit::TestServer;
use serde_json::json;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Nothing here takes long; without a deadline a missing response would hang the test.
const SOON: Duration = Duration::from_secs(30);

/// A server and a namespace of our own.
async fn server() -> (TestServer, kube::Client) {
    let server = TestServer::start().await.unwrap();
    let client = server.client().unwrap();
    let metadata = ObjectMeta { name: Some("own".to_owned()), ..ObjectMeta::default() };
    let namespace = Namespace { metadata, ..Namespace::default() };
    Api::all(client.clone()).create(&PostParams::default(), &namespace).await.unwrap();
    (server, client)
}

fn candidate(client: &kube::Client, name: &str) -> LeaderElection<KubeLease> {
    let lock = KubeLease::new(client.clone(), "own", "the-lease");
    let options = ElectionOptions { retry_period: Duration::from_millis(100), ..ElectionOptions::new(name) };
    LeaderElection::new(lock, options).unwrap()
}

#[tokio::test]
async fn a_lease_passes_from_one_to_the_next() {
    let (_server, client) = server().await;
    let leases: Api<Lease> = Api::namespaced(client.clone(), "own");
    let never = CancellationToken::new();

    let api = leases.clone();
    let (a, b) = (candidate(&client, "a"), candidate(&client, "b"));
    let first = a.run(&never, |leadership| async move {
        let label = Patch::Merge(json!({"metadata": {"labels": {"kept": "yes"}}}));
        api.patch("the-lease", &PatchParams::default(), &label).await.unwrap();
        // Long enough for renewals over the changed object.
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert!(leadership.is_valid());
        let lease = api.get("the-lease").await.unwrap().spec.unwrap();
        assert_eq!((lease.holder_identity.as_deref(), lease.lease_duration_seconds), (Some("a"), Some(15)));
        assert!(lease.renew_time > lease.acquire_time);
        leadership.fencing_token()
    });
    let second = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        b.run(&never, |leadership| async move { leadership.fencing_token() }).await
    };
    let both = timeout(SOON, async { tokio::join!(first, second) }).await.unwrap();
    assert_eq!(both, (ElectionOutcome::Finished(0), ElectionOutcome::Finished(1)));

    let lease = leases.get("the-lease").await.unwrap();
    assert_eq!(lease.metadata.labels.unwrap()["kept"], "yes");
    assert_eq!(lease.spec.unwrap().holder_identity.unwrap_or_default(), "");
}

/// The Lease of a leader is deleted. It is created again with the same fencing token, and the term continues.
#[tokio::test]
async fn a_leader_outlives_its_lease_object() {
    let (_server, client) = server().await;
    let leases: Api<Lease> = Api::namespaced(client.clone(), "own");
    let work = |leadership: listwatch::leader_election::Leadership| async move {
        leases.delete("the-lease", &DeleteParams::default()).await.unwrap();
        while leases.get_opt("the-lease").await.unwrap().is_none() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        leadership.is_valid()
    };
    let never = CancellationToken::new();
    let outcome = timeout(SOON, candidate(&client, "a").run(&never, work)).await.unwrap();
    assert_eq!(outcome, ElectionOutcome::Finished(true));
}

#[tokio::test]
async fn repetitions_are_one_event_with_a_count() {
    let (_server, client) = server().await;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "own");
    let map = ConfigMap {
        metadata: ObjectMeta { name: Some("a".to_owned()), ..ObjectMeta::default() },
        ..ConfigMap::default()
    };
    let map = maps.create(&PostParams::default(), &map).await.unwrap();

    let reporter = Reporter { controller: "example.com/test".to_owned(), instance: "test-1".to_owned() };
    let recorder = EventRecorder::start(KubeSink::new(client.clone()), reporter, Default::default());
    for n in 0..5 {
        let about = ObjectReference::of(&map);
        recorder.record(Occurrence::warning(about, "Odd", "Looking", format!("time {n}")));
    }
    recorder.record(Occurrence::normal(ObjectReference::of(&map), "Fine", "Looking", "all is well"));
    timeout(SOON, recorder.shut_down()).await.unwrap();

    let stats = recorder.stats();
    assert_eq!((stats.failed, stats.dropped, stats.invalid), (0, 0, 0), "{stats:?}");
    let events: Api<Event> = Api::namespaced(client, "own");
    let events = events.list(&ListParams::default()).await.unwrap().items;
    let odd: Vec<_> = events.iter().filter(|event| event.reason.as_deref() == Some("Odd")).collect();
    assert_eq!((events.len(), odd.len()), (2, 1));
    assert_eq!(odd[0].series.as_ref().map(|series| series.count), Some(5));
    assert_eq!(odd[0].note.as_deref(), Some("time 0"));
    assert_eq!(odd[0].regarding.as_ref().and_then(|about| about.uid.clone()), map.metadata.uid);
}
