//! Logs, exec, attach, port-forward and proxies, with a kubelet and Pods that are servers in the test.

#![cfg(test)]

mod common;
#[path = "common/https.rs"]
mod https;
#[path = "common/kubectl.rs"]
mod kubectl;
#[path = "common/kubelet.rs"]
mod kubelet;

use std::sync::Arc;

use common::{Answer, Client, PATIENCE, start_on};
use kubectl::Kubectl;
use kubelet::{FakeKubelet, masked};
use listwatch_server::{Handle, NodeOptions, Options, Server};
use listwatch_storage::{Expect, MemoryEngine, Write};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const PODS: &str = "/api/v1/namespaces/default/pods";
const UPGRADE: &str =
    "connection: Upgrade\r\nupgrade: SPDY/3.1\r\nx-stream-protocol-version: v4.channel.k8s.io\r\n";

/// A server, a kubelet, and a client that is an administrator.
struct Cluster {
    server: Handle,
    kubelet: FakeKubelet,
    client: Client,
}

impl Cluster {
    async fn start() -> Self {
        Self::with(NodeOptions { special_addresses: true, ..NodeOptions::default() }, json!([])).await
    }

    /// A cluster of one node with these features, on which the Pod `p` with the containers `a` and `b` runs.
    async fn with(nodes: NodeOptions, features: Value) -> Self {
        let server = start_on(Options { nodes, ..Options::default() }).await;
        let mut client = Client::new(&server).await;
        let map = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
        let authentication = client.get(map).await;
        let ca = authentication["data"]["client-ca-file"].as_str().unwrap().to_owned();
        let kubelet = FakeKubelet::start(&ca).await;
        let mut cluster = Self { server, kubelet, client };
        let port = cluster.kubelet.port();
        cluster.node("one", json!([{"type": "InternalIP", "address": "127.0.0.1"}]), port, features).await;
        cluster.pod("p", "one").await;
        cluster
    }

    async fn made(&mut self, path: &str, object: Value) {
        let answer = self.client.call("POST", path, Some(&object)).await;
        assert_eq!(answer.status, 201, "{}", String::from_utf8_lossy(&answer.body));
    }

    async fn node(&mut self, name: &str, addresses: Value, port: u16, features: Value) {
        self.made("/api/v1/nodes", json!({"metadata": {"name": name}})).await;
        let status = json!({"metadata": {"name": name}, "status": {"addresses": addresses,
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}}, "declaredFeatures": features}});
        let answer = self.client.call("PUT", &format!("/api/v1/nodes/{name}/status"), Some(&status)).await;
        assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
    }

    async fn pod(&mut self, name: &str, node: &str) {
        let pod = json!({"metadata": {"name": name}, "spec": {"nodeName": node, "containers": [
            {"name": "a", "image": "i", "ports": [{"containerPort": 8080}]}, {"name": "b", "image": "i"}]}});
        self.made(PODS, pod).await;
    }

    /// Says where a Pod listens.
    async fn listens(&mut self, pod: &str, address: &str) {
        let status =
            json!({"metadata": {"name": pod}, "status": {"podIP": address, "podIPs": [{"ip": address}]}});
        let media = "content-type: application/merge-patch+json\r\n";
        self.client.send("PATCH", &format!("{PODS}/{pod}/status"), media, &status.to_string()).await;
        let answer = self.client.answer().await;
        assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
    }

    async fn error(&mut self, method: &str, path: &str, headers: &str) -> (u16, String, String) {
        let mut client = Client::new(&self.server).await;
        client.send(method, path, headers, "").await;
        let answer = client.answer().await;
        let status = answer.json();
        let text = |key: &str| status[key].as_str().unwrap_or_default().to_owned();
        (answer.status, text("reason"), text("message"))
    }

    async fn answer(&mut self, method: &str, path: &str, headers: &str, body: &str) -> Answer {
        let mut client = Client::new(&self.server).await;
        client.send(method, path, headers, body).await;
        client.answer().await
    }

    /// The number of open connections, once it is this.
    async fn open_connections(&mut self, expected: usize) {
        let line = format!("listwatch_node_connections {expected}");
        for _ in 0..200 {
            let page = self.client.call("GET", "/metrics", None).await;
            if String::from_utf8_lossy(&page.body).lines().any(|found| found == line) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        panic!("not {line}");
    }
}

