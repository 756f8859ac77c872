//! [`Handler`]: what a connection needs to know of the server behind it.

use std::future::Future;

use crate::HttpLimits;
use crate::http::body::Response;
use crate::http::request::{BodySource, Request};

/// Answers requests. Connections are generic over it, so that HTTP knows nothing of what is served.
pub(crate) trait Handler: Send + Sync + 'static {
    /// Answers one request.
    fn handle(&self, request: Request, body: &mut dyn BodySource) -> impl Future<Output = Response> + Send;

    /// The bounds of connections.
    fn limits(&self) -> &HttpLimits;

    /// Returns true if the server is shutting down.
    fn is_stopping(&self) -> bool;

    /// Completes when the server begins to shut down.
    fn stopping(&self) -> impl Future<Output = ()> + Send;
}
