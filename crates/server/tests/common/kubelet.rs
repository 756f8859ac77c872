//! A kubelet and a Pod for tests: HTTPS for those with a certificate of the server's CA, logs, tunnels that echo, a command that
//! speaks SPDY, and a plain HTTP server that reports the requests it received.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::convert::Infallible;
use std::io::Read as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use bytes::Bytes;
use futures::stream;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Empty, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::https::{Https, Reply};

/// A masked WebSocket frame with a short payload, as clients send it.
pub(crate) fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
    let mask = [1, 2, 3, 4];
    let bytes = payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask);
    [first, 0x80 | payload.len() as u8].into_iter().chain(mask).chain(bytes).collect()
}

#[derive(Default)]
struct Seen {
    target: Mutex<String>,
    headers: Mutex<HeaderMap>,
    credentials: Mutex<Vec<String>>,
    code: AtomicU16,
    more: Notify,
    hang_up: Notify,
}

/// A kubelet, and a Pod on its node.
pub(crate) struct FakeKubelet {
    server: Https,
    pod_port: u16,
    seen: Arc<Seen>,
}

impl FakeKubelet {
    /// Starts both. The kubelet accepts client certificates of this CA.
    pub(crate) async fn start(client_ca: &str) -> Self {
        let seen = Arc::<Seen>::default();
        let of_connection = Arc::clone(&seen);
        let server = Https::accept(&["127.0.0.1"], Some(client_ca), move |stream| {
            let seen = Arc::clone(&of_connection);
            async move {
                let certificate = stream.get_ref().1.peer_certificates().unwrap()[0].clone();
                let (_, certificate) = X509Certificate::from_der(&certificate).unwrap();
                let name = certificate.subject().iter_common_name().next().unwrap();
                let name = name.as_str().unwrap().to_owned();
                serve(stream, move |request| kubelet(Arc::clone(&seen), name.clone(), request)).await;
            }
        })
        .await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let pod_port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, pod));
            }
        });
        Self { server, pod_port, seen }
    }

    pub(crate) fn port(&self) -> u16 {
        self.server.port
    }

    /// The port on which the Pod listens.
    pub(crate) fn pod_port(&self) -> u16 {
        self.pod_port
    }

    /// The target of the last request.
    pub(crate) fn last_target(&self) -> String {
        self.seen.target.lock().clone()
    }

    /// A header of the last request.
    pub(crate) fn header(&self, name: &str) -> String {
        self.seen.headers.lock().get(name).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default()
    }

    /// The bearer tokens and the like that it was shown.
    pub(crate) fn credentials(&self) -> Vec<String> {
        self.seen.credentials.lock().clone()
    }

    /// Writes another line into the log that is followed.
    pub(crate) fn more(&self) {
        self.seen.more.notify_one();
    }

    /// Answers requests for earlier logs with this code.
    pub(crate) fn fail_with(&self, code: u16) {
        self.seen.code.store(code, Ordering::SeqCst);
    }

    /// Closes all tunnels.
    pub(crate) fn hang_up(&self) {
        self.seen.hang_up.notify_waiters();
    }

    /// The result of the command that it runs.
    pub(crate) fn exit_status() -> String {
        json!({"metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
            "message": "command terminated with non-zero exit code: exit status 3",
            "details": {"causes": [{"reason": "ExitCode", "message": "3"}]}})
        .to_string()
    }
}

async fn serve<S, F>(stream: S, handler: impl Fn(Request<Incoming>) -> F + Clone)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Future<Output = Reply>,
{
    let service = service_fn(move |request| {
        let reply = handler(request);
        async move { Ok::<_, Infallible>(reply.await) }
    });
    let connection =
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    let _ = connection.with_upgrades().await;
}

fn text(code: u16, body: String) -> Reply {
    Response::builder().status(code).body(Full::new(Bytes::from(body)).boxed()).unwrap()
}