/// Reads from a tunnel until so many bytes are there.
async fn read(client: &mut Client, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    tokio::time::timeout(PATIENCE, client.stream.read_exact(&mut bytes)).await.unwrap().unwrap();
    bytes
}

#[tokio::test]
async fn logs_come_from_the_kubelet() {
    let mut cluster = Cluster::start().await;
    let log =
        cluster.answer("GET", &format!("{PODS}/p/log?container=a&tailLines=3&timestamps=true"), "", "").await;
    assert_eq!((log.status, log.header("content-type")), (200, Some("text/plain")));
    let seen = String::from_utf8(log.body).unwrap();
    assert_eq!(
        seen,
        "GET /containerLogs/default/p/a?tailLines=3&timestamps=true as kube-apiserver-kubelet-client\n"
    );
    assert_eq!(cluster.kubelet.credentials(), Vec::<String>::new(), "the client's token stays here");
    cluster.open_connections(0).await;
}

#[tokio::test]
async fn a_log_is_followed_as_it_comes_and_ends_with_its_reader() {
    let mut cluster = Cluster::start().await;
    let mut reader = Client::new(&cluster.server).await;
    reader.send("GET", &format!("{PODS}/p/log?container=b&follow=true"), "", "").await;
    assert_eq!(reader.head().await.0, 200);
    assert_eq!(reader.chunk().await.unwrap(), b"line 0\n");
    cluster.open_connections(1).await;
    cluster.kubelet.more();
    assert_eq!(reader.chunk().await.unwrap(), b"line 1\n");
    drop(reader);
    cluster.open_connections(0).await;
}

#[tokio::test]
async fn the_errors_of_a_kubelet_are_worded_as_by_kube_apiserver() {
    let mut cluster = Cluster::start().await;
    for (previous, code, reason, message) in [
        ("400", 400, "BadRequest", "previous terminated container \"a\" in pod \"p\" not found"),
        ("404", 404, "NotFound", "the server could not find the requested resource ( pods/log p)"),
        (
            "500",
            500,
            "InternalError",
            "Internal error occurred: previous terminated container \"a\" in pod \"p\" not found",
        ),
        ("301", 500, "", "Get \"/elsewhere\": redirects forbidden"),
        // A 101 was passed on as such, to a client that had asked for no upgrade.
        ("101", 500, "", "unexpected status code 101 from the kubelet"),
    ] {
        cluster.kubelet.fail_with(previous.parse().unwrap());
        let found = cluster.error("GET", &format!("{PODS}/p/log?container=a&previous=true"), "").await;
        assert_eq!((found.0, found.1.as_str()), (code, reason), "{previous}");
        assert!(found.2.ends_with(message), "{}", found.2);
    }
    cluster.open_connections(0).await;
}

#[tokio::test]
async fn what_can_be_found_out_without_a_kubelet_is_found_out_first() {
    let mut cluster = Cluster::start().await;
    cluster.node("gone", json!([{"type": "InternalIP", "address": "127.0.0.1"}]), 1, json!([])).await;
    cluster.node("nowhere", json!([{"type": "Strange", "address": "x"}]), 1, json!([])).await;
    cluster.pod("lost", "missing").await;
    cluster.pod("unreachable", "gone").await;
    cluster.pod("addressless", "nowhere").await;
    let refused = "dial tcp 127.0.0.1:1: connect: connection refused";
    let log = "Get \"https://127.0.0.1:1/containerLogs/default/unreachable/a\": ";
    for (method, path, headers, expected) in [
        ("GET", "lost/log?container=a", "", (404, "NotFound", "pods \"missing\" not found")),
        ("GET", "unreachable/log?container=a", "", (500, "", &*format!("{log}{refused}"))),
        (
            "POST",
            "unreachable/exec?container=a&command=ls",
            UPGRADE,
            (500, "", &*format!("error dialing backend: {refused}")),
        ),
        (
            "GET",
            "addressless/log?container=a",
            "",
            (500, "", "no preferred addresses found; known addresses: [{Strange x}]"),
        ),
        ("POST", "p/exec?container=a&command=ls", "", (400, "BadRequest", "Upgrade request required")),
        (
            "POST",
            "p/exec?container=a&command=ls&dryRun=All",
            UPGRADE,
            (400, "BadRequest", "dryRun is not supported"),
        ),
        (
            "POST",
            "p/attach",
            UPGRADE,
            (400, "BadRequest", "a container name must be specified for pod p, choose one of: [a b]"),
        ),
        ("GET", "p/proxy/", "", (400, "BadRequest", "address not allowed")),
    ] {
        let (code, reason, message) = cluster.error(method, &format!("{PODS}/{path}"), headers).await;
        assert_eq!((code, reason.as_str(), message.as_str()), expected, "{method} {path}");
    }
}

