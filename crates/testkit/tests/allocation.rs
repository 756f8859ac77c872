//! Several servers on one etcd never allocate an address or a node port twice.

#![cfg(test)]
#![cfg(feature = "etcd")]

use std::collections::HashMap;

use k8s_openapi::api::core::v1::Service;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use listwatch_testkit::{Etcd, TestServer, TestStore};
use serde_json::json;

fn service(name: &str, address: Option<&str>, port: Option<i32>) -> Service {
    let port = json!({"port": 80, "nodePort": port});
    let spec = json!({"type": "NodePort", "clusterIP": address, "ports": [port]});
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
}

/// In half of the rounds both servers allocated the same one to two Services.
#[tokio::test(flavor = "multi_thread")]
async fn two_servers_on_one_etcd_allocate_nothing_twice() {
    let Some(etcd) = Etcd::if_wanted().await.unwrap() else { return };
    let one = TestServer::on(TestStore::Etcd(etcd.endpoint())).await.unwrap();
    let two = TestServer::on(TestStore::Etcd(etcd.endpoint())).await.unwrap();
    let services = |server: &TestServer| Api::<Service>::namespaced(server.client().unwrap(), "default");
    let (first, second) = (services(&one), services(&two));
    let create = PostParams::default();
    for round in 0..30 {
        // These are for explicit requests: no server allocates them by itself.
        let (address, port) = match round % 3 {
            0 => (Some(format!("10.0.0.1{round:02}")), None),
            1 => (None, Some(30_000 + round)),
            _ => (Some(format!("10.0.0.1{round:02}")), Some(30_000 + round)),
        };
        let wanted = |name: &str| service(&format!("{name}{round}"), address.as_deref(), port);
        let (a, b) = (wanted("a"), wanted("b"));
        let (a, b) = tokio::join!(first.create(&create, &a), second.create(&create, &b));
        assert!(a.is_ok() != b.is_ok(), "round {round}: {a:?} {b:?}");
        // What is left to the servers to choose differs as well.
        let (c, d) = (service(&format!("c{round}"), None, None), service(&format!("d{round}"), None, None));
        let (c, d) = tokio::join!(first.create(&create, &c), second.create(&create, &d));
        for chosen in [c.unwrap(), d.unwrap()] {
            let ports = chosen.spec.unwrap().ports.unwrap();
            assert!(ports.iter().all(|port| port.node_port >= Some(30_086)), "{ports:?}");
        }
    }
    let all = second.list(&ListParams::default()).await.unwrap().items;
    let (mut addresses, mut ports) = (HashMap::new(), HashMap::new());
    for service in &all {
        let (name, spec) = (service.metadata.name.clone(), service.spec.clone().unwrap());
        let twice = addresses.insert(spec.cluster_ip.clone(), name.clone());
        assert!(twice.is_none(), "{twice:?} and {name:?} have {:?}", spec.cluster_ip);
        for port in spec.ports.unwrap().iter().filter_map(|port| port.node_port) {
            let twice = ports.insert(port, name.clone());
            assert!(twice.is_none(), "{twice:?} and {name:?} have {port}");
        }
    }
    assert_eq!(all.len(), 91, "30 rounds of three, and default/kubernetes");
    // The other server may take what the first one's Service had.
    let gone = all.iter().find(|service| service.metadata.name.as_deref() != Some("kubernetes")).unwrap();
    let (name, spec) = (gone.metadata.name.clone().unwrap(), gone.spec.clone().unwrap());
    first.delete(&name, &DeleteParams::default()).await.unwrap();
    second.list(&ListParams::default()).await.unwrap();
    second.create(&create, &service("heir", spec.cluster_ip.as_deref(), None)).await.unwrap();
}
