//! Allocation of unique cluster IPs and node ports to Services.

#![cfg(test)]

mod common;

use std::sync::Arc;

use common::{Answer, Client, names};
use listwatch_server::{Handle, LifecycleOptions, Options, Security, Server};
use listwatch_storage::MemoryEngine;
use serde_json::{Value, json};

const PATH: &str = "/api/v1/namespaces/default/services";

/// Two servers on one store: the second has no record of what the first allocated, and must find it in the Services.
async fn two_servers() -> (Handle, Handle) {
    let engine = Arc::new(MemoryEngine::default());
    let options = || Options {
        security: Security::InsecureHttp,
        lifecycle: LifecycleOptions::off(),
        ..Options::default()
    };
    let first = Server::start(options(), engine.clone()).await.unwrap();
    let namespace = json!({"metadata": {"name": "default"}});
    let made = Client::new(&first).await.call("POST", "/api/v1/namespaces", Some(&namespace)).await;
    assert_eq!(made.status, 201);
    (first, Server::start(options(), engine).await.unwrap())
}

async fn create(client: &mut Client, name: &str, spec: Value) -> Answer {
    let mut service = json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}});
    for (field, value) in spec.as_object().unwrap() {
        service["spec"][field] = value.clone();
    }
    client.call("POST", PATH, Some(&service)).await
}

/// A list of the newest state waits until the cache has it.
async fn list(client: &mut Client, selector: &str) -> Vec<String> {
    names(&client.get(&format!("{PATH}?fieldSelector={selector}")).await)
}

fn is_invalid_with(answer: &Answer, text: &str) -> bool {
    answer.status == 422 && answer.json()["message"].as_str().unwrap().contains(text)
}

#[tokio::test]
async fn an_address_belongs_to_one_service_until_it_goes() {
    let (first, second) = two_servers().await;
    let (mut client, mut other) = (Client::new(&first).await, Client::new(&second).await);
    let made = create(&mut client, "a", json!({})).await.json();
    let address = made["spec"]["clusterIP"].as_str().unwrap().to_owned();
    assert_eq!(list(&mut other, &format!("spec.clusterIP%3D{address}")).await, ["a"]);
    for client in [&mut client, &mut other] {
        let again = create(client, "b", json!({"clusterIP": address})).await;
        assert!(is_invalid_with(&again, "provided IP is already allocated"));
    }
    // It may keep what it has, however often it is written.
    assert_eq!(client.call("PUT", &format!("{PATH}/a"), Some(&made)).await.status, 200);
    assert_eq!(create(&mut client, "none", json!({"clusterIP": "None"})).await.status, 201);
    assert_eq!(create(&mut client, "none2", json!({"clusterIP": "None"})).await.status, 201);
    client.call("DELETE", &format!("{PATH}/a"), None).await;
    assert!(list(&mut other, &format!("spec.clusterIP%3D{address}")).await.is_empty());
    assert_eq!(create(&mut other, "b", json!({"clusterIP": address})).await.status, 201);
    second.shutdown().await;
    first.shutdown().await;
}

#[tokio::test]
async fn a_node_port_belongs_to_one_service_of_either_type() {
    let (first, second) = two_servers().await;
    let (mut client, mut other) = (Client::new(&first).await, Client::new(&second).await);
    let port = |number: u16| json!([{"port": 80, "nodePort": number}]);
    let made = create(&mut client, "n", json!({"type": "NodePort", "ports": port(30_500)})).await;
    assert_eq!(made.status, 201);
    let made = create(&mut client, "l", json!({"type": "LoadBalancer", "ports": port(30_501)})).await;
    assert_eq!(made.status, 201);
    assert_eq!(list(&mut other, "spec.type%3DNodePort").await, ["n"]);
    for taken in [30_500, 30_501] {
        let spec = json!({"type": "NodePort", "ports": port(taken)});
        assert!(is_invalid_with(&create(&mut other, "x", spec).await, "provided port is already allocated"));
    }
    let given = create(&mut other, "g", json!({"type": "NodePort"})).await.json();
    let given = given["spec"]["ports"][0]["nodePort"].as_u64().unwrap();
    assert!((30_000..=32_767).contains(&given) && given != 30_500 && given != 30_501);
    second.shutdown().await;
    first.shutdown().await;
}

