//! A small HTTPS server for what the API server calls: webhooks and extension API servers.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::convert::Infallible;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::future::BoxFuture;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

pub(crate) type Reply = http::Response<BoxBody<Bytes, Infallible>>;
type Handler = Arc<dyn Fn(http::Request<Incoming>) -> BoxFuture<'static, Reply> + Send + Sync>;

/// A server on the loopback interface, with a certificate of its own.
pub(crate) struct Https {
    pub(crate) port: u16,
    /// Its certificate, for `caBundle`.
    pub(crate) ca: String,
    pub(crate) connections: Arc<AtomicUsize>,
}

impl Https {
    /// Starts it under the given names. With a CA, clients must show a certificate of that CA.
    pub(crate) async fn start<F>(
        names: &[&str],
        client_ca: Option<&str>,
        handler: impl Fn(http::Request<Incoming>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Reply> + Send + 'static,
    {
        let handler: Handler = Arc::new(move |request| Box::pin(handler(request)));
        Self::accept(names, client_ca, move |stream| {
            let handler = Arc::clone(&handler);
            async move {
                let service = service_fn(move |request| {
                    let reply = handler(request);
                    async move { Ok::<_, Infallible>(reply.await) }
                });
                let connection = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service);
                let _ = connection.with_upgrades().await;
            }
        })
        .await
    }

    /// Starts one that reads a request and hangs up after these bytes, without a closing alert.
    pub(crate) async fn abrupt(answer: impl Fn(&[u8]) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let answer = Arc::new(answer);
        Self::accept(&["127.0.0.1"], None, move |mut stream| {
            let answer = Arc::clone(&answer);
            async move {
                let request = whole_request(&mut stream).await;
                let _ = stream.write_all(&answer(&request)).await;
                let _ = stream.flush().await;
                let _ = stream.get_mut().0.shutdown().await;
            }
        })
        .await
    }

    /// Starts one that counts its connections and leaves each to a task.
    pub(crate) async fn accept<F>(
        names: &[&str],
        client_ca: Option<&str>,
        serve: impl Fn(TlsStream<TcpStream>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (listener, acceptor, ca) = listen(names, client_ca).await;
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        let serve = Arc::new(serve);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                let (acceptor, serve) = (acceptor.clone(), Arc::clone(&serve));
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    serve(stream).await;
                });
            }
        });
        Self { port, ca, connections }
    }
}

/// A listener on the loopback interface, its TLS, and its certificate for `caBundle`.
async fn listen(names: &[&str], client_ca: Option<&str>) -> (TcpListener, TlsAcceptor, String) {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let identity = rcgen::generate_simple_self_signed(names).unwrap();
    let key = PrivateKeyDer::try_from(identity.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap();
    let config = match client_ca {
        None => config.with_no_client_auth(),
        Some(pem) => {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            config.with_client_cert_verifier(verifier.build().unwrap())
        }
    };
    let config = config.with_single_cert(vec![identity.cert.der().clone()], key).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    (listener, TlsAcceptor::from(Arc::new(config)), STANDARD.encode(identity.cert.pem()))
}

/// The body of a request that has a length.
async fn whole_request(stream: &mut (impl AsyncRead + Unpin)) -> Vec<u8> {
    let mut read = Vec::new();
    loop {
        if let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&read[..end]).to_lowercase();
            let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
            let length: usize = length.map_or(0, |length| length.trim().parse().unwrap());
            if read.len() >= end + 4 + length {
                return read.split_off(end + 4);
            }
        }
        if stream.read_buf(&mut read).await.unwrap_or(0) == 0 {
            return read;
        }
    }
}

/// The whole body of a request.
pub(crate) async fn body(request: http::Request<Incoming>) -> Bytes {
    request.into_body().collect().await.unwrap().to_bytes()
}

/// A reply with a JSON document.
pub(crate) fn json(code: u16, document: &serde_json::Value) -> Reply {
    text(code, document.to_string())
}

/// A reply that claims to be JSON.
pub(crate) fn text(code: u16, body: String) -> Reply {
    let body = Full::new(Bytes::from(body)).boxed();
    http::Response::builder().status(code).header("content-type", "application/json").body(body).unwrap()
}

/// A reply that leads to another path.
pub(crate) fn redirect(to: &str) -> Reply {
    http::Response::builder().status(307).header("location", to).body(Full::default().boxed()).unwrap()
}

/// A reply with compressed JSON.
pub(crate) fn gzip(body: &str) -> Reply {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(body.as_bytes()).unwrap();
    let body = Full::new(Bytes::from(gzip.finish().unwrap())).boxed();
    http::Response::builder().header("content-encoding", "gzip").body(body).unwrap()
}
