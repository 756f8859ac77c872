//! Failures of outgoing requests with the messages of Go's HTTP and Kubernetes clients.
//!
//! They appear in Status messages, conditions and logs that users know from kube-apiserver and search for. [`CallError`]
//! separates failed requests, whose messages name the request (`Post "URL": …`), from unusable responses.

use std::io;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap};
use http::{Response, StatusCode};
use listwatch_kinds::tree::Tree;
use listwatch_wire::json::Value;
use rustls::{CertificateError, InvalidMessage};

/// Bytes of a response's text that a message repeats, as in client-go.
const REPEATED: usize = 2048;

/// The failure of a call.
#[derive(Debug)]
pub(crate) enum CallError {
    /// No response came.
    Transport(String),
    /// A response that cannot be parsed.
    Answer(String),
    /// A response with a code that another attempt would bring again, such as 401.
    Refused(String),
    /// An answer with a code that another attempt may not bring again: 429, 500 and 504, which client-go repeats.
    Passing(String),
}

impl CallError {
    pub(crate) fn into_text(self) -> String {
        match self {
            Self::Transport(why) | Self::Answer(why) | Self::Refused(why) | Self::Passing(why) => why,
        }
    }

    /// A response that broke off.
    pub(super) fn unread(why: &str) -> Self {
        let text = "unexpected error when reading response body. Please retry. Original error";
        Self::Answer(format!("{text}: {why}"))
    }
}

/// Returns the body of a response with a code of success, and client-go's error for others.
pub(super) fn successful(answer: Response<Bytes>) -> Result<Bytes, CallError> {
    let (head, body) = answer.into_parts();
    if (200..=206).contains(&head.status.as_u16()) {
        if !body.is_empty() {
            return Ok(body);
        }
        let (code, ty) = (head.status.as_u16(), content_type(&head.headers).unwrap_or("application/json"));
        let text = format!("0-length response with status code: {code} and content type: {ty}");
        return Err(CallError::Answer(text));
    }
    let own = Value::read(&body).ok().filter(is_failure).map(|status| status.text("message").to_owned());
    let text = own.unwrap_or_else(|| generic(head.status, &head.headers, &body));
    Err(match head.status.as_u16() {
        429 | 500 | 504 => CallError::Passing(text),
        501.. => CallError::Answer(text),
        _ => CallError::Refused(text),
    })
}

fn is_failure(status: &Value) -> bool {
    (status.text("apiVersion"), status.text("kind")) == ("v1", "Status") && status.text("status") != "Success"
}

fn content_type(headers: &HeaderMap) -> Option<&str> {
    headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).filter(|value| !value.is_empty())
}

/// The text for a code and a body.
pub(crate) fn generic(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> String {
    let is_text = content_type(headers).is_none_or(|ty| ty.starts_with("text/"));
    let text = String::from_utf8_lossy(body.get(..REPEATED.min(body.len())).unwrap_or_default());
    let said = if is_text { text.trim() } else { "unknown" };
    match status.as_u16() {
        400 => "the server rejected our request for an unknown reason".to_owned(),
        401 => "the server has asked for the client to provide credentials".to_owned(),
        403 | 415 => said.to_owned(),
        404 => "the server could not find the requested resource".to_owned(),
        405 => "the server does not allow this method on the requested resource".to_owned(),
        406 if said.is_empty() || said == "unknown" => {
            "the server was unable to respond with a content type that the client supports".to_owned()
        }
        406 => said.to_owned(),
        409 => "the server reported a conflict".to_owned(),
        422 => "the server rejected our request due to an error in our request".to_owned(),
        429 => {
            "the server has received too many requests and has asked us to try again later".to_owned()
        }
        503 => "the server is currently unable to handle the request".to_owned(),
        504 => "the server was unable to return a response in the time allotted, but may still be processing the request".to_owned(),
        500.. => format!("an error on the server ({said:?}) has prevented the request from succeeding"),
        code => format!("the server responded with the status code {code} but did not return more information"),
    }
}

/// A request that got no response.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SendError {
    /// No connection was made.
    #[error("{0}")]
    Unconnected(String),
    /// The connection ended before a response came.
    #[error("{0}")]
    Failed(String),
}

/// Host and port as URLs and Go's messages write them.
pub(super) fn host_port(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// A connection that could not be made.
pub(super) fn unconnected(error: &io::Error, host: &str, port: u16) -> String {
    let place = host_port(host, port);
    let why = match error.kind() {
        io::ErrorKind::ConnectionRefused => "connect: connection refused",
        io::ErrorKind::HostUnreachable => "connect: no route to host",
        io::ErrorKind::NetworkUnreachable => "connect: network is unreachable",
        io::ErrorKind::TimedOut => "i/o timeout",
        // Errors of the resolver have no kind and no code.
        _ if error.raw_os_error().is_none() && error.to_string().contains("lookup") => {
            return format!("dial tcp: lookup {host}: no such host");
        }
        _ => return format!("dial tcp {place}: {error}"),
    };
    format!("dial tcp {place}: {why}")
}

/// A TLS handshake that failed.
pub(super) fn unverified(error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        return "EOF".to_owned();
    }
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match inner {
        Some(rustls::Error::InvalidCertificate(why)) => {
            format!("tls: failed to verify certificate: {}", certificate(why))
        }
        Some(rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType)) => {
            "tls: first record does not look like a TLS handshake".to_owned()
        }
        _ => error.to_string(),
    }
}

/// Words a certificate error as Go does, since the text reaches users through the Status of a failed webhook.
fn certificate(why: &CertificateError) -> String {
    match why {
        // A self-signed CA certificate that is not in the bundle is `Other` here.
        CertificateError::UnknownIssuer | CertificateError::BadSignature | CertificateError::Other(_) => {
            "x509: certificate signed by unknown authority".to_owned()
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            let names: Vec<&str> = presented.iter().map(|name| plain_name(name)).collect();
            let expected = expected.to_str();
            match names.is_empty() {
                true => format!(
                    "x509: cannot validate certificate for {expected} because it doesn't contain any IP SANs"
                ),
                false => format!("x509: certificate is valid for {}, not {expected}", names.join(", ")),
            }
        }
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => {
            "x509: certificate has expired or is not yet valid".to_owned()
        }
        other => other.to_string(),
    }
}

/// The name in `DnsName("a")` or `IpAddress(127.0.0.1)`.
fn plain_name(name: &str) -> &str {
    let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    inner.unwrap_or(name).trim_matches('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(code: u16, ty: &str, body: &'static str) -> String {
        let answer =
            Response::builder().status(code).header(CONTENT_TYPE, ty).body(Bytes::from(body)).unwrap();
        successful(answer).map_or_else(CallError::into_text, |body| String::from_utf8_lossy(&body).into())
    }

    #[test]
    fn error_responses_are_worded_as_by_client_go() {
        assert_eq!(text(201, "application/json", "{}"), "{}");
        assert_eq!(
            text(500, "text/plain", " a\n"),
            "an error on the server (\"a\") has prevented the request from succeeding"
        );
        assert_eq!(
            text(500, "application/json", "{}"),
            "an error on the server (\"unknown\") has prevented the request from succeeding"
        );
        assert_eq!(text(403, "text/plain", "not you"), "not you");
        assert_eq!(
            text(307, "text/html", ""),
            "the server responded with the status code 307 but did not return more information"
        );
        let status = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"own words"}"#;
        assert_eq!(text(418, "application/json", status), "own words");
        assert_eq!(
            text(204, "text/plain", ""),
            "0-length response with status code: 204 and content type: text/plain"
        );
    }
}
