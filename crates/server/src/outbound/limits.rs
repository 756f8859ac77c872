//! [`WebhookLimits`]: bounds on calls to other servers.
//!
//! A webhook is another program, of unknown quality. It must not be able to fill this server's memory or to hold its connections.

use std::time::Duration;

/// Bounds of what webhooks may cost.
///
/// All of them hold per call or per target. The number of calls at one time is bounded by the requests that make
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WebhookLimits {
    /// Bytes of a response. A patch may replace a whole object, which has at most 3 MiB, in base64 and with its old values.
    pub response_bytes: usize,
    /// Values of a response or of the patch in it, as JSON: as a tree each takes 80 bytes or more. As many as the largest object
    /// can have.
    pub answer_values: usize,
    /// Connections kept per webhook between calls. More may be open while they are used.
    pub idle_connections: usize,
    /// Time after which an unused connection is closed, as in Go's client: its target may never be called again.
    pub idle_timeout: Duration,
    /// Objects in one review of a conversion webhook, and how many bytes of them: one that does not fit goes alone.
    pub conversion_objects: usize,
    /// See `conversion_objects`.
    pub conversion_bytes: usize,
    /// Time that a conversion webhook has to answer, as in kube-apiserver.
    pub conversion_timeout: Duration,
    /// Bytes of the discovery document of an extension API server, which is kept as a tree. Those of Kubernetes have 20
    /// KB at most; a server with a larger one is not available.
    pub discovery_bytes: usize,
    /// Bytes of the OpenAPI v2 document of an extension API server: as much as that of Kubernetes itself. Larger ones
    /// are not merged.
    pub openapi_bytes: usize,
    /// Bytes of what extension API servers add to `/openapi/v2` together. What does not fit is left out, the lowest
    /// priority first.
    pub merged_openapi_bytes: usize,
}

impl Default for WebhookLimits {
    fn default() -> Self {
        Self {
            response_bytes: 16 << 20,
            answer_values: 1 << 20,
            idle_connections: 32,
            idle_timeout: Duration::from_secs(90),
            conversion_objects: 100,
            conversion_bytes: 1 << 20,
            conversion_timeout: Duration::from_secs(30),
            discovery_bytes: 1 << 20,
            openapi_bytes: 4 << 20,
            merged_openapi_bytes: 16 << 20,
        }
    }
}
