//! [`client`]: a `kube::Client` made for long-lived watches.
//!
//! With HTTP/2, all requests and watches share one connection, and pings detect a dead peer within 45 s. With HTTP/1.1,
//! each watch has its own connection, and TCP keep-alives together with the socket's user timeout detect a dead peer or
//! network. A server process that hangs while its kernel still answers is detected by silence: no bookmark for
//! [`watch_idle`](crate::ReflectorOptions::watch_idle). In all cases the reflector sees the failure and decides how to
//! recover; there is no retry layer below it.

use std::time::Duration;

use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ConfigExt};
use kube::{Client, Config, Error};
use tower::ServiceBuilder;

/// Options of a client's connections, and of the detection of dead peers.
///
/// A watch has no traffic for minutes, and TCP alone reports a dead peer after a quarter of an hour. These bounds
/// detect it earlier.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct TransportOptions {
    /// Share one connection by HTTP/2 if the server offers it. Default true.
    pub http2: bool,
    /// The idle time after which a peer is probed, by an HTTP/2 ping or a TCP keep-alive. Default 30 s.
    pub idle: Duration,
    /// The time it may take to answer before the connection is given up. Default 15 s, so that a dead peer is found
    /// within 45 s, as in client-go.
    pub answer_within: Duration,
    /// The bytes the server may send ahead on one watch or list, with HTTP/2. Default 2 MiB: a full page is not held up by the
    /// round trip.
    pub stream_window: u32,
    /// The bytes it may send ahead on all of them together. Default 32 MiB: a few streams that are not read do not block the
    /// others.
    pub connection_window: u32,
}

impl Default for TransportOptions {
    fn default() -> Self {
        Self {
            http2: true,
            idle: Duration::from_secs(30),
            answer_within: Duration::from_secs(15),
            stream_window: 2 << 20,
            connection_window: 32 << 20,
        }
    }
}

/// The most keep-alives that a peer may leave unanswered.
const PROBES: u32 = 3;

/// Returns a client with the default [`TransportOptions`].
///
/// ```no_run
/// use k8s_openapi::api::core::v1::Pod;
/// use listwatch::SharedInformer;
/// use listwatch::kube::KubeSource;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let config = kube::Config::infer().await?; // the kubeconfig, or the service account of the Pod
/// let informer = SharedInformer::<Pod>::new(KubeSource::of::<Pod>(listwatch::kube::client(config)?));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// As [`client_with`].
pub fn client(config: Config) -> Result<Client, Error> {
    client_with(config, TransportOptions::default())
}

/// Returns a client without retries and without a read timeout: the reflector has a deadline for every request and
/// stream, honours `Retry-After`, resumes, and reports.
///
/// A configuration that names a proxy gets `kube`'s own transport.
///
/// # Errors
/// As [`kube::Client::try_from`] with this configuration.
pub fn client_with(mut config: Config, options: TransportOptions) -> Result<Client, Error> {
    config.default_retry = false;
    config.read_timeout = None;
    if config.proxy_url.is_some() {
        return Client::try_from(config);
    }
    let connector = connector(&config, options)?;
    let mut http = HttpClient::builder(TokioExecutor::new());
    http.timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .http2_keep_alive_interval(options.idle)
        .http2_keep_alive_timeout(options.answer_within)
        .http2_initial_stream_window_size(options.stream_window)
        .http2_initial_connection_window_size(options.connection_window);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(tower::BoxError::from)
        .service(http.build::<_, Body>(connector));
    Ok(Client::new(service, config.default_namespace))
}

/// The TCP and TLS part of the transport, with keep-alives that find a dead peer within `idle` plus `answer_within`.
fn connector(config: &Config, options: TransportOptions) -> Result<HttpsConnector<HttpConnector>, Error> {
    let tcp = tcp(config, options);
    let mut tls =
        HttpsConnectorBuilder::new().with_tls_config(config.rustls_client_config()?).https_or_http();
    if let Some(name) = &config.tls_server_name {
        let name = name.clone().try_into().map_err(|error| Error::Service(Box::new(error)))?;
        tls = tls.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    let tls = tls.enable_http1();
    Ok(if options.http2 { tls.enable_http2().wrap_connector(tcp) } else { tls.wrap_connector(tcp) })
}

/// Returns a connector whose sockets detect a dead peer, by keep-alives while idle and by the user timeout while data
/// is in flight.
fn tcp(config: &Config, options: TransportOptions) -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(config.connect_timeout);
    tcp.set_keepalive(Some(options.idle));
    tcp.set_keepalive_interval(Some(options.answer_within / PROBES));
    tcp.set_keepalive_retries(Some(PROBES));
    // Keep-alives are sent only while no data is in flight. Without this, a request to a dead peer is retransmitted for a
    // quarter of an hour. Other systems have no such option; there, the reflector's own deadlines end the request.
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    tcp.set_tcp_user_timeout(Some(options.idle + options.answer_within));
    tcp
}

#[cfg(all(test, target_os = "linux"))]
#[allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]
mod tests {
    use hyper_util::rt::TokioIo;
    use rustix::net::sockopt;
    use tokio::net::{TcpListener, TcpStream};
    use tower::Service;

    use super::*;

    /// The time within which a dead peer is detected.
    const NOTICED_WITHIN: Duration = Duration::from_secs(45);

    async fn listen() -> (TcpListener, Config) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        (listener, Config::new(url.parse().unwrap()))
    }

    #[tokio::test]
    async fn sockets_give_up_a_silent_peer_within_45_seconds() {
        let (_listener, config) = listen().await;
        let mut tcp = tcp(&config, TransportOptions::default());
        let socket: TokioIo<TcpStream> = tcp.call(config.cluster_url.clone()).await.unwrap();
        let socket = socket.inner();
        assert!(sockopt::socket_keepalive(socket).unwrap());
        let probes = sockopt::tcp_keepintvl(socket).unwrap() * sockopt::tcp_keepcnt(socket).unwrap();
        assert!(sockopt::tcp_keepidle(socket).unwrap() + probes <= NOTICED_WITHIN);
        let unanswered = Duration::from_millis(sockopt::tcp_user_timeout(socket).unwrap().into());
        assert!(!unanswered.is_zero() && unanswered <= NOTICED_WITHIN, "{unanswered:?}");
    }

    /// A request was on its way when the peer stopped taking bytes. Its system still answered for it, so that keep-alives said
    /// nothing, and the request would have been sent again for a quarter of an hour.
    #[tokio::test]
    async fn a_request_to_a_peer_that_takes_no_bytes_ends() {
        let (listener, config) = listen().await;
        let (idle, answer_within) = (Duration::from_millis(500), Duration::from_millis(500));
        let options = TransportOptions { idle, answer_within, ..TransportOptions::default() };
        let client = client_with(config, options).unwrap();
        let accepted = tokio::spawn(async move { listener.accept().await.unwrap() });
        // More than the buffers of both ends take.
        let request = http::Request::post("/").body(vec![0; 64 << 20]).unwrap();
        let ended = tokio::time::timeout(Duration::from_secs(30), client.request_text(request)).await;
        assert!(ended.expect("it ends").is_err());
        drop(accepted.await.unwrap());
    }
}
