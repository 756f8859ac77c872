//! [`Remote`]: a service at a fixed HTTPS URL, with the credentials that this server presents to it.
//!
//! For services that options name: the token webhook and OpenID Connect issuers. Plain HTTP and URLs with credentials
//! are refused when the options are read, and errors never repeat the URL, which may contain a password. Webhooks
//! that API objects name are [`super::Endpoint`].

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Uri};

use super::{CONNECT_TIMEOUT, CallError, OutboundCall, WebhookAddress, WebhookClient, kubeconfig, tls};

/// The credentials that a client presents.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClientIdentity {
    /// A certificate chain and its key, in PEM.
    pub(crate) certificate: Option<(String, String)>,
    /// A bearer token.
    pub(crate) token: Option<String>,
}

/// A service at a fixed HTTPS URL.
#[derive(Debug)]
pub(crate) struct Remote {
    address: WebhookAddress,
    path: String,
    authorization: Option<HeaderValue>,
}

impl Remote {
    /// A service at a URL, verified with these CAs (in PEM; the system's if empty).
    ///
    /// # Errors
    /// The URL is not HTTPS or has credentials in it, or the CA or client certificate cannot be used.
    pub(crate) fn new(url: &str, ca: &str, identity: &ClientIdentity) -> Result<Self, String> {
        let uri: Uri = url.parse().map_err(|_| format!("{url:?} is no URL"))?;
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let credentials = uri.authority().is_some_and(|authority| authority.as_str().contains('@'));
        if uri.scheme_str() != Some("https") || host.is_empty() || credentials {
            // The message does not contain the URL, which may have a password.
            return Err("the URL must begin with https:// and have no credentials in it".to_owned());
        }
        let certificate = identity.certificate.as_ref().map(|(chain, key)| (chain.as_str(), key.as_str()));
        let authorization = identity.token.as_ref().map(|token| {
            let mut value = HeaderValue::try_from(format!("Bearer {token}"))?;
            value.set_sensitive(true);
            Ok(value)
        });
        let authorization: Result<Option<HeaderValue>, http::header::InvalidHeaderValue> =
            authorization.transpose();
        let address = WebhookAddress {
            server_name: host.clone(),
            address: host,
            port: uri.port_u16().unwrap_or(443),
            tls: Some(tls::client_config_as(ca.as_bytes(), certificate)?),
            trust: ca.to_owned(),
            connect_timeout: CONNECT_TIMEOUT,
        };
        let path = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str).to_owned();
        Ok(Self { address, path, authorization: authorization.map_err(|error| error.to_string())? })
    }

    /// The service of the current context of a kubeconfig.
    ///
    /// # Errors
    /// A problem with the kubeconfig, without any secret in it.
    pub(crate) fn from_kubeconfig(path: &Path) -> Result<Self, String> {
        kubeconfig::remote(path)
    }

    /// Adds the `timeout` parameter that Kubernetes' client sends with every request of a limited time.
    #[must_use]
    pub(crate) fn with_timeout_parameter(mut self, timeout: Duration) -> Self {
        let separator = if self.path.contains('?') { '&' } else { '?' };
        self.path = format!("{}{separator}timeout={}", self.path, go_duration(timeout));
        self
    }

    /// The beginning of Go's message about a failed POST. Parameters of the configured URL are left out: they may be secret.
    fn post_words(&self) -> String {
        let (path, query) = self.path.split_once('?').unwrap_or((&self.path, ""));
        let timeout = query.rsplit('&').next().filter(|last| last.starts_with("timeout="));
        let timeout = timeout.map(|timeout| format!("?{timeout}")).unwrap_or_default();
        let authority = match self.address.port {
            443 => self.address.server_name.clone(),
            _ => self.address.authority(),
        };
        format!("Post \"https://{authority}{path}{timeout}\"")
    }

    /// Go's message about a POST that took longer than its client waits.
    pub(crate) fn late_words(&self) -> String {
        let late = "net/http: request canceled (Client.Timeout exceeded while awaiting headers)";
        format!("{}: {late}", self.post_words())
    }

    /// Posts a JSON body and returns the body of a 200. Failed requests are worded as by Go's client, with the URL.
    ///
    /// # Errors
    /// As [`WebhookClient::call`].
    pub(crate) async fn post_in_words(
        &self,
        client: &WebhookClient,
        body: Bytes,
    ) -> Result<Bytes, CallError> {
        self.post(client, body).await.map_err(|error| match error {
            CallError::Transport(why) => CallError::Transport(format!("{}: {why}", self.post_words())),
            other => other,
        })
    }

    /// Gets the URL and returns the body of a 200.
    ///
    /// # Errors
    /// As [`WebhookClient::call`].
    pub(crate) async fn get(&self, client: &WebhookClient) -> Result<Bytes, String> {
        self.call(client, Method::GET, Bytes::new()).await.map_err(CallError::into_text)
    }

    /// Posts a JSON body and returns the body of a 200.
    ///
    /// # Errors
    /// As [`WebhookClient::call`].
    pub(crate) async fn post(&self, client: &WebhookClient, body: Bytes) -> Result<Bytes, CallError> {
        self.call(client, Method::POST, body).await
    }

    async fn call(&self, client: &WebhookClient, method: Method, body: Bytes) -> Result<Bytes, CallError> {
        let authorization = self.authorization.as_ref();
        let call = OutboundCall { method, path: &self.path, body, authorization, deadline: None };
        client.call(&self.address, &call).await
    }
}

/// A time as Go prints it: `30s`, `1m30s`, `1.5s`, `500ms`.
pub(crate) fn go_duration(time: Duration) -> String {
    if time < Duration::from_secs(1) && !time.is_zero() {
        return match time.as_nanos() {
            nanos @ ..1_000 => format!("{nanos}ns"),
            nanos @ ..1_000_000 => format!("{}µs", nanos as f64 / 1e3),
            nanos => format!("{}ms", nanos as f64 / 1e6),
        };
    }
    let (minutes, seconds) = (time.as_secs() / 60, time.as_secs() % 60);
    let seconds = format!("{}s", seconds as f64 + f64::from(time.subsec_nanos()) / 1e9);
    match (minutes / 60, minutes % 60) {
        (0, 0) => seconds,
        (0, minutes) => format!("{minutes}m{seconds}"),
        (hours, minutes) => format!("{hours}h{minutes}m{seconds}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_printed_as_by_go() {
        let printed = |millis: u64| go_duration(Duration::from_millis(millis));
        let all = [0, 1, 500, 1_500, 30_000, 90_000, 3_600_000].map(printed);
        assert_eq!(all, ["0s", "1ms", "500ms", "1.5s", "30s", "1m30s", "1h0m0s"]);
    }

    /// A parameter of the configured URL may be a secret, and the message reaches users.
    #[test]
    fn failures_name_the_url_without_its_own_parameters() {
        let remote =
            Remote::new("https://a:8443/authorize?key=hunter2", "", &ClientIdentity::default()).unwrap();
        let remote = remote.with_timeout_parameter(Duration::from_secs(3));
        assert_eq!(remote.path, "/authorize?key=hunter2&timeout=3s");
        assert_eq!(remote.post_words(), r#"Post "https://a:8443/authorize?timeout=3s""#);
    }

    /// A password in a URL would appear in logs and errors, which show the URL.
    #[test]
    fn only_https_without_credentials() {
        for url in ["http://a/", "https:///x", "https://user:hunter2@a/", "ftp://a", "no url"] {
            let error = Remote::new(url, "", &ClientIdentity::default()).unwrap_err();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
