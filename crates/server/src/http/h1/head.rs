//! Heads of HTTP/1.1: bytes to a request head, a response head to bytes. Pure functions; no IO.
//!
//! `httparse` splits the lines; this module adds what decides about security behind a proxy. A head with both
//! `Content-Length` and `Transfer-Encoding`, with one of them twice, or with no or two `Host` headers is refused,
//! because two parsers could disagree about where the next request begins (request smuggling). Size and number of
//! lines are bounded by `HttpLimits`, and [`Scanner`] keeps the cost of a head that arrives byte by byte linear.
//!
//! [`super::connection`] is the caller; refusals are answered there and end the connection.

use bytes::{Buf, BytesMut};
use http::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING,
};
use http::{Method, StatusCode, Version};

use crate::HttpLimits;

/// The delimitation of a request body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// This many bytes; zero if there is no body.
    Length(u64),
    /// Chunks until an empty one.
    Chunked,
    /// Chunks, of the first of which so many bytes are left. Only while a body is read piece by piece.
    InChunk(usize),
}

/// A request head that was parsed and found unambiguous.
#[derive(Debug)]
pub(crate) struct RequestHead {
    pub(crate) method: Method,
    /// The target as sent: path and query.
    pub(crate) target: String,
    pub(crate) headers: HeaderMap,
    pub(crate) framing: Framing,
    /// True if the client lets the connection be used again.
    pub(crate) keep_alive: bool,
    /// True if the client waits for `100 Continue` before it sends the body.
    pub(crate) expects_continue: bool,
    pub(crate) version: Version,
}

/// The reason a head is refused. The connection is closed after the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// 400: not HTTP, or contradictory.
    Malformed,
    /// 431: too long or too many lines.
    TooLarge,
    /// 505: a version that is not ours.
    Version,
    /// 400: an HTTP/1.1 request without `Host`.
    NoHost,
    /// 400: several `Host` headers, of which a proxy might use another one than this server.
    SeveralHosts,
}

impl Refused {
    /// The message, as Go words it.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Malformed => "400 Bad Request",
            Self::TooLarge => "431 Request Header Fields Too Large",
            Self::Version => "505 HTTP Version Not Supported: unsupported protocol version",
            Self::NoHost => "400 Bad Request: missing required Host header",
            Self::SeveralHosts => "400 Bad Request: too many Host headers",
        }
    }
}

/// Decides when a head that arrives in parts is worth parsing. Each byte is looked at once; parsing after every read
/// would cost the square of the head's length when a client sends byte by byte.
#[derive(Debug, Default)]
pub(crate) struct Scanner {
    /// Bytes that were looked at.
    seen: usize,
    /// True once the first line has been parsed. That is done early: what is not HTTP is rejected at once.
    begun: bool,
}

impl Scanner {
    /// Returns true if a head can be parsed now. Empty lines before it are dropped.
    pub(crate) fn look(&mut self, buf: &mut BytesMut, limits: &HttpLimits) -> bool {
        if self.seen == 0 {
            let empty = buf.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
            buf.advance(empty);
        }
        let new = buf.get(self.seen.saturating_sub(3)..).unwrap_or_default();
        self.seen = buf.len();
        let mut ends = memchr::memchr_iter(b'\n', new).map(|at| new.get(at + 1..).unwrap_or_default());
        let over = ends.any(|rest| rest.starts_with(b"\n") || rest.starts_with(b"\r\n"));
        let first = !self.begun && memchr::memchr(b'\n', new).is_some();
        self.begun |= first;
        over || first || buf.len() >= limits.head_bytes
    }
}