/// A dry run and a create that failed kept their address and port, and `kubectl diff` then `apply` of a fixed address failed.
/// An address that a client has freed is free for its next request, at any server, even if the cache there is behind.
#[tokio::test(flavor = "multi_thread")]
async fn an_address_and_a_port_are_free_once_their_service_is_deleted() {
    let (first, second) = two_servers().await;
    let (mut client, mut other) = (Client::new(&first).await, Client::new(&second).await);
    let spec =
        json!({"type": "NodePort", "clusterIP": "10.0.0.77", "ports": [{"port": 80, "nodePort": 30_001}]});
    let plain = json!({"type": "ClusterIP"});
    assert_eq!(create(&mut client, "b", plain).await.status, 201);
    for _ in 0..40 {
        let made = create(&mut client, "a", spec.clone()).await;
        assert_eq!(made.status, 201, "{}", made.json());
        assert_eq!(client.call("DELETE", &format!("{PATH}/a"), None).await.status, 200);
        let made = create(&mut other, "a", spec.clone()).await;
        assert_eq!(made.status, 201, "{}", made.json());
        assert_eq!(other.call("DELETE", &format!("{PATH}/a"), None).await.status, 200);
        let mut changed = client.get(&format!("{PATH}/b")).await;
        changed["spec"]["type"] = json!("NodePort");
        changed["spec"]["ports"][0]["nodePort"] = json!(30_001);
        let answer = client.call("PUT", &format!("{PATH}/b"), Some(&changed)).await;
        assert_eq!(answer.status, 200, "{}", answer.json());
        let mut changed = answer.json();
        changed["spec"]["type"] = json!("ClusterIP");
        changed["spec"]["ports"][0].as_object_mut().unwrap().remove("nodePort");
        assert_eq!(client.call("PUT", &format!("{PATH}/b"), Some(&changed)).await.status, 200);
    }
}

#[tokio::test]
async fn a_service_that_is_not_stored_keeps_no_address_and_no_port() {
    let (first, second) = two_servers().await;
    let mut client = Client::new(&first).await;
    let fixed = json!({"metadata": {"name": "a"}, "spec": {
        "type": "NodePort", "clusterIP": "10.0.0.77", "ports": [{"port": 80, "nodePort": 30077}],
    }});
    let dry = client.call("POST", &format!("{PATH}?dryRun=All"), Some(&fixed)).await;
    assert_eq!(dry.status, 201);
    // The port is out of range, so the address goes back.
    let mut wrong = fixed.clone();
    wrong["spec"]["ports"][0]["nodePort"] = json!(1);
    assert_eq!(client.call("POST", PATH, Some(&wrong)).await.status, 422);
    assert_eq!(client.call("POST", PATH, Some(&fixed)).await.status, 201);
    // The name is taken, so what the second was given is free again.
    let mut other = fixed.clone();
    other["spec"]["clusterIP"] = json!("10.0.0.78");
    other["spec"]["ports"][0]["nodePort"] = json!(30078);
    assert_eq!(client.call("POST", PATH, Some(&other)).await.status, 409);
    let patch = json!({"spec": {"ports": [{"port": 80, "nodePort": 30078}]}});
    for query in ["?dryRun=All", ""] {
        let path = format!("{PATH}/a{query}");
        client
            .send("PATCH", &path, "content-type: application/merge-patch+json\r\n", &patch.to_string())
            .await;
        assert_eq!(client.answer().await.status, 200, "{query}");
    }
    other["metadata"]["name"] = json!("b");
    other["spec"]["ports"][0]["nodePort"] = json!(30079);
    assert_eq!(client.call("POST", PATH, Some(&other)).await.status, 201);
    second.shutdown().await;
    first.shutdown().await;
}

/// Two servers allocated the same address, or the same node port, to two Services in half of the rounds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_allocate_an_address_only_once() {
    let (first, second) = two_servers().await;
    let (mut client, mut other) = (Client::new(&first).await, Client::new(&second).await);
    for round in 0..30 {
        let spec = match round % 2 {
            0 => json!({"clusterIP": format!("10.0.9.{round}")}),
            _ => json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30_000 + round}]}),
        };
        let (a, b) = (format!("a{round}"), format!("b{round}"));
        let (one, two) =
            tokio::join!(create(&mut client, &a, spec.clone()), create(&mut other, &b, spec.clone()));
        let (made, refused) = if one.status == 201 { (&one, &two) } else { (&two, &one) };
        assert_eq!((made.status, refused.status), (201, 422), "round {round}: {spec}");
        // Freed with its Service, on either server, at once.
        let name = made.json()["metadata"]["name"].as_str().unwrap().to_owned();
        assert_eq!(client.call("DELETE", &format!("{PATH}/{name}"), None).await.status, 200);
        assert_eq!(list(&mut other, "spec.type%3DNodePort").await.len(), 0);
        let again = create(&mut other, "again", spec.clone()).await;
        assert_eq!(again.status, 201, "round {round}: {spec}");
        assert_eq!(other.call("DELETE", &format!("{PATH}/again"), None).await.status, 200);
        // As a Service that another server made goes in the cache, what it had is free here, too.
        assert!(list(&mut client, "metadata.name%3Dagain").await.is_empty());
    }
    let left = client.get("/apis/networking.k8s.io/v1/ipaddresses").await;
    assert!(names(&left).is_empty(), "{left}");
    second.shutdown().await;
    first.shutdown().await;
}