async fn kubelet(seen: Arc<Seen>, user: String, request: Request<Incoming>) -> Reply {
    let target = request.uri().to_string();
    *seen.target.lock() = target.clone();
    *seen.headers.lock() = request.headers().clone();
    for name in ["authorization", "impersonate-user", "x-remote-user"] {
        seen.credentials.lock().extend(request.headers().get(name).map(|_| name.to_owned()));
    }
    if request.headers().contains_key("upgrade") {
        return upgrade(seen, request);
    }
    if target.contains("previous=true") {
        let body = "previous terminated container \"a\" in pod \"p\" not found".to_owned();
        let mut reply = text(seen.code.load(Ordering::SeqCst), body);
        reply.headers_mut().insert("location", "/elsewhere".parse().unwrap());
        return reply;
    }
    if target.contains("follow=true") {
        return follow(seen);
    }
    text(200, format!("{} {target} as {user}\n", request.method()))
}

/// A line at once, and another whenever the test says so.
fn follow(seen: Arc<Seen>) -> Reply {
    let lines = stream::unfold((0, seen), |(n, seen)| async move {
        if n > 0 {
            seen.more.notified().await;
        }
        Some((Ok(Frame::data(Bytes::from(format!("line {n}\n")))), (n + 1, seen)))
    });
    let body =
        StreamBody::new(Box::pin(lines) as std::pin::Pin<Box<dyn futures::Stream<Item = _> + Send + Sync>>);
    Response::new(BodyExt::boxed(body))
}

/// Accepts an upgrade: a command or a forwarded port for those who offer kubectl's protocols, an echo for the others.
fn upgrade(seen: Arc<Seen>, mut request: Request<Incoming>) -> Reply {
    let protocol = request.headers().get("upgrade").unwrap().clone();
    let version = request.headers().get("x-stream-protocol-version").cloned();
    let is_websocket = protocol == "websocket";
    let version_text =
        version.as_ref().map(|version| version.to_str().unwrap().to_owned()).unwrap_or_default();
    let is_raw = is_websocket || request.headers().contains_key("x-echo");
    let reply = Response::builder().status(101).header("connection", "Upgrade").header("upgrade", protocol);
    let reply = match version {
        Some(version) => reply.header("x-stream-protocol-version", version),
        None => reply,
    };
    tokio::spawn(async move {
        let Ok(upgraded) = hyper::upgrade::on(&mut request).await else { return };
        let upgraded = TokioIo::new(upgraded);
        tokio::select! {
            () = seen.hang_up.notified() => {}
            () = async {
                match version_text.as_str() {
                    "v5.channel.k8s.io" if !is_raw => command(upgraded).await,
                    "portforward.k8s.io" if !is_raw => forwarded(upgraded).await,
                    _ => echo(upgraded).await,
                }
            } => {}
        }
    });
    reply.body(Empty::new().boxed()).unwrap()
}

async fn echo(mut io: impl AsyncRead + AsyncWrite + Unpin) {
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = io.read(&mut buffer).await {
        if io.write_all(&buffer[..read]).await.is_err() || io.flush().await.is_err() {
            return;
        }
    }
}

/// The control frames of a SPDY server. Headers are one zlib stream over the connection.
#[derive(Default)]
struct SpdyAnswers {
    begun: bool,
}

