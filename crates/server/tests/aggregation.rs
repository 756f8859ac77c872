//! Extension API servers over real TLS: discovery, forwarding with the identity of the user, streams, upgrades and outages.

#![cfg(test)]

mod common;
#[path = "common/https.rs"]
mod https;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use common::{Client, start_on};
use futures::StreamExt;
use http_body_util::{BodyExt, StreamBody};
use https::{Https, Reply};
use hyper::body::{Frame, Incoming};
use hyper_util::rt::TokioIo;
use listwatch_server::{Handle, Options};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const FISHES: &str = "/apis/sea.example.com/v1/namespaces/default/fishes";
const SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const NAME: &str = "v1.sea.example.com";

/// The responses of the extension API server.
async fn extension(request: http::Request<Incoming>, down: bool, v2: Swagger) -> Reply {
    let path = request.uri().path().to_owned();
    if down {
        return https::json(500, &json!({"kind": "Status", "code": 500}));
    }
    match path.as_str() {
        "/openapi/v2" => v2.answer().await,
        "/apis/sea.example.com/v1" => https::json(
            200,
            &json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "sea.example.com/v1", "resources": [
                {"name": "fishes", "singularName": "fish", "namespaced": true, "kind": "Fish", "verbs": ["get", "list", "watch"], "shortNames": ["fi"]},
                {"name": "fishes/status", "singularName": "", "namespaced": true, "kind": "Fish", "verbs": ["get"]}]}),
        ),
        "/openapi/v3" => https::json(
            200,
            &json!({"paths": {"apis/sea.example.com/v1": {"serverRelativeURL": "/openapi/v3/apis/sea.example.com/v1?hash=ABC"}}}),
        ),
        "/openapi/v3/apis/sea.example.com/v1" => {
            https::json(200, &json!({"openapi": "3.0.0", "info": {"title": "sea"}}))
        }
        FISHES if request.uri().query().is_some_and(|query| query.contains("watch")) => stream(),
        _ if request.headers().contains_key("upgrade") => upgrade(request),
        _ => echo(request).await,
    }
}

/// The extension API server's OpenAPI v2 document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Swagger {
    Good,
    Malformed,
    Huge,
    Never,
}

