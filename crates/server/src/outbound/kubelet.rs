//! [`KubeletTls`]: the TLS of connections to kubelets, and to Pods and Services behind a proxy.
//!
//! This server presents a client certificate to kubelets and verifies theirs against `--kubelet-certificate-authority`.
//! Without that flag kubelets are not verified, as in kube-apiserver: their certificates are self-signed unless a signer is
//! set up. Pods and Services are reached by address, which their certificates do not name, and get no client certificate.

use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;

use super::{WebhookAddress, tls};

/// The TLS configurations of connections to nodes.
#[derive(Debug)]
pub(crate) struct KubeletTls {
    /// Presents the client certificate, and verifies the kubelet's if there is a CA.
    kubelet: Arc<ClientConfig>,
    /// Presents the client certificate and verifies none: for `insecureSkipTLSVerifyBackend`.
    unverified: Arc<ClientConfig>,
    /// Presents no certificate and verifies none.
    proxied: Arc<ClientConfig>,
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
        Ok(Self { kubelet, unverified, proxied: tls::unverified_config(None)? })
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
    pub(crate) fn proxied(&self, host: String, port: u16, https: bool, within: Duration) -> WebhookAddress {
        match https {
            true => address(host, port, Some(&self.proxied), "proxied", within),
            false => address(host, port, None, "plain", within),
        }
    }
}

/// The address of a kubelet. The certificate is verified against the host that is connected to.
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
