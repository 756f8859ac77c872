//! The transport of informers: one connection for many watches, and a peer that disappears without closing its
//! connections.

#![cfg(test)]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};
use listwatch::SharedInformer;
use listwatch::kube::{KubeSource, TransportOptions, client_with};
use listwatch_testkit::TestServer;
use serde_json::json;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;

/// Passes bytes on, counts connections, and can stop passing on those of the connections it has, without closing them.
struct Forwarder {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    frozen: watch::Sender<usize>,
}

impl Forwarder {
    async fn to(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (connections, frozen) = (Arc::new(AtomicUsize::new(0)), watch::Sender::new(0));
        let (count, freeze) = (Arc::clone(&connections), frozen.clone());
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let number = count.fetch_add(1, Ordering::SeqCst) + 1;
                let (server, mut freeze) = (server.clone(), freeze.subscribe());
                tokio::spawn(async move {
                    let mut upstream = TcpStream::connect(server).await.unwrap();
                    tokio::select! {
                        _ = copy_bidirectional(&mut client, &mut upstream) => {}
                        () = async { drop(freeze.wait_for(|frozen| *frozen >= number).await) } => {
                            // Both sides stay open, and nothing passes any more.
                            tokio::time::sleep(Duration::from_secs(60)).await;
                        }
                    }
                });
            }
        });
        Self { address, connections, frozen }
    }

    fn count(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    fn freeze(&self) {
        self.frozen.send_replace(self.count());
    }
}

/// A watch for every informer took a connection of its own, and a dead one was noticed after five to ten minutes.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_peer_is_found_by_its_silence() {
    let server = TestServer::start().await.unwrap();
    let forwarder = Forwarder::to(server.url().trim_start_matches("https://").to_owned()).await;
    let mut config = server.config();
    config.cluster_url = format!("https://{}", forwarder.address).parse().unwrap();
    let mut options = TransportOptions::default();
    (options.idle, options.answer_within) = (Duration::from_millis(200), Duration::from_millis(200));
    let client = client_with(config, options).unwrap();
    let informers: Vec<_> = (0..10)
        .map(|_| {
            SharedInformer::<ConfigMap>::new(KubeSource::of::<ConfigMap>(client.clone()).namespace("default"))
        })
        .collect();
    for informer in &informers {
        informer.start().unwrap();
        assert!(informer.wait_synced().await);
    }
    assert_eq!(forwarder.count(), 1, "all watches share a connection");

    forwarder.freeze();
    let maps: Api<ConfigMap> = Api::namespaced(server.client().unwrap(), "default");
    let map = serde_json::from_value(json!({"metadata": {"name": "after"}})).unwrap();
    maps.create(&PostParams::default(), &map).await.unwrap();
    let key = "default/after".parse().unwrap();
    for informer in &informers {
        let exists = listwatch::until::conditions::exists;
        let seen = listwatch::until::wait_for(informer, &key, exists);
        timeout(Duration::from_secs(20), seen).await.expect("the dead connection is given up").unwrap();
    }
    server.stop().await;
}
