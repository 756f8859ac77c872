//! Requests that another server answers: extension API servers, kubelets, Pods and Services.
//!
//! [`extension`] is the proxy of the aggregation layer. [`connect`] has logs, exec, attach, port-forward and the proxies of
//! nodes, Pods and Services. Both forward [`headers`] without credentials and return the response ([`relay`]): a streamed
//! body, or a tunnel after an upgrade.
//!
//! Authentication, authorization and audit are in `chain/`; the HTTP client is [`crate::outbound`].

pub(crate) mod connect;
pub(crate) mod extension;
mod headers;
mod relay;
