//! Hostile servers behind this one: kubelets, Pods and extension API servers that stop in the middle, read nothing or
//! fail in a new way each time. Connections end with their clients, and the work of this server stays bounded.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use listwatch_server::{
    AdmissionOptions, Handle, HttpLimits, NodeOptions, Options, RequestLimits, WebhookLimits,
};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::common::{Client, PATIENCE, eventually, eventually_async, start_on};
use crate::https::{self, Https};

const POD: &str = "/api/v1/namespaces/default/pods/p";
const SPDY: &str =
    "connection: Upgrade\r\nupgrade: SPDY/3.1\r\nx-stream-protocol-version: v4.channel.k8s.io\r\n";
const WEBSOCKET: &str = "connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-protocol: ";
const THINGS: &str = "/apis/evil.example.com/v1/things";

/// Reads the head of a request, answers, and then neither reads nor writes.
async fn deaf(mut stream: impl AsyncRead + AsyncWrite + Unpin, answer: &str) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.flush().await;
    std::future::pending().await
}

async fn made(client: &mut Client, path: &str, object: Value) {
    let answer = client.call("POST", path, Some(&object)).await;
    assert_eq!(answer.status, 201, "{}", String::from_utf8_lossy(&answer.body));
}

/// A server with a node and a Pod on it that accept every upgrade and answer Pod requests with the beginning of a short response.
async fn with_deaf_node() -> (Handle, u16) {
    with_deaf_pod("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc").await
}

