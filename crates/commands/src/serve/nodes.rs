//! Flags of connections to kubelets, Pods and Services, with kube-apiserver's names.
//!
//! The bounds of such connections have no flags: see `NodeOptions` of the server.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use listwatch_server::NodeOptions;

use crate::store::duration;

/// Connections to kubelets, which logs, exec, attach, port-forward and proxies need.
#[derive(Args, Debug)]
#[command(next_help_heading = "Nodes")]
pub(crate) struct NodeArguments {
    /// Types of node addresses to connect to, the first that a node has
    #[arg(
        long,
        value_name = "TYPES",
        value_delimiter = ',',
        default_value = "Hostname,InternalDNS,InternalIP,ExternalDNS,ExternalIP"
    )]
    kubelet_preferred_address_types: Vec<String>,

    /// Client certificate for kubelets, in PEM; otherwise the server's CA issues one
    #[arg(long, value_name = "FILE", requires = "kubelet_client_key")]
    kubelet_client_certificate: Option<PathBuf>,

    /// Private key of the client certificate for kubelets
    #[arg(long, value_name = "FILE", requires = "kubelet_client_certificate")]
    kubelet_client_key: Option<PathBuf>,

    /// CA of the certificates of kubelets; without it they are not verified, as by kube-apiserver
    #[arg(long, value_name = "FILE")]
    kubelet_certificate_authority: Option<PathBuf>,

    /// Time to connect to a kubelet [5s, 30s, …]
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    kubelet_timeout: Duration,

    /// Do not connect to kubelets, Pods and Services: logs, exec, attach, port-forward and proxies end with an error
    #[arg(long)]
    no_node_connections: bool,
}

impl NodeArguments {
    /// Finds files that cannot be read before anything is created.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let files =
            [&self.kubelet_client_certificate, &self.kubelet_client_key, &self.kubelet_certificate_authority];
        for file in files.into_iter().flatten() {
            std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        }
        Ok(())
    }

    /// The options of connections to nodes.
    pub(super) fn options(&self) -> NodeOptions {
        let certificate = self.kubelet_client_certificate.clone().zip(self.kubelet_client_key.clone());
        NodeOptions {
            enabled: !self.no_node_connections,
            preferred_address_types: self.kubelet_preferred_address_types.clone(),
            client_certificate: certificate,
            certificate_authority: self.kubelet_certificate_authority.clone(),
            timeout: self.kubelet_timeout,
            ..NodeOptions::default()
        }
    }
}