impl SpdyAnswers {
    /// The response to a new stream, without headers.
    fn accept(&mut self, id: &[u8]) -> Vec<u8> {
        let begin: &[u8] = if std::mem::replace(&mut self.begun, true) { &[] } else { &[0x78, 1] };
        let stored: &[u8] = &[0, 4, 0, 0xfb, 0xff, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
        let payload = [id, begin, stored].concat();
        [&[0x80, 3, 0, 2, 0, 0, 0, payload.len() as u8][..], &payload].concat()
    }
}

/// `cat` in SPDY: four streams, input that comes back as output, and an exit code when the input ends.
async fn command(mut io: impl AsyncRead + AsyncWrite + Unpin) {
    let (mut headers, mut answers) = (Vec::new(), SpdyAnswers::default());
    for id in [1u8, 3, 5, 7] {
        let (head, payload) = frame(&mut io).await;
        assert_eq!((&head[..4], &payload[..4]), (&[0x80, 3, 0, 1][..], &[0, 0, 0, id][..]));
        headers.extend_from_slice(&payload[10..]);
        io.write_all(&answers.accept(&payload[..4])).await.unwrap();
        io.flush().await.unwrap();
    }
    // Go compresses with a dictionary, which the decoder here does not have.
    if headers[1] & 0x20 == 0 {
        let mut names = Vec::new();
        let _ = flate2::read::ZlibDecoder::new(&headers[..]).read_to_end(&mut names);
        let names = String::from_utf8_lossy(&names).into_owned();
        for name in ["streamtype", "error", "stdin", "stdout", "stderr"] {
            assert!(names.contains(name), "{name}");
        }
    }
    io.write_all(&[0x80, 3, 0, 6, 0, 0, 0, 4, 0, 0, 0, 2]).await.unwrap();
    io.flush().await.unwrap();
    loop {
        let (head, payload) = frame(&mut io).await;
        if head[0] & 0x80 != 0 {
            pong(&mut io, &head, &payload).await;
            continue;
        }
        if head[3] != 3 {
            assert!(payload.is_empty(), "only input comes");
            continue;
        }
        data(&mut io, 5, &payload, head[4] == 1).await;
        if head[4] == 1 {
            break;
        }
    }
    data(&mut io, 7, b"", true).await;
    data(&mut io, 1, FakeKubelet::exit_status().as_bytes(), true).await;
    let _ = io.read(&mut [0; 64]).await;
}

/// A forwarded port in SPDY: of each two streams the second comes back.
async fn forwarded(mut io: impl AsyncRead + AsyncWrite + Unpin) {
    let mut answers = SpdyAnswers::default();
    loop {
        let (head, payload) = frame(&mut io).await;
        match (head[0] & 0x80 != 0, head[3]) {
            (true, 1) => {
                io.write_all(&answers.accept(&payload[..4])).await.unwrap();
                io.flush().await.unwrap();
            }
            (true, _) => pong(&mut io, &head, &payload).await,
            (false, id) if id % 4 == 3 => {
                data(&mut io, id, &payload, head[4] == 1).await;
                if head[4] == 1 {
                    data(&mut io, id - 2, b"", true).await;
                }
            }
            _ => {}
        }
    }
}

/// Answers a ping of the client. Its own come back with an even number.
async fn pong(io: &mut (impl AsyncWrite + Unpin), head: &[u8; 8], payload: &[u8]) {
    if head[3] == 6 && payload[3] % 2 == 1 {
        io.write_all(&[&head[..], payload].concat()).await.unwrap();
        io.flush().await.unwrap();
    }
}

async fn frame(io: &mut (impl AsyncRead + Unpin)) -> ([u8; 8], Vec<u8>) {
    let mut head = [0; 8];
    io.read_exact(&mut head).await.unwrap();
    let mut payload = vec![0; u32::from_be_bytes([0, head[5], head[6], head[7]]) as usize];
    io.read_exact(&mut payload).await.unwrap();
    (head, payload)
}

async fn data(io: &mut (impl AsyncWrite + Unpin), stream: u8, bytes: &[u8], last: bool) {
    let length = (bytes.len() as u16).to_be_bytes();
    io.write_all(&[0, 0, 0, stream, u8::from(last), 0, length[0], length[1]]).await.unwrap();
    io.write_all(bytes).await.unwrap();
    io.flush().await.unwrap();
}

/// A Pod that reports the requests it received.
async fn pod(mut request: Request<Incoming>) -> Reply {
    if request.headers().contains_key("upgrade") {
        let upgraded = hyper::upgrade::on(&mut request);
        tokio::spawn(async move {
            if let Ok(upgraded) = upgraded.await {
                echo(TokioIo::new(upgraded)).await;
            }
        });
        let reply =
            Response::builder().status(101).header("connection", "Upgrade").header("upgrade", "websocket");
        return reply.body(Empty::new().boxed()).unwrap();
    }
    let line = format!("{} {}", request.method(), request.uri());
    if line.ends_with("/redirect") {
        let reply = Response::builder().status(302).header("location", "/login");
        return reply.body(Empty::new().boxed()).unwrap();
    }
    let mut headers: Vec<String> = request.headers().keys().map(|name| name.as_str().to_owned()).collect();
    headers.sort();
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let shown =
        if line.ends_with("/count") { String::new() } else { String::from_utf8_lossy(&body).into_owned() };
    let mut reply =
        text(200, json!({"line": line, "headers": headers, "body": shown, "bytes": body.len()}).to_string());
    reply.headers_mut().insert("access-control-allow-origin", "*".parse().unwrap());
    reply
}