/// A server with a node that accepts every upgrade, and a Pod on it with this response to every request.
async fn with_deaf_pod(answer: &'static str) -> (Handle, u16) {
    let http = HttpLimits { body_timeout: Duration::from_millis(600), ..HttpLimits::default() };
    let nodes = NodeOptions { special_addresses: true, ..NodeOptions::default() };
    let server = start_on(Options { http, nodes, ..Options::default() }).await;
    let upgraded = "HTTP/1.1 101 S\r\nconnection: Upgrade\r\nupgrade: SPDY/3.1\r\nx-stream-protocol-version: v5.channel.k8s.io\r\n\r\n";
    let kubelet = Https::accept(&["127.0.0.1"], None, move |stream| deaf(stream, upgraded)).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(deaf(stream, answer));
        }
    });
    let mut client = Client::new(&server).await;
    made(&mut client, "/api/v1/nodes", json!({"metadata": {"name": "n"}})).await;
    let status = json!({"metadata": {"name": "n"}, "status": {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet.port}}}});
    assert_eq!(client.call("PUT", "/api/v1/nodes/n/status", Some(&status)).await.status, 200);
    let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [{"name": "a", "image": "i"}]}});
    made(&mut client, "/api/v1/namespaces/default/pods", pod).await;
    let status = json!({"status": {"podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}}).to_string();
    client
        .send("PATCH", &format!("{POD}/status"), "content-type: application/merge-patch+json\r\n", &status)
        .await;
    assert_eq!(client.answer().await.status, 200);
    (server, port)
}

/// Waits until so many connections to nodes and Pods are open.
async fn open_connections(server: &Handle, expected: usize, what: &str) {
    let line = format!("listwatch_node_connections {expected}");
    eventually_async(&format!("{what}: {line}"), async || {
        let page = Client::new(server).await.call("GET", "/metrics", None).await;
        String::from_utf8_lossy(&page.body).lines().any(|found| found == line)
    })
    .await;
}

/// Sends until nothing is taken any more.
async fn flood(client: &mut Client, piece: &[u8]) {
    let pause = Duration::from_millis(300);
    while let Ok(sent) = tokio::time::timeout(pause, client.stream.get_mut().write_all(piece)).await {
        sent.unwrap();
    }
}

/// A masked message of a client, whose mask changes nothing.
fn message(channel: u8) -> Vec<u8> {
    let head: &[u8] = &[0x82, 0xfe, 0xf0, 0x00, 0, 0, 0, 0, channel];
    [head, &[b'x'; 0xf000 - 1][..]].concat()
}

/// A kubelet or a Pod that took nothing held the connections of clients that had gone for ever: 1,000 of them are all
/// that a user may have.
#[tokio::test(flavor = "multi_thread")]
async fn connections_end_with_their_client_when_the_far_end_reads_nothing() {
    let (server, port) = with_deaf_node().await;
    let exec = format!("{POD}/exec?command=cat&stdin=true&stdout=true");
    let (v5, tunnelled) =
        (format!("{WEBSOCKET}v5.channel.k8s.io\r\n"), format!("{WEBSOCKET}SPDY/3.1+portforward.k8s.io\r\n"));
    for (method, path, headers, piece) in [
        ("POST", &exec, SPDY, vec![b'x'; 64 << 10]),
        ("GET", &exec, &v5, message(0)),
        ("GET", &format!("{POD}/portforward"), &tunnelled, message(b'x')),
    ] {
        let mut client = Client::new(&server).await;
        client.send(method, path, headers, "").await;
        assert_eq!(client.head().await.0, 101, "{path}");
        flood(&mut client, &piece).await;
        open_connections(&server, 1, path).await;
        leave_at_once(client);
        open_connections(&server, 0, path).await;
    }
    let proxied = format!("{POD}:{port}/proxy/x");
    let mut client = Client::new(&server).await;
    let token = server.admin_token();
    let head = format!(
        "POST {proxied} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\ncontent-length: 999999999\r\n\r\n"
    );
    client.raw(head.as_bytes()).await;
    flood(&mut client, &vec![b'x'; 64 << 10]).await;
    open_connections(&server, 1, "an upload").await;
    leave_at_once(client);
    open_connections(&server, 0, "an upload").await;
}

/// Closes a connection without waiting for what has not been sent. The kernel of a client that ends does the same after a while.
fn leave_at_once(client: Client) {
    client.stream.get_ref().set_zero_linger().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_stops_in_the_middle_ends_with_its_client() {
    let (server, port) = with_deaf_node().await;
    for (method, body) in [("GET", ""), ("POST", "small")] {
        let mut client = Client::new(&server).await;
        client.send(method, &format!("{POD}:{port}/proxy/x"), "", body).await;
        assert_eq!(client.head().await.0, 200);
        assert_eq!(client.read_line().await, "3\r\n");
        open_connections(&server, 1, method).await;
        drop(client);
        open_connections(&server, 0, method).await;
    }
}

/// A response without a body was ended like one with a body in chunks. Clients take what follows the head for the next response.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_has_no_body_ends_with_its_head() {
    for (answer, code) in [("HTTP/1.1 204 N\r\n\r\n", 204), ("HTTP/1.1 304 N\r\netag: \"a\"\r\n\r\n", 304)] {
        let (server, port) = with_deaf_pod(answer).await;
        let mut client = Client::new(&server).await;
        for _ in 0..2 {
            client.send("GET", &format!("{POD}:{port}/proxy/x"), "", "").await;
            let (status, head) = client.head().await;
            assert_eq!(status, code, "{head}");
            assert!(!head.contains("transfer-encoding") && !head.contains("content-length"), "{head}");
        }
    }
    let (server, port) = with_deaf_pod("HTTP/1.1 200 OK\r\ncontent-length: 77\r\n\r\n").await;
    let mut client = Client::new(&server).await;
    client.send("HEAD", &format!("{POD}:{port}/proxy/x"), "", "").await;
    assert!(client.head().await.1.contains("content-length: 77\r\n"));
}

/// Registers a server as the extension API server of `evil.example.com/v1`.
async fn register(client: &mut Client, far: &Https) {
    let service =
        json!({"metadata": {"name": "ext"}, "spec": {"type": "ExternalName", "externalName": "localhost"}});
    made(client, "/api/v1/namespaces/default/services", service).await;
    let object = json!({"metadata": {"name": "v1.evil.example.com"}, "spec": {"group": "evil.example.com", "version": "v1",
        "groupPriorityMinimum": 1000, "versionPriority": 15, "caBundle": far.ca,
        "service": {"namespace": "default", "name": "ext", "port": far.port}}});
    made(client, "/apis/apiregistration.k8s.io/v1/apiservices", object).await;
}

/// Serves an APIService, whose discovery it answers by the number of the request, with the connections that are open.
async fn extension(
    server: &Handle,
    discovery: impl Fn(usize) -> u16 + Send + Sync + 'static,
) -> (Arc<AtomicUsize>, Arc<AtomicUsize>) {
    let (asked, stalled) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let (count, open, discovery) = (Arc::clone(&asked), Arc::clone(&stalled), Arc::new(discovery));
    let far = Https::accept(&["ext.default.svc"], None, move |stream| {
        let (count, open, discovery) = (Arc::clone(&count), Arc::clone(&open), Arc::clone(&discovery));
        async move { answer_extension(stream, &count, &open, &*discovery).await }
    })
    .await;
    let mut client = Client::new(server).await;
    register(&mut client, &far).await;
    eventually("it is asked", || asked.load(Ordering::SeqCst) > 0).await;
    (asked, stalled)
}

/// Answers discovery, and other requests with the beginning of a response.
async fn answer_extension(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    asked: &AtomicUsize,
    open: &AtomicUsize,
    discovery: &impl Fn(usize) -> u16,
) {
    let mut head = Vec::new();
    while let Ok(byte) = stream.read_u8().await {
        head.push(byte);
        if !head.ends_with(b"\r\n\r\n") {
            continue;
        }
        let text = String::from_utf8_lossy(&std::mem::take(&mut head)).into_owned();
        let answer = if text.starts_with("GET /apis/evil.example.com/v1 ") {
            let body = json!({"kind": "APIResourceList", "groupVersion": "evil.example.com/v1", "resources": [
                {"name": "things", "singularName": "", "namespaced": false, "kind": "Thing", "verbs": ["get", "list"]}]});
            let body = body.to_string();
            let code = discovery(asked.fetch_add(1, Ordering::SeqCst));
            format!(
                "HTTP/1.1 {code} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            )
        } else if text.contains("/openapi/") {
            "HTTP/1.1 404 X\r\ncontent-length: 0\r\n\r\n".to_owned()
        } else {
            open.fetch_add(1, Ordering::SeqCst);
            "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc".to_owned()
        };
        let stalls = answer.ends_with("abc");
        if stream.write_all(answer.as_bytes()).await.is_err() || stream.flush().await.is_err() {
            return;
        }
        if stalls {
            let _ = stream.read_u8().await;
            open.fetch_sub(1, Ordering::SeqCst);
            return;
        }
    }
}

/// Each reader of an extension API server that hangs left two connections behind.
#[tokio::test(flavor = "multi_thread")]
async fn requests_to_a_hanging_extension_server_end() {
    let requests = RequestLimits { timeout: Duration::from_secs(2), ..RequestLimits::default() };
    let server = start_on(Options { requests, ..Options::default() }).await;
    let (_, stalled) = extension(&server, |_| 200).await;
    let mut client = Client::new(&server).await;
    eventually_async("it is served", async || {
        Client::new(&server).await.call("GET", "/apis/evil.example.com/v1", None).await.status == 200
    })
    .await;
    client.send("GET", THINGS, "", "").await;
    assert_eq!(client.head().await.0, 200);
    assert_eq!(stalled.load(Ordering::SeqCst), 1);
    drop(client);
    eventually("it ends with its client", || stalled.load(Ordering::SeqCst) == 0).await;
    let mut patient = Client::new(&server).await;
    patient.send("GET", THINGS, "", "").await;
    assert_eq!(patient.head().await.0, 200);
    let mut rest = Vec::new();
    tokio::time::timeout(PATIENCE, patient.stream.read_to_end(&mut rest)).await.unwrap().unwrap();
    assert_eq!(rest, b"3\r\nabc\r\n", "an answer that is not whole is not ended properly");
    eventually("it is left", || stalled.load(Ordering::SeqCst) == 0).await;
}

/// An extension API server that failed in another way each time was asked 500 times a second, and each time its condition was
/// written.
#[tokio::test(flavor = "multi_thread")]
async fn a_failing_extension_server_is_checked_at_most_once_a_second() {
    let server = start_on(Options::default()).await;
    let (asked, _) = extension(&server, |number| 500 + (number % 90) as u16).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let asked = asked.load(Ordering::SeqCst);
    assert!((2..=6).contains(&asked), "{asked} times");
}

/// Every write of any Service had all extension API servers asked what they serve.
#[tokio::test(flavor = "multi_thread")]
async fn the_services_of_others_do_not_concern_extension_servers() {
    let server = start_on(Options::default()).await;
    let (asked, _) = extension(&server, |_| 200).await;
    let mut client = Client::new(&server).await;
    let other = json!({"metadata": {"name": "other"}, "spec": {"ports": [{"port": 80}]}});
    made(&mut client, "/api/v1/namespaces/default/services", other).await;
    // The condition that it writes has it look once more.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let before = asked.load(Ordering::SeqCst);
    for number in 0..30 {
        let patch = json!({"metadata": {"annotations": {"a": number.to_string()}}}).to_string();
        let media = "content-type: application/merge-patch+json\r\n";
        client.send("PATCH", "/api/v1/namespaces/default/services/other", media, &patch).await;
        assert_eq!(client.answer().await.status, 200);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let times = asked.load(Ordering::SeqCst) - before;
    assert!(times <= 1, "asked {times} times");
}

/// The document of an extension API server is kept as a tree.
#[tokio::test(flavor = "multi_thread")]
async fn an_extension_server_with_a_huge_document_is_not_available() {
    let server = start_on(Options::default()).await;
    let far = Https::start(&["ext.default.svc"], None, |_| async {
        https::json(200, &json!({"kind": "APIResourceList", "resources": vec![json!({}); 400_000]}))
    })
    .await;
    let mut client = Client::new(&server).await;
    register(&mut client, &far).await;
    eventually_async("its condition", async || {
        let path = "/apis/apiregistration.k8s.io/v1/apiservices/v1.evil.example.com";
        let object = Client::new(&server).await.get(path).await;
        let message = object["status"]["conditions"][0]["message"].as_str().unwrap_or_default().to_owned();
        message.ends_with("is larger than 1048576 bytes")
    })
    .await;
}

/// A response of 15 MB that was nothing but empty lists took 450 MB, for each of the requests at a time.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_of_a_webhook_has_a_bounded_number_of_values() {
    let webhooks = WebhookLimits { answer_values: 1000, ..WebhookLimits::default() };
    let admission = AdmissionOptions { webhooks, ..AdmissionOptions::default() };
    let server = start_on(Options { admission, ..Options::default() }).await;
    let hook = Https::start(&["localhost"], None, |request| async {
        let review: Value = serde_json::from_slice(&https::body(request).await).unwrap();
        let response =
            json!({"uid": review["request"]["uid"], "allowed": true, "more": vec![json!([]); 2000]});
        https::json(
            200,
            &json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response}),
        )
    })
    .await;
    let mut client = Client::new(&server).await;
    let configuration = json!({"metadata": {"name": "m"}, "webhooks": [{"name": "m.example.com", "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "clientConfig": {"url": format!("https://localhost:{}/", hook.port), "caBundle": hook.ca},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]}]});
    let path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
    made(&mut client, path, configuration).await;
    eventually_async("it is called", async || {
        let map = json!({"metadata": {"generateName": "c"}});
        let path = "/api/v1/namespaces/default/configmaps";
        let answer = Client::new(&server).await.call("POST", path, Some(&map)).await;
        let expected = "failed to call webhook: the response has more than 1000 values";
        answer.status == 500 && answer.json()["message"].as_str().unwrap().ends_with(expected)
    })
    .await;
}