/// Takes one head from the front of `buf`. Returns `None` if it is not complete yet.
///
/// # Errors
/// [`Refused`]: the head cannot be served, and the rest of the connection cannot be trusted to begin a request.
pub(crate) fn parse(buf: &mut BytesMut, limits: &HttpLimits) -> Result<Option<RequestHead>, Refused> {
    let mut lines = vec![httparse::EMPTY_HEADER; limits.head_lines];
    let mut request = httparse::Request::new(&mut lines);
    let length = match request.parse(buf) {
        Ok(httparse::Status::Complete(length)) if length <= limits.head_bytes => length,
        Ok(httparse::Status::Partial) if buf.len() < limits.head_bytes => return Ok(None),
        Ok(_) | Err(httparse::Error::TooManyHeaders) => return Err(Refused::TooLarge),
        Err(httparse::Error::Version) => return Err(Refused::Version),
        Err(_) => return Err(Refused::Malformed),
    };
    let head = convert(&request)?;
    buf.advance(length);
    Ok(Some(head))
}

/// Makes a head of parsed lines.
///
/// # Errors
/// A target that is not a path, an ambiguous `Host` or framing, or chunks in HTTP/1.0.
fn convert(request: &httparse::Request<'_, '_>) -> Result<RequestHead, Refused> {
    let method =
        request.method.and_then(|m| Method::from_bytes(m.as_bytes()).ok()).ok_or(Refused::Malformed)?;
    let target =
        request.path.filter(|p| p.starts_with('/') || *p == "*").ok_or(Refused::Malformed)?.to_owned();
    let version = if request.version == Some(0) { Version::HTTP_10 } else { Version::HTTP_11 };
    let mut headers = HeaderMap::with_capacity(request.headers.len());
    for line in request.headers.iter() {
        let name = HeaderName::from_bytes(line.name.as_bytes()).map_err(|_| Refused::Malformed)?;
        headers.append(name, HeaderValue::from_bytes(line.value).map_err(|_| Refused::Malformed)?);
    }
    check_host(&headers, version)?;
    let framing = framing(&headers)?;
    // An HTTP/1.0 proxy would take the chunks for the next request.
    if version == Version::HTTP_10 && framing == Framing::Chunked {
        return Err(Refused::Malformed);
    }
    let keep_alive = match version {
        Version::HTTP_10 => lists(&headers, &CONNECTION, "keep-alive"),
        _ => !lists(&headers, &CONNECTION, "close"),
    };
    let expects_continue = lists(&headers, &EXPECT, "100-continue");
    Ok(RequestHead { method, target, headers, framing, keep_alive, expects_continue, version })
}

/// A request without a host, or with two, may mean another one to a proxy than to us.
fn check_host(headers: &HeaderMap, version: Version) -> Result<(), Refused> {
    match headers.get_all(HOST).iter().count() {
        0 if version == Version::HTTP_11 => Err(Refused::NoHost),
        0 | 1 => Ok(()),
        _ => Err(Refused::SeveralHosts),
    }
}

/// Reads the framing of the body. `Content-Length` together with `Transfer-Encoding`, or either of them twice, is
/// refused: that is how requests are smuggled past proxies.
fn framing(headers: &HeaderMap) -> Result<Framing, Refused> {
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    match (lengths.next(), codings.next()) {
        (None, None) => Ok(Framing::Length(0)),
        (Some(length), None) if lengths.next().is_none() => {
            let text = length.to_str().map_err(|_| Refused::Malformed)?;
            let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            text.parse().ok().filter(|_| digits).map(Framing::Length).ok_or(Refused::Malformed)
        }
        (None, Some(coding))
            if codings.next().is_none() && coding.as_bytes().eq_ignore_ascii_case(b"chunked") =>
        {
            Ok(Framing::Chunked)
        }
        _ => Err(Refused::Malformed),
    }
}

/// Returns true if a comma-separated header has this token.
pub(crate) fn lists(headers: &HeaderMap, name: &HeaderName, token: &str) -> bool {
    let mut values = headers.get_all(name).iter().filter_map(|v| v.to_str().ok());
    values.any(|v| v.split(',').any(|t| t.trim().eq_ignore_ascii_case(token)))
}

/// The delimitation of a response body.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Delimiter {
    /// `Content-Length`.
    Length(usize),
    /// `Transfer-Encoding: chunked`.
    Chunked,
    /// Nothing: no body follows (101, 304).
    None,
}

