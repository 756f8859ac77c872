//! The standard source: a collection of a Kubernetes API server, through a `kube::Client`.
//!
//! `kube` brings kubeconfig, authentication, TLS and HTTP; the bytes that come back are read here, once, without
//! intermediate values: a list is cut into its items as it arrives ([`ListDecoder`]), a watch into its events, and each
//! object is copied out to be kept.
//!
//! Not here: when to list and when to watch ([`reflector`](crate::reflector)), and writing objects (`kube::Api`).
//! [`client`] makes a client for it; [`layers`] has client-go's rate limits and warnings.

mod body;
mod deltas;
pub mod layers;
mod list_decoder;
mod request;
mod resource;
mod source;
mod stream;
mod transport;

pub use list_decoder::{ListDecoder, ListError, ListHead};
pub use resource::ResourceKind;
pub(crate) use resource::is_cluster_scoped;
pub use source::{Compression, KubeNamespaces, KubeSource};
pub(crate) use stream::SharedStream;
pub use transport::{TransportOptions, client, client_with};
