//! [`NodeOptions`]: connections to kubelets, Pods and Services for logs, exec, attach, port-forward and proxies.
//!
//! The names are those of kube-apiserver's flags. The bounds have no flags; they limit clients that open tunnels in a loop.

use std::path::PathBuf;
use std::time::Duration;

/// Connections to kubelets, Pods and Services.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeOptions {
    /// Connects at all. Default true. If it is false, logs, exec, attach, port-forward and proxies end with an error that
    /// reports that, after all checks that need no connection.
    pub enabled: bool,
    /// The types of node addresses to connect to, the first one that a node has wins. Default as in kube-apiserver:
    /// Hostname, InternalDNS, InternalIP, ExternalDNS, ExternalIP.
    pub preferred_address_types: Vec<String>,
    /// The client certificate for kubelets and its key, in PEM. Without them the server's own CA issues one for
    /// `kube-apiserver-kubelet-client` in the group `system:masters`.
    pub client_certificate: Option<(PathBuf, PathBuf)>,
    /// The CA of the certificates of kubelets, in PEM. Without one they are not verified, as in kube-apiserver.
    pub certificate_authority: Option<PathBuf>,
    /// Time to connect to a kubelet. Default 5 s, kube-apiserver's `--kubelet-timeout`.
    pub timeout: Duration,
    /// Time to connect to a Pod or a port of a node. Default 30 s, as Go's client has.
    pub proxy_timeout: Duration,
    /// The port of kubelets whose node does not name one. Default 10250.
    pub kubelet_port: u16,
    /// Proxies to Pods and nodes on loopback, link-local and other special addresses too. Default false, as in
    /// kube-apiserver: a user who may write the status of a Pod could reach services of this machine. For tests.
    pub special_addresses: bool,
    /// Logs, tunnels and proxied requests at one time (429 above it). Default 4,000: each takes two file descriptors and some
    /// 50 KB. A quarter more is for users with at most eight.
    pub connections: usize,
    /// The part of them that one user has at most, so that others find room. Default 1,000.
    pub user_connections: usize,
}

impl Default for NodeOptions {
    fn default() -> Self {
        let types = ["Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP"];
        Self {
            enabled: true,
            preferred_address_types: types.map(str::to_owned).into(),
            client_certificate: None,
            certificate_authority: None,
            timeout: Duration::from_secs(5),
            proxy_timeout: Duration::from_secs(30),
            kubelet_port: 10250,
            special_addresses: false,
            connections: 4_000,
            user_connections: 1_000,
        }
    }
}
