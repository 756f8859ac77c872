//! List and watch requests to HTTP requests, and HTTP failures to [`SourceError`].
//!
//! The meaning of `resourceVersion` depends on the parameters beside it, and the rules are implemented only here: `0`
//! means any version, empty means the most recent, a version with a `limit` means exactly that version unless
//! `resourceVersionMatch` says otherwise, and a `continue` token excludes both.
//!
//! A failure is read as a `Status` if it is one. The body of a proxy's error page is quoted up to 200 bytes; of any
//! error at most 64 KiB are read. Pacing and retries are the reflector's.

use http::header::{ACCEPT, ACCEPT_ENCODING, RETRY_AFTER};
use kube::client::Body;
use listwatch_wire::delta;
use listwatch_wire::options::{ListOptions, VersionMatch};
use listwatch_wire::status::{Status, StatusReason};

use super::body::{Chunks, transport};
use super::resource::ResourceKind;
use crate::lister_watcher::{ListRequest, ListVersion, SourceError, WatchRequest};

/// More of an error page than this is not worth reading.
const MAX_ERROR_BODY: usize = 64 << 10;

/// The query of a list. A `continue` token excludes a version, as the server requires.
pub(super) fn list_options(base: &ListOptions, request: &ListRequest) -> ListOptions {
    let mut options = base.clone();
    options.limit = request.limit.map_or(0, u64::from);
    match &request.continue_token {
        // A continued list has its version in the token; a server refuses both.
        Some(token) => options.continue_token.clone_from(token),
        None => {
            options.resource_version = match request.version {
                ListVersion::Any => "0".to_owned(),
                ListVersion::MostRecent => String::new(),
                ListVersion::NotOlderThan(revision) => revision.to_string(),
            };
            // Without it, a version together with a limit means exactly that version.
            if matches!(request.version, ListVersion::NotOlderThan(_)) {
                options.resource_version_match = Some(VersionMatch::NotOlderThan);
            }
        }
    }
    options
}

/// The query of a watch. Bookmarks are always requested: they keep the resourceVersion fresh and show that the
/// connection is alive.
pub(super) fn watch_options(base: &ListOptions, request: &WatchRequest) -> ListOptions {
    let mut options = base.clone();
    options.watch = true;
    options.allow_watch_bookmarks = true;
    options.resource_version = request.revision.map(|revision| revision.to_string()).unwrap_or_default();
    options.timeout_seconds = request.timeout.map(|time| u32::try_from(time.as_secs()).unwrap_or(u32::MAX));
    if request.initial_events {
        options.send_initial_events = Some(true);
        options.resource_version_match = Some(VersionMatch::NotOlderThan);
    }
    options
}

/// The media type of a request for the objects, or only for their metadata.
pub(super) fn accept(resource: &ResourceKind, form: RequestForm) -> &'static str {
    match (resource.metadata_only, form.watch) {
        (false, true) if form.deltas => delta::ACCEPT,
        (false, _) => "application/json",
        (true, true) => "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
        (true, false) => "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
    }
}

/// The form that the response shall have.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestForm {
    pub(super) watch: bool,
    pub(super) compressed: bool,
    /// Changes as patches, if the server supports them.
    pub(super) deltas: bool,
}

/// A GET of a list or watch, with the form of the response in its `Accept` header.
pub(super) fn http_request(
    uri: String,
    resource: &ResourceKind,
    form: RequestForm,
) -> Result<http::Request<Body>, SourceError> {
    // Always sent: without the header a decompressing layer would add its own, and the common one reads only the first
    // member of a compressed watch.
    let encoding = if form.compressed { "gzip" } else { "identity" };
    http::Request::get(uri)
        .header(ACCEPT, accept(resource, form))
        .header(ACCEPT_ENCODING, encoding)
        .body(Body::empty())
        .map_err(|error| SourceError::Malformed(format!("cannot build the request: {error}")))
}

/// Sends the request; any response but success becomes an error.
pub(super) async fn send(client: &kube::Client, request: http::Request<Body>) -> Result<Chunks, SourceError> {
    let response = client.send(request).await.map_err(|error| transport(&error))?;
    if response.status().is_success() {
        return Ok(Chunks::new(response));
    }
    Err(failure(response).await)
}

/// The error of a response with a code other than 200: its Status, with `Retry-After` of the header if the Status has none.
async fn failure(response: http::Response<Body>) -> SourceError {
    let code = response.status().as_u16();
    let header = response.headers().get(RETRY_AFTER);
    let retry_after: Option<u32> = header.and_then(|value| value.to_str().ok()?.trim().parse().ok());
    let body = Chunks::new(response).collect(MAX_ERROR_BODY).await;
    let status = serde_json::from_slice::<Status>(&body).unwrap_or_else(|_| not_a_status(code, &body));
    let asks = status.retry_after().is_some();
    match retry_after {
        Some(seconds) if !asks => SourceError::from(status.with_retry_after(seconds)),
        _ => SourceError::from(status),
    }
}

/// The response of a proxy on the way, which is no Status: the code is what counts.
fn not_a_status(code: u16, body: &[u8]) -> Status {
    let text = String::from_utf8_lossy(body.get(..200).unwrap_or(body)).trim().to_owned();
    let text = if text.is_empty() { format!("the server answered with {code}") } else { text };
    Status::failure(code, StatusReason::Unknown, text)
}
