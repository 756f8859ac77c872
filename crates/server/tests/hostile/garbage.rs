//! Requests that are nearly right, from a seeded generator: no panic, no hang, constant memory, and no 5xx for a client's
//! error.
//!
//! `LISTWATCH_SEED` and `LISTWATCH_REQUESTS` choose another run.

use std::sync::Arc;
use std::time::Duration;

use listwatch_server::{Handle, LifecycleOptions, Options, Security, Server};
use listwatch_storage::MemoryEngine;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::common::{Client, config_map};

/// A small generator of numbers, the same on every machine.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound.max(1) as u64).unwrap()
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn pick<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.below(of.len())]
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        (0..self.below(most)).map(|_| self.next() as u8).collect()
    }

    /// Some bytes changed, taken out, doubled or cut off.
    fn mutate(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len());
            match self.below(6) {
                0 if !bytes.is_empty() => bytes[at] = self.next() as u8,
                1 if !bytes.is_empty() => bytes[at] ^= 1 << self.below(8),
                2 => bytes.truncate(at),
                3 => {
                    let noise = self.bytes(8);
                    bytes.splice(at..at, noise);
                }
                4 => {
                    let end = (at + self.below(20)).min(bytes.len());
                    let part = bytes[at..end].to_vec();
                    bytes.splice(at..at, part);
                }
                _ => {
                    let token = self.pick(TOKENS).as_bytes().to_vec();
                    bytes.splice(at..at, token);
                }
            }
        }
    }

    /// A value that is JSON, though hardly ever what is expected.
    fn json(&mut self, depth: usize) -> String {
        match self.below(if depth == 0 { 5 } else { 8 }) {
            0 => self
                .pick(&["null", "true", "-0", "1e400", "9223372036854775808", "1.5", "0x10", "NaN"])
                .to_owned(),
            1 => format!("\"{}\"", self.pick(TOKENS).replace(['"', '\\'], "")),
            2 => format!("\"\\u{:04x}\"", self.below(0xffff)),
            3 => self.next().to_string(),
            4 => "\"\"".to_owned(),
            5 => {
                let items: Vec<String> = (0..self.below(4)).map(|_| self.json(depth - 1)).collect();
                format!("[{}]", items.join(","))
            }
            _ => {
                let fields: Vec<String> = (0..self.below(6))
                    .map(|_| format!("\"{}\":{}", self.pick(FIELDS), self.json(depth - 1)))
                    .collect();
                format!("{{{}}}", fields.join(","))
            }
        }
    }
}

const TOKENS: &[&str] = &[
    "",
    "a",
    "default",
    "\r\n",
    "\0",
    "%",
    "%00",
    "%2e%2e/",
    "../",
    "?",
    "&",
    "=",
    "!=",
    " in (",
    ")",
    ",",
    "==",
    "notin",
    "\u{feff}",
    "é",
    "\u{202e}",
    "{",
    "}",
    "[",
    "]",
    ":",
    "- ",
    "&a ",
    "*a",
    "<<: *a",
    "!!binary ",
    "---\n",
    "|-\n",
    "\t",
    "k8s\0",
    "AAAA",
    "eyJhbGciOiJub25lIn0.e30.",
    "$patch",
    "$setElementOrder/containers",
    "~1",
    "~0",
    "/-",
    "0",
    "-1",
    "1e9",
    "18446744073709551616",
    "Infinity",
    "content-length: 5\r\n",
    "transfer-encoding: chunked\r\n",
    "HTTP/1.1",
    "{.a[?(@.b)]}",
];

const FIELDS: &[&str] = &[
    "apiVersion",
    "kind",
    "metadata",
    "name",
    "generateName",
    "namespace",
    "labels",
    "annotations",
    "finalizers",
    "ownerReferences",
    "managedFields",
    "fieldsV1",
    "f:spec",
    "spec",
    "status",
    "data",
    "containers",
    "image",
    "env",
    "ports",
    "replicas",
    "selector",
    "matchLabels",
    "template",
    "rules",
    "resourceVersion",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "preconditions",
    "propagationPolicy",
    "op",
    "path",
    "from",
    "value",
    "items",
    "$patch",
    "versions",
    "schema",
    "openAPIV3Schema",
    "properties",
    "pattern",
    "x-kubernetes-validations",
    "rule",
    "names",
    "plural",
    "group",
    "scope",
    "additionalPrinterColumns",
    "jsonPath",
    "subjects",
    "roleRef",
    "verbs",
    "resources",
    "type",
    "clusterIP",
];