#[tokio::test]
async fn a_command_is_a_tunnel_to_the_kubelet() {
    let mut cluster = Cluster::start().await;
    for (path, expected) in [
        (
            "exec?container=a&command=ls&command=-l&stdin=true&stdout=true",
            "/exec/default/p/a?command=ls&command=-l&input=1&output=1",
        ),
        ("attach?container=b&stdout=1&tty=1", "/attach/default/p/b?output=1&tty=1"),
        ("portforward", "/portForward/default/p"),
    ] {
        let mut client = Client::new(&cluster.server).await;
        client.send("POST", &format!("{PODS}/p/{path}"), UPGRADE, "").await;
        let (code, head) = client.head().await;
        assert_eq!(code, 101, "{head}");
        assert!(head.to_lowercase().contains("upgrade: spdy/3.1"), "{head}");
        assert!(head.to_lowercase().contains("x-stream-protocol-version: v4.channel.k8s.io"), "{head}");
        assert_eq!(cluster.kubelet.last_target(), expected);
        client.raw(b"bytes of SPDY").await;
        assert_eq!(read(&mut client, 13).await, b"bytes of SPDY");
        cluster.open_connections(1).await;
        drop(client);
        cluster.open_connections(0).await;
    }
    assert_eq!(cluster.kubelet.credentials(), Vec::<String>::new());
}

#[tokio::test]
async fn a_tunnel_ends_with_the_node_and_costs_others_nothing() {
    let mut cluster = Cluster::start().await;
    let mut slow = Client::new(&cluster.server).await;
    slow.send("POST", &format!("{PODS}/p/portforward"), UPGRADE, "").await;
    assert_eq!(slow.head().await.0, 101);
    // The response is not read: the tunnel fills up and waits.
    let flood = vec![b'x'; 64 << 10];
    while let Ok(sent) =
        tokio::time::timeout(std::time::Duration::from_millis(300), slow.stream.get_mut().write_all(&flood))
            .await
    {
        sent.unwrap();
    }
    let mut other = Client::new(&cluster.server).await;
    other.send("POST", &format!("{PODS}/p/portforward"), UPGRADE, "").await;
    assert_eq!(other.head().await.0, 101);
    other.raw(b"quick").await;
    assert_eq!(read(&mut other, 5).await, b"quick");
    cluster.open_connections(2).await;
    cluster.kubelet.hang_up();
    let mut rest = Vec::new();
    tokio::time::timeout(PATIENCE, other.stream.read_to_end(&mut rest)).await.unwrap().ok();
    cluster.open_connections(0).await;
}

