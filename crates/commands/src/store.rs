//! Flags that choose the store of a server: a data directory, memory, or etcd.
//!
//! Names of the etcd flags are kube-apiserver's. History is bounded by age and by bytes, whichever is less: it decides
//! how long a watch can be resumed. Passwords come from files and never from the command line, where other users could
//! read them. Commands on a store without a server are in [`db`](crate::db).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use listwatch_storage::{EmbeddedEngine, EmbeddedOptions, Engine, MemoryEngine, MemoryOptions};

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Storage")]
pub(crate) struct StoreArguments {
    /// Directory of data, certificates and the admin kubeconfig
    #[arg(long, value_name = "DIR", default_value = "./listwatch-data")]
    pub(crate) data_dir: PathBuf,

    /// The time for which changes stay readable, so that watches can resume [1h, 30m, …]
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = duration)]
    history_age: Duration,

    /// Limit on the history in bytes [2GiB, 500MiB, …]; at most the size of the live objects is used, or 64 MiB if that
    /// is more
    #[arg(long, value_name = "BYTES", default_value = "2GiB", value_parser = bytes)]
    history_bytes: u64,

    /// Keep everything in memory; it is lost when the server stops
    #[arg(long, conflicts_with_all = ["etcd_endpoints", "data_dir"])]
    pub(crate) memory: bool,

    #[command(flatten)]
    etcd: EtcdArguments,
}

/// Flags that kube-apiserver has, too, have its names.
#[derive(Args, Clone, Debug)]
struct EtcdArguments {
    /// Keep data in etcd; several servers may share one cluster
    #[arg(long, value_name = "URL,URL", value_delimiter = ',')]
    etcd_endpoints: Vec<String>,

    /// Prefix of all keys in etcd
    #[arg(long, value_name = "PREFIX", default_value = "/listwatch", requires = "etcd_endpoints")]
    etcd_prefix: String,

    /// CA of etcd's certificates
    #[arg(long, value_name = "FILE", requires = "etcd_endpoints")]
    etcd_cafile: Option<PathBuf>,

    /// Client certificate for etcd
    #[arg(long, value_name = "FILE", requires = "etcd_keyfile")]
    etcd_certfile: Option<PathBuf>,

    /// Private key of the client certificate
    #[arg(long, value_name = "FILE", requires = "etcd_certfile")]
    etcd_keyfile: Option<PathBuf>,

    /// User of etcd
    #[arg(long, value_name = "NAME", requires = "etcd_password_file")]
    etcd_user: Option<String>,

    /// File with the password of the etcd user
    #[arg(long, value_name = "FILE", requires = "etcd_user")]
    etcd_password_file: Option<PathBuf>,
}

impl StoreArguments {
    /// The data directory; `None` if the server keeps nothing.
    pub(crate) fn directory(&self) -> Option<&Path> {
        (!self.memory).then_some(self.data_dir.as_path())
    }

    /// Returns true if several servers may share it.
    pub(crate) fn is_shared(&self) -> bool {
        !self.etcd.etcd_endpoints.is_empty()
    }

    /// The place of the data, for people.
    pub(crate) fn place(&self) -> String {
        match self.directory() {
            _ if self.is_shared() => format!("etcd at {}", self.etcd.etcd_endpoints.join(", ")),
            Some(directory) => directory.display().to_string(),
            None => "memory".to_owned(),
        }
    }

    /// Opens it.
    ///
    /// A directory that does not exist is created. The start fails if etcd cannot be reached, so that the problem is
    /// noticed at once.
    ///
    /// # Errors
    ///
    /// The directory is taken or damaged, or etcd cannot be reached.
    pub(crate) async fn open(&self) -> anyhow::Result<Arc<dyn Engine>> {
        if self.memory {
            return Ok(Arc::new(MemoryEngine::new(MemoryOptions::default())));
        }
        if !self.etcd.etcd_endpoints.is_empty() {
            return self.etcd.connect().await;
        }
        let options = EmbeddedOptions {
            essential: listwatch_server::is_essential,
            history_age: self.history_age,
            history_bytes: self.history_bytes,
            ..Default::default()
        };
        let engine = EmbeddedEngine::open(&self.data_dir, options).await;
        Ok(Arc::new(engine.with_context(|| format!("cannot open the store in {}", self.data_dir.display()))?))
    }
}