/// Writes a response head. Framing headers come from `delimiter`, so `headers` must not have any.
pub(crate) fn write(
    out: &mut BytesMut,
    status: StatusCode,
    headers: &HeaderMap,
    delimiter: Delimiter,
    keep: bool,
) {
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(status.as_str().as_bytes());
    out.extend_from_slice(b" ");
    out.extend_from_slice(status.canonical_reason().unwrap_or("Unknown").as_bytes());
    out.extend_from_slice(b"\r\n");
    for (name, value) in headers {
        line(out, name.as_str(), value.as_bytes());
    }
    match delimiter {
        Delimiter::Length(length) => line(out, "content-length", length.to_string().as_bytes()),
        Delimiter::Chunked => line(out, "transfer-encoding", b"chunked"),
        Delimiter::None => {}
    }
    if !keep {
        line(out, "connection", b"close");
    }
    out.extend_from_slice(b"\r\n");
}

/// One header line. Values have been checked for line breaks.
fn line(out: &mut BytesMut, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Option<RequestHead>, Refused> {
        parse(&mut BytesMut::from(text), &HttpLimits::default())
    }

    #[test]
    fn a_head_may_come_in_parts_and_leaves_what_follows() {
        assert!(parsed("GET / HTTP/1.1\r\nHost: a\r\n").unwrap().is_none());
        let mut buf = BytesMut::from("POST /x?y=1 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
        let head = parse(&mut buf, &HttpLimits::default()).unwrap().unwrap();
        assert_eq!(
            (head.method, head.target.as_str(), head.framing),
            (Method::POST, "/x?y=1", Framing::Length(3))
        );
        assert!(head.keep_alive);
        assert_eq!(&buf[..], b"abc");
    }

    #[test]
    fn contradictory_lengths_are_refused() {
        for lines in [
            "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
            "Content-Length: 3\r\nContent-Length: 3\r\n",
            "Content-Length: +3\r\n",
            "Content-Length: 3,3\r\n",
            "Transfer-Encoding: gzip, chunked\r\n",
        ] {
            assert_eq!(
                parsed(&format!("POST / HTTP/1.1\r\nHost: a\r\n{lines}\r\n")).unwrap_err(),
                Refused::Malformed,
                "{lines}"
            );
        }
    }

    #[test]
    fn a_request_is_for_one_host_and_chunks_are_for_http_1_1() {
        let refused = |head: &str| parsed(&format!("{head}\r\n\r\n")).unwrap_err();
        assert_eq!(refused("GET / HTTP/1.1"), Refused::NoHost);
        assert_eq!(refused("GET / HTTP/1.1\r\nHost: a\r\nHost: a"), Refused::SeveralHosts);
        assert_eq!(refused("POST / HTTP/1.0\r\nTransfer-Encoding: chunked"), Refused::Malformed);
        assert!(parsed("GET / HTTP/1.0\r\n\r\n").unwrap().is_some());
    }

    #[test]
    fn a_head_is_parsed_twice_however_many_parts_it_comes_in() {
        // It was parsed from its start with every read: 64 KB byte by byte cost two billion steps.
        let head = format!("\r\n\nGET / HTTP/1.1\r\nHost: a\r\n{}\r\nrest", "A: b\r\n".repeat(90));
        let (limits, mut scanner, mut buf) = (HttpLimits::default(), Scanner::default(), BytesMut::new());
        let mut parsed_at = Vec::new();
        for (at, byte) in head.bytes().enumerate() {
            buf.extend_from_slice(&[byte]);
            if scanner.look(&mut buf, &limits) {
                parsed_at.push(at);
                if parse(&mut buf, &limits).unwrap().is_some() {
                    break;
                }
            }
        }
        assert_eq!(parsed_at, [18, head.len() - "rest".len() - 1]);
        // The whole head in one read, together with the bytes that follow it.
        let mut buf = BytesMut::from(head.as_str());
        assert!(Scanner::default().look(&mut buf, &limits));
        assert!(parse(&mut buf, &limits).unwrap().is_some());
        assert_eq!(&buf[..], b"rest");
    }

    proptest::proptest! {
        /// A head is parsed the same in one piece and in many, and no input panics the parser.
        #[test]
        fn pieces_do_not_matter(text in heads(), cuts in proptest::collection::vec(1..40usize, 0..8)) {
            let limits = HttpLimits::default();
            let shown = |head: &RequestHead| format!("{} {} {:?} {:?}", head.method, head.target, head.framing, head.headers);
            let mut all = BytesMut::from(&text[..]);
            let _ = Scanner::default().look(&mut all, &limits);
            let whole = parse(&mut all, &limits).map(|head| head.as_ref().map(shown));
            let (mut scanner, mut buf, mut rest) = (Scanner::default(), BytesMut::new(), &text[..]);
            let mut outcome = Ok(None);
            for cut in cuts.into_iter().chain([usize::MAX]) {
                let (piece, later) = rest.split_at(cut.min(rest.len()));
                buf.extend_from_slice(piece);
                rest = later;
                if scanner.look(&mut buf, &limits) {
                    outcome = parse(&mut buf, &limits).map(|head| head.as_ref().map(shown));
                    if !matches!(outcome, Ok(None)) {
                        break;
                    }
                }
            }
            if let (Ok(Some(whole)), Ok(pieces)) = (&whole, &outcome) {
                proptest::prop_assert_eq!(Some(whole), pieces.as_ref());
            }
            proptest::prop_assert!(whole.is_ok() || !matches!(outcome, Ok(Some(_))), "refused whole, taken in pieces");
        }
    }

    /// Well-formed heads, and ones with malformed lines and bytes.
    fn heads() -> impl proptest::strategy::Strategy<Value = Vec<u8>> {
        use proptest::prelude::*;
        let first = prop::sample::select(vec![
            "GET / HTTP/1.1\r\n",
            "POST /a?b=c HTTP/1.1\r\n",
            "GET / HTTP/1.0\r\n",
            "\r\nGET / HTTP/1.1\n",
            "PRI * HTTP/2.0\r\n",
        ]);
        let line = prop::sample::select(vec![
            "Host: a\r\n",
            "Host: b\r\n",
            "Content-Length: 3\r\n",
            "Content-Length: -1\r\n",
            "Transfer-Encoding: chunked\r\n",
            "Transfer-Encoding: gzip\r\n",
            "Connection: close\r\n",
            "A: b\n",
            "A : b\r\n",
            " folded\r\n",
            "A:\0\r\n",
            "Expect: 100-continue\r\n",
        ]);
        let flip = prop::option::weighted(0.3, (any::<prop::sample::Index>(), any::<u8>()));
        (first, prop::collection::vec(line, 0..6), flip).prop_map(|(first, lines, flip)| {
            let mut bytes = format!("{first}{}\r\nrest", lines.concat()).into_bytes();
            if let Some((at, value)) = flip {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            bytes
        })
    }

    #[test]
    fn bounds_hold() {
        let lines = "A: b\r\n".repeat(200);
        assert_eq!(parsed(&format!("GET / HTTP/1.1\r\n{lines}\r\n")).unwrap_err(), Refused::TooLarge);
        let long = "x".repeat(70_000);
        assert_eq!(parsed(&format!("GET /{long}")).unwrap_err(), Refused::TooLarge);
        assert_eq!(parsed("not http\r\n\r\n").unwrap_err(), Refused::Malformed);
    }

    #[test]
    fn connection_header_decides_about_reuse() {
        let head = parsed("GET / HTTP/1.1\r\nHost: a\r\nConnection: foo, Close\r\n\r\n").unwrap().unwrap();
        assert!(!head.keep_alive);
        let head = parsed("GET / HTTP/1.0\r\n\r\n").unwrap().unwrap();
        assert!(!head.keep_alive);
    }
}