/// kubectl closes standard input, which a tunnel of bytes cannot express: the message is translated for kubelets that use SPDY.
#[tokio::test]
async fn a_websocket_command_is_translated_to_spdy() {
    let mut cluster = Cluster::start().await;
    let handshake = "connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-protocol: v5.channel.k8s.io\r\n";
    let mut client = Client::new(&cluster.server).await;
    let path = format!("{PODS}/p/exec?container=a&command=cat&stdin=true&stdout=true&stderr=true");
    client.send("GET", &path, handshake, "").await;
    let (code, head) = client.head().await;
    assert_eq!(code, 101, "{head}");
    assert!(head.to_lowercase().contains("sec-websocket-protocol: v5.channel.k8s.io"), "{head}");
    assert_eq!(read(&mut client, 3).await, [0x82, 1, 1], "an empty message says that it has begun");
    client.raw(&masked(0x82, b"\0hello")).await;
    assert_eq!(read(&mut client, 8).await, b"\x82\x06\x01hello");
    client.raw(&masked(0x89, b"?")).await;
    assert_eq!(read(&mut client, 3).await, [0x8a, 1, b'?'], "a ping of the client is answered at once");
    client.raw(&masked(0x82, &[255, 0])).await;
    let exit = FakeKubelet::exit_status();
    let head = read(&mut client, 4).await;
    assert_eq!(head[..2], [0x82, 126]);
    let message = read(&mut client, usize::from(u16::from_be_bytes([head[2], head[3]]))).await;
    assert_eq!((message[0], &message[1..]), (3, exit.as_bytes()));
    assert_eq!(read(&mut client, 4).await, [0x88, 2, 3, 0xe8]);
    cluster.open_connections(0).await;
    assert_eq!(cluster.kubelet.last_target(), "/exec/default/p/a?command=cat&error=1&input=1&output=1");
    // An unreachable kubelet is reported in the error channel, where clients of this protocol expect it.
    cluster.node("gone", json!([{"type": "InternalIP", "address": "127.0.0.1"}]), 1, json!([])).await;
    cluster.pod("unreachable", "gone").await;
    let mut client = Client::new(&cluster.server).await;
    client
        .send("GET", &format!("{PODS}/unreachable/exec?container=a&command=x&stdout=1"), handshake, "")
        .await;
    assert_eq!(client.head().await.0, 101);
    let mut rest = Vec::new();
    client.stream.read_to_end(&mut rest).await.unwrap();
    let rest = String::from_utf8_lossy(&rest).into_owned();
    assert!(
        rest.contains("Internal error occurred: dial tcp 127.0.0.1:1: connect: connection refused"),
        "{rest}"
    );
}

#[tokio::test]
async fn ports_are_forwarded_in_websocket_messages() {
    let mut cluster = Cluster::start().await;
    let handshake = "connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-protocol: SPDY/3.1+portforward.k8s.io\r\nx-echo: 1\r\n";
    let mut client = Client::new(&cluster.server).await;
    client.send("GET", &format!("{PODS}/p/portforward"), handshake, "").await;
    let (code, head) = client.head().await;
    assert_eq!(code, 101, "{head}");
    assert!(head.contains("SPDY/3.1+portforward.k8s.io"), "{head}");
    assert_eq!(cluster.kubelet.last_target(), "/portForward/default/p");
    client.raw(&masked(0x82, b"inside")).await;
    assert_eq!(read(&mut client, 8).await, b"\x82\x06inside");
    drop(client);
    cluster.open_connections(0).await;
}

#[tokio::test]
async fn websocket_is_passed_through_to_a_kubelet_that_supports_it() {
    let options = NodeOptions::default();
    let cluster = Cluster::with(options, json!(["ExtendWebSocketsToKubelet"])).await;
    let handshake = "connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-protocol: v5.channel.k8s.io, base64url.bearer.authorization.k8s.io.c2VjcmV0\r\n";
    let mut client = Client::new(&cluster.server).await;
    client.send("GET", &format!("{PODS}/p/exec?container=a&command=cat"), handshake, "").await;
    let (code, head) = client.head().await;
    assert_eq!(code, 101, "{head}");
    assert_eq!(cluster.kubelet.header("sec-websocket-protocol"), "v5.channel.k8s.io", "without the token");
    client.raw(b"frames").await;
    assert_eq!(read(&mut client, 6).await, b"frames");
}

