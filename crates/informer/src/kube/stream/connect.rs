//! Opening a stream and changing its subscriptions: the requests, and what their failures mean.
//!
//! A server without streams answers as for any unknown path, and gets no second request ([`NoStream::NotOffered`]); other
//! failures are retried. Reading an open stream is `frames`, the caller is `connection`.

use std::time::Duration;

use http::header::{ACCEPT_ENCODING, CONTENT_TYPE};
use kube::client::Body;
use listwatch_wire::stream::{
    ClientMessage, FEATURE, FEATURES_PATH, FrameDecoder, PATH, StreamFrame, StreamHead, subscriptions_path,
};
use serde::Deserialize;

use super::frames::Frames;
use crate::kube::body::{Chunks, transport};
use crate::lister_watcher::SourceError;

/// A proxy that collects a response before it passes it on is found out by the first frame not coming.
const FIRST_FRAME_WITHIN: Duration = Duration::from_secs(5);
/// More than any list of features is.
const MAX_FEATURES: usize = 64 << 10;
/// The delay before a message is sent again to a stream whose queue was full.
const FULL_WAIT: Duration = Duration::from_millis(500);

/// Why there is no stream.
#[derive(Debug)]
pub(super) enum NoStream {
    /// The server does not offer streams, or not to this user.
    NotOffered,
    /// It failed this time.
    Failed,
}

/// The document that a server with extensions offers; unknown fields are of later versions.
#[derive(Deserialize)]
struct FeatureList {
    #[serde(default)]
    features: Vec<Feature>,
}

/// One extension, by name.
#[derive(Deserialize)]
struct Feature {
    #[serde(default)]
    name: String,
}

/// Asks whether the server offers streams.
pub(super) async fn discover(client: &kube::Client) -> Result<(), NoStream> {
    let request = http::Request::get(FEATURES_PATH).header(ACCEPT_ENCODING, "identity").body(Body::empty());
    let request = request.map_err(|_| NoStream::Failed)?;
    let response = client.send(request).await.map_err(|_| NoStream::Failed)?;
    match response.status().as_u16() {
        200 => {}
        code => return Err(refused(code)),
    }
    let answer = tokio::time::timeout(FIRST_FRAME_WITHIN, Chunks::new(response).collect(MAX_FEATURES)).await;
    let list: Option<FeatureList> = answer.ok().and_then(|body| serde_json::from_slice(&body).ok());
    let offered = list.ok_or(NoStream::Failed)?.features.iter().any(|feature| feature.name == FEATURE);
    if offered { Ok(()) } else { Err(NoStream::NotOffered) }
}

/// The meaning of a refusal: that of a server without streams, or of one that has other troubles.
fn refused(code: u16) -> NoStream {
    if matches!(code, 401 | 403 | 404 | 405 | 406 | 415) { NoStream::NotOffered } else { NoStream::Failed }
}

/// Opens a stream with its first subscriptions.
pub(super) async fn open(
    client: &kube::Client,
    first: &ClientMessage,
) -> Result<(StreamHead, Frames), NoStream> {
    let response = client.send(post(PATH, first)?).await.map_err(|_| NoStream::Failed)?;
    match response.status().as_u16() {
        200 => {}
        code => return Err(refused(code)),
    }
    let mut frames = Frames::new(Chunks::new(response), FrameDecoder::default());
    match tokio::time::timeout(FIRST_FRAME_WITHIN, frames.next()).await {
        Ok(Some(Ok(StreamFrame::Stream(head)))) => Ok((head, frames)),
        _ => Err(NoStream::Failed),
    }
}

/// Changes the subscriptions of a stream.
///
/// # Errors
/// When the stream does not exist any more, or the request reached another server.
pub(super) async fn change(
    client: kube::Client,
    id: String,
    message: ClientMessage,
) -> Result<(), SourceError> {
    loop {
        let failed = |_| SourceError::Malformed("cannot build the request".to_owned());
        let request = post(&subscriptions_path(&id), &message).map_err(failed)?;
        let response = client.send(request).await.map_err(|error| transport(&error))?;
        match response.status().as_u16() {
            200..300 => return Ok(()),
            429 => tokio::time::sleep(FULL_WAIT).await,
            code => return Err(SourceError::Transport(format!("the stream cannot be changed: {code}"))),
        }
    }
}

/// A message to a stream that is open, as a request of its own.
fn post(path: &str, message: &ClientMessage) -> Result<http::Request<Body>, NoStream> {
    let body = serde_json::to_vec(message).map_err(|_| NoStream::Failed)?;
    http::Request::post(path)
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT_ENCODING, "identity")
        .body(Body::from(body))
        .map_err(|_| NoStream::Failed)
}
