//! [`Error`]: the reasons why a server does not start.
//!
//! One enum for everything between [`Options`](crate::Options) and the first accepted connection; each variant says
//! what to do. Errors of requests are a `listwatch_wire::Status` and never one of these; background tasks that end
//! are reported by [`Handle::failed`](crate::Handle::failed).

use std::net::SocketAddr;
use std::path::PathBuf;

/// The reason a server did not start. Nothing is left running.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address is taken or not ours: choose another.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// The address asked for.
        address: SocketAddr,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A file could not be read or written: check path and rights.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A file was read but its content is invalid: correct it.
    #[error("{}: {problem}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// The problem with the content.
        problem: String,
    },
    /// An OpenID Connect issuer, or a webhook for tokens or authorization, cannot be used: correct its options.
    #[error("{0}")]
    Identity(String),
    /// Certificates could not be made or loaded.
    #[error("TLS: {0}")]
    Tls(String),
    /// The objects that every cluster has could not be written: look at the store.
    #[error("cannot write the bootstrap objects: {0}")]
    FirstObjects(listwatch_wire::Status),
    /// An option names an admission plugin that does not exist, or one is configured wrongly.
    #[error(transparent)]
    Admission(#[from] crate::admission::AdmissionError),
    /// The store could not be read.
    #[error(transparent)]
    Storage(#[from] listwatch_storage::Error),
}
