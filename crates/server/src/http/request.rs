//! [`Request`]: the head of an HTTP request, the same for HTTP/1.1 and HTTP/2, and [`BodySource`], its unread body.
//!
//! Path and query are decoded here once. The body stays on the connection until a handler asks for it, because its
//! sender must be authenticated and authorized, and its size bounded, before memory is spent on it.
//!
//! It is independent of Kubernetes: [`crate::request::info`] derives verb, resource and name from it.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderMap, HeaderName, Method};
use listwatch_wire::options::Query;

/// The reason a request body could not be read. The connection is not used again after any of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyProblem {
    /// More bytes than allowed: 413.
    TooLarge,
    /// Broken framing: 400 and the connection ends.
    Malformed,
    /// The client went away.
    Cut,
}

/// An unread request body. It is read once, by the handler, after the sender is authorized: an unauthorized client
/// costs no memory.
pub(crate) trait BodySource: Send {
    /// The upper bound of its length that the client declared; `None` for chunked bodies.
    fn most(&self) -> Option<u64>;

    /// Reads the whole body.
    ///
    /// # Errors
    /// [`BodyProblem::TooLarge`] as soon as more than `limit` bytes are declared or have arrived.
    fn read(&mut self, limit: usize) -> BoxFuture<'_, Result<Bytes, BodyProblem>>;

    /// Reads what has come of the body, for those who pass it on; `None` at its end.
    ///
    /// # Errors
    /// The body is malformed or breaks off.
    fn piece(&mut self) -> BoxFuture<'_, Result<Option<Bytes>, BodyProblem>>;

    /// Drops a body that nobody will read, with what the connection has received of it. Does nothing where that is nothing.
    fn discard(&mut self) {}

    /// Returns true if the client is known to have gone. Where that ends the request by itself, it is never true.
    fn is_hung_up(&self) -> bool {
        false
    }
}

/// The head of a request: method, decoded path and query, headers. The body is a [`BodySource`] beside it.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    /// The path, percent-decoded.
    pub(crate) path: String,
    /// True if the path has a percent sign that begins no escape.
    pub(crate) malformed: bool,
    /// The query as sent, without the question mark.
    pub(crate) raw_query: String,
    /// Its parameters, decoded once for everything that reads them.
    pub(crate) query: Arc<Query<'static>>,
    pub(crate) headers: HeaderMap,
    /// True if the connection can become a WebSocket: HTTP/1.1 only.
    pub(crate) upgradable: bool,
    /// The address of the client, once the handler chain has it.
    pub(crate) peer: Option<IpAddr>,
}

impl Request {
    /// Splits a target into decoded path and raw query. A path that is not UTF-8 once decoded is kept with replacement
    /// characters: it then names nothing that exists.
    pub(crate) fn new(method: Method, target: &str, headers: HeaderMap, upgradable: bool) -> Self {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let malformed = has_broken_escape(path);
        let path = percent_encoding::percent_decode_str(path).decode_utf8_lossy().into_owned();
        Self {
            method,
            path,
            malformed,
            raw_query: query.to_owned(),
            query: Arc::new(Query::parse(query).into_owned()),
            headers,
            upgradable,
            peer: None,
        }
    }

    /// A header as text, if present and text.
    pub(crate) fn header(&self, name: impl Into<HeaderName>) -> Option<&str> {
        self.headers.get(name.into()).and_then(|v| v.to_str().ok())
    }
}

/// A percent sign without two hexadecimal digits. Decoders differ about it, so it is refused.
fn has_broken_escape(path: &str) -> bool {
    let is_hex = |digit: Option<char>| digit.is_some_and(|digit| digit.is_ascii_hexdigit());
    path.split('%').skip(1).any(|escape| {
        let mut digits = escape.chars();
        !(is_hex(digits.next()) && is_hex(digits.next()))
    })
}

#[cfg(test)]
mod tests {
    use super::has_broken_escape;

    #[test]
    fn a_percent_sign_needs_two_digits() {
        for (path, broken) in
            [("/a%2Fb%c3%A9", false), ("/a", false), ("/%zz", true), ("/%2", true), ("/a%", true)]
        {
            assert_eq!(has_broken_escape(path), broken, "{path}");
        }
    }
}
