//! The server's side of HTTP: one file per verb, and the little protocol that is needed around them.
//!
//! A connection arrives in [`listen`], is spoken to by [`h1`] or [`h2`], and each request passes through [`service`]: who
//! asks, what for, may they. From there [`read`], [`list`], [`watch`] and [`mod@write`] answer for resources, [`health`],
//! [`discovery`] and [`debug`] for the rest. [`negotiate`] and [`encode`] decide and produce the form of an answer.

pub(crate) mod body;
pub(crate) mod deadline;
pub(crate) mod debug;
pub(crate) mod discovery;
pub(crate) mod discovery_v2;
pub(crate) mod encode;
pub(crate) mod gzip;
pub(crate) mod h1;
pub(crate) mod h2;
pub(crate) mod health;
pub(crate) mod list;
pub(crate) mod list_protobuf;
pub(crate) mod list_source;
pub(crate) mod listen;
pub(crate) mod negotiate;
pub(crate) mod openapi;
pub(crate) mod protobuf;
pub(crate) mod read;
pub(crate) mod request;
pub(crate) mod request_info;
pub(crate) mod respond;
pub(crate) mod route;
pub(crate) mod selectors;
pub(crate) mod service;
pub(crate) mod table;
pub(crate) mod tls;
pub(crate) mod watch;
pub(crate) mod watch_format;
pub(crate) mod websocket;
pub(crate) mod write;