#[tokio::test]
async fn reading_pods_is_no_right_to_run_commands() {
    let mut cluster = Cluster::start().await;
    let rules = json!([{"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["get"]}]);
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    cluster
        .made(&format!("{rbac}/clusterroles"), json!({"metadata": {"name": "get-exec"}, "rules": rules}))
        .await;
    let binding = json!({"metadata": {"name": "get-exec"}, "subjects": [{"kind": "User", "name": "eve", "apiGroup": "rbac.authorization.k8s.io"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "get-exec"}});
    cluster.made(&format!("{rbac}/clusterrolebindings"), binding).await;
    let headers = format!("impersonate-user: eve\r\n{}", UPGRADE);
    let found = cluster.error("GET", &format!("{PODS}/p/exec?container=a&command=ls"), &headers).await;
    assert_eq!((found.0, found.1.as_str()), (403, "Forbidden"));
    assert!(found.2.starts_with("pods \"p\" is forbidden: "), "{}", found.2);
}

#[tokio::test]
async fn a_pod_is_proxied_to_without_credentials() {
    let mut cluster = Cluster::start().await;
    cluster.listens("p", "127.0.0.1").await;
    let port = cluster.kubelet.pod_port();
    let base = format!("{PODS}/p:{port}/proxy");
    let moved = cluster.answer("GET", &format!("{base}?a=b"), "", "").await;
    assert_eq!((moved.status, moved.header("location")), (301, Some(&*format!("{base}/?a=b"))));
    let headers = "cookie: c=1\r\nimpersonate-user: kubernetes-admin\r\nimpersonate-group: system:masters\r\nx-remote-user: root\r\nte: trailers\r\n";
    let seen = cluster.answer("PUT", &format!("{base}/a%20b/../c/?x=1"), headers, "the body").await;
    assert_eq!(seen.status, 200, "{}", String::from_utf8_lossy(&seen.body));
    assert_eq!(seen.header("access-control-allow-origin"), None);
    let seen = seen.json();
    assert_eq!(
        (&seen["line"], &seen["body"]),
        (&json!("PUT /c/?x=1"), &json!("the body")),
        "path and body are those of the server"
    );
    let names: Vec<&str> =
        seen["headers"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    for name in ["authorization", "impersonate-user", "impersonate-group", "x-remote-user", "te"] {
        assert!(!names.contains(&name), "{name}");
    }
    for name in ["cookie", "x-forwarded-for", "x-forwarded-uri", "host"] {
        assert!(names.contains(&name), "{name}");
    }
    let redirect = cluster.answer("GET", &format!("{base}/redirect"), "", "").await;
    assert_eq!((redirect.status, redirect.header("location")), (302, Some(&*format!("{base}/login"))));
    let head = cluster.answer("OPTIONS", &format!("{base}/c"), "", "").await;
    assert_eq!(head.json()["line"], "OPTIONS /c");
    let refused = cluster.error("GET", &format!("{PODS}/p:1/proxy/"), "").await;
    let expected = "error trying to reach service: dial tcp 127.0.0.1:1: connect: connection refused";
    assert_eq!((refused.0, refused.1.as_str(), refused.2.as_str()), (503, "ServiceUnavailable", expected));
    let mut client = Client::new(&cluster.server).await;
    client.send("GET", &format!("{base}/ws"), "connection: upgrade\r\nupgrade: websocket\r\n", "").await;
    assert_eq!(client.head().await.0, 101);
    client.raw(b"hello").await;
    assert_eq!(read(&mut client, 5).await, b"hello");
    drop(client);
    cluster.open_connections(0).await;
}

/// Uploads are passed on as they come: one above the limit of request bodies is fine.
#[tokio::test]
async fn a_large_upload_is_streamed() {
    let mut cluster = Cluster::start().await;
    cluster.listens("p", "127.0.0.1").await;
    let port = cluster.kubelet.pod_port();
    let mut client = Client::new(&cluster.server).await;
    let (head, piece) = ("transfer-encoding: chunked\r\n", "x".repeat(64 << 10));
    let token = cluster.server.admin_token().to_owned();
    let request = format!(
        "POST {PODS}/p:{port}/proxy/count HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n{head}\r\n"
    );
    client.raw(request.as_bytes()).await;
    for _ in 0..128 {
        client.raw(format!("{:x}\r\n{piece}\r\n", piece.len()).as_bytes()).await;
    }
    client.raw(b"0\r\n\r\n").await;
    let answer = client.answer().await;
    assert_eq!((answer.status, answer.json()["bytes"].as_u64()), (200, Some(8 << 20)));
}

#[tokio::test]
async fn nodes_are_proxied_to_with_the_client_certificate() {
    let mut cluster = Cluster::start().await;
    let seen = cluster.answer("GET", "/api/v1/nodes/one/proxy/metrics?x=1", "", "").await;
    assert_eq!(String::from_utf8_lossy(&seen.body), "GET /metrics?x=1 as kube-apiserver-kubelet-client\n");
    let port = cluster.kubelet.pod_port();
    let seen = cluster.answer("GET", &format!("/api/v1/nodes/http:one:{port}/proxy/x"), "", "").await;
    assert_eq!(seen.json()["line"], "GET /x");
    let found = cluster.error("GET", "/api/v1/nodes/ftp:one:1/proxy/x", "").await;
    assert_eq!((found.0, found.2.as_str()), (400, "invalid node request \"ftp:one:1\""));
}

#[tokio::test]
async fn special_addresses_are_not_proxied_to() {
    let mut cluster = Cluster::with(NodeOptions::default(), json!([])).await;
    cluster.listens("p", "127.0.0.1").await;
    let port = cluster.kubelet.pod_port();
    for path in [format!("{PODS}/p:{port}/proxy/x"), "/api/v1/nodes/one/proxy/metrics".to_owned()] {
        let found = cluster.error("GET", &path, "").await;
        assert_eq!((found.0, found.2.as_str()), (400, "address not allowed"), "{path}");
    }
    let log = cluster.answer("GET", &format!("{PODS}/p/log?container=a"), "", "").await;
    assert_eq!(log.status, 200, "kubelets may be anywhere, as for kube-apiserver");
}

#[tokio::test]
async fn services_without_endpoints_are_unavailable() {
    let mut cluster = Cluster::start().await;
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"name": "web", "port": 80}]}});
    cluster.made("/api/v1/namespaces/default/services", service).await;
    let services = "/api/v1/namespaces/default/services";
    for (name, code, message) in [
        ("s", 503, "no endpoints available for service \"s\""),
        ("none", 503, "no endpoints available for service \"none\""),
        ("none:80", 404, "services \"none\" not found"),
        ("s:81", 503, "no service port 81 found for service \"s\""),
        ("s:80", 503, "no endpoints available for service \"s\""),
        ("ftp:s:80", 400, "invalid service request \"ftp:s:80\""),
    ] {
        let found = cluster.error("GET", &format!("{services}/{name}/proxy/"), "").await;
        assert_eq!((found.0, found.2.as_str()), (code, message), "{name}");
    }
}

