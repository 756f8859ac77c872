//! A server of 20,000 prepared ConfigMaps over TLS: pages, one whole list, and initial events. Nothing else.

use std::io::Write as _;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

pub(crate) const OBJECTS: usize = 20_000;
const PAGE: usize = 500;

/// About 1.55 KB, with the managed fields that a real server adds.
pub(crate) fn config_map(number: usize) -> String {
    let payload = "x".repeat(1010);
    format!(
        r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"config-{number:06}","namespace":"team-{}","uid":"0f3d7c9a-1111-4222-8333-{number:012}","resourceVersion":"{}","creationTimestamp":"2026-11-15T10:00:00Z","labels":{{"app":"app-{}","tier":"backend"}},"managedFields":[{{"manager":"bench","operation":"Update","apiVersion":"v1","time":"2026-11-15T10:00:00Z","fieldsType":"FieldsV1","fieldsV1":{{"f:data":{{".":{{}},"f:payload":{{}}}},"f:metadata":{{"f:labels":{{".":{{}},"f:app":{{}},"f:tier":{{}}}}}}}}}}]}},"data":{{"payload":"{payload}"}}}}"#,
        number % 20,
        number + 1,
        number % 100,
    )
}

struct Prepared {
    items: Vec<String>,
    events: Vec<u8>,
}

fn prepare() -> Prepared {
    let items: Vec<String> = (0..OBJECTS).map(config_map).collect();
    let mut events = Vec::new();
    for item in &items {
        writeln!(events, r#"{{"type":"ADDED","object":{item}}}"#).unwrap();
    }
    let end = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"20000","creationTimestamp":null,"annotations":{"k8s.io/initial-events-end":"true"}}}"#;
    writeln!(events, r#"{{"type":"BOOKMARK","object":{end}}}"#).unwrap();
    Prepared { items, events }
}

/// Prints its port and the certificate's length and bytes in hex, then serves until it is killed.
pub(crate) fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let key = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.signing_key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(
            tokio_rustls::rustls::crypto::ring::default_provider(),
        ))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![key.cert.der().clone()], private)
        .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let prepared = Arc::new(prepare());
        println!("{}", listener.local_addr().unwrap().port());
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let (acceptor, prepared) = (acceptor.clone(), Arc::clone(&prepared));
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(socket).await {
                    let _ = serve(stream, &prepared).await;
                }
            });
        }
    });
}

async fn serve<S: AsyncReadExt + AsyncWriteExt + Unpin>(
    mut stream: S,
    prepared: &Prepared,
) -> std::io::Result<()> {
    let mut request = Vec::new();
    loop {
        let mut buffer = [0; 4096];
        let read = stream.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        request.extend_from_slice(&buffer[..read]);
        if !request.windows(4).any(|w| w == b"\r\n\r\n") {
            continue;
        }
        let line = String::from_utf8_lossy(&request).lines().next().unwrap_or_default().to_owned();
        request.clear();
        if line.contains("sendInitialEvents=true") {
            let head =
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
            stream.write_all(head.as_bytes()).await?;
            for chunk in prepared.events.chunks(16 << 10) {
                stream.write_all(format!("{:x}\r\n", chunk.len()).as_bytes()).await?;
                stream.write_all(chunk).await?;
                stream.write_all(b"\r\n").await?;
            }
            stream.flush().await?;
            std::future::pending::<()>().await;
        }
        if line.contains("watch=") {
            let head =
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
            stream.write_all(head.as_bytes()).await?;
            stream.flush().await?;
            std::future::pending::<()>().await;
        }
        let value = |key: &str| {
            let from = line.find(&format!("{key}="))? + key.len() + 1;
            line[from..].split(['&', ' ']).next()?.parse::<usize>().ok()
        };
        let start = value("continue").unwrap_or(0);
        let limit = value("limit").filter(|limit| *limit > 0).map_or(OBJECTS, |limit| limit.min(PAGE));
        let end = (start + limit).min(OBJECTS);
        let next = if end < OBJECTS { format!(r#","continue":"{end}""#) } else { String::new() };
        let body = format!(
            r#"{{"kind":"ConfigMapList","apiVersion":"v1","metadata":{{"resourceVersion":"20000"{next}}},"items":[{}]}}"#,
            prepared.items[start..end].join(",")
        );
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(body.as_bytes()).await?;
        stream.flush().await?;
    }
}