const PATHS: &[&str] = &[
    "/api/v1/namespaces/default/configmaps",
    "/api/v1/namespaces/default/configmaps/there",
    "/api/v1/namespaces",
    "/api/v1/namespaces/default",
    "/api/v1/namespaces/default/pods",
    "/api/v1/namespaces/default/pods/there",
    "/api/v1/namespaces/default/pods/there/status",
    "/api/v1/namespaces/default/pods/there/binding",
    "/api/v1/namespaces/default/pods/there/eviction",
    "/api/v1/namespaces/default/pods/there/log",
    "/api/v1/namespaces/default/pods/there/exec",
    "/api/v1/namespaces/default/pods/there/resize",
    "/api/v1/namespaces/default/services",
    "/api/v1/namespaces/default/services/there/proxy/x",
    "/api/v1/namespaces/default/serviceaccounts/there/token",
    "/apis/apps/v1/namespaces/default/deployments",
    "/apis/apps/v1/namespaces/default/deployments/there",
    "/apis/apps/v1/namespaces/default/deployments/there/scale",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/example.com/v1/namespaces/default/things",
    "/apis/example.com/v1/namespaces/default/things/there",
    "/apis/authorization.k8s.io/v1/subjectaccessreviews",
    "/apis/authentication.k8s.io/v1/tokenreviews",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "/apis/coordination.k8s.io/v1/leases",
    "/apis/certificates.k8s.io/v1/certificatesigningrequests",
    "/apis/batch/v1/namespaces/default/cronjobs",
    "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers",
    "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
    "/apis/networking.k8s.io/v1/namespaces/default/ingresses",
    "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
    "/api/v1/componentstatuses",
    "/api",
    "/apis",
    "/openapi/v2",
    "/openapi/v3",
    "/openapi/v3/apis/apps/v1",
    "/version",
    "/livez",
    "/readyz/etcd",
    "/metrics",
    "/debug/watches",
    "/console/",
    "/.well-known/openid-configuration",
    "/",
    "*",
];

const PARAMETERS: &[&str] = &[
    "labelSelector",
    "fieldSelector",
    "limit",
    "continue",
    "resourceVersion",
    "resourceVersionMatch",
    "watch",
    "timeoutSeconds",
    "allowWatchBookmarks",
    "sendInitialEvents",
    "dryRun",
    "fieldManager",
    "force",
    "fieldValidation",
    "pretty",
    "propagationPolicy",
    "gracePeriodSeconds",
    "orphanDependents",
    "includeObject",
    "timeout",
    "exclude",
    "verbose",
];

const VALUES: &[&str] = &[
    "",
    "a",
    "1",
    "0",
    "-1",
    "true",
    "false",
    "All",
    "a=b",
    "a!=b,c",
    "a in (b,c",
    "metadata.name=there",
    "spec.x=1",
    "NotOlderThan",
    "Exact",
    "Strict",
    "Warn",
    "Orphan",
    "99999999999999999999",
    "1s",
    "1h",
    "%ff",
    "%",
    "+",
    "metadata.name%21%3d",
    "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhIn0",
    "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiLi4vIn0",
];

const TYPES: &[&str] = &[
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/cbor",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "application/apply-patch+cbor",
    "text/plain",
    "application/json;stream=watch",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "*/*;q=0",
    ";;;",
    "multipart/form-data; boundary=",
    "application/vnd.kubernetes.protobuf;stream=watch",
];

const METHODS: &[&str] = &[
    "GET", "GET", "POST", "POST", "PUT", "PATCH", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "CONNECT",
    "get", "",
];

fn query(dice: &mut Dice) -> String {
    let mut query = "?dryRun=All".to_owned();
    for _ in 0..dice.below(4) {
        query += &format!("&{}={}", dice.pick(PARAMETERS), dice.pick(VALUES));
    }
    query
}

fn body(dice: &mut Dice) -> Vec<u8> {
    let whole = match dice.below(9) {
        0 => json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}}).to_string(),
        1 => json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
            .to_string(),
        2 => json!([{"op": "copy", "from": "/metadata", "path": "/data/x"}, {"op": "test", "path": "/data/k", "value": "v"}]).to_string(),
        3 => "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: there\ndata: {k: v}\n".to_owned(),
        4 => json!({"spec": {"containers": [{"name": "c", "$patch": "delete"}], "$setElementOrder/containers": [{"name": "c"}]}}).to_string(),
        5 => return [b"k8s\0\n\x0f\n\x02v1\x12\tConfigMap".to_vec(), dice.bytes(200)].concat(),
        6 => return dice.bytes(300),
        _ => dice.json(5),
    };
    let mut bytes = whole.into_bytes();
    if dice.one_in(2) {
        dice.mutate(&mut bytes);
    }
    bytes
}