/// Validation lets no EndpointSlice lead to loopback, so this one is put into the store.
#[tokio::test]
async fn a_service_is_proxied_to_by_an_endpoint_that_is_a_pod() {
    let mut cluster = Cluster::start().await;
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"name": "web", "port": 80}]}});
    cluster.made("/api/v1/namespaces/default/services", service).await;
    let endpoint = |pod: &str| {
        json!({"addresses": ["127.0.0.1"], "conditions": {"ready": true},
            "targetRef": {"kind": "Pod", "namespace": "default", "name": pod}})
    };
    let (port, endpoints) = (cluster.kubelet.pod_port(), json!([endpoint("nobody"), endpoint("p")]));
    let metadata = r#"{"name":"s-1","labels":{"kubernetes.io/service-name":"s"},"namespace":"default"}"#;
    let slice = format!(
        r#"{{"kind":"EndpointSlice","apiVersion":"discovery.k8s.io/v1","metadata":{metadata},"addressType":"IPv4","endpoints":{endpoints},"ports":[{{"name":"web","port":{port}}}]}}"#
    );
    let api = cluster.server.api();
    let key =
        api.registry.find("discovery.k8s.io", "v1", "endpointslices").unwrap().key(Some("default"), "s-1");
    let write = Write { key, value: Some(slice.into()), expect: Expect::Any, origin: None };
    api.engine.write(write).await.unwrap();
    let path = "/api/v1/namespaces/default/services/s:80/proxy/x";
    for _ in 0..100 {
        let found = cluster.error("GET", path, "").await;
        assert_eq!(found.0, 503, "the Pod has no such address: {}", found.2);
        let seen =
            cluster.client.get("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/s-1").await;
        if seen["kind"] == "EndpointSlice" {
            break;
        }
    }
    cluster.listens("p", "127.0.0.1").await;
    let answer = cluster.answer("GET", path, "", "").await;
    assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
    assert_eq!(answer.json()["line"], "GET /x");
}

