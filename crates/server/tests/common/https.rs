//! A small HTTPS server for what the API server calls: webhooks and extension API servers.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::convert::Infallible;
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
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

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
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        let acceptor = TlsAcceptor::from(Arc::new(config));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                let (acceptor, handler) = (acceptor.clone(), Arc::clone(&handler));
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let service = service_fn(move |request| {
                        let reply = handler(request);
                        async move { Ok::<_, Infallible>(reply.await) }
                    });
                    let connection = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service);
                    let _ = connection.with_upgrades().await;
                });
            }
        });
        Self { port, ca: STANDARD.encode(identity.cert.pem()), connections }
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
