//! The standard source: a collection of a Kubernetes API server, through a `kube::Client`.
//!
//! `kube` brings kubeconfig, authentication, TLS and HTTP; the bytes that come back are read here, once, without
//! building anything that is thrown away again: a list is cut into its items as it arrives ([`ListDecoder`]), a
//! watch into its events, and each object is copied out to be kept.
//!
//! Not here: when to list and when to watch ([`reflector`](crate::reflector)), and writing objects (`kube::Api`).
//! [`layers`] has what a client-go client does before a request leaves: rate limits and warnings.

mod body;
pub mod layers;
mod list_decoder;
mod request;
mod resource;
mod source;

pub use list_decoder::{ListDecoder, ListError, ListHead};
pub use resource::ResourceKind;
pub use source::{KubeNamespaces, KubeSource};

/// A client whose failures reach the reflector, which knows better than a retry layer what to do about them: it
/// honours `Retry-After`, keeps its place, and reports.
///
/// Turns `kube`'s own retries and read timeout off; the reflector has a deadline for every request and stream.
///
/// # Errors
/// As [`kube::Client::try_from`] with this configuration.
pub fn client(mut config: kube::Config) -> Result<kube::Client, kube::Error> {
    config.default_retry = false;
    config.read_timeout = None;
    kube::Client::try_from(config)
}
