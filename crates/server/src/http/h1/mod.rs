//! HTTP/1.1, written for long streams.
//!
//! A watch is one response that lasts for hours, and a server holds thousands of them. Their cost while idle matters
//! most, and a general HTTP library keeps buffers for the next request beside each. So this module implements the
//! protocol itself, on top of `httparse`: it drops every buffer before a watch begins, writes batches of shared frames
//! in one vectored call, and keeps the state of an idle watch to the TLS session and a small future. HTTP/2 is
//! [`super::h2`], by hyper.
//!
//! [`head`] reads and writes heads, [`body`] reads request bodies, [`connection`] is the loop over one connection,
//! [`watch`] writes the events of a watch, and [`linger`] closes a connection while the client is still sending.

pub(crate) mod body;
pub(crate) mod connection;
pub(crate) mod head;
mod linger;
pub(crate) mod output;
mod watch;