#[tokio::test]
async fn an_address_is_an_object_that_names_its_service() {
    let (first, second) = two_servers().await;
    let mut client = Client::new(&first).await;
    let path = "/apis/networking.k8s.io/v1/ipaddresses";
    let dry = client
        .call(
            "POST",
            &format!("{PATH}?dryRun=All"),
            Some(&json!({
                "metadata": {"name": "d"}, "spec": {"ports": [{"port": 80}]},
            })),
        )
        .await;
    assert_eq!(dry.status, 201);
    assert!(names(&client.get(path).await).is_empty(), "a dry run claims nothing");
    let made = create(&mut client, "a", json!({})).await.json();
    let address = made["spec"]["clusterIP"].as_str().unwrap();
    let claim = client.get(&format!("{path}/{address}")).await;
    assert_eq!(
        claim["spec"]["parentRef"],
        json!({"resource": "services", "namespace": "default", "name": "a"})
    );
    assert_eq!(claim["metadata"]["labels"]["ipaddress.kubernetes.io/managed-by"], "ipallocator.k8s.io");
    // An address with a claim of another owner is not allocated to a Service.
    let gateway = json!({"metadata": {"name": "10.0.9.9"}, "spec": {"parentRef":
        {"group": "g.io", "resource": "gateways", "namespace": "default", "name": "g"}}});
    assert_eq!(client.call("POST", path, Some(&gateway)).await.status, 201);
    assert!(is_invalid_with(
        &create(&mut client, "b", json!({"clusterIP": "10.0.9.9"})).await,
        "already allocated"
    ));
    // A Service whose type changes releases what it no longer has.
    let patch = json!({"spec": {"type": "ExternalName", "externalName": "a.b", "clusterIP": null, "clusterIPs": null}});
    client
        .send(
            "PATCH",
            &format!("{PATH}/a"),
            "content-type: application/merge-patch+json\r\n",
            &patch.to_string(),
        )
        .await;
    assert_eq!(client.answer().await.status, 200);
    assert_eq!(names(&client.get(path).await), ["10.0.9.9"]);
    second.shutdown().await;
    first.shutdown().await;
}

/// A name server got two node ports, and one that asked for the same twice was refused.
#[tokio::test]
async fn ports_of_one_number_share_a_node_port() {
    let (first, _second) = two_servers().await;
    let mut client = Client::new(&first).await;
    let ports = |tcp: Value, udp: Value| {
        let mut ports = json!([{"name": "t", "port": 53, "protocol": "TCP"}, {"name": "u", "port": 53, "protocol": "UDP"}]);
        ports[0]["nodePort"] = tcp;
        ports[1]["nodePort"] = udp;
        json!({"type": "NodePort", "ports": ports})
    };
    let node_ports = |answer: Answer| {
        let made = answer.json();
        [made["spec"]["ports"][0]["nodePort"].as_i64(), made["spec"]["ports"][1]["nodePort"].as_i64()]
    };
    let [one, other] = node_ports(create(&mut client, "any", ports(json!(null), json!(null))).await);
    assert!(one.is_some() && one == other, "{one:?} {other:?}");
    for (name, tcp, udp) in [
        ("a", json!(30_001), json!(null)),
        ("b", json!(null), json!(30_002)),
        ("c", json!(30_003), json!(30_003)),
    ] {
        let [one, other] = node_ports(create(&mut client, name, ports(tcp, udp)).await);
        assert!(one.is_some() && one == other, "{name}: {one:?} {other:?}");
    }
    assert!(is_invalid_with(
        &create(&mut client, "d", ports(json!(30_001), json!(null))).await,
        "already allocated"
    ));
}
