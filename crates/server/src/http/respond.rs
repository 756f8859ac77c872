//! Answers and their headers.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use http::{Response as HttpResponse, StatusCode};
use listwatch_wire::Status;

use super::body::{Body, Response};
use super::encode;
use super::negotiate::Form;

pub(crate) const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");
const WARNING: HeaderName = HeaderName::from_static("warning");
const NO_SNIFF: HeaderName = HeaderName::from_static("x-content-type-options");

/// An answer with a body of some type.
pub(crate) fn full(code: StatusCode, content_type: &'static str, body: Bytes) -> Response {
    with_type(code, content_type, Body::Full(body))
}

/// The same for any body.
pub(crate) fn with_type(code: StatusCode, content_type: &'static str, body: Body) -> Response {
    let mut response = HttpResponse::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// An answer without a body.
pub(crate) fn empty(code: StatusCode) -> Response {
    let mut response = HttpResponse::new(Body::Empty);
    *response.status_mut() = code;
    response
}

/// Text for people and probes.
pub(crate) fn text(code: StatusCode, text: impl Into<Bytes>) -> Response {
    let mut response = full(code, "text/plain; charset=utf-8", text.into());
    response.headers_mut().insert(NO_SNIFF, HeaderValue::from_static("nosniff"));
    response
}

/// What a path that nobody serves answers.
pub(crate) fn no_such_page() -> Response {
    text(StatusCode::NOT_FOUND, "404 page not found\n")
}

/// Tells the client what it should know though nothing failed.
pub(crate) fn warn<'a>(response: &mut Response, texts: impl IntoIterator<Item = &'a str>) {
    for text in texts {
        if let Ok(value) = HeaderValue::from_str(&warning(text)) {
            response.headers_mut().append(WARNING, value);
        }
    }
}

/// The same, before what it is told already.
pub(crate) fn warn_first(response: &mut Response, text: &str) {
    let headers = response.headers_mut();
    let others: Vec<HeaderValue> = headers.get_all(WARNING).iter().cloned().collect();
    headers.remove(WARNING);
    warn(response, [text]);
    for value in others {
        response.headers_mut().append(WARNING, value);
    }
}

/// `299 - "text"` with quotes and backslashes escaped.
fn warning(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
    format!("299 - \"{escaped}\"")
}

/// A JSON document.
pub(crate) fn json(code: StatusCode, body: impl Into<Bytes>) -> Response {
    full(code, "application/json", body.into())
}

/// A failure, or the success of a deletion, in the form the client asked for.
pub(crate) fn status(status: &Status, form: Form) -> Response {
    let code = if status.code == 0 { 200 } else { status.code };
    let code = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = match encode::document(status.to_json().into(), form) {
        Ok(body) => full(code, form.content_type(), body),
        Err(_) => json(code, status.to_json()),
    };
    if let Some(seconds) = status.retry_after() {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// The headers every answer has.
pub(crate) fn finish(mut response: Response, audit_id: HeaderValue) -> Response {
    let headers = response.headers_mut();
    headers.insert(AUDIT_ID, audit_id);
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache, private"));
    response
}
