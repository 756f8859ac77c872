//! Entry points of the fuzz targets for untrusted input that only this crate parses. Built with `--cfg fuzzing` only.
//!
//! Each function also checks a property, so that wrong results are found and not only panics. The targets themselves are in
//! `fuzz/`; parsers of other crates are public and need no entry point.

#![allow(clippy::expect_used, clippy::panic, reason = "a broken law is told by a panic")]

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::{Bytes, BytesMut};
use futures::FutureExt;
use listwatch_wire::json::Value;

use crate::HttpLimits;
use crate::auth::jwt::SigningKey;
use crate::http::h1::body::RequestBody;
use crate::http::h1::head::{self, Framing, Refused, RequestHead, Scanner};
use crate::http::request::{BodyProblem, BodySource};
use crate::http::websocket;
use crate::pipeline::yaml;
use crate::respond::yaml as yaml_writer;
use crate::verbs::list::continue_token::ContinueToken;

/// A request of HTTP/1.1: its meaning does not depend on the pieces in which its head and its body arrive.
pub fn http1(cuts: &[u8], bytes: &[u8]) {
    let limits = HttpLimits { head_bytes: 2048, head_lines: 20, ..HttpLimits::default() };
    let (whole, rest) = parsed([bytes].into_iter(), &limits);
    let (pieced, rest_of_pieced) = parsed(cut(cuts, bytes).into_iter(), &limits);
    match (whole, pieced) {
        (Ok(Some(whole)), Ok(Some(pieced))) => {
            assert_eq!((&whole.method, &whole.target), (&pieced.method, &pieced.target));
            assert_eq!((&whole.headers, whole.framing), (&pieced.headers, pieced.framing));
            assert_eq!(rest, rest_of_pieced);
            body(cuts, whole.framing, &rest);
        }
        (Ok(Some(_)), other) => panic!("taken whole, not in pieces: {other:?}"),
        (other, Ok(Some(_))) => panic!("taken in pieces, not whole: {other:?}"),
        _ => {}
    }
}

/// Cuts bytes at positions that other bytes choose.
fn cut<'a>(cuts: &[u8], mut bytes: &'a [u8]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    for at in cuts {
        let (piece, rest) = bytes.split_at(usize::from(*at).min(bytes.len()));
        pieces.push(piece);
        bytes = rest;
    }
    pieces.push(bytes);
    pieces
}

/// The head that arrives in pieces, and what comes after it.
fn parsed<'a>(
    pieces: impl Iterator<Item = &'a [u8]>,
    limits: &HttpLimits,
) -> (Result<Option<RequestHead>, Refused>, Vec<u8>) {
    let (mut scanner, mut buffer, mut outcome) = (Scanner::default(), BytesMut::new(), Ok(None));
    for piece in pieces {
        buffer.extend_from_slice(piece);
        if matches!(outcome, Ok(None)) && scanner.look(&mut buffer, limits) {
            outcome = head::parse(&mut buffer, limits);
        }
    }
    (outcome, buffer.to_vec())
}

fn body(cuts: &[u8], framing: Framing, bytes: &[u8]) {
    let at = cuts.first().map_or(0, |at| usize::from(*at)).min(bytes.len());
    let (whole, pieced) = (read(framing, bytes, &[]), read(framing, &bytes[..at], &bytes[at..]));
    assert_eq!(whole.ok(), pieced.ok());
}

/// Reads a request body from memory, and checks that the bound on its length holds.
fn read(framing: Framing, begun: &[u8], rest: &[u8]) -> Result<Bytes, BodyProblem> {
    let mut io = tokio::io::join(rest, tokio::io::sink());
    let mut buf = BytesMut::from(begun);
    let mut body = RequestBody { io: &mut io, buf: &mut buf, framing, expects_continue: false, done: false };
    let read = body.read(1000).now_or_never().expect("nothing to wait for");
    assert!(read.as_ref().map_or(0, Bytes::len) <= 1000);
    read
}

/// Frames of a WebSocket.
pub fn websocket(cuts: &[u8], bytes: &[u8]) {
    websocket::frames_in_pieces(&[bytes], &cut(cuts, bytes));
}

/// A body in YAML: what was understood survives being written.
pub fn yaml(bytes: &[u8]) {
    let Ok(document) = yaml::read(bytes) else { return };
    let text = yaml_writer::write(&document.value);
    let again = yaml::read(&text).unwrap_or_else(|error| panic!("{error}: {}", text.escape_ascii()));
    assert_eq!(again.value, document.value, "{}", text.escape_ascii());
}

/// Tokens: none verifies without its key, and continue tokens survive a round trip.
pub fn tokens(text: &str) {
    static KEY: LazyLock<SigningKey> = LazyLock::new(|| {
        SigningKey::from_pem(&SigningKey::make_pem().expect("a key")).expect("the key that was made")
    });
    assert!(KEY.verify::<Value>(text).is_none());
    let signed = KEY.sign(&Value::from("somebody")).expect("a token");
    if let Some((head, _)) = signed.rsplit_once('.') {
        assert!(KEY.verify::<Value>(&format!("{head}.{text}")).is_none());
    }
    for text in [text, &URL_SAFE_NO_PAD.encode(text)] {
        if let Ok(token) = ContinueToken::decode(text) {
            let shown = token.encode();
            assert_eq!(ContinueToken::decode(&shown).expect("own text").encode(), shown);
        }
    }
}
