//! [`Cluster`]: the API server to talk to, chosen as kubectl does: flag, `KUBECONFIG`, `~/.kube/config`, service
//! account.
//!
//! The server's version is read before anything else, so that a wrong address fails with one clear message instead
//! of a retrying informer. Errors name the file, the context and the address. Reading the files is `kubeconfig.rs`'s.

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;
use kube::config::KubeConfigOptions;

use super::{answer, kubeconfig};

/// The API server to talk to.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct Cluster {
    /// Kubeconfig file; otherwise $KUBECONFIG, ~/.kube/config, or the Pod's own service account
    #[arg(long, value_name = "FILE", global = true)]
    kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig
    #[arg(long, value_name = "NAME", global = true)]
    context: Option<String>,
}

impl Cluster {
    /// Returns a client of a server that responds, and the namespace of its context.
    ///
    /// # Errors
    ///
    /// A kubeconfig that cannot be used, or a server that cannot be reached. A server that answers with an error
    /// counts as reached.
    pub(crate) async fn connect(&self) -> anyhow::Result<(kube::Client, String)> {
        let config = self.config().await?;
        let (url, namespace) = (config.cluster_url.to_string(), config.default_namespace.clone());
        let client = listwatch::kube::client(config)?;
        match answer::greet(&client).await {
            // Any response shows that the server exists, even without a version.
            Ok(()) => Ok((client, namespace)),
            Err(error) => {
                let url = url.trim_end_matches('/');
                let hint = "is it running? `listwatch serve` starts one";
                Err(error).with_context(|| format!("cannot reach the server at {url}; {hint}"))
            }
        }
    }

    /// Inside a Pod the service account is used only if no kubeconfig is there, as client-go's loading rules do.
    async fn config(&self) -> anyhow::Result<kube::Config> {
        match self.files()? {
            Some(files) => self.read(&files).await,
            None => kube::Config::incluster().context("cannot use the service account of this Pod"),
        }
    }

    /// The kubeconfig files to read; `None` inside a Pod without one.
    ///
    /// # Errors
    ///
    /// `KUBECONFIG` names no file that exists, or there is neither a file nor a Pod.
    fn files(&self) -> anyhow::Result<Option<Vec<PathBuf>>> {
        if let Some(file) = &self.kubeconfig {
            return Ok(Some(vec![file.clone()]));
        }
        if let Some(named) = std::env::var_os("KUBECONFIG").filter(|value| !value.is_empty()) {
            // As in kubectl, a file that does not exist is passed over if another does.
            let files: Vec<PathBuf> = std::env::split_paths(&named).filter(|file| file.exists()).collect();
            if files.is_empty() {
                bail!("KUBECONFIG names {}, which is not there", named.display());
            }
            return Ok(Some(files));
        }
        let home = std::env::home_dir().map(|home| home.join(".kube/config"));
        match home.filter(|file| file.exists()) {
            Some(file) => Ok(Some(vec![file])),
            None if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() => Ok(None),
            None => {
                bail!("no cluster: give --kubeconfig FILE or set KUBECONFIG (`listwatch serve` prints one)")
            }
        }
    }

    /// Reads kubeconfig files. The context is looked up first, for an error that lists those there are.
    async fn read(&self, files: &[PathBuf]) -> anyhow::Result<kube::Config> {
        let content = kubeconfig::read(files)?;
        let named = std::env::join_paths(files).unwrap_or_default();
        if let Some(wanted) = &self.context {
            let names: Vec<&str> = content.contexts.iter().map(|context| context.name.as_str()).collect();
            if !names.contains(&wanted.as_str()) {
                bail!("{} has no context {wanted:?}; it has {}", named.display(), names.join(", "));
            }
        }
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        let config = kube::Config::from_custom_kubeconfig(content, &options).await;
        config.with_context(|| format!("cannot use the kubeconfig {}", named.display()))
    }
}
