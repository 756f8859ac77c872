//! Which store a server runs on, as flags.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use listwatch_storage::{Engine, MemoryEngine, MemoryOptions};

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Storage")]
pub(crate) struct Store {
    /// Where data, certificates and the admin kubeconfig live
    #[arg(long, value_name = "DIR", default_value = "./listwatch-data")]
    pub(crate) data_dir: PathBuf,

    /// Keep everything in memory; it is gone when the server stops
    #[arg(long, conflicts_with_all = ["etcd_endpoints", "data_dir"])]
    pub(crate) memory: bool,

    /// Keep data in etcd; several servers may share one cluster
    #[arg(long, value_name = "URL,URL", value_delimiter = ',')]
    etcd_endpoints: Vec<String>,
}

impl Store {
    /// The data directory; `None` if the server keeps nothing.
    pub(crate) fn directory(&self) -> Option<&Path> {
        (!self.memory).then_some(self.data_dir.as_path())
    }

    /// Opens it.
    pub(crate) async fn open(&self) -> anyhow::Result<Arc<dyn Engine>> {
        if self.memory {
            return Ok(Arc::new(MemoryEngine::new(MemoryOptions::default())));
        }
        anyhow::bail!("only --memory works in this build")
    }
}
