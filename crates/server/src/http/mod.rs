//! HTTP/1.1, HTTP/2 and WebSocket: bytes to requests, responses to bytes, compression, deadlines.
//!
//! [`h1`] and [`h2`] serve one connection each and hand every [`request`] to a [`handler`], which is the handler
//! chain (`chain/`). [`body`] is the response they write, [`gzip`] compresses it, [`websocket`] frames watches, [`tunnel`]
//! is an upgraded connection, [`hangup`] reports that a client has gone. Nothing here depends on Kubernetes.

pub(crate) mod body;
pub(crate) mod gzip;
pub(crate) mod h1;
pub(crate) mod h2;
pub(crate) mod handler;
pub(crate) mod hangup;
pub(crate) mod metered;
pub(crate) mod request;
pub(crate) mod tunnel;
pub(crate) mod websocket;