/// One request, whole or not.
fn request(dice: &mut Dice, token: &str) -> Vec<u8> {
    let (method, path, query, body) = (dice.pick(METHODS), dice.pick(PATHS), query(dice), body(dice));
    let mut head = format!("{method} {path}{query} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n");
    for name in ["Content-Type", "Accept"] {
        if dice.one_in(2) {
            head += &format!("{name}: {}\r\n", dice.pick(TYPES));
        }
    }
    if dice.one_in(20) {
        head += &format!("Impersonate-User: {}\r\n", dice.pick(VALUES));
    }
    if dice.one_in(15) {
        head += "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n";
    }
    if dice.one_in(15) {
        head += "Expect: 100-continue\r\n";
    }
    let mut bytes = match dice.below(8) {
        0 => chunked(dice, &head, &body),
        1 => [format!("{head}\r\n").into_bytes(), body].concat(),
        2 => [format!("{head}Content-Length: {}\r\n\r\n", dice.next() % 5000).into_bytes(), body].concat(),
        _ => [format!("{head}Content-Length: {}\r\n\r\n", body.len()).into_bytes(), body].concat(),
    };
    if dice.one_in(3) {
        dice.mutate(&mut bytes);
    }
    bytes
}

fn chunked(dice: &mut Dice, head: &str, body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("{head}Transfer-Encoding: chunked\r\n\r\n").into_bytes();
    for chunk in body.chunks(dice.below(50) + 1) {
        let size = if dice.one_in(30) { dice.below(1 << 20) } else { chunk.len() };
        bytes.extend(format!("{size:x}{}\r\n", if dice.one_in(9) { ";a=b" } else { "" }).bytes());
        bytes.extend(chunk);
        bytes.extend(if dice.one_in(40) { b"\n\r".iter() } else { b"\r\n".iter() });
    }
    bytes.extend(b"0\r\n");
    bytes.extend(if dice.one_in(5) { b"x: y\r\n\r\n".as_slice() } else { b"\r\n" });
    bytes
}

/// Sends bytes, then nothing more; returns what came back before the server hung up.
async fn exchange(server: &Handle, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    let mut answer = Vec::new();
    let talk = async {
        // The server may have had enough of it before the end.
        let _ = stream.write_all(bytes).await;
        let _ = stream.shutdown().await;
        let _ = stream.take(4 << 20).read_to_end(&mut answer).await;
    };
    let told = tokio::time::timeout(Duration::from_secs(20), talk).await;
    assert!(told.is_ok(), "no end: {}", shown(bytes));
    answer
}

