//! [`Proxy`]: an HTTP proxy between a client and a server that injects the faults of bad networks, overloaded servers and
//! load balancers.
//!
//! It uses plain HTTP towards the client, also in front of a TLS server, so that it can see where a watch event ends and
//! cut in the middle of one. A [`Plan`] assigns faults to requests, by script or from a seed. The faults are listed in
//! [`Fault`].

mod body;
mod fault;
mod plan;

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use body::Faulty;
pub use fault::{Fault, FaultAnswer, Place, Then};
pub use plan::{Odds, Plan, Rule};

/// A running proxy; connections through it end when it is dropped.
///
/// Its listener and connections are tasks of the runtime that it was started in. Nothing is bounded: the clients are
/// those of one test.
///
/// ```
/// use listwatch_testkit::proxy::{Fault, Plan, Rule};
/// use listwatch_testkit::{Proxy, TestServer};
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = TestServer::start().await?;
/// let refuse_one = Rule { requests_with: "/version", fault: Fault::Refuse };
/// let proxy = Proxy::start(server.config(), Plan::script([refuse_one])).await?;
/// let mut config = proxy.config();
/// config.default_retry = false;
/// let client = kube::Client::try_from(config)?;
/// assert!(client.apiserver_version().await.is_err(), "the first request is refused");
/// assert!(client.apiserver_version().await.is_ok(), "the script is used up");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<ProxyShared>,
    acceptor: JoinHandle<()>,
}

/// Everything that connections share.
#[derive(Debug)]
struct ProxyShared {
    upstream: Upstream,
    plan: Mutex<Plan>,
    /// Counts the calls of [`Proxy::cut_all`]: a connection ends when the number moves on.
    era: watch::Sender<u64>,
    requests: AtomicU64,
    faults: AtomicU64,
}

/// The client that forwards. Its own retries are off: the client under test must see every failure.
struct Upstream(kube::Client);

impl std::fmt::Debug for Upstream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Upstream")
    }
}

/// Ends a connection without a response: hyper drops the socket when the service fails.
#[derive(Debug, thiserror::Error)]
#[error("the proxy cut the connection")]
struct Cut;

impl Proxy {
    /// Starts a proxy in front of the server that `config` points to. It authenticates to the server itself.
    ///
    /// # Errors
    /// If no port is free or the configuration is of no use.
    pub async fn start(mut config: kube::Config, plan: Plan) -> io::Result<Self> {
        config.default_retry = false;
        config.read_timeout = None;
        let client = kube::Client::try_from(config).map_err(io::Error::other)?;
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(ProxyShared {
            upstream: Upstream(client),
            plan: Mutex::new(plan),
            era: watch::Sender::new(0),
            requests: AtomicU64::new(0),
            faults: AtomicU64::new(0),
        });
        let acceptor = tokio::spawn(accept(listener, shared.clone()));
        Ok(Self { address, shared, acceptor })
    }

    /// Returns a client configuration for the proxy: plain HTTP without credentials. The proxy adds those that it was
    /// started with.
    #[must_use]
    pub fn config(&self) -> kube::Config {
        let url = format!("http://{}", self.address).parse().unwrap_or_default();
        kube::Config::new(url)
    }

    /// Replaces the plan for all later requests; open streams follow the previous plan.
    pub fn set_plan(&self, plan: Plan) {
        *self.shared.plan.lock().unwrap_or_else(PoisonError::into_inner) = plan;
    }

    /// Cuts every connection there is, at once, as the restart of a load balancer does.
    ///
    /// Connections that come later are not affected.
    pub fn cut_all(&self) {
        self.shared.era.send_modify(|era| *era += 1);
    }

    /// No more faults, for streams that are open either: they are cut, so that the next ones are clean.
    pub fn heal(&self) {
        self.set_plan(Plan::none());
        self.cut_all();
    }

    /// Returns the number of requests that came, and how many of them met a fault. A test that expects faults should
    /// check that there were some.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        (self.shared.requests.load(Ordering::Relaxed), self.shared.faults.load(Ordering::Relaxed))
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.acceptor.abort();
        self.cut_all();
    }
}

/// Ends when the proxy is dropped.
async fn accept(listener: TcpListener, shared: Arc<ProxyShared>) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(connection(stream, shared.clone()));
    }
}

/// One connection of a client, until it ends or all are cut.
async fn connection(stream: TcpStream, shared: Arc<ProxyShared>) {
    let mut era = shared.era.subscribe();
    let serve = hyper::service::service_fn(|request| request_through(shared.clone(), request));
    let connection = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), serve);
    tokio::select! {
        // A connection that ends badly is this module's trade.
        _ = connection => {}
        _ = era.changed() => {}
    }
}

/// Serves one request with its fault. An error closes the connection without a response.
async fn request_through(
    shared: Arc<ProxyShared>,
    request: Request<Incoming>,
) -> Result<Response<Faulty>, Cut> {
    let fault = shared.plan.lock().unwrap_or_else(PoisonError::into_inner).next(request.uri());
    shared.requests.fetch_add(1, Ordering::Relaxed);
    shared.faults.fetch_add(u64::from(fault != Fault::None), Ordering::Relaxed);
    match fault {
        Fault::None => forward(&shared, request).await,
        Fault::Refuse => Err(Cut),
        Fault::Answer(answer) => answer.into_response().map_err(|_| Cut),
        Fault::Delay(time) => {
            tokio::time::sleep(time).await;
            forward(&shared, request).await
        }
        Fault::Break { place, then } => {
            Ok(forward(&shared, request).await?.map(|body| body.breaking(place, then)))
        }
    }
}

/// Sends a request to the server and its response back, without the headers that belong to one connection. Credentials
/// are those of the proxy.
///
/// Request bodies are collected first; responses are streamed, so a watch passes event by event.
async fn forward(shared: &ProxyShared, request: Request<Incoming>) -> Result<Response<Faulty>, Cut> {
    let (mut parts, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| Cut)?.to_bytes();
    for hop in [
        http::header::HOST,
        http::header::CONNECTION,
        http::header::CONTENT_LENGTH,
        http::header::AUTHORIZATION,
    ] {
        parts.headers.remove(hop);
    }
    let request = Request::from_parts(parts, kube::client::Body::from(body));
    let response = shared.upstream.0.send(request).await.map_err(|_| Cut)?;
    let (mut parts, body) = response.into_parts();
    // The body is framed again on the way to the client.
    for hop in [http::header::TRANSFER_ENCODING, http::header::CONNECTION, http::header::CONTENT_LENGTH] {
        parts.headers.remove(hop);
    }
    parts.version = http::Version::HTTP_11;
    Ok(Response::from_parts(parts, Faulty::whole(body)))
}
