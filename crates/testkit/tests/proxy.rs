//! The proxy between a real client and a server of a few lines: what each fault looks like from the client's side.

#![cfg(test)]

use std::convert::Infallible;
use std::time::{Duration, Instant};

use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::TokioIo;
use listwatch_testkit::history::Frame;
use listwatch_testkit::proxy::{Fault, FaultAnswer, Place, Plan, Proxy, Rule, Then};
use listwatch_testkit::raw::{RawClient, RawError};
use listwatch_wire::{Revision, Status};
use tokio::net::TcpListener;

/// Answers a watch with three events and anything else with an empty list.
async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let event = |n: u32| {
        format!(r#"{{"type":"ADDED","object":{{"metadata":{{"name":"a{n}","resourceVersion":"{n}"}}}}}}"#)
    };
    let watch = request.uri().query().is_some_and(|query| query.contains("watch"));
    let body = if watch { [1, 2, 3].map(|n| event(n) + "\n").concat() } else { r#"{"items":[]}"#.to_owned() };
    Ok(Response::new(Full::from(body)))
}

/// A server, and a proxy with a plan in front of it.
async fn through(rules: Vec<Rule>) -> (Proxy, RawClient) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let serve = hyper::service::service_fn(answer);
            tokio::spawn(
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), serve),
            );
        }
    });
    let proxy = Proxy::start(kube::Config::new(url.parse().unwrap()), Plan::script(rules)).await.unwrap();
    let raw = RawClient::new(proxy.config()).unwrap();
    (proxy, raw)
}

fn once(fault: Fault) -> Vec<Rule> {
    vec![Rule { requests_with: "", fault }]
}

/// The revisions that a watch delivered, and how it ended.
async fn watch(raw: &RawClient) -> (Vec<u64>, Result<(), RawError>) {
    let mut revisions = Vec::new();
    let mut stream = match raw.watch("/things?watch=true").await {
        Ok(stream) => stream,
        Err(error) => return (revisions, Err(error)),
    };
    loop {
        match stream.next().await {
            Ok(Some(Frame::Event { object, .. })) => revisions.push(object.revision.0),
            Ok(Some(Frame::Bookmark { revision: Revision(revision), .. })) => revisions.push(revision),
            Ok(None) => return (revisions, Ok(())),
            Err(error) => return (revisions, Err(error)),
        }
    }
}

#[tokio::test]
async fn without_faults_nothing_changes() {
    let (proxy, raw) = through(vec![]).await;
    assert_eq!(raw.call(Method::GET, "/things", None).await.unwrap().0, StatusCode::OK);
    let (revisions, end) = watch(&raw).await;
    assert_eq!(revisions, [1, 2, 3]);
    assert!(end.is_ok());
    assert_eq!(proxy.counts(), (2, 0));
}

#[tokio::test]
async fn a_refused_connection_is_an_error_and_the_next_one_works() {
    let (proxy, raw) = through(once(Fault::Refuse)).await;
    assert!(matches!(raw.call(Method::GET, "/things", None).await, Err(RawError::Connection(_))));
    assert!(raw.call(Method::GET, "/things", None).await.is_ok());
    assert_eq!(proxy.counts(), (2, 1));
}

#[tokio::test]
async fn answers_can_be_made_up() {
    let busy = FaultAnswer::status(&Status::too_many_requests("slow down", 7));
    let (_proxy, raw) = through(once(Fault::Answer(busy))).await;
    let (status, body) = raw.call(Method::GET, "/things", None).await.unwrap();
    assert_eq!(
        (status, body["details"]["retryAfterSeconds"].as_u64()),
        (StatusCode::TOO_MANY_REQUESTS, Some(7))
    );

    let (_proxy, raw) = through(once(Fault::Answer(FaultAnswer::html(502)))).await;
    let (status, body) = raw.call(Method::GET, "/things", None).await.unwrap();
    assert_eq!(status, StatusCode::BAD_GATEWAY);
    assert!(body.as_str().unwrap().starts_with("<html>"));

    let (_proxy, raw) =
        through(once(Fault::Answer(FaultAnswer::error_event(&Status::expired("too old"))))).await;
    assert!(
        matches!(watch(&raw).await, (none, Err(RawError::Refused(StatusCode::GONE, _))) if none.is_empty())
    );
}

#[tokio::test]
async fn a_stream_breaks_between_and_inside_events() {
    let cut = |place| Fault::Break { place, then: Then::Cut };
    for (place, delivered) in [(Place::Lines(2), 2), (Place::InsideLine(1), 1), (Place::Bytes(0), 0)] {
        let (_proxy, raw) = through(once(cut(place))).await;
        let (revisions, end) = watch(&raw).await;
        assert_eq!(revisions.len(), delivered, "{place:?}");
        assert!(matches!(end, Err(RawError::Connection(_))), "{place:?}");
    }
    let (_proxy, raw) = through(once(Fault::Break { place: Place::InsideLine(2), then: Then::End })).await;
    let (revisions, end) = watch(&raw).await;
    assert_eq!(revisions, [1, 2]);
    assert!(end.is_ok());
}

#[tokio::test]
async fn waiting_changes_nothing_but_the_time() {
    let pause = Duration::from_millis(50);
    for fault in [Fault::Delay(pause), Fault::Break { place: Place::InsideLine(1), then: Then::Stall(pause) }]
    {
        let (_proxy, raw) = through(once(fault)).await;
        let start = Instant::now();
        assert_eq!(watch(&raw).await.0, [1, 2, 3]);
        assert!(start.elapsed() >= pause);
    }
}

#[tokio::test]
async fn healing_cuts_what_is_stalled_and_leaves_nothing_broken() {
    let forever = Fault::Break { place: Place::Lines(1), then: Then::Stall(Duration::from_secs(3600)) };
    let (proxy, raw) = through(once(forever)).await;
    let mut stream = raw.watch("/things?watch=true").await.unwrap();
    assert!(stream.next().await.unwrap().is_some());
    proxy.heal();
    assert!(stream.next().await.is_err());
    assert_eq!(watch(&raw).await.0, [1, 2, 3]);
}
