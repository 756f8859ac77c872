//! How a server fails to start or to stop.

use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address is taken or not ours: choose another.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// The address asked for.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file could not be read or written: check path and rights.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file was read but its content is wrong: correct it.
    #[error("{}: {problem}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// Certificates could not be made or loaded.
    #[error("TLS: {0}")]
    Tls(String),
    /// The objects that every cluster has could not be written: look at the store.
    #[error("cannot write the first objects: {0}")]
    FirstObjects(listwatch_wire::Status),
    /// An option names an admission plugin that does not exist.
    #[error(transparent)]
    Admission(#[from] crate::admission::UnknownPlugin),
    /// The store could not be read.
    #[error(transparent)]
    Storage(#[from] listwatch_storage::Error),
}
