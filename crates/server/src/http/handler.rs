//! [`Handler`]: the interface between HTTP and the handler chain.
//!
//! It keeps the direction of dependencies: `http` is generic over it and independent of Kubernetes;
//! [`crate::chain::service`] implements it, one value per connection, with the peer's address and certificate inside.
//! Shutdown is part of it because an idle connection must end when the server stops, and one that is serving must
//! finish first.

use std::future::Future;
use std::net::SocketAddr;

use crate::HttpLimits;
use crate::http::body::Response;
use crate::http::metered::ProcessorMeter;
use crate::http::request::{BodySource, Request};

/// Answers requests. Connections are generic over it, so that HTTP is independent of what is served.
pub(crate) trait Handler: ProcessorMeter {
    /// Returns the response to one request. The body is read only if the handler reads it, after authentication and
    /// authorization. Never fails: errors are responses.
    fn handle(&self, request: Request, body: &mut dyn BodySource) -> impl Future<Output = Response> + Send;

    /// The address of the client, for logs.
    fn peer(&self) -> SocketAddr;

    /// The bounds of connections.
    fn limits(&self) -> &HttpLimits;

    /// Returns true if the server is shutting down.
    fn is_stopping(&self) -> bool;

    /// Completes when the server begins to shut down. Connections wait for it beside the next request head.
    fn stopping(&self) -> impl Future<Output = ()> + Send;
}
