//! [`Remote`]: a service at a fixed HTTPS URL, with the credentials that this server presents to it.
//!
//! For services that options name: the token webhook and OpenID Connect issuers. Plain HTTP and URLs with credentials
//! are refused when the options are read, and errors never repeat the URL, which may contain a password. Webhooks
//! that API objects name are [`super::Endpoint`].

use bytes::Bytes;
use http::{HeaderValue, Method, Uri};

use super::{CONNECT_TIMEOUT, CallError, OutboundCall, WebhookAddress, WebhookClient, tls};

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

#[cfg(test)]
mod tests {
    use super::*;

    /// A password in a URL would appear in logs and errors, which show the URL.
    #[test]
    fn only_https_without_credentials() {
        for url in ["http://a/", "https:///x", "https://user:hunter2@a/", "ftp://a", "no url"] {
            let error = Remote::new(url, "", &ClientIdentity::default()).unwrap_err();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