#[tokio::test]
async fn connections_are_bounded_and_can_be_off() {
    let few = NodeOptions { user_connections: 1, ..NodeOptions::default() };
    let mut cluster = Cluster::with(few, json!([])).await;
    let mut reader = Client::new(&cluster.server).await;
    reader.send("GET", &format!("{PODS}/p/log?container=b&follow=true"), "", "").await;
    assert_eq!(reader.head().await.0, 200);
    let found = cluster.error("GET", &format!("{PODS}/p/log?container=a"), "").await;
    assert_eq!((found.0, found.1.as_str()), (429, "TooManyRequests"));
    drop(reader);
    cluster.open_connections(0).await;
    let mut off = Cluster::with(NodeOptions { enabled: false, ..NodeOptions::default() }, json!([])).await;
    let found = off.error("GET", &format!("{PODS}/p/log?container=a"), "").await;
    assert_eq!(found.0, 500);
    assert!(found.2.contains("does not connect to nodes"), "{}", found.2);
}

/// A kubelet whose certificate is of another CA is refused, unless a log is read with `insecureSkipTLSVerifyBackend`.
#[tokio::test]
async fn kubelets_are_verified_where_there_is_a_ca() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let other = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    std::fs::write(file.path(), other.cert.pem()).unwrap();
    let options =
        NodeOptions { certificate_authority: Some(file.path().to_owned()), ..NodeOptions::default() };
    let mut cluster = Cluster::with(options, json!([])).await;
    let found = cluster.error("GET", &format!("{PODS}/p/log?container=a"), "").await;
    assert!(
        found.2.ends_with("tls: failed to verify certificate: x509: certificate signed by unknown authority"),
        "{}",
        found.2
    );
    let path = format!("{PODS}/p/log?container=a&insecureSkipTLSVerifyBackend=true");
    assert_eq!(cluster.answer("GET", &path, "", "").await.status, 200);
}

#[tokio::test]
async fn connections_are_counted_as_such() {
    let mut cluster = Cluster::start().await;
    cluster.answer("GET", &format!("{PODS}/p/log?container=a"), "", "").await;
    let page = cluster.client.call("GET", "/metrics", None).await;
    let page = String::from_utf8_lossy(&page.body).into_owned();
    let counted = page.lines().find(|line| {
        line.starts_with("apiserver_request_total")
            && line.contains("verb=\"CONNECT\"")
            && line.contains("subresource=\"log\"")
    });
    assert!(counted.is_some(), "{page}");
}

/// The whole way of a user: TLS to the server, both protocols of kubectl, TLS to the kubelet.
#[tokio::test(flavor = "multi_thread")]
async fn kubectl_reads_logs_runs_commands_and_forwards_ports() {
    if std::env::var_os("LISTWATCH_REAL").is_none() {
        return;
    }
    let server = Server::start(Options::default(), Arc::new(MemoryEngine::default())).await.unwrap();
    let kubelet = FakeKubelet::start(server.ca_pem().unwrap()).await;
    let kubectl = Arc::new(Kubectl::new(&server.admin_kubeconfig()));
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "one"}, "status": {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet.port()}}}});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"nodeName": "one", "containers": [
        {"name": "a", "image": "i", "ports": [{"containerPort": 8080}]}, {"name": "b", "image": "i"}]}});
    let of = Arc::clone(&kubectl);
    let asked = tokio::task::spawn_blocking(move || {
        of.run(&["create", "-f", "-"], &pod.to_string());
        of.run(&["create", "-f", "-"], &node.to_string());
        of.run(&["replace", "--raw", "/api/v1/nodes/one/status", "-f", "-"], &node.to_string());
        of.run(
            &["patch", "pod", "p", "--subresource=status", "-p", "{\"status\":{\"phase\":\"Running\"}}"],
            "",
        );
        let log = of.run(&["logs", "p", "-c", "a", "--tail=3"], "");
        let expected = "GET /containerLogs/default/p/a?tailLines=3 as kube-apiserver-kubelet-client\n";
        assert_eq!((log.0, log.1.as_str()), (0, expected), "{}", log.2);
        for websocket in ["true", "false"] {
            let command = ["exec", "-i", "p", "-c", "a", "--", "cat"];
            let (code, out, error) =
                of.with("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", websocket).run(&command, "hello");
            assert_eq!((code, out.as_str()), (3, "hello"), "{websocket} {error}");
            of.with("KUBECTL_PORT_FORWARD_WEBSOCKETS", websocket).forward("pod/p", b"over and back");
        }
        of.follow(&["logs", "-f", "p", "-c", "b"], "line 0\n");
    });
    asked.await.unwrap();
    server.shutdown().await;
}
