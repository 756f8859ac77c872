//! Answers of a server to the requests of commands, read whole and within bounds.
//!
//! `kube::Client::request` reads a response of any length; a command must not use up the memory of its machine because a
//! server, or what pretends to be one, never ends its response. Lists and watches of objects are streamed by the library
//! and have their bounds there.

use std::time::Duration;

use anyhow::{Context, bail};
use http::Request;
use http_body_util::BodyExt;
use kube::client::Body;
use kube::core::Status;
use serde::de::DeserializeOwned;

/// The most bytes of one response. The largest are pages of tables: 10,000 rows with the metadata of their objects.
pub(crate) const MAX_ANSWER: usize = 256 << 20;
/// More of an error is not worth reading.
const MAX_ERROR: usize = 64 << 10;
/// The time limit for the first response. A server that accepts connections and never responds is no API server.
const FIRST_ANSWER: Duration = Duration::from_secs(30);

/// Gets a JSON document.
///
/// # Errors
///
/// [`kube::Error::Api`] if the server refuses; else the connection fails, or the response is longer than [`MAX_ANSWER`] or not
/// of the form.
pub(crate) async fn get<T: DeserializeOwned>(client: &kube::Client, path: &str) -> anyhow::Result<T> {
    fetch(client, Request::get(path)).await
}

/// Sends a request without a body and reads a JSON document.
///
/// # Errors
///
/// As [`get`].
pub(crate) async fn fetch<T: DeserializeOwned>(
    client: &kube::Client,
    request: http::request::Builder,
) -> anyhow::Result<T> {
    let bytes = read(client, request).await?;
    serde_json::from_slice(&bytes).context("cannot read the server's response")
}

/// Gets a page of text.
///
/// # Errors
///
/// As [`get`].
pub(crate) async fn text(client: &kube::Client, path: &str) -> anyhow::Result<String> {
    Ok(String::from_utf8(read(client, Request::get(path)).await?)?)
}

/// Waits for a first response, of any kind.
///
/// # Errors
///
/// The server cannot be reached, or does not respond in time.
pub(crate) async fn greet(client: &kube::Client) -> anyhow::Result<()> {
    let answer =
        tokio::time::timeout(FIRST_ANSWER, client.send(Request::get("/version").body(Body::empty())?));
    answer.await.with_context(|| format!("no response within {FIRST_ANSWER:?}"))??;
    Ok(())
}

async fn read(client: &kube::Client, request: http::request::Builder) -> anyhow::Result<Vec<u8>> {
    let response = client.send(request.body(Body::empty())?).await?;
    let code = response.status();
    if code.is_success() {
        return collect(response.into_body(), MAX_ANSWER).await;
    }
    // What is too long to be a Status is none.
    let body = collect(response.into_body(), MAX_ERROR).await.unwrap_or_default();
    let status = serde_json::from_slice::<Status>(&body).unwrap_or_else(|_| {
        let reason = code.canonical_reason().unwrap_or_default();
        Status::failure(&format!("the server answered with {code}"), reason).with_code(code.as_u16())
    });
    Err(kube::Error::Api(Box::new(status)).into())
}

/// Reads a body of at most so many bytes.
async fn collect(mut body: Body, max: usize) -> anyhow::Result<Vec<u8>> {
    let mut all = Vec::new();
    while let Some(frame) = body.frame().await {
        // Trailers are not used here.
        let Ok(piece) = frame?.into_data() else { continue };
        if all.len() + piece.len() > max {
            bail!("the server's response has more than {max} bytes");
        }
        all.extend_from_slice(&piece);
    }
    Ok(all)
}

/// The Status of an error that is a response of the server.
pub(crate) fn status(error: &anyhow::Error) -> Option<&Status> {
    match error.downcast_ref::<kube::Error>()? {
        kube::Error::Api(status) => Some(status),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page without an end took all memory: four gigabytes in ten seconds.
    #[tokio::test]
    async fn an_answer_has_a_bound() {
        assert_eq!(collect(Body::from(vec![b'a'; 100]), 100).await.unwrap().len(), 100);
        let error = collect(Body::from(vec![b'a'; 101]), 100).await.unwrap_err();
        assert_eq!(error.to_string(), "the server's response has more than 100 bytes");
    }
}
