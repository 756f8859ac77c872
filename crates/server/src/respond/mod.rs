//! Responses: a body in the negotiated form, with the headers that kube-apiserver sends.
//!
//! [`encode`] makes documents, [`protobuf`] and [`table`] are two of their forms; this file adds `Content-Type`,
//! `Audit-Id`, `Cache-Control`, `Warning` and `Retry-After`. Warnings are deduplicated and cut to kube-apiserver's
//! limits, because proxies reject oversized heads.
//!
//! It decides nothing about a request: verbs ([`crate::verbs`]) and the chain ([`crate::chain`]) call it with a
//! finished result.

pub(crate) mod encode;
mod internal;
pub(crate) mod protobuf;
pub(crate) mod table;
pub(crate) mod yaml;
mod yaml_style;
mod yaml_words;

use std::borrow::Cow;
use std::collections::HashSet;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use http::{Response as HttpResponse, StatusCode};
use listwatch_wire::Status;

use crate::http::body::{Body, Response};
use crate::request::negotiate::ResponseForm;

/// The identity of a request in its response, its log lines and the audit log. Taken from the request if that has
/// one.
pub(crate) const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");
const WARNING: HeaderName = HeaderName::from_static("warning");
/// The header that keeps browsers from guessing another content type.
pub(crate) const NO_SNIFF: HeaderName = HeaderName::from_static("x-content-type-options");

/// Returns a response with bytes of this media type.
///
/// The type is static: a content type that came from a client must never be sent back.
pub(crate) fn full(code: StatusCode, content_type: &'static str, body: Bytes) -> Response {
    with_type(code, content_type, Body::Full(body))
}

/// Returns a response with any body of this media type.
pub(crate) fn with_type(code: StatusCode, content_type: &'static str, body: Body) -> Response {
    let mut response = HttpResponse::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// Returns a response without a body.
pub(crate) fn empty(code: StatusCode) -> Response {
    let mut response = HttpResponse::new(Body::Empty);
    *response.status_mut() = code;
    response
}

/// Returns plain text, as health checks and errors outside of the API are.
pub(crate) fn text(code: StatusCode, text: impl Into<Bytes>) -> Response {
    let mut response = full(code, "text/plain; charset=utf-8", text.into());
    do_not_sniff(&mut response);
    response
}

/// Keeps browsers from guessing another content type.
pub(crate) fn do_not_sniff(response: &mut Response) {
    response.headers_mut().insert(NO_SNIFF, HeaderValue::from_static("nosniff"));
}

/// The 404 for a path that is not served.
pub(crate) fn no_such_page() -> Response {
    text(StatusCode::NOT_FOUND, "404 page not found\n")
}

/// Adds `Warning` headers, which kubectl prints. Duplicates, empty texts and texts with control characters are left
/// out.
pub(crate) fn warn<'a>(response: &mut Response, texts: impl IntoIterator<Item = &'a str>) {
    for text in fitting(texts) {
        if let Ok(value) = HeaderValue::from_str(&warning(&text)) {
            response.headers_mut().append(WARNING, value);
        }
    }
}

/// Characters of all warnings together up to which they are sent whole, as in kube-apiserver.
const ALL_WARNINGS: usize = 4096;
/// Characters of each warning, if all together exceed [`ALL_WARNINGS`].
const ONE_WARNING: usize = 256;

/// Warnings, each once, cut as kube-apiserver cuts them: the size of headers is limited. If all together are too long,
/// each is cut to [`ONE_WARNING`] characters, and the rest after [`ALL_WARNINGS`] is dropped.
fn fitting<'a>(texts: impl IntoIterator<Item = &'a str>) -> Vec<Cow<'a, str>> {
    let mut seen = HashSet::new();
    let sendable = |text: &&str| !text.is_empty() && !text.contains(char::is_control);
    let texts: Vec<&str> = texts.into_iter().filter(sendable).filter(|text| seen.insert(*text)).collect();
    let mut whole = 0;
    let over = texts.iter().position(|text| {
        whole += text.chars().count();
        whole > ALL_WARNINGS
    });
    let Some(over) = over else { return texts.into_iter().map(Cow::Borrowed).collect() };
    let mut told = 0;
    let mut cut = Vec::new();
    for (index, text) in texts.into_iter().enumerate() {
        if index > over && told >= ALL_WARNINGS {
            break;
        }
        let text: String = text.chars().take(ONE_WARNING).collect();
        told += text.chars().count();
        cut.push(Cow::Owned(text));
    }
    cut
}

/// Adds a warning before those that are already there: kube-apiserver sends the deprecation of a version first.
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

/// Returns a JSON document. The body is sent as given, without negotiation.
pub(crate) fn json(code: StatusCode, body: impl Into<Bytes>) -> Response {
    full(code, "application/json", body.into())
}

/// Returns a Status as a response in the negotiated form; JSON if that form cannot express it. A `retryAfterSeconds`
/// becomes a header too.
pub(crate) fn status(status: &Status, form: ResponseForm) -> Response {
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

/// Adds the headers that every response has. `Cache-Control` is kept if the handler set one, as discovery documents
/// do.
///
/// Called last, for every response, errors of the chain included.
pub(crate) fn finish(mut response: Response, mut audit_id: HeaderValue) -> Response {
    // HTTP/2 indexes headers that are not sensitive for the whole connection, and this one does not repeat.
    audit_id.set_sensitive(true);
    let headers = response.headers_mut();
    headers.insert(AUDIT_ID, audit_id);
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache, private"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_warnings_are_sent_once_and_all_are_bounded() {
        assert_eq!(fitting(["a", "b", "a", "", "c\nd"]), ["a", "b"]);
        let long: Vec<String> = (0..20).map(|n| format!("{n:02}{}", "x".repeat(400))).collect();
        let lengths = |texts: &[String]| -> Vec<usize> {
            fitting(texts.iter().map(String::as_str)).iter().map(|text| text.len()).collect()
        };
        assert_eq!(lengths(&long[..10]), [402; 10]);
        assert_eq!(lengths(&long), [256; 16]);
    }
}