fn shown(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

/// Messages of responses with code 500 that kube-apiserver sends for the same requests, too.
const AS_THE_REFERENCE: &[&str] =
    &["The order in patch list", "unable to find api field in struct", "error decoding patch", "$patch"];

async fn start() -> Handle {
    let options = Options {
        security: Security::InsecureHttp,
        lifecycle: LifecycleOptions::off(),
        ..Options::default()
    };
    let server = Server::start(options, Arc::new(MemoryEngine::default())).await.unwrap();
    let mut client = Client::new(&server).await;
    let definition = json!({
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"}, "versions": [{
            "name": "v1", "served": true, "storage": true, "subresources": {"status": {}, "scale": {
                "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object",
                "properties": {"replicas": {"type": "integer"}, "name": {"type": "string", "pattern": "^a+$"}},
                "x-kubernetes-validations": [{"rule": "!has(self.name) || self.name.size() < 9"}]}}}},
        }]},
    });
    let pod = json!({"metadata": {"name": "there"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let deployment = json!({"metadata": {"name": "there"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template":
        {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    for (path, object) in [
        ("/api/v1/namespaces", json!({"metadata": {"name": "default"}})),
        ("/api/v1/namespaces/default/serviceaccounts", json!({"metadata": {"name": "default"}})),
        ("/api/v1/namespaces/default/serviceaccounts", json!({"metadata": {"name": "there"}})),
        ("/api/v1/namespaces/default/configmaps", config_map("there", "v")),
        ("/api/v1/namespaces/default/pods", pod),
        ("/apis/apps/v1/namespaces/default/deployments", deployment),
        ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition),
    ] {
        let answer = client.call("POST", path, Some(&object)).await;
        assert_eq!(answer.status, 201, "{}", String::from_utf8_lossy(&answer.body));
    }
    server
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn resident_kilobytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0");
    line.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_malformed_requests_get_errors_and_leave_the_server_healthy() {
    let (seed, requests) = (number("LISTWATCH_SEED", 14), number("LISTWATCH_REQUESTS", 10_000));
    let server = Arc::new(start().await);
    let token = server.admin_token().to_owned();
    let mut after_warming_up = 0;
    for part in 0..10 {
        let all = (0..8).map(|lane| {
            let (server, token) = (Arc::clone(&server), token.clone());
            tokio::spawn(async move {
                let mut faults = Vec::new();
                for n in 0..requests / 80 {
                    let mut dice = Dice(seed ^ ((part * 8 + lane) << 32) ^ n);
                    let bytes = request(&mut dice, &token);
                    let answer = exchange(&server, &bytes).await;
                    let text = String::from_utf8_lossy(&answer);
                    let blames_itself = ["500", "502", "503", "504"]
                        .iter()
                        .any(|code| text.contains(&format!("HTTP/1.1 {code}")));
                    // The Service that exists has no endpoints, and HEAD gets no message.
                    let sent = String::from_utf8_lossy(&bytes);
                    let has_no_endpoints = text.contains("HTTP/1.1 503")
                        && sent.contains("services/")
                        && sent.contains("/proxy");
                    let is_known = AS_THE_REFERENCE.iter().any(|known| text.contains(known));
                    if blames_itself && !has_no_endpoints && !is_known {
                        faults.push(format!(
                            "{}\n  → {}",
                            shown(&bytes),
                            text.chars().take(600).collect::<String>()
                        ));
                    }
                }
                faults
            })
        });
        let faults: Vec<String> =
            futures::future::join_all(all).await.into_iter().flat_map(|lane| lane.unwrap()).collect();
        assert!(faults.is_empty(), "seed {seed}: {} requests:\n{}", faults.len(), faults.join("\n"));
        if part == 2 {
            after_warming_up = resident_kilobytes();
        }
    }
    let mut client = Client::new(&server).await;
    let metrics = String::from_utf8(client.call("GET", "/metrics", None).await.body).unwrap();
    assert!(metrics.contains("listwatch_request_panics_total 0\n"), "a handler panicked");
    assert_eq!(client.call("GET", "/livez", None).await.status, 200);
    assert_eq!(client.call("GET", "/api/v1/namespaces/default/configmaps/there", None).await.status, 200);
    let grown = resident_kilobytes().saturating_sub(after_warming_up);
    assert!(grown < 64 << 10, "{grown} KB more than after the first third");
}

/// A frame of HTTP/2, of which little may be right.
fn frame(dice: &mut Dice) -> Vec<u8> {
    let payload = dice.bytes(60);
    let length = if dice.one_in(10) { dice.below(1 << 24) } else { payload.len() };
    let stream = if dice.one_in(4) { 0 } else { dice.below(12) as u32 };
    let mut frame = (length as u32).to_be_bytes()[1..].to_vec();
    frame.extend([dice.below(12) as u8, dice.next() as u8]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broken_frames_end_their_own_connection_only() {
    let seed = number("LISTWATCH_SEED", 14);
    let options = Options { lifecycle: LifecycleOptions::off(), ..Options::default() };
    let server = Arc::new(Server::start(options, Arc::new(MemoryEngine::default())).await.unwrap());
    let mut roots = tokio_rustls::rustls::RootCertStore::empty();
    use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
    roots.add(CertificateDer::from_pem_slice(server.ca_pem().unwrap().as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let mut config = tokio_rustls::rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let lanes = (0..4).map(|lane| {
        let (server, connector) = (Arc::clone(&server), connector.clone());
        tokio::spawn(async move {
            for n in 0..60 {
                let mut dice = Dice(seed ^ (lane << 40) ^ n);
                let stream = TcpStream::connect(server.address()).await.unwrap();
                let mut stream =
                    connector.connect(ServerName::from(server.address().ip()), stream).await.unwrap();
                let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
                (0..dice.below(30)).for_each(|_| bytes.extend(frame(&mut dice)));
                if dice.one_in(5) {
                    dice.mutate(&mut bytes);
                }
                let talk = async {
                    let _ = stream.write_all(&bytes).await;
                    let _ = stream.shutdown().await;
                    let _ = stream.read_to_end(&mut Vec::new()).await;
                };
                assert!(
                    tokio::time::timeout(Duration::from_secs(20), talk).await.is_ok(),
                    "{}",
                    shown(&bytes)
                );
            }
        })
    });
    for lane in futures::future::join_all(lanes).await {
        lane.unwrap();
    }
    assert!(futures::FutureExt::now_or_never(server.failed()).is_none(), "a task ended");
}