#[cfg(feature = "etcd")]
impl EtcdArguments {
    /// Connects to etcd. The error names the endpoints, because the usual cause is that nothing listens there.
    async fn connect(&self) -> anyhow::Result<Arc<dyn Engine>> {
        let options = listwatch_storage::EtcdOptions {
            endpoints: self.etcd_endpoints.clone(),
            prefix: self.etcd_prefix.clone(),
            tls: self.tls()?,
            user: self.user()?,
            ..Default::default()
        };
        let engine = listwatch_storage::EtcdEngine::connect(options).await.with_context(|| {
            format!("cannot use etcd at {}; is it running?", self.etcd_endpoints.join(", "))
        })?;
        Ok(Arc::new(engine))
    }

    /// The TLS settings, or none if neither a CA nor a certificate is given.
    fn tls(&self) -> anyhow::Result<Option<listwatch_storage::etcd::EtcdTls>> {
        let ca = self.etcd_cafile.as_deref().map(read).transpose()?;
        let identity = match (&self.etcd_certfile, &self.etcd_keyfile) {
            (Some(certificate), Some(key)) => Some((read(certificate)?, read(key)?)),
            _ => None,
        };
        let wanted = ca.is_some() || identity.is_some();
        Ok(wanted.then_some(listwatch_storage::etcd::EtcdTls { ca, identity, server_name: None }))
    }

    /// The user and password, which is read from a file so that it is not visible among the arguments of processes.
    fn user(&self) -> anyhow::Result<Option<listwatch_storage::etcd::EtcdUser>> {
        let (Some(name), Some(file)) = (&self.etcd_user, &self.etcd_password_file) else { return Ok(None) };
        let password = String::from_utf8(read(file)?).context("the etcd password is not text")?;
        let password = password.trim_end_matches(['\r', '\n']).to_owned();
        Ok(Some(listwatch_storage::etcd::EtcdUser { name: name.clone(), password }))
    }
}

#[cfg(feature = "etcd")]
fn read(file: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))
}

#[cfg(not(feature = "etcd"))]
impl EtcdArguments {
    async fn connect(&self) -> anyhow::Result<Arc<dyn Engine>> {
        anyhow::bail!("this program was built without etcd, {:?} cannot be used", self.etcd_endpoints)
    }
}

/// Units as in Go (`1h30m`), and those of ISO 8601.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let parsed: jiff::SignedDuration =
        text.parse().map_err(|_| "expected a number with a unit, as in 90s, 30m or 1h".to_owned())?;
    Duration::try_from(parsed).map_err(|_| "a time cannot be negative".to_owned())
}

/// Binary units only: `MB` would be read in two ways.
fn bytes(text: &str) -> Result<u64, String> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let shift = match unit {
        "" | "B" => 0,
        "KiB" | "Ki" => 10,
        "MiB" | "Mi" => 20,
        "GiB" | "Gi" => 30,
        "TiB" | "Ti" => 40,
        _ => return Err(format!("{unit:?} is none of B, KiB, MiB, GiB, TiB")),
    };
    let number: u64 = number.parse().map_err(|_| format!("{text:?} is no number of bytes"))?;
    number.checked_mul(1 << shift).ok_or_else(|| format!("{text:?} is too much"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_read_with_their_units() {
        assert_eq!(bytes("2GiB"), Ok(2 << 30));
        assert_eq!(bytes("100"), Ok(100));
        assert!(bytes("1.5GB").is_err() && bytes("").is_err() && bytes("99999999TiB").is_err());
        assert_eq!(duration("90m"), Ok(Duration::from_secs(5400)));
        assert!(duration("-1h").is_err() && duration("soon").is_err());
    }
}
