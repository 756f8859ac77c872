//! Requests that another server answers: extension API servers, kubelets, Pods and Services.
//!
//! [`extension`] is the aggregation layer's proxy. [`connect`] is logs, exec, attach, port-forward and the proxies of nodes,
//! Pods and Services. Both pass on [`headers`] without credentials and bring back the answer ([`relay`]): its body as it
//! comes, or a tunnel after an upgrade.
//!
//! Authentication, authorization and audit have happened or happen around it, in `chain/`; connections are those of
//! [`crate::outbound`].

pub(crate) mod connect;
pub(crate) mod extension;
mod headers;
mod relay;
