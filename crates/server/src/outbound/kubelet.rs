//! [`KubeletTls`]: the TLS of connections to kubelets, and of those to Pods and Services behind a proxy.
//!
//! A kubelet is shown this server's client certificate and verified against the CA of `--kubelet-certificate-authority`.
//! Without one it is not verified, as by kube-apiserver: kubelets make their own certificates unless a signer is set up for
//! them. Pods and Services are reached by address, under which their certificates hold for nobody, and see no certificate
//! of this server.

use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;

use super::{WebhookAddress, tls};

/// The TLS configurations of connections to nodes.
#[derive(Debug)]
pub(crate) struct KubeletTls {
    /// Shows the client certificate, and verifies if there is a CA.
    kubelet: Arc<ClientConfig>,
    /// Shows the client certificate and verifies nothing: for logs whose reader asks for that.
    unverified: Arc<ClientConfig>,
    /// Shows nothing and verifies nothing.
    stranger: Arc<ClientConfig>,
}

impl KubeletTls {
    /// Makes the configurations of a client certificate with its key and a CA, all in PEM.
    ///
    /// # Errors
    /// One of them cannot be used.
    pub(crate) fn new(identity: (&str, &str), ca: Option<&str>) -> Result<Self, String> {
        let unverified = tls::unverified_config(Some(identity))?;
        let kubelet = match ca {
            Some(ca) => tls::client_config_as(ca.as_bytes(), Some(identity))?,
            None => Arc::clone(&unverified),
        };
        Ok(Self { kubelet, unverified, stranger: tls::unverified_config(None)? })
    }

    /// The kubelet at a host and port. Without `verify` any certificate is accepted.
    pub(crate) fn kubelet(&self, host: String, port: u16, verify: bool, within: Duration) -> WebhookAddress {
        let (tls, trust) = match verify {
            true => (&self.kubelet, "kubelet"),
            false => (&self.unverified, "unverified kubelet"),
        };
        address(host, port, Some(tls), trust, within)
    }

    /// A Pod, an endpoint of a Service or another port of a node, by HTTPS or plain HTTP.
    pub(crate) fn stranger(&self, host: String, port: u16, https: bool, within: Duration) -> WebhookAddress {
        match https {
            true => address(host, port, Some(&self.stranger), "stranger", within),
            false => address(host, port, None, "plain", within),
        }
    }
}

fn address(
    host: String,
    port: u16,
    tls: Option<&Arc<ClientConfig>>,
    trust: &str,
    connect_timeout: Duration,
) -> WebhookAddress {
    let (server_name, tls, trust) = (host.clone(), tls.map(Arc::clone), trust.to_owned());
    WebhookAddress { server_name, address: host, port, tls, trust, connect_timeout }
}
