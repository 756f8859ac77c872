//! The files of the web console under `/console/`.
//!
//! They are static and contain nothing about the server, so they need no credentials; the page asks for a token and
//! then uses the API like any other client. The files themselves are in the crate `listwatch-console`.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderValue, LOCATION, REFERRER_POLICY};
use http::{Method, StatusCode};

use crate::http::body::Response;
use crate::http::request::Request;
use crate::respond;

/// Returns the file at the request's path; `None` if the path is not one of the console's.
///
/// The content security policy allows nothing from elsewhere, so that a defect of the page cannot send the user's
/// token away.
pub(crate) fn answer(request: &Request) -> Option<Response> {
    let name = request.path.strip_prefix("/console")?;
    if name.is_empty() {
        return Some(redirect());
    }
    let name = name.strip_prefix('/')?;
    if !matches!(request.method, Method::GET | Method::HEAD) {
        return Some(respond::text(StatusCode::METHOD_NOT_ALLOWED, "405 method not allowed\n"));
    }
    let Some(asset) = listwatch_console::asset(name) else { return Some(respond::no_such_page()) };
    let mut response = respond::full(StatusCode::OK, asset.content_type, Bytes::from_static(asset.body));
    let headers = response.headers_mut();
    headers.insert(
        CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(listwatch_console::CONTENT_SECURITY_POLICY),
    );
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(respond::NO_SNIFF, HeaderValue::from_static("nosniff"));
    // A new server may bring a new console.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Some(response)
}

/// The relative addresses in the start page need the slash.
fn redirect() -> Response {
    let mut response = respond::empty(StatusCode::MOVED_PERMANENTLY);
    response.headers_mut().insert(LOCATION, HeaderValue::from_static("/console/"));
    response
}
