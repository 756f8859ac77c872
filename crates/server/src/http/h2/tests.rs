//! Streams whose peer stops reading, over a connection in memory with a paused clock.
//!
//! They guard the promise of [`super::stream_deadline`]: a stalled stream is reset and what it held is freed, while its
//! connection and the other streams go on. A raw `h2` client is used because clients above it open the flow-control
//! window by themselves.

use std::collections::HashMap;
use std::sync::Weak;
use std::time::Duration;

use ::h2::client::SendRequest;
use ::h2::{Reason, RecvStream};
use futures::StreamExt;
use futures::stream;
use hyper::server::conn::http2;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use crate::http::body::{Body, BodyPieces, STALL};
use crate::http::h2::*;

struct NoMeter;

impl crate::http::metered::ProcessorMeter for NoMeter {}

/// The resources that a response holds.
type Held = Arc<Vec<u8>>;

fn held(size: usize) -> (Held, Weak<Vec<u8>>) {
    let held = Arc::new(vec![b'x'; size]);
    let weak = Arc::downgrade(&held);
    (held, weak)
}

struct Owner(Held);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

fn full(held: Held) -> Body {
    Body::Full(Bytes::from_owner(Owner(held)))
}

/// A client of a server that answers each path once.
async fn connect<const N: usize>(window: u32, answers: [(&str, Body); N]) -> SendRequest<Bytes> {
    let answers = answers.map(|(path, body)| (path.to_owned(), body));
    let answers = Mutex::new(HashMap::from(answers));
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let body = answers.lock().remove(request.uri().path()).unwrap();
        async { Ok::<_, Infallible>(http::Response::new(OutBody::new(body, StreamDeadline::current()))) }
    });
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    tokio::spawn(
        http2::Builder::new(Streams(Arc::new(NoMeter))).serve_connection(TokioIo::new(ours), service),
    );
    let mut client = ::h2::client::Builder::new();
    let (client, connection) = client.initial_window_size(window).handshake(theirs).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn get(client: &mut SendRequest<Bytes>, path: &str) -> RecvStream {
    let request = http::Request::get(format!("http://x{path}")).body(()).unwrap();
    let (response, _) = client.send_request(request, true).unwrap();
    response.await.unwrap().into_body()
}

/// Receives without releasing flow-control capacity; returns the bytes, and how it ended.
async fn only_look(body: &mut RecvStream) -> (usize, Option<Reason>) {
    let mut seen = 0;
    loop {
        match body.data().await {
            Some(Ok(bytes)) => seen += bytes.len(),
            Some(Err(error)) => return (seen, error.reason()),
            None => return (seen, None),
        }
    }
}

async fn read(body: &mut RecvStream) -> usize {
    let mut seen = 0;
    while let Some(bytes) = body.data().await {
        let length = bytes.unwrap().len();
        body.flow_control().release_capacity(length).unwrap();
        seen += length;
    }
    seen
}

#[tokio::test(start_paused = true)]
async fn an_unread_list_is_reset() {
    let (snapshot, left) = held(64 << 10);
    let pieces = stream::repeat_with(move || Ok(Bytes::copy_from_slice(&snapshot))).boxed();
    let (large, _) = held(300_000);
    let answers = [
        ("/list", Body::Pieces(BodyPieces { stream: pieces, held: 0 })),
        ("/large", full(large)),
        ("/small", full(held(9).0)),
    ];
    let mut client = connect(65_535, answers).await;
    let began = Instant::now();
    let mut list = get(&mut client, "/list").await;
    // The connection has a window of its own, which the stuck stream has used up.
    assert_eq!(only_look(&mut list).await, (65_535, Some(Reason::CANCEL)));
    assert!(began.elapsed() >= STALL && began.elapsed() < STALL * 2, "{:?}", began.elapsed());
    assert!(left.upgrade().is_none(), "the snapshot is free");
    list.flow_control().release_capacity(65_535).unwrap();
    // Other streams are not affected.
    assert_eq!(read(&mut get(&mut client, "/large").await).await, 300_000);
    assert_eq!(read(&mut get(&mut client, "/small").await).await, 9);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_all_there_does_not_stay_for_ever_either() {
    // It was handed over whole, with its end: after that nothing could be taken back.
    let (answer, left) = held(20_000);
    let mut client = connect(10, [("/", full(answer)), ("/small", full(held(9).0))]).await;
    let mut body = get(&mut client, "/").await;
    assert_eq!(read(&mut get(&mut client, "/small").await).await, 9, "others go on meanwhile");
    assert_eq!(only_look(&mut body).await, (10, Some(Reason::CANCEL)));
    assert!(left.upgrade().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_and_a_slow_source_have_their_time() {
    let (answer, _) = held(400_000);
    let pieces = stream::unfold(0, |n| async move {
        sleep(STALL * 2).await;
        (n < 3).then(|| (Ok(Bytes::from_static(b"piece")), n + 1))
    });
    let mut client = connect(
        65_535,
        [("/large", full(answer)), ("/", Body::Pieces(BodyPieces { stream: pieces.boxed(), held: 0 }))],
    )
    .await;
    assert_eq!(read(&mut get(&mut client, "/").await).await, 15);
    let mut body = get(&mut client, "/large").await;
    let (mut seen, began) = (0, Instant::now());
    while let Some(bytes) = body.data().await {
        sleep(Duration::from_secs(4)).await;
        let length = bytes.unwrap().len();
        body.flow_control().release_capacity(length).unwrap();
        seen += length;
    }
    assert_eq!(seen, 400_000);
    assert!(began.elapsed() > STALL, "{:?}", began.elapsed());
}
