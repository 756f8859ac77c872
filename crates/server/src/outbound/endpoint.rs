//! [`Endpoint`]: the webhook that a `clientConfig` names, by URL or by Service.
//!
//! Read once when a configuration changes; only the address behind a Service is resolved per call, by a function that
//! the caller passes in, because this module does not read objects. The certificate must be valid for
//! `<name>.<namespace>.svc` or the host of the URL. An unusable configuration is an error that is kept and reported at
//! the call, where the failure policy applies. Connections are [`super::WebhookClient`]'s.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::Method;
use listwatch_kinds::tree::Tree;
use listwatch_wire::json::Value;
use rustls::ClientConfig;
use tokio::time::Instant;

use crate::outbound::{CONNECT_TIMEOUT, CallError, OutboundCall, WebhookAddress, WebhookClient, tls};

/// A webhook as its `clientConfig` describes it: a path at a URL or behind a Service, and the TLS configuration with
/// its CA bundle.
#[derive(Debug)]
pub(crate) struct Endpoint {
    place: EndpointPlace,
    path: String,
    tls: Arc<ClientConfig>,
    /// Identifies the TLS configuration among the kept connections.
    trust: String,
}

#[derive(Debug)]
enum EndpointPlace {
    Url { host: String, port: u16 },
    Service { namespace: String, name: String, port: i64 },
}

impl Endpoint {
    /// Reads a `clientConfig`.
    ///
    /// # Errors
    /// The problem with the configuration.
    pub(crate) fn read(config: &Value) -> Result<Self, String> {
        let bundle = config.text("caBundle");
        let pem = STANDARD.decode(bundle).map_err(|error| error.to_string())?;
        let tls = tls::client_config(&pem)?;
        let trust = bundle.to_owned();
        if config.has("service") {
            let service = config.at("service");
            let place = EndpointPlace::Service {
                namespace: service.text("namespace").to_owned(),
                name: service.text("name").to_owned(),
                port: service.int("port").unwrap_or(443),
            };
            return Ok(Self { place, path: clean_path(service.text("path")), tls, trust });
        }
        let url: http::Uri = config.text("url").parse().map_err(|_| "the URL is malformed".to_owned())?;
        let host = url.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let place = EndpointPlace::Url { host, port: url.port_u16().unwrap_or(443) };
        Ok(Self { place, path: clean_path(url.path()), tls, trust })
    }

    /// Posts a body; returns the body of the response. `locate` finds the address behind a port of a Service.
    ///
    /// The timeout is also sent to the webhook as a parameter, as kube-apiserver does, so that it can give up in time.
    ///
    /// # Errors
    /// The reason of the failure, with the message of Go's HTTP client.
    pub(crate) async fn post(
        &self,
        client: &WebhookClient,
        locate: impl FnOnce(&str, &str, i64) -> Result<(String, u16), String>,
        body: Bytes,
        timeout: Duration,
    ) -> Result<Bytes, String> {
        let path = format!("{}?timeout={}s", self.path, timeout.as_secs());
        // A Service that is not found has an address in the error, as if the connection had failed.
        let located =
            self.target(locate).map_err(|why| format!("Post {:?}: {why}", self.url_of_service(&path)));
        let target = located?;
        let url = format!("https://{}{path}", target.authority());
        let deadline = Some(Instant::now() + timeout);
        let call = OutboundCall { method: Method::POST, path: &path, body, authorization: None, deadline };
        client.call(&target, &call).await.map_err(|error| match error {
            CallError::Transport(why) => format!("Post {url:?}: {why}"),
            CallError::Answer(why) | CallError::Refused(why) | CallError::Passing(why) => why,
        })
    }

    /// The address that errors show for a Service; empty for one that is no Service, which needs no resolving.
    fn url_of_service(&self, path: &str) -> String {
        match &self.place {
            EndpointPlace::Url { .. } => String::new(),
            EndpointPlace::Service { namespace, name, port } => {
                format!("https://{name}.{namespace}.svc:{port}{path}")
            }
        }
    }

    /// The Service is resolved at each call: its endpoints change more often than its configuration.
    fn target(
        &self,
        locate: impl FnOnce(&str, &str, i64) -> Result<(String, u16), String>,
    ) -> Result<WebhookAddress, String> {
        let (server_name, address, port) = match &self.place {
            EndpointPlace::Url { host, port } => (host.clone(), host.clone(), *port),
            EndpointPlace::Service { namespace, name, port } => {
                let (address, target_port) = locate(namespace, name, *port)?;
                (format!("{name}.{namespace}.svc"), address, target_port)
            }
        };
        let (tls, trust) = (Some(Arc::clone(&self.tls)), self.trust.clone());
        Ok(WebhookAddress { server_name, address, port, tls, trust, connect_timeout: CONNECT_TIMEOUT })
    }
}

/// A path as Go cleans it: beginning with a slash, without empty steps, `.` and `..`, and without a slash at its end.
///
/// envtest writes two slashes before the path of a webhook, which Go's servers would answer with a redirect.
pub(crate) fn clean_path(path: &str) -> String {
    let mut steps: Vec<&str> = Vec::new();
    for step in path.split('/') {
        match step {
            "" | "." => {}
            ".." => drop(steps.pop()),
            step => steps.push(step),
        }
    }
    format!("/{}", steps.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_sent_as_go_sends_it() {
        for (given, sent) in
            [("//label", "/label"), ("", "/"), ("/a/./b//c/../d/", "/a/b/d"), ("/../x", "/x"), ("a", "/a")]
        {
            assert_eq!(clean_path(given), sent);
        }
    }
}
