//! Clients that race for a quota never exceed it, on durable storage and between servers on one etcd.

#![cfg(test)]

use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, ResourceQuota};
use kube::api::{Api, ListParams, PostParams, WatchEvent, WatchParams};
use listwatch_testkit::{Etcd, TestServer, TestStore};
use serde_json::json;

const CLIENTS: usize = 50;
const LIMIT: usize = 100;
const PATIENCE: Duration = Duration::from_secs(20);

fn quota(name: &str, resource: &str, limit: usize) -> ResourceQuota {
    serde_json::from_value(
        json!({"metadata": {"name": name}, "spec": {"hard": {resource: limit.to_string()}}}),
    )
    .unwrap()
}

/// Creates a quota and waits until it counts: until its status repeats it, as in a cluster.
async fn limit(server: &TestServer, resource: &str, limit: usize) {
    let quotas: Api<ResourceQuota> = Api::namespaced(server.client().unwrap(), "race");
    quotas.create(&PostParams::default(), &quota("q", resource, limit)).await.unwrap();
    let counts = async {
        while quotas.get("q").await.unwrap().status.and_then(|status| status.used).is_none() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, counts).await.expect("a new quota counts soon");
}

async fn namespace(server: &TestServer) {
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(server.client().unwrap());
    let namespace = serde_json::from_value(json!({"metadata": {"name": "race"}})).unwrap();
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
}

/// Every client tries to create four ConfigMaps; returns how many were created.
async fn race(servers: &[&TestServer]) -> usize {
    let clients = (0..CLIENTS).map(|n| {
        let maps: Api<ConfigMap> = Api::namespaced(servers[n % servers.len()].client().unwrap(), "race");
        async move {
            let mut made = 0;
            for i in 0..4 {
                let map = serde_json::from_value(json!({"metadata": {"name": format!("c{n}-{i}")}})).unwrap();
                match maps.create(&PostParams::default(), &map).await {
                    Ok(_) => made += 1,
                    Err(kube::Error::Api(status)) if status.code == 403 => {}
                    Err(error) => panic!("{error}"),
                }
            }
            made
        }
    });
    futures::future::join_all(clients.map(tokio::spawn)).await.into_iter().map(Result::unwrap).sum()
}

async fn nobody_exceeds(servers: &[&TestServer]) {
    namespace(servers[0]).await;
    limit(servers[0], "count/configmaps", LIMIT).await;
    assert_eq!(race(servers).await, LIMIT);
    for server in servers {
        let maps: Api<ConfigMap> = Api::namespaced(server.client().unwrap(), "race");
        let left: Vec<_> = maps.list(&ListParams::default()).await.unwrap().items;
        let counted =
            left.iter().filter(|map| map.metadata.name.as_deref() != Some("kube-root-ca.crt")).count();
        println!("{counted} ConfigMaps of {LIMIT} allowed, {} clients, {} servers", CLIENTS, servers.len());
        // The one that every namespace gets counts, too, if it was there first.
        assert!(
            (LIMIT - 1..=LIMIT).contains(&counted) && left.len() <= LIMIT + 1,
            "{counted} of {}",
            left.len()
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn on_one_server_with_embedded_storage() {
    let server = TestServer::on(TestStore::Embedded).await.unwrap();
    nobody_exceeds(&[&server]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_two_servers_with_one_etcd() {
    let Some(etcd) = Etcd::if_wanted().await.unwrap() else {
        println!("left out: tests with real parts are not asked for, so there is no etcd");
        return;
    };
    let one = TestServer::on(TestStore::Etcd(etcd.endpoint())).await.unwrap();
    let two = TestServer::on(TestStore::Etcd(etcd.endpoint())).await.unwrap();
    nobody_exceeds(&[&one, &two]).await;
}

/// A quota that limits quotas is charged in the transaction that creates another one; in etcd both writes have one revision.
#[tokio::test(flavor = "multi_thread")]
async fn two_events_of_one_transaction_are_both_delivered() {
    let etcd = Etcd::if_wanted().await.unwrap();
    if etcd.is_none() {
        println!("without etcd: tests with real parts are not asked for");
    }
    let store = etcd.as_ref().map_or(TestStore::Memory, |etcd| TestStore::Etcd(etcd.endpoint()));
    let server = TestServer::on(store).await.unwrap();
    namespace(&server).await;
    limit(&server, "resourcequotas", 10).await;
    let quotas: Api<ResourceQuota> = Api::namespaced(server.client().unwrap(), "race");
    let from = quotas.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    for n in 0..5 {
        quotas.create(&PostParams::default(), &quota(&format!("other-{n}"), "pods", 1)).await.unwrap();
    }
    let mut events = quotas.watch(&WatchParams::default(), &from).await.unwrap().boxed();
    let (mut added, mut charged, mut last) = (0, 0, 0);
    let read = async {
        while added < 5 || charged < 5 {
            let quota = match events.next().await.unwrap().unwrap() {
                WatchEvent::Added(quota) => {
                    added += 1;
                    quota
                }
                WatchEvent::Modified(quota) => {
                    charged += usize::from(quota.metadata.name.as_deref() == Some("q"));
                    quota
                }
                other => panic!("{other:?}"),
            };
            let version: u64 = quota.metadata.resource_version.unwrap().parse().unwrap();
            assert!(version >= last, "events come in order");
            last = version;
        }
    };
    tokio::time::timeout(PATIENCE, read).await.unwrap_or_else(|_| panic!("{added} added, {charged} charged"));
}