impl Swagger {
    async fn answer(self) -> Reply {
        let mut document = json!({
            "swagger": "2.0", "info": {"title": "sea"},
            "paths": {
                "/apis/sea.example.com/v1/fishes": {"get": {"responses": {"200": {"schema": {"$ref": "#/definitions/sea.Fish"}}}}},
                "/api/v1/pods": {"get": {"description": "not its own"}},
            },
            "definitions": {
                "sea.Fish": {"type": "object", "properties": {"metadata": {"$ref": "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}}},
                "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta": {"type": "object", "description": "of an older version"},
            },
        });
        match self {
            Self::Good => https::json(200, &document),
            Self::Malformed => https::text(200, "{\"swagger\": \"2.0\", \"paths\": {".to_owned()),
            Self::Huge => {
                document["definitions"]["sea.Fish"]["description"] = "x".repeat(5 << 20).into();
                https::json(200, &document)
            }
            Self::Never => std::future::pending().await,
        }
    }
}

/// The request as the extension API server saw it.
async fn echo(request: http::Request<Incoming>) -> Reply {
    let header = |name: &str| -> Vec<String> {
        request.headers().get_all(name).iter().map(|value| value.to_str().unwrap().to_owned()).collect()
    };
    let mut seen = json!({
        "kind": "Echo", "method": request.method().as_str(), "uri": request.uri().to_string(),
        "user": header("x-remote-user"), "groups": header("x-remote-group"), "authorization": header("authorization"),
    });
    seen["body"] = String::from_utf8_lossy(&https::body(request).await).into_owned().into();
    https::json(200, &seen)
}

/// Two events, the second of which comes later.
fn stream() -> Reply {
    let events = futures::stream::unfold(0, |n| async move {
        match n {
            2 => std::future::pending().await,
            1 => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
            _ => {}
        }
        let line = json!({"type": "ADDED", "object": {"kind": "Fish", "n": n}}).to_string() + "\n";
        Some((Ok(Frame::data(Bytes::from(line))), n + 1))
    });
    http::Response::builder()
        .header("content-type", "application/json")
        .body(BodyExt::boxed(StreamBody::new(sync_wrapper(events.boxed()))))
        .unwrap()
}

/// A stream that may be shared, as the body of a reply must be.
fn sync_wrapper<T: Send + 'static>(
    mut stream: futures::stream::BoxStream<'static, T>,
) -> impl futures::Stream<Item = T> + Send + Sync {
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    tokio::spawn(async move {
        while let Some(item) = stream.next().await {
            if sender.send(item).await.is_err() {
                return;
            }
        }
    });
    let receiver = Arc::new(tokio::sync::Mutex::new(receiver));
    futures::stream::poll_fn(move |cx| match receiver.try_lock() {
        Ok(mut receiver) => receiver.poll_recv(cx),
        Err(_) => std::task::Poll::Pending,
    })
}

/// Accepts an upgrade and echoes each message.
fn upgrade(mut request: http::Request<Incoming>) -> Reply {
    tokio::spawn(async move {
        let Ok(upgraded) = hyper::upgrade::on(&mut request).await else { return };
        let (mut upgraded, mut buffer) = (TokioIo::new(upgraded), [0; 64]);
        while let Ok(read @ 1..) = upgraded.read(&mut buffer).await {
            upgraded.write_all(&buffer[..read]).await.ok();
            upgraded.flush().await.ok();
        }
    });
    let body = BodyExt::boxed(http_body_util::Empty::new());
    http::Response::builder()
        .status(101)
        .header("connection", "Upgrade")
        .header("upgrade", "echo")
        .body(body)
        .unwrap()
}

struct Sea {
    server: Handle,
    extension: Https,
    down: Arc<AtomicBool>,
}

impl Sea {
    /// A server and an extension API server that accepts only its front-proxy certificate.
    async fn start() -> Self {
        Self::with(Swagger::Good).await
    }

    async fn with(v2: Swagger) -> Self {
        let server = start_on(Options::default()).await;
        let mut client = Client::new(&server).await;
        let authentication =
            client.get("/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication").await;
        assert_eq!(authentication["data"]["requestheader-allowed-names"], "[\"front-proxy-client\"]");
        let ca = authentication["data"]["requestheader-client-ca-file"].as_str().unwrap();
        let down = Arc::new(AtomicBool::new(false));
        let state = Arc::clone(&down);
        let extension = Https::start(&["sea.default.svc"], Some(ca), move |request| {
            extension(request, state.load(Ordering::SeqCst), v2)
        })
        .await;
        let service = json!({"metadata": {"name": "sea"}, "spec": {"type": "ExternalName", "externalName": "localhost"}});
        let made = client.call("POST", "/api/v1/namespaces/default/services", Some(&service)).await;
        assert_eq!(made.status, 201, "{}", String::from_utf8_lossy(&made.body));
        let object = json!({"metadata": {"name": NAME}, "spec": {
            "group": "sea.example.com", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 15,
            "caBundle": extension.ca, "service": {"namespace": "default", "name": "sea", "port": extension.port}}});
        let made = client.call("POST", SERVICES, Some(&object)).await;
        assert_eq!(made.status, 201, "{}", String::from_utf8_lossy(&made.body));
        assert_eq!(made.header("warning"), None);
        let sea = Self { server, extension, down };
        sea.becomes("True", "Passed").await;
        sea
    }

    /// Waits until a document of the server is as expected.
    async fn shows(&self, path: &str, expected: impl Fn(&Value) -> bool) {
        common::eventually_async(path, async || expected(&Client::new(&self.server).await.get(path).await))
            .await;
    }

    async fn has_openapi_v3(&self) {
        self.shows("/openapi/v3", |index| index["paths"]["apis/sea.example.com/v1"].is_object()).await;
    }

    async fn becomes(&self, status: &str, reason: &str) {
        common::until(&self.server, &format!("{SERVICES}/{NAME}"), |object| {
            object.is_some_and(|object| {
                let condition = &object["status"]["conditions"][0];
                condition["type"] == "Available"
                    && condition["status"] == status
                    && condition["reason"] == reason
            })
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_forwarded_with_the_identity_of_the_user() {
    let sea = Sea::start().await;
    let mut client = Client::new(&sea.server).await;
    let body = json!({"kind": "Fish", "metadata": {"name": "a"}});
    let answer = client.call("POST", &format!("{FISHES}?dryRun=All"), Some(&body)).await;
    let seen = answer.json();
    assert_eq!(
        (answer.status, &seen["method"], &seen["uri"]),
        (200, &json!("POST"), &json!(format!("{FISHES}?dryRun=All")))
    );
    assert_eq!(seen["user"], json!(["kubernetes-admin"]), "{seen}");
    assert!(seen["groups"].as_array().unwrap().contains(&json!("system:masters")));
    assert_eq!((&seen["authorization"], &seen["body"]), (&json!([]), &json!(body.to_string())));
    for _ in 0..5 {
        assert_eq!(client.call("GET", &format!("{FISHES}/a"), None).await.status, 200);
    }
    assert!(sea.extension.connections.load(Ordering::SeqCst) <= 3, "connections are kept");
}

/// A request without the name of the resource was authorized like discovery, which all users may read, and forwarded.
#[tokio::test(flavor = "multi_thread")]
async fn requests_without_a_resource_are_not_forwarded_by_rights_to_paths() {
    let sea = Sea::start().await;
    let mut client = Client::new(&sea.server).await;
    for (path, expected) in [
        ("/apis/sea.example.com/v1", 200),
        (FISHES, 403),
        ("/apis/sea.example.com/v1//namespaces/default/fishes", 403),
        ("/apis/sea.example.com/v1/namespaces/default//fishes", 403),
        ("/api/v1//secrets", 403),
    ] {
        client.send("GET", path, "impersonate-user: eve\r\n", "").await;
        assert_eq!(client.answer().await.status, expected, "{path}");
    }
    let unnamed = client.call("GET", "/apis/sea.example.com/v1//fishes", None).await;
    assert_eq!(unnamed.status, 200, "a right to all resources includes it");
}

#[tokio::test(flavor = "multi_thread")]
async fn discovery_and_openapi_show_what_the_extension_serves() {
    let sea = Sea::start().await;
    let mut client = Client::new(&sea.server).await;
    let groups = client.get("/apis").await;
    let group =
        groups["groups"].as_array().unwrap().iter().find(|group| group["name"] == "sea.example.com").unwrap();
    assert_eq!(group["preferredVersion"]["groupVersion"], "sea.example.com/v1");
    assert_eq!(client.get("/apis/sea.example.com").await["versions"][0]["version"], "v1");
    assert_eq!(client.get("/apis/sea.example.com/v1").await["resources"][0]["name"], "fishes");
    let accept = "accept: application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList\r\n";
    client.send("GET", "/apis", accept, "").await;
    let whole = client.answer().await.json();
    let group = whole["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|group| group["metadata"]["name"] == "sea.example.com")
        .unwrap();
    let version = &group["versions"][0];
    assert_eq!(
        (&version["freshness"], &version["resources"][0]["resource"]),
        (&json!("Current"), &json!("fishes"))
    );
    assert_eq!(
        version["resources"][0]["responseKind"],
        json!({"group": "sea.example.com", "version": "v1", "kind": "Fish"})
    );
    assert_eq!(version["resources"][0]["subresources"][0]["subresource"], "status");
    sea.has_openapi_v3().await;
    let index = client.get("/openapi/v3").await;
    let url = index["paths"]["apis/sea.example.com/v1"]["serverRelativeURL"].as_str().unwrap();
    assert_eq!(url, "/openapi/v3/apis/sea.example.com/v1?hash=ABC");
    assert_eq!(client.get(url).await["info"]["title"], "sea");
}

/// `kubectl explain` and Helm before OpenAPI v3 did not find the kinds of extension API servers.
#[tokio::test(flavor = "multi_thread")]
async fn openapi_v2_has_the_part_of_the_extension() {
    const FISH: &str = "/apis/sea.example.com/v1/fishes";
    let sea = Sea::start().await;
    let mut client = Client::new(&sea.server).await;
    sea.shows("/openapi/v2", |seen| seen["paths"][FISH].is_object()).await;
    let whole = client.get("/openapi/v2").await;
    assert_eq!(whole["info"]["title"], "Kubernetes");
    assert_ne!(whole["paths"]["/api/v1/pods"]["get"]["description"], "not its own");
    let meta = &whole["definitions"]["sea.Fish"]["properties"]["metadata"]["$ref"];
    assert_eq!(*meta, "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta_v2");
    let own = &whole["definitions"]["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"];
    assert!(own["properties"]["name"].is_object());
    let accept = "accept: application/com.github.proto-openapi.spec.v2.v1.0+protobuf\r\n";
    client.send("GET", "/openapi/v2", accept, "").await;
    let protobuf = client.answer().await;
    assert!(protobuf.body.windows(FISH.len()).any(|part| part == FISH.as_bytes()));
    assert_eq!(client.call("DELETE", &format!("{SERVICES}/{NAME}"), None).await.status, 200);
    sea.shows("/openapi/v2", |seen| seen["paths"][FISH].is_null()).await;
}

/// The document is untrusted: with any content, the extension is available and the server's own document is
/// complete.
#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_openapi_document_of_an_extension_is_left_out() {
    for v2 in [Swagger::Malformed, Swagger::Huge, Swagger::Never] {
        let sea = Sea::with(v2).await;
        let mut client = Client::new(&sea.server).await;
        sea.has_openapi_v3().await;
        assert_eq!(client.call("GET", FISHES, None).await.status, 200, "{v2:?}");
        let answer = client.call("GET", "/openapi/v2", None).await;
        assert!(!answer.body.windows(8).any(|part| part == b"sea.Fish"), "{v2:?}");
        assert!(answer.body.len() > 1 << 20, "{v2:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_pass_as_they_come() {
    let sea = Sea::start().await;
    let mut watcher = Client::new(&sea.server).await;
    watcher.send("GET", &format!("{FISHES}?watch=true"), "", "").await;
    assert_eq!(watcher.head().await.0, 200);
    for n in 0..2 {
        let event: Value = serde_json::from_slice(&watcher.chunk().await.unwrap()).unwrap();
        assert_eq!(event["object"]["n"], n);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgraded_connection_passes_bytes_both_ways() {
    let sea = Sea::start().await;
    let mut client = Client::new(&sea.server).await;
    let headers = "connection: Upgrade\r\nupgrade: echo\r\n";
    client.send("GET", &format!("{FISHES}/a/exec"), headers, "").await;
    let (status, head) = client.head().await;
    assert_eq!(status, 101, "{head}");
    for message in ["hello", "again"] {
        client.raw(message.as_bytes()).await;
        let mut answer = [0; 5];
        client.stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, message.as_bytes());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extension_that_fails_is_unavailable_until_it_answers() {
    let sea = Sea::start().await;
    let mut client = Client::new(&sea.server).await;
    sea.down.store(true, Ordering::SeqCst);
    // Any change makes the server look again.
    let service = "/api/v1/namespaces/default/services/sea";
    let patch = json!({"metadata": {"labels": {"look": "again"}}}).to_string();
    client.send("PATCH", service, "content-type: application/merge-patch+json\r\n", &patch).await;
    assert_eq!(client.answer().await.status, 200);
    sea.becomes("False", "FailedDiscoveryCheck").await;
    let refused = client.call("GET", FISHES, None).await;
    assert_eq!((refused.status, &refused.body[..]), (503, &b"service unavailable\n"[..]));
    sea.down.store(false, Ordering::SeqCst);
    sea.becomes("True", "Passed").await;
    assert_eq!(client.call("GET", FISHES, None).await.status, 200);
    assert_eq!(client.call("DELETE", service, None).await.status, 200);
    sea.becomes("False", "ServiceNotFound").await;
    assert_eq!(client.call("DELETE", &format!("{SERVICES}/{NAME}"), None).await.status, 200);
    common::eventually("the group is gone", || sea.server.api().registry.served().has_group("apps")).await;
    while client.call("GET", FISHES, None).await.status != 404 {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_certificate_of_the_front_proxy_gets_in() {
    let sea = Sea::start().await;
    let tls = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates({
            use base64::Engine as _;
            use rustls::pki_types::pem::PemObject;
            let pem = base64::engine::general_purpose::STANDARD.decode(&sea.extension.ca).unwrap();
            let mut roots = rustls::RootCertStore::empty();
            roots.add(rustls::pki_types::CertificateDer::from_pem_slice(&pem).unwrap()).unwrap();
            roots
        })
        .with_no_client_auth();
    let stream = tokio::net::TcpStream::connect(("127.0.0.1", sea.extension.port)).await.unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(tls));
    let name = rustls::pki_types::ServerName::try_from("sea.default.svc").unwrap();
    let outcome = match connector.connect(name, stream).await {
        Err(_) => return,
        Ok(mut stream) => stream.read(&mut [0; 1]).await,
    };
    assert!(outcome.is_err(), "the extension lets strangers in, and the other tests prove nothing");
}
